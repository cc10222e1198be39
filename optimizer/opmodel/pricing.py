"""`OpPricer`: turns an op of the graph with chosen layouts into OpModel questions.

Everything the policies and the result say about validity, L1 and time goes through here, so that a plan is
judged by exactly the queries that its program will run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph, Op, Value
from optimizer.ir.opdef import RESULT_DTYPE, Page
from optimizer.ir.vocabulary import COPY, FETCH, SEND, opdef
from optimizer.l1.rules import result_layout
from optimizer.layouts.memory_config import (
    HOST_ROW_MAJOR,
    BufferType,
    MemoryConfig,
    PageLayout,
    TensorLayout,
    interleaved,
)
from optimizer.layouts.op_config import OpConfig
from optimizer.layouts.stated_compute import in0_block_w, stated_compute
from optimizer.layouts.tiling import l1_bytes_per_core, sharded_layout
from optimizer.opmodel.base import Bound, OpConstraints, OpCost, OpModel, OpQuery, Rejection, TensorSpec


def fuses_activation(config: OpConfig | None) -> bool:
    """Whether a program config applies the activation, so that the op itself must not."""
    return getattr(config, "fused_activation", None) is not None


def query_attributes(graph: Graph, op: Op, config: OpConfig | None) -> tuple[tuple[str, Attr], ...]:
    """All attributes, defaults included, and the compute config that the op's calls state.

    An activation that the program config fuses is not the op's too; an element type that is asked for is no attribute.
    """
    row = opdef(op.op)
    full = row.full_attrs(op)
    if row.takes_dtype:
        full.pop(RESULT_DTYPE, None)
    if fuses_activation(config):
        full["activation"] = None
    stated = stated_compute(graph, op, in0_block_w(config))
    if stated is not None:
        full[COMPUTE] = stated
    return tuple(sorted(full.items()))


def op_query(
    graph: Graph,
    op: Op,
    operands: Sequence[TensorLayout],
    config: OpConfig | None,
    request: MemoryConfig | None,
) -> OpQuery:
    """The question of an op with these operand layouts."""
    values = graph.values
    inputs = tuple(
        TensorSpec(values[v].shape, values[v].dtype, layout) for v, layout in zip(op.inputs, operands, strict=True)
    )
    return OpQuery(op.op, inputs, query_attributes(graph, op, config), config, request, asked_dtype(op))


def asked_dtype(op: Op) -> DType | None:
    """The `dtype=` argument of an op's call; None: none is passed."""
    asked = op.attrs.get(RESULT_DTYPE) if opdef(op.op).takes_dtype else None
    return None if asked is None else DType(str(asked))


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
        self._attrs: dict[Hashable, tuple[tuple[str, Attr], ...]] = {}
        self._specs: dict[tuple[str, TensorLayout], TensorSpec] = {}
        self._accepted_copies: dict[tuple[str, TensorLayout, TensorLayout], bool] = {}
        self._copies_ns: dict[tuple[str, TensorLayout, TensorLayout], int] = {}

    @property
    def grid_yx(self) -> tuple[int, int]:
        return self.model.device.grid_yx

    @contextmanager
    def counted_apart(self) -> Iterator[dict[str, Counter[str]]]:
        """What the OpModel refuses inside the block is counted in the dictionary given, not in `rejections`."""
        kept, self.rejections = self.rejections, {}
        try:
            yield self.rejections
        finally:
            self.rejections = kept

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
        """`op_query`, made of what earlier questions were made of."""
        inputs = tuple([self._spec(v, layout) for v, layout in zip(op.inputs, operands, strict=True)])
        return OpQuery(op.op, inputs, self._attributes(op, config), config, request, asked_dtype(op))

    def signature(self, op: Op) -> Hashable:
        """Equal for ops of which every OpModel question is the same: kind, attributes, operands."""
        values = self.graph.values
        operands = tuple((values[v].shape, values[v].dtype, self.pages[v]) for v in op.inputs)
        repeats = tuple(op.inputs.index(v) for v in op.inputs)
        return (op.op, self._attributes(op, None), operands, repeats)

    def _attributes(self, op: Op, config: OpConfig | None) -> tuple[tuple[str, Attr], ...]:
        """`query_attributes`, which depend on little of the config."""
        key = (op.id, op.attrs.get(COMPUTE), fuses_activation(config), in0_block_w(config))
        if key not in self._attrs:
            self._attrs[key] = query_attributes(self.graph, op, config)
        return self._attrs[key]

    def constraints(
        self,
        op: Op,
        operands: Sequence[TensorLayout],
        config: OpConfig | None,
        request: MemoryConfig | None,
        result: DType | None = None,
    ) -> OpConstraints:
        """The OpModel's answer, with the plan's L1 limit applied to operands plus the op's own peak.

        `result` is the element type that results have to have, where that is not what the graph states.
        """
        answer = self.model.constraints(self.query(op, operands, config, request))
        if answer.valid and opdef(op.op).opaque:
            # results of an op on the host are as its values state them, in DRAM; its transfers may be refused
            answer = replace(answer, outputs=tuple(self._plain(v, BufferType.DRAM) for v in op.outputs))
            answer = next((m for m in map(self.model.constraints, self.transfers(op)) if not m.valid), answer)
        if answer.valid and (other := self._other_result(op, answer, result)) is not None:
            answer = OpConstraints.rejected(Rejection.VALIDATION, other)
        if answer.valid:
            need = self.operand_bytes(op, operands) + answer.peak_bytes
            if need > self.l1_limit_bytes:
                message = f"needs {need} B of L1 per core, the limit is {self.l1_limit_bytes} B"
                answer = OpConstraints.rejected(Rejection.OOM_L1, message)
        if not answer.valid:
            self.rejections.setdefault(op.id, Counter())[answer.error or "refused"] += 1
        return answer

    def _other_result(self, op: Op, answer: OpConstraints, result: DType | None) -> str | None:
        """How a result differs from what the graph says of it, which later ops rely on; None: not at all."""
        for number, (value_id, given) in enumerate(zip(op.outputs, answer.outputs, strict=False)):
            value = self.graph.values[value_id]
            dtype = result or value.dtype
            if value.shape != given.shape or dtype is not given.dtype:
                return (
                    f"TTNN gives result {number} as {list(given.shape)} {given.dtype.value}, "
                    f"the graph has it as {list(value.shape)} {dtype.value}"
                )
        return None

    def transfers(self, op: Op) -> tuple[OpQuery, ...]:
        """The transfers around an op on the host, as the transform inserts them: DRAM to host per operand that is no
        weight (those have a form on the host), host to DRAM per result. None around any other op."""
        if not opdef(op.op).opaque:
            return ()
        fetched = (self._plain(v, BufferType.DRAM) for v in dict.fromkeys(op.inputs) if not self.is_weight(v))
        sent = (self._plain(v, BufferType.HOST) for v in op.outputs)
        dram = interleaved(BufferType.DRAM).memory
        return (*(OpQuery(FETCH, (spec,)) for spec in fetched), *(OpQuery(SEND, (spec,), output=dram) for spec in sent))

    def _spec(self, value_id: str, layout: TensorLayout) -> TensorSpec:
        key = (value_id, layout)
        if key not in self._specs:
            value = self.graph.values[value_id]
            self._specs[key] = TensorSpec(value.shape, layout.dtype or value.dtype, layout.plain)
        return self._specs[key]

    def _plain(self, value_id: str, place: BufferType) -> TensorSpec:
        return self._spec(value_id, interleaved(place, self.pages[value_id]))

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
        """Predicted time and traffic; of an op on the host those of its transfers, as nobody knows its own time."""
        if opdef(op.op).opaque:
            moved = [self.model.cost(query) for query in self.transfers(op)]
            read, written = (sum(getattr(c, f"dram_{way}_bytes") for c in moved) for way in ("read", "write"))
            return OpCost(sum(c.time_ns for c in moved), Bound.PCIE, read, written)
        return self.model.cost(self.query(op, operands, config, request))

    def operand_bytes(self, op: Op, operands: Sequence[TensorLayout]) -> int:
        """L1 bytes per core of the operands; a value read twice counts once."""
        total = 0
        for v, layout in dict(zip(op.inputs, operands, strict=True)).items():
            total += self.value_bytes(v, layout)
        return total

    def result_layout(self, op: Op, value_id: str, output: TensorLayout) -> TensorLayout:
        """Layout of one result of an op whose first result has the layout `output`."""
        return result_layout(op, value_id, output, self.pages[value_id])

    def sharded_like(self, value_id: str, layout: TensorLayout) -> TensorLayout:
        """A value in the sharding of another one's layout, in L1; L1 interleaved where that has no shards."""
        page, spec = self.pages[value_id], layout.shard_spec
        if spec is None:
            return interleaved(BufferType.L1, page)
        shape = self.graph.value(value_id).shape
        return sharded_layout(shape, layout.memory_layout, spec.grid_yx, self.model.device, page)

    def value_bytes(self, value_id: str, layout: TensorLayout) -> int:
        value = self.graph.value(value_id)
        return l1_bytes_per_core(value.shape, layout.dtype or value.dtype, layout, self.model.device)

    # -- copies ------------------------------------------------------------------------------------
    def copy_query(self, value_id: str, source: TensorLayout, target: TensorLayout) -> OpQuery:
        return OpQuery(COPY, (self._spec(value_id, source),), (), None, target.memory)

    def copy_accepted(self, value_id: str, source: TensorLayout, target: TensorLayout) -> bool:
        """Whether `to_memory_config` can make this copy within the L1 limit."""
        key = (value_id, source, target)
        if key not in self._accepted_copies:
            answer = self.model.constraints(self.copy_query(value_id, source, target))
            fits = self.value_bytes(value_id, source) + answer.peak_bytes <= self.l1_limit_bytes
            self._accepted_copies[key] = answer.valid and fits and answer.outputs[0].layout == target.plain
        return self._accepted_copies[key]

    def copy_ns(self, value_id: str, source: TensorLayout, target: TensorLayout) -> int:
        """Predicted time of a copy between memory configs; 0 when nothing moves."""
        if source == target:
            return 0
        key = (value_id, source, target)
        if key not in self._copies_ns:
            self._copies_ns[key] = self.model.runtime_ns(self.copy_query(value_id, source, target))
        return self._copies_ns[key]

    def is_weight(self, value_id: str) -> bool:
        """Whether a value is the same in every run: a weight or constant, or computed from such only."""
        return self.graph.is_static(value_id)
