"""Page layouts, and what every op may do with them: the problem that a policy is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.ir.graph import Graph, Op
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR
from optimizer.layouts.page_layouts import AssignPageLayouts
from optimizer.layouts.scalar_dtypes import ScalarDataTypeAnalysis
from optimizer.legality import Legality
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.pricing import OpPricer
from optimizer.pipeline.work import Stage, Work
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.overriding import decide_overridden, noted


@dataclass(frozen=True)
class PageLayouts(Stage):
    """Gives every value its page layout and inserts the conversions that this needs."""

    name: ClassVar[str] = "page-layouts"
    takes: ClassVar[tuple[str, ...]] = ("graph", "overrides")
    gives: ClassVar[tuple[str, ...]] = ("graph", "pages")

    row_major_enabled: bool

    def apply(self, work: Work) -> None:
        graph, runs = work.graph, _RunsRowMajor(work.opmodel)
        layouts = work.overrides.output_layouts
        asked = {op_id: o.page_layout for op_id, o in layouts.items() if o.page_layout is not None}
        assign = AssignPageLayouts(
            runs_row_major=runs if self.row_major_enabled else None, asked=asked, can_run_row_major=runs
        )
        work.pages = assign.apply(graph)
        work.graph = graph


@dataclass(frozen=True)
class _RunsRowMajor:
    """Asks the OpModel whether an op takes row-major operands in DRAM and gives a row-major result there."""

    model: OpModel

    def __call__(self, graph: Graph, op: Op) -> bool:
        pricer = OpPricer(graph, {}, self.model, self.model.device.cb_limit_bytes)
        answer = pricer.constraints(op, [DRAM_ROW_MAJOR] * len(op.inputs), None, DRAM_ROW_MAJOR.memory)
        return answer.valid and all(t.layout == DRAM_ROW_MAJOR for t in answer.outputs)


@dataclass(frozen=True)
class ScalarDtypes(Stage):
    """Collects the element types for which layouts are generated, those that overrides ask for included."""

    name: ClassVar[str] = "scalar-dtypes"
    takes: ClassVar[tuple[str, ...]] = ("graph", "overrides")
    gives: ClassVar[tuple[str, ...]] = ("dtypes",)

    def apply(self, work: Work) -> None:
        work.dtypes = ScalarDataTypeAnalysis().apply(work.graph, work.overrides)


@dataclass(frozen=True)
class LegalConfigs(Stage):
    """Lists what every op may do: its legal layouts, expanded into configs."""

    name: ClassVar[str] = "legal-configs"
    takes: ClassVar[tuple[str, ...]] = ("graph", "pages", "overrides", "conv_weights", "dtypes")
    gives: ClassVar[tuple[str, ...]] = ("legality", "problem")

    max_legal_layouts: int
    optimization_level: int
    l1_small_bytes: int
    tensor_l1_usage_cap: float

    def apply(self, work: Work) -> None:
        device, overrides, clock = work.opmodel.device, work.overrides, work.clock
        limit_bytes = device.l1_limit_bytes(self.l1_small_bytes, self.tensor_l1_usage_cap)
        pricer = OpPricer(work.graph, work.pages, work.opmodel, limit_bytes)
        pools = LegalTensorLayoutAnalysis(device, work.dtypes, limit_bytes)
        legality = Legality(pricer, pools, work.conv_weights, self.max_legal_layouts, self.optimization_level)
        work.legality = legality
        work.problem = PolicyInput(
            graph=pricer.graph,
            legal=legality.of_all(overrides, clock.poll),
            pools=pools,
            pricer=pricer,
            options=work.options,
            forced_reshards=overrides.memreconfigs,
            report=clock.say,
            time_is_up=clock.search_is_over,
            interrupted=clock.interrupted,
        )


@dataclass(frozen=True)
class DecideOverridden(Stage):
    """Decides the ops that an override fixes, each so that it depends on no other op, or refuses the override."""

    name: ClassVar[str] = "overridden-ops"
    takes: ClassVar[tuple[str, ...]] = ("problem", "overrides", "legality")
    gives: ClassVar[tuple[str, ...]] = ("problem",)

    def apply(self, work: Work) -> None:
        problem = work.problem
        overridden = decide_overridden(problem, work.overrides, work.legality)
        work.problem = replace(problem, overridden=overridden, noted=noted(work.overrides))
