"""What the rules look at, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery
from optimizer.opmodel.pricing import OpPricer
from optimizer.result import OptimizedGraph, Role

Error = tuple[str, str]
"""(op or value id, message)."""
OUR_POLICIES = ("dram", "dfsharding", "dfsharding2", "global")
"""Policies whose plans hold nothing but what the vocabulary names, and leave to TTNN what they do not decide."""


class Stage(StrEnum):
    """What a rule may rely on. Once a rule of one stage has found an error, those of the next do not run."""

    GRAPH = "graph"
    """Nothing but that ids mentioned by ops exist."""
    PLAN = "plan"
    """The graph is sound, and every value has a layout that its shape fits."""
    OPS = "ops"
    """Roles and configs are right: only then is the OpModel asked."""
    MEMORY = "memory"
    """The OpModel accepts every op as it stands."""


@dataclass(frozen=True)
class StepMemory:
    """L1 per core while one op runs."""

    op: str
    resident_bytes: int
    """Tensors alive before the op allocates anything, its operands included."""
    own_peak_bytes: int
    """Outputs, temporaries and circular buffers of the op."""
    cb_bytes: int
    extent_bytes: int
    """Depth of the deepest tensor from the top of L1, holes included, plus the buffers and temporaries below."""
    placed: tuple[tuple[str, int], ...] = ()
    """Results with a buffer of their own, and the distance of its lower end from the top of L1."""

    @property
    def total_bytes(self) -> int:
        return self.resident_bytes + self.own_peak_bytes


@dataclass(frozen=True)
class DramStep:
    """DRAM while one op runs, in bytes of the fullest bank."""

    phase: str
    """`prepare` (weights, once) or `run`."""
    op: str
    total_bytes: int
    """Tensors that are there, the op's results and what it copies on the way included."""
    largest: tuple[tuple[str, int], ...]
    """The largest tensors among them, largest first."""


@dataclass
class VerifyReport:
    """What `verify` found."""

    errors: list[Error] = field(default_factory=list)
    steps: list[StepMemory] = field(default_factory=list)
    dram_steps: list[DramStep] = field(default_factory=list)

    @property
    def peak_dram_bank_bytes(self) -> int:
        """Most bytes in the fullest DRAM bank at any step."""
        return max((s.total_bytes for s in self.dram_steps), default=0)

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def peak_l1_bytes(self) -> int:
        return max((s.total_bytes for s in self.steps), default=0)


class Subject:
    """One result put to one OpModel, with what several rules need."""

    def __init__(self, result: OptimizedGraph, model: OpModel) -> None:
        self.result = result
        self.graph = result.graph
        self.layouts = result.layouts
        self.records = result.records
        self.device = result.device
        self.model = model
        options = result.options
        self.limit_bytes = self.device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap)
        self.bank_bytes = self.device.l1_bank_bytes(options.l1_small_bytes)
        self.steps: list[StepMemory] = []
        """L1 while each op of a run runs, in order; known from stage `MEMORY` on."""
        self.dram_steps: list[DramStep] = []
        """DRAM while weights are prepared and while each op of a run runs; known from stage `MEMORY` on."""

    @property
    def is_ours(self) -> bool:
        """Whether one of our policies made the plan: plans of others may say more to TTNN than ours do."""
        return self.result.options.policy in OUR_POLICIES

    def role(self, op: Op) -> Role:
        return self.records[op.id].role

    def layout(self, value_id: str) -> TensorLayout:
        return self.layouts[value_id]

    def run_ops(self) -> Iterator[Op]:
        """Ops that the device runs on every run."""
        return (op for op in self.graph.ops() if self.role(op) is not Role.HOST)

    @cached_property
    def answers(self) -> dict[str, OpConstraints]:
        """What the OpModel says of every op of a run, refusals included, with the layouts its operands have."""
        return {op.id: self.model.constraints(self.query(op)) for op in self.run_ops()}

    def query(self, op: Op) -> OpQuery:
        """The question of an op to an OpModel, with the layouts its operands have."""
        record = self.records[op.id]
        return self._pricer.query(op, [self.layouts[v] for v in op.inputs], record.config, record.request)

    @cached_property
    def _pricer(self) -> OpPricer:
        pages = {v: layout.page_layout for v, layout in self.layouts.items()}
        return OpPricer(self.graph, pages, self.model, self.limit_bytes)


@dataclass(frozen=True)
class Rule:
    """One thing that is so in every sound result."""

    name: str
    stage: Stage
    find: Callable[[Subject], Iterator[Error]]
    """Every place where it is not so."""

    @property
    def says(self) -> str:
        """The rule in a sentence."""
        return (self.find.__doc__ or "").partition("\n")[0]
