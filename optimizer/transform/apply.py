"""Writes a plan into a new graph: layouts on values, copies between them, ops in schedule order.

Copies are explicit `ttnn.to_memory_config` ops, where `optimizer.sharding.copies` says: a spill (L1 -> DRAM), a load
(DRAM -> L1) or a reshard (L1 -> another L1 layout). The spilled copy of a graph output has the output's id, its L1 form
`<id>_l1`.

An op that TTNN lacks runs on the host, between a `ttnn.from_device` per operand and a `ttnn.to_device` per result;
weights that it reads have a form on the host, made once.

Graph outputs are returned DRAM interleaved. Ops on weights only come first, with role `host`. A weight lies where its
readers want it, in L1 too; one that is wanted in several places gets a further form per place, made once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from optimizer.errors import StateError
from optimizer.ir.graph import Attr, Graph, Op, Value, ValueKind
from optimizer.ir.opdef import ON_HOST, RESULT_DTYPE, short_name
from optimizer.ir.vocabulary import CAST, CONVERT, COPY, FETCH, SEND, opdef
from optimizer.l1.rules import is_view, result_layout
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorLayout, interleaved
from optimizer.layouts.weight_forms import reshapes_on_host
from optimizer.process import logs
from optimizer.result import OpRecord, Role
from optimizer.sharding.base import OpDecision, Plan
from optimizer.sharding.copies import Source, needed_in_dram, source_of

_log = logs.room("transform")


@dataclass
class AppliedPlan:
    """The transformed graph with layouts and records; predictions are filled in later."""

    graph: Graph
    layouts: dict[str, TensorLayout]
    records: dict[str, OpRecord]


@dataclass
class ApplyPlan:
    """One plan applied to one graph; use `apply` once."""

    source: Graph
    pages: dict[str, PageLayout]
    plan: Plan
    name: str = "transform"
    _result: AppliedPlan = field(init=False)
    _dram_copy: dict[str, str] = field(default_factory=dict)
    _l1_id: dict[str, str] = field(default_factory=dict)
    """Graph outputs produced in L1 -> id of the L1 form."""
    _twins: dict[tuple[str, TensorLayout], str] = field(default_factory=dict)
    """(weight, layout) -> id of its further form."""

    def apply(self) -> AppliedPlan:
        """The transformed graph. StateError if the plan does not cover it."""
        graph = Graph(self.source.name, self.source.inputs, ())
        self._result = AppliedPlan(graph, {}, {})
        self._check_plan()
        needs_dram = needed_in_dram(self.source, self.plan.schedule, self.plan.decisions)
        self._add_sources()
        for op in self.source.ops():
            if self.source.is_const_eval(op):
                self._add_host_op(op)
        for op_id in self.plan.schedule:
            self._add_run_op(self.source.op(op_id), self.plan.decisions[op_id], needs_dram)
        graph.outputs = [self._dram_copy.get(v, v) for v in self.source.outputs]
        self._result.layouts = {v: layout.plain for v, layout in self._result.layouts.items()}
        if _log.tells_info:
            roles = Counter(record.role.value for record in self._result.records.values())
            _log.info("applied", **dict(sorted(roles.items())))
        return self._result

    def _check_plan(self) -> None:
        run = {op.id for op in self.source.run_ops()}
        if set(self.plan.schedule) != run or set(self.plan.decisions) != run:
            raise StateError("the plan does not decide every op of the graph exactly once")

    # -- sources -----------------------------------------------------------------------------------
    def _add_sources(self) -> None:
        """Inputs, weights and constants, each in the layout its first reader wants."""
        for value in self.source.values.values():
            if self.source.producer(value.id) is None:
                moved = value.kind in (ValueKind.INPUT, ValueKind.ACTIVATION)
                default = interleaved(BufferType.DRAM, self.pages[value.id])
                self._add_value(value, default if moved else self._weight_layout(value.id))

    def _weight_layout(self, value_id: str) -> TensorLayout:
        """Where a weight lies: as its first reader wants it, in L1 only if nobody wants it elsewhere.

        Ops on weights run before those that stay in L1 are brought there, so they read them in DRAM. A weight has the
        element type that all its readers want; one that is computed, or wanted in several, that of the graph.
        """
        if self._is_reshaped_on_host(value_id):
            return _on_host(self.pages[value_id])
        wanted: list[TensorLayout] = []
        elsewhere = value_id in self.source.outputs
        opaque = False
        for op in self.source.consumers(value_id):
            if op.id not in self.plan.decisions:
                elsewhere = True
            elif opdef(op.op).opaque:
                opaque = True
            else:
                wanted.append(self.plan.decisions[op.id].operands[op.inputs.index(value_id)])
        types = {layout.dtype for layout in wanted}
        if types != {None} and (elsewhere or len(types) > 1 or self.source.producer(value_id) is not None):
            return interleaved(BufferType.DRAM, self.pages[value_id])
        found = next((layout for layout in wanted if not layout.is_l1), None)
        if found is not None:
            return found
        if opaque and value_id not in self.source.outputs:
            return _on_host(self.pages[value_id])
        return wanted[0] if wanted and not elsewhere else interleaved(BufferType.DRAM, self.pages[value_id])

    def _is_reshaped_on_host(self, value_id: str) -> bool:
        """Whether a weight is read by ops on weights only, and reshaped on the host before or after."""
        readers = self.source.consumers(value_id)
        maker = self.source.producer(value_id)
        if value_id in self.source.outputs or any(op.id in self.plan.decisions for op in readers):
            return False
        around = [*readers, *([maker] if maker is not None else [])]
        return any(reshapes_on_host(self.source, op) for op in around)

    def _add_host_op(self, op: Op) -> None:
        self._result.graph.add_op(op)
        for v in op.outputs:
            self._add_value(self.source.value(v), self._weight_layout(v))
        self._result.records[op.id] = OpRecord(Role.HOST, reason={"chosen": "depends on weights only: runs once"})

    # -- ops of a run ------------------------------------------------------------------------------
    def _add_run_op(self, op: Op, decision: OpDecision, needs_dram: set[str]) -> None:
        if opdef(op.op).opaque:
            self._add_opaque_op(op, decision)
            return
        inputs = tuple(
            self._operand(op, v, layout, decision) for v, layout in zip(op.inputs, decision.operands, strict=True)
        )
        outputs = tuple(self._produce(op, v, decision) for v in op.outputs)
        candidate = decision.candidate
        written = replace(candidate.of(op), inputs=inputs, outputs=outputs)
        self._result.graph.add_op(written)
        role = self._role(written, inputs)
        self._result.records[op.id] = OpRecord(
            role, candidate.config, candidate.request, decision.chain, None, decision.reason
        )
        for v, produced in zip(op.outputs, outputs, strict=True):
            if v in needs_dram and self._result.layouts[produced].is_l1:
                target = interleaved(BufferType.DRAM, self.pages[v]).typed(self._result.layouts[produced].dtype)
                name = f"{op.name or op.id}_spill"
                self._dram_copy[v] = self._copy(produced, target, Role.SPILL, op, name, copy_id=self._copy_id(v))

    def _add_opaque_op(self, op: Op, decision: OpDecision) -> None:
        """The op on the host, its operands fetched and its results sent back."""
        graph = self._result.graph
        inputs = []
        for v in dict.fromkeys(op.inputs):
            if self.source.is_static(v):
                inputs.append((v, self._operand(op, v, _on_host(self.pages[v]), decision)))
                continue
            source = self._operand(op, v, interleaved(BufferType.DRAM, self.pages[v]), decision)
            inputs.append((v, self._transfer(FETCH, source, self._fresh(f"{v}_host"), op)))
        fetched = dict(inputs)
        on_host = {v: self._fresh(f"{v}_host") for v in op.outputs}
        for v, host in on_host.items():
            self._add_value(replace(self.source.value(v), id=host), _on_host(self.pages[v]))
        moved = replace(op, inputs=tuple(fetched[v] for v in op.inputs), outputs=tuple(on_host.values()))
        graph.add_op(moved)
        reason = {"chosen": "host", "because": f"TTNN has no {op.op}"}
        self._result.records[op.id] = OpRecord(Role.HOST, reason=reason)
        for v, host in on_host.items():
            self._transfer(SEND, host, v, op)

    def _transfer(self, name: str, source: str, target: str, op: Op) -> str:
        """Append a copy between DRAM and the host; the target is the value's only form over there."""
        graph = self._result.graph
        page = self._result.layouts[source].page_layout
        layout = _on_host(page) if name == FETCH else interleaved(BufferType.DRAM, page)
        self._add_value(replace(graph.value(source), id=target, kind=ValueKind.ACTIVATION, data=None), layout)
        op_id = self._fresh(f"{target}_{short_name(name)}")
        graph.add_op(Op(op_id, name, (source,), (target,), name=op_id, origin=op.origin))
        request = layout.memory if name == SEND else None
        self._result.records[op_id] = OpRecord(Role.TRANSFER, request=request, reason={"chosen": f"for {op.id}"})
        return target

    def _produce(self, op: Op, value_id: str, decision: OpDecision) -> str:
        """Add one result of an op; a graph output that is produced in L1 leaves its id to its spilled copy."""
        layout = result_layout(op, value_id, decision.candidate.output, self.pages[value_id])
        value = self.source.value(value_id)
        if layout.is_l1 and value_id in self.source.outputs:
            self._l1_id[value_id] = self._fresh(f"{value_id}_l1")
            value = replace(value, id=self._l1_id[value_id])
        self._add_value(value, layout)
        return value.id

    def _copy_id(self, value_id: str) -> str | None:
        return value_id if value_id in self._l1_id else None

    def _role(self, op: Op, inputs: tuple[str, ...]) -> Role:
        if op.op == CONVERT:
            return Role.LAYOUT
        if not inputs:
            return Role.COMPUTE
        source, target = self._result.layouts[inputs[0]], self._result.layouts[op.outputs[0]]
        return Role.VIEW if is_view(self._result.graph, op, source, target) else Role.COMPUTE

    def _operand(self, op: Op, value_id: str, wanted: TensorLayout, decision: OpDecision) -> str:
        """The value to read: the original, its DRAM copy, or a copy made right before this op."""
        produced = self._l1_id.get(value_id, value_id)
        have = self._result.layouts[produced]
        match source_of(have, wanted, self.source.is_static(value_id)):
            case Source.PRODUCED:
                return produced
            case Source.PREPARED:
                return self._twin(value_id, wanted)
            case Source.SPILLED:
                return self._dram_copy[value_id]
        if wanted.page_layout is not have.page_layout:
            raise StateError(f"operand '{value_id}' of '{op.id}' needs a page layout conversion")
        source = produced if have.is_l1 else self._dram_copy.get(value_id, value_id)
        role = Role.RESHARD if have.is_l1 else Role.LOAD
        return self._copy(source, wanted, role, op, f"{op.name or op.id}_mem_reconfig", decision.chain)

    def _twin(self, value_id: str, wanted: TensorLayout) -> str:
        """A further form of a weight that ops want differently."""
        if (value_id, wanted) not in self._twins:
            self._twins[value_id, wanted] = self._host_copy(value_id, wanted)
        return self._twins[value_id, wanted]

    def _host_copy(self, value_id: str, wanted: TensorLayout) -> str:
        """A copy that is made once; one in another element type is made in DRAM, and brought elsewhere from there."""
        have = self._result.layouts[value_id]
        if wanted.dtype is not have.dtype and wanted.is_l1:
            in_dram = interleaved(BufferType.DRAM, wanted.page_layout).typed(wanted.dtype)
            return self._host_op(self._twin(value_id, in_dram), wanted, COPY, {})
        if wanted.dtype is not have.dtype:
            dtype = wanted.dtype or self.source.value(value_id).dtype
            return self._host_op(value_id, wanted, CAST, {RESULT_DTYPE: dtype.value, ON_HOST: True})
        return self._host_op(value_id, wanted, COPY, {})

    def _host_op(self, source: str, wanted: TensorLayout, name: str, attrs: dict[str, Attr]) -> str:
        """A conversion of a weight, made once; its result's id."""
        graph, value = self._result.graph, self._result.graph.value(source)
        place = wanted.memory.buffer_type.value if name == COPY else str(attrs[RESULT_DTYPE])
        twin = replace(value, id=self._fresh(f"{source}_{place}"), kind=ValueKind.PARAMETER, data=None)
        op_id = self._fresh(f"{twin.id}_{'copy' if name == COPY else short_name(name)}")
        graph.add_op(Op(op_id, name, (source,), (twin.id,), attrs, name=op_id))
        self._add_value(twin, wanted)
        self._result.records[op_id] = OpRecord(Role.HOST, request=wanted.memory if name == COPY else None)
        return twin.id

    def _copy(
        self,
        source: str,
        target: TensorLayout,
        role: Role,
        op: Op,
        name: str,
        chain: str | None = None,
        copy_id: str | None = None,
    ) -> str:
        """Append a `to_memory_config` op and return its result's id."""
        graph = self._result.graph
        copy_id = self._fresh(f"{source}_{role.value}") if copy_id is None else copy_id
        copy = replace(graph.value(source), id=copy_id, kind=ValueKind.ACTIVATION)
        op_id = self._fresh(f"{op.id}_{role.value}")
        graph.add_op(Op(op_id, COPY, (source,), (copy.id,), name=name, origin=op.origin))
        self._add_value(copy, target)
        moved = f"{self._result.layouts[source].describe()} -> {target.describe()}"
        self._result.records[op_id] = OpRecord(role, None, target.memory, chain, None, {"chosen": moved})
        return copy.id

    def _fresh(self, stem: str) -> str:
        """An id that neither the source nor the result has: ops and values added later keep theirs."""
        fresh = self._result.graph.fresh_id(stem)
        while fresh in self.source.values or self.source.has_op(fresh):
            stem += "_"
            fresh = self._result.graph.fresh_id(stem)
        return fresh

    def _add_value(self, value: Value, layout: TensorLayout) -> None:
        self._result.graph.add_value(value if layout.dtype is None else replace(value, dtype=layout.dtype))
        self._result.layouts[value.id] = layout


def _on_host(page: PageLayout) -> TensorLayout:
    """A host tensor in the page layout it had or will have on the device."""
    return interleaved(BufferType.HOST, page)
