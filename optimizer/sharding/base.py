"""What a memory layout policy is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from optimizer.errors import TimeLimitError
from optimizer.ir.graph import Graph
from optimizer.layouts.legal_op_configs import LegalConfigs, OpCandidate
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.options import Options
from optimizer.result import ChainRecord, Reservation
from optimizer.summary import Fallback

INTERRUPTED = "interrupted"

Report = Callable[[str], None]
"""Takes a line of progress."""


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
    interrupted: Callable[[], bool] = bool
    """Whether the user asked for that."""
    overridden: Mapping[str, OpDecision] = field(default_factory=dict)
    """Op id -> a way to run it that honours its override, whatever its neighbours do (`overriding`)."""
    noted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Op id -> its overrides, as its reason states them; also those that fix pages or element types only."""

    acceptance: dict[Hashable, dict[TensorLayout, int]] = field(default_factory=dict, compare=False)
    """Answers shared by ops with equal signatures and candidates: operand-0 layout -> accepted candidates."""

    def say(self, line: str) -> None:
        """Pass a line of progress on, if anyone listens."""
        if self.report is not None:
            self.report(line)

    def poll(self) -> None:
        """For long loops: TimeLimitError once the run has to end. The policy catches it."""
        if self.time_is_up():
            raise TimeLimitError(self.stopped_because())

    def stopped_because(self) -> str:
        """Why `time_is_up()`, for people."""
        if self.interrupted() or self.options.time_limit is None:
            return INTERRUPTED
        return f"time limit of {self.options.time_limit:g} s"


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


class Policy(Protocol):
    """A way to lay out a whole graph."""

    name: str

    def run(self, problem: PolicyInput) -> Plan:
        """A complete plan. InfeasibleError names the op that cannot run even with everything in DRAM."""
        ...
