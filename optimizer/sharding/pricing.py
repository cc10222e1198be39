"""`OpPricer`: turns an op of the graph with chosen layouts into OpModel questions.

Everything the policies and the result say about validity, L1 and time goes through here, so that a plan is
judged by exactly the queries that its program will run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from optimizer.ir.graph import Attr, Graph, Op, Value, ValueKind
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import (
    HOST_ROW_MAJOR,
    BufferType,
    MemoryConfig,
    PageLayout,
    TensorLayout,
    interleaved,
)
from optimizer.layouts.op_config import OpConfig
from optimizer.layouts.tiling import l1_bytes_per_core
from optimizer.opmodel.base import OpConstraints, OpCost, OpModel, OpQuery, Rejection, TensorSpec

_COPY = "ttnn.to_memory_config"


def fuses_activation(config: OpConfig | None) -> bool:
    """Whether a program config applies the activation, so that the op itself must not."""
    return getattr(config, "fused_activation", None) is not None


def query_attributes(op: Op, fused: bool) -> tuple[tuple[str, Attr], ...]:
    """All attributes, defaults included; an activation that the program config fuses is not the op's too."""
    full = opdef(op.op).full_attrs(op)
    if fused:
        full["activation"] = None
    return tuple(sorted(full.items()))


def op_query(
    graph: Graph,
    op: Op,
    operands: Sequence[TensorLayout],
    config: OpConfig | None,
    request: MemoryConfig | None,
    attrs: tuple[tuple[str, Attr], ...] | None = None,
) -> OpQuery:
    """The question of an op with these operand layouts; `attrs` where `query_attributes` is known already."""
    values = graph.values
    inputs = tuple(
        TensorSpec(values[v].shape, values[v].dtype, layout) for v, layout in zip(op.inputs, operands, strict=True)
    )
    if attrs is None:
        attrs = query_attributes(op, fuses_activation(config))
    return OpQuery(op.op, inputs, attrs, config, request)


