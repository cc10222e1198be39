"""Page layouts, and what every op may do with them: the problem that a policy is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import ConfigFamily, Page
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.activation_dtypes import with_block_activations
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR, PageLayout
from optimizer.layouts.page_layouts import AssignPageLayouts
from optimizer.layouts.row_major_choice import faster_on_rows
from optimizer.layouts.scalar_dtypes import scalar_dtypes
from optimizer.opmodel.pricing import OpPricer
from optimizer.pipeline.learned import Learned
from optimizer.pipeline.work import Stage, Work
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.legality import Legality
from optimizer.sharding.overriding import decide_overridden, noted


@dataclass(frozen=True)
class PageLayouts(Stage):
    """Gives every value its page layout and inserts the conversions that this needs."""

    name: ClassVar[str] = "page-layouts"
    takes: ClassVar[tuple[str, ...]] = ("graph", "overrides")
    gives: ClassVar[tuple[str, ...]] = ("graph", "pages")

    row_major_enabled: bool

    def apply(self, work: Work) -> None:
        graph, pages = work.graph, _Pages(work)
        on_rows = frozenset(op.id for op in graph.ops() if pages.turns(op))
        if self.row_major_enabled:
            on_rows = faster_on_rows(graph, on_rows, pages.can_run, pages.time_ns)
        work.pages = AssignPageLayouts(on_rows=on_rows, asked=pages.asked).apply(graph)
        work.graph = graph


class _Pages:
    """What overrides ask of pages, and what the OpModel says of ops on rows, everything in DRAM."""

    def __init__(self, work: Work) -> None:
        self._graph, self._model = work.graph, work.opmodel
        layouts = work.overrides.output_layouts
        self.asked = {op_id: o.page_layout for op_id, o in layouts.items() if o.page_layout is not None}

    def turns(self, op: Op) -> bool:
        """Whether an override wants row-major of an op that gives it from row-major operands."""
        row = opdef(op.op)
        turns = row.output_page is not Page.ATTR and row.config is not ConfigFamily.CONV2D
        return self.asked.get(op.id) is PageLayout.ROW_MAJOR and turns and self._runs(op)

    def can_run(self, op: Op) -> bool:
        """Whether an op may be put on rows."""
        return op.id not in self.asked and self._runs(op)

    def time_ns(self, on_rows: frozenset[str]) -> int | None:
        """Time of the graph with these ops on rows; None if what reads rows does not run then."""
        graph = self._graph.copy()
        pricer = self._pricer(graph, AssignPageLayouts(on_rows=on_rows, asked=self.asked).apply(graph))
        time_ns = 0
        for op in graph.run_ops():
            operands = pricer.default_operands(op)
            reads_rows = any(layout == DRAM_ROW_MAJOR for layout in operands)
            if reads_rows and not pricer.constraints(op, operands, None, None).valid:
                return None
            time_ns += pricer.cost(op, operands, None, None).time_ns
        return time_ns

    def _runs(self, op: Op) -> bool:
        """Whether an op takes row-major operands in DRAM and gives a row-major result there."""
        operands = [DRAM_ROW_MAJOR] * len(op.inputs)
        answer = self._pricer(self._graph, {}).constraints(op, operands, None, DRAM_ROW_MAJOR.memory)
        return answer.valid and all(t.layout == DRAM_ROW_MAJOR for t in answer.outputs)

    def _pricer(self, graph: Graph, pages: dict[str, PageLayout]) -> OpPricer:
        return OpPricer(graph, pages, self._model, self._model.device.cb_limit_bytes)


@dataclass(frozen=True)
class ActivationDtypes(Stage):
    """Gives results the block-float type that is asked for, wherever every op still runs so."""

    name: ClassVar[str] = "activation-dtypes"
    takes: ClassVar[tuple[str, ...]] = ("graph", "pages")
    gives: ClassVar[tuple[str, ...]] = ("graph",)

    activations_dtype: str | None

    def apply(self, work: Work) -> None:
        graph, model = work.graph, work.opmodel
        block = None if self.activations_dtype is None else DType(self.activations_dtype)
        if block is not None and block.is_block_float:
            plain = OpPricer(graph, work.pages, model, model.device.cb_limit_bytes)

            def runs(typed: Graph, op: Op) -> bool:
                """In blocks too, if it runs at all without a config."""
                pricer = OpPricer(typed, work.pages, model, model.device.cb_limit_bytes)
                return runs_from_dram(pricer, op) or not runs_from_dram(plain, plain.graph.op(op.id))

            graph = with_block_activations(graph, work.pages, block, runs)
        work.graph = graph


def runs_from_dram(pricer: OpPricer, op: Op) -> bool:
    """Whether an op without a config runs with all its operands in DRAM."""
    return pricer.constraints(op, pricer.default_operands(op), None, None).valid


@dataclass(frozen=True)
class ScalarDtypes(Stage):
    """Collects the element types for which layouts are generated, those that overrides ask for included."""

    name: ClassVar[str] = "scalar-dtypes"
    takes: ClassVar[tuple[str, ...]] = ("graph", "overrides")
    gives: ClassVar[tuple[str, ...]] = ("dtypes",)

    def apply(self, work: Work) -> None:
        work.dtypes = scalar_dtypes(work.graph, work.overrides)


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
        # What tt-metal refused of this very program counts for no other run.
        learned = Learned() if work.opmodel.is_corrected else work.learned
        learned.make_room()
        work.problem = PolicyInput(
            graph=pricer.graph,
            legal=legality.of_all(overrides, clock.poll, learned.legal),
            pools=pools,
            pricer=pricer,
            options=work.options,
            forced_reshards=overrides.memreconfigs,
            report=clock.say,
            time_is_up=clock.search_is_over,
            stopped_because=clock.stopped_because,
            chains=learned.chains,
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
