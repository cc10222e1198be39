"""What a memory layout policy is given and what it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from optimizer.errors import TimeLimitError
from optimizer.fusion.offers import Kernels
from optimizer.ir.graph import Graph
from optimizer.layouts.legal_op_configs import LegalConfigs, OpCandidate
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.options import Options
from optimizer.precision.budget import ErrorBudget
from optimizer.result import ChainRecord, Reservation
from optimizer.result.summary import Fallback

INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class SearchState:
    """How far a search is."""

    time_ns: int | None
    """Predicted time of the best plan so far."""
    bound_ns: int | None
    """What is proven so far that no plan goes below; None: nothing."""

    @property
    def gap(self) -> float | None:
        """Share of the best time that is not proven necessary."""
        if self.time_ns is None or self.bound_ns is None:
            return None
        return max(0.0, 1 - self.bound_ns / max(1, self.time_ns))

    def to_json(self) -> dict[str, Any]:
        return {"objective_ns": self.time_ns, "bound_ns": self.bound_ns, "gap": self.gap}


class Report(Protocol):
    """Takes a line of progress, and how far the search is where that has changed."""

    def __call__(self, line: str, state: SearchState | None = None) -> None: ...


@dataclass(frozen=True)
class Accepted:
    """What an op accepts of one layout of operand 0."""

    mask: int
    """Candidates, as bits."""
    refused: Counter[str]
    """How often the OpModel refused others, by message."""


@dataclass(frozen=True)
class PolicyInput:
    """One graph, everything it may do, and who answers questions about it."""

    graph: Graph
    """Every operand already in the page layout its op takes."""
    legal: Mapping[str, LegalConfigs]
    """Op id -> candidates, for every op that runs on every run."""
    pools: LegalTensorLayoutAnalysis
    pricer: OpPricer
    options: Options
    forced_reshards: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Op id -> operand positions that the user wants resharded."""
    report: Report | None = None
    time_is_up: Callable[[], bool] = bool
    """Whether the run has to end: its time limit has passed, or the user interrupted it. A policy then returns the best
    complete plan it has."""
    stopped_because: Callable[[], str] = lambda: INTERRUPTED
    """Why that is so, for people."""
    overridden: Mapping[str, OpDecision] = field(default_factory=dict)
    """Op id -> a way to run it that honours its override, whatever its neighbours do (`overriding`)."""
    noted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Op id -> its overrides, as its reason states them; also those that fix pages or element types only."""

    budget: ErrorBudget | None = None
    """What the errors of all ops may add up to; None: nothing runs in another precision than the graph states."""
    exact: Plan | None = None
    """The policy's plan without a budget, where it is known already."""
    kernels: Kernels[Plan] | None = None
    """What our kernels save, where they are wanted and the policy can make use of it."""

    acceptance: dict[Hashable, dict[TensorLayout, Accepted]] = field(default_factory=dict, compare=False)
    """Answers shared by ops with equal signatures and candidates: operand-0 layout -> accepted candidates."""
    searches: dict[str, Any] | None = None
    """Policy -> what its search without our kernels found, for the one with them; None: nobody goes on from it."""
    chains: dict[Hashable, Any] = field(default_factory=dict, compare=False)
    """What chains were resolved to, by what they consist of (`ChainResolver`); of earlier runs too."""
    tables: dict[Hashable, Any] = field(default_factory=dict, compare=False)
    """Options of the ops in one order within an error budget (`GlobalProblem`); of earlier rounds too."""

    def say(self, line: str, state: SearchState | None = None) -> None:
        """Pass a line of progress on, if anyone listens."""
        if self.report is not None:
            self.report(line, state)

    def poll(self) -> None:
        """For long loops: TimeLimitError once the run has to end. The policy catches it."""
        if self.time_is_up():
            raise TimeLimitError(self.stopped_because())


@dataclass(frozen=True)
class OpDecision:
    """The final choice for one op."""

    candidate: OpCandidate
    operands: tuple[TensorLayout, ...]
    """Layout in which every operand is read; where the value has another layout, a copy is inserted."""
    chain: str | None = None
    reason: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A policy's answer: order, one decision per op, and what a person may want to know."""

    schedule: tuple[str, ...]
    decisions: Mapping[str, OpDecision]
    chains: tuple[ChainRecord, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    warnings: tuple[str, ...] = ()
    status: str = "feasible"
    """`optimal`, `feasible` or `fallback`."""
    lower_bound_ns: int | None = None
    """No plan that the policy considered takes less predicted time; None from policies that prove nothing."""
    baselines: Mapping[str, int] = field(default_factory=dict)
    """Predicted times of other policies' plans, where this one made them: `<policy>_ns`."""
    fallbacks: tuple[Fallback, ...] = ()
    exact: Plan | None = None
    """Of a plan within an error budget: the best one without, in the graph's own element types and fidelities."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Of such a plan: op -> what it adds to the relative mean square of the outputs' error."""


class Policy(Protocol):
    """A way to lay out a whole graph."""

    name: str

    def run(self, problem: PolicyInput) -> Plan:
        """A complete plan. InfeasibleError names the op that cannot run even with everything in DRAM."""
        ...