class OpPricer:
    """Asks one OpModel about the ops of one graph. Implements `layouts.acceptance.OpAcceptance`."""

    def __init__(self, graph: Graph, pages: dict[str, PageLayout], model: OpModel, l1_limit_bytes: int) -> None:
        self.graph = graph
        self.pages = pages
        self.model = model
        self.l1_limit_bytes = l1_limit_bytes
        """Bytes per core that an op with its operands may take."""
        self.rejections: dict[str, Counter[str]] = {}
        """Op id -> how often the OpModel refused it, by message."""
        self._attrs: dict[tuple[str, bool], tuple[tuple[str, Attr], ...]] = {}

    @property
    def grid_yx(self) -> tuple[int, int]:
        return self.model.device.grid_yx

    # -- operands ----------------------------------------------------------------------------------
    def default_layout(self, value: Value) -> TensorLayout:
        """DRAM interleaved in the value's page layout."""
        return interleaved(BufferType.DRAM, self.pages[value.id])

    def default_operands(self, op: Op) -> tuple[TensorLayout, ...]:
        """Operand layouts with everything in DRAM; weights that the op prepares itself stay on the host."""
        row = opdef(op.op)
        layouts = []
        for k, value_id in enumerate(op.inputs):
            if row.operand_page(k) is Page.HOST:
                layouts.append(HOST_ROW_MAJOR)
            else:
                layouts.append(self.default_layout(self.graph.value(value_id)))
        return tuple(layouts)

    # -- questions ---------------------------------------------------------------------------------
    def query(
        self, op: Op, operands: Sequence[TensorLayout], config: OpConfig | None, request: MemoryConfig | None
    ) -> OpQuery:
        """The OpModel question for an op with these operand layouts."""
        attrs = self._attributes(op, fused=fuses_activation(config))
        return op_query(self.graph, op, operands, config, request, attrs)

    def signature(self, op: Op) -> Hashable:
        """Equal for ops of which every OpModel question is the same: kind, attributes, operands."""
        values = self.graph.values
        operands = tuple((values[v].shape, values[v].dtype, self.pages[v]) for v in op.inputs)
        repeats = tuple(op.inputs.index(v) for v in op.inputs)
        return (op.op, self._attributes(op, fused=False), operands, repeats)

    def _attributes(self, op: Op, fused: bool) -> tuple[tuple[str, Attr], ...]:
        """All attributes, defaults included; an activation that the program config fuses is not the op's too."""
        key = (op.id, fused)
        if key not in self._attrs:
            self._attrs[key] = query_attributes(op, fused)
        return self._attrs[key]

    def constraints(
        self, op: Op, operands: Sequence[TensorLayout], config: OpConfig | None, request: MemoryConfig | None
    ) -> OpConstraints:
        """The OpModel's answer, with the plan's L1 limit applied to operands plus the op's own peak."""
        answer = self.model.constraints(self.query(op, operands, config, request))
        if answer.valid and opdef(op.op).opaque:
            answer = self._sent_back(replace(answer, outputs=self._opaque_results(op)))
        if answer.valid and (other := self._other_result(op, answer)) is not None:
            answer = OpConstraints.rejected(Rejection.VALIDATION, other)
        if answer.valid:
            need = self.operand_bytes(op, operands) + answer.peak_bytes
            if need > self.l1_limit_bytes:
                message = f"needs {need} B of L1 per core, the limit is {self.l1_limit_bytes} B"
                answer = OpConstraints.rejected(Rejection.OOM_L1, message)
        if not answer.valid:
            self.rejections.setdefault(op.id, Counter())[answer.error or "refused"] += 1
        return answer

    def _other_result(self, op: Op, answer: OpConstraints) -> str | None:
        """How a result differs from what the graph says of it, which later ops rely on; None: not at all."""
        for value_id, given in zip(op.outputs, answer.outputs, strict=False):
            value = self.graph.values[value_id]
            if value.shape != given.shape or value.dtype is not given.dtype:
                return (
                    f"TTNN gives '{value_id}' as {list(given.shape)} {given.dtype.value}, "
                    f"the graph has it as {list(value.shape)} {value.dtype.value}"
                )
        return None

    def _sent_back(self, answer: OpConstraints) -> OpConstraints:
        """The answer for an op on the host, or why one of its results does not go to the device."""
        for result in answer.outputs:
            on_host = TensorLayout(result.layout.page_layout, HOST_ROW_MAJOR.memory)
            spec = TensorSpec(result.shape, result.dtype, on_host)
            sent = self.model.constraints(OpQuery("ttnn.to_device", (spec,), output=result.layout.memory))
            if not sent.valid:
                return sent
        return answer

    def _opaque_results(self, op: Op) -> tuple[TensorSpec, ...]:
        """Results of an op the vocabulary lacks: as its values state them, in DRAM."""
        values = (self.graph.value(v) for v in op.outputs)
        return tuple(TensorSpec(v.shape, v.dtype, self.default_layout(v)) for v in values)

    def produced(
        self, op: Op, operands: Sequence[TensorLayout], config: OpConfig | None, request: MemoryConfig | None
    ) -> TensorLayout | None:
        """Layout of the first result, None when refused or too large."""
        answer = self.constraints(op, operands, config, request)
        return answer.outputs[0].layout if answer.valid else None

    def followed(self, op: Op, operands: Sequence[TensorLayout]) -> TensorLayout | None:
        """What an op without program config gives of sharded operands: TTNN's choice, or operand 0's own memory.

        A sharded group norm refuses its own default, DRAM.
        """
        own = self.produced(op, operands, None, None)
        return own if own is not None else self.produced(op, operands, None, operands[0].memory)

    def cost(
        self, op: Op, operands: Sequence[TensorLayout], config: OpConfig | None, request: MemoryConfig | None
    ) -> OpCost:
        return self.model.cost(self.query(op, operands, config, request))

    def operand_bytes(self, op: Op, operands: Sequence[TensorLayout]) -> int:
        """L1 bytes per core of the operands; a value read twice counts once."""
        total = 0
        for v, layout in dict(zip(op.inputs, operands, strict=True)).items():
            total += self.value_bytes(v, layout)
        return total

    def value_bytes(self, value_id: str, layout: TensorLayout) -> int:
        value = self.graph.value(value_id)
        return l1_bytes_per_core(value.shape, value.dtype, layout, self.model.device)

    # -- copies ------------------------------------------------------------------------------------
    def copy_query(self, value_id: str, source: TensorLayout, target: TensorLayout) -> OpQuery:
        value = self.graph.value(value_id)
        return OpQuery(_COPY, (TensorSpec(value.shape, value.dtype, source),), (), None, target.memory)

    def copy_accepted(self, value_id: str, source: TensorLayout, target: TensorLayout) -> bool:
        """Whether `to_memory_config` can make this copy within the L1 limit."""
        answer = self.model.constraints(self.copy_query(value_id, source, target))
        need = self.value_bytes(value_id, source) + answer.peak_bytes
        return answer.valid and need <= self.l1_limit_bytes and answer.outputs[0].layout == target

    def copy_ns(self, value_id: str, source: TensorLayout, target: TensorLayout) -> int:
        """Predicted time of a copy between memory configs; 0 when nothing moves."""
        return 0 if source == target else self.model.runtime_ns(self.copy_query(value_id, source, target))

    def is_weight(self, value_id: str) -> bool:
        """Whether a value is the same in every run: a weight or constant, or computed from such only."""
        return self.graph.value(value_id).kind in (ValueKind.PARAMETER, ValueKind.CONSTANT)
