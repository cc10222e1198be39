"""`graph.json` read back into an `OptimizedGraph`, for checking and pricing it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError
from optimizer.export.schema import (
    Chain,
    Layout,
    MemoryConfigArgument,
    PlacedGraph,
    PlacedOp,
    Prediction,
    ProgramTime,
    Value,
)
from optimizer.export.stored import read_placed
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, ForeignTensor, Graph, Op, ValueKind
from optimizer.ir.graph import Value as GraphValue
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import op_config_from_json
from optimizer.opmodel.base import Bound, CostPart
from optimizer.options import Options
from optimizer.result import ChainRecord, OpRecord, OptimizedGraph, Reservation, Role, Statement, attr_from_json
from optimizer.result import Prediction as OpPrediction


def read_result(source: Path | bytes) -> OptimizedGraph:
    """The result in a `graph.json` (its path, its folder or its bytes), ours or foreign, with all that it states.

    What a foreign one does not state is empty here. Ops keep the order of the file, which is the schedule. Raises
    InputError naming what is wrong where.
    """
    return as_result(read_placed(source))


def as_result(document: PlacedGraph) -> OptimizedGraph:
    """The result that a document holds. Raises InputError naming what is wrong where."""
    device = DeviceSpec.from_json(document.device)
    options, summary = Options.stated(document.options), document.summary
    return OptimizedGraph(
        graph=_graph(document),
        layouts={v: _layout(v, value) for v, value in document.values.items() if value.layout is not None},
        records={op.id: _record(op) for op in document.ops},
        device=device,
        options=options,
        model=document.model.model_dump(by_alias=True, exclude_unset=True, exclude={"inputs", "outputs"}),
        chains=tuple(_chain(chain) for chain in document.chains),
        reservations=tuple(Reservation(r.value, r.start, r.end, r.bytes) for r in document.reservations),
        fused_kernels=tuple(kernel.model_dump(exclude_unset=True) for kernel in document.fused_kernels),
        refused_kernels=tuple(kernel.model_dump(exclude_unset=True) for kernel in document.refused_kernels),
        stated=Statement(
            summary=summary,
            board=options.board if "board" in document.options else None,
            options=frozenset(document.options),
        ),
    )


def _chain(chain: Chain) -> ChainRecord:
    return ChainRecord(
        chain.id, tuple(chain.ops), chain.state, chain.spill_location, chain.reason, dict(chain.statistics)
    )


def _graph(document: PlacedGraph) -> Graph:
    graph = Graph(document.model.name, document.model.inputs, document.model.outputs)
    for value_id, value in document.values.items():
        data = None if value.data is None else tuple(value.data)
        shape, kind = tuple(value.shape), ValueKind(value.kind)
        held = None if value.stands_for is None else value.stands_for.model_dump()
        stands_for = None if held is None else ForeignTensor.from_json(held, f"stands_for of {value_id}", shape)
        graph.add_value(GraphValue(value_id, shape, DType(value.dtype), kind, data, stands_for))
    for op in document.ops:
        attrs = {k: _attr(v, f"{op.id}.attrs.{k}") for k, v in op.attrs.items()}
        graph.add_op(Op(op.id, op.op, tuple(op.inputs), tuple(op.outputs), attrs, op.name, tuple(op.origin)))
    return graph


def _attr(value: Any, place: str) -> Attr:
    if not _is_attr(value):
        raise FormatError("objects are no attribute values", node=place)
    return attr_from_json(value)


def _is_attr(value: Any) -> bool:
    return all(map(_is_attr, value)) if isinstance(value, list) else not isinstance(value, dict)


def _layout(value_id: str, value: Value) -> TensorLayout:
    if value.layout is not None:
        _whole_or_none(value.layout, f"layout of {value_id}")
    record: Any = None if value.layout is None else value.layout.model_dump()
    return TensorLayout.from_json(record, f"layout of {value_id}")


def _record(op: PlacedOp) -> OpRecord:
    request = op.memory_config_argument
    return OpRecord(
        role=Role(op.role),
        config=op_config_from_json(op.config, f"config of {op.id}"),
        request=None if request is None else _memory_config(request, op.id),
        chain=op.chain,
        predicted=None if op.predicted is None else _prediction(op.predicted, op.id),
        reason=op.reason,
    )


def _prediction(stated: Prediction, op_id: str) -> OpPrediction:
    fields = stated.model_dump(exclude={"parts"})
    return OpPrediction(**fields, parts=tuple(_part(part, op_id) for part in stated.parts))


def _part(part: ProgramTime, op_id: str) -> CostPart:
    try:
        terms = tuple((Bound(bound), ns) for bound, ns in part.terms_ns.items())
    except ValueError as error:
        raise FormatError(f"not a program's time: {error}", node=op_id) from error
    return CostPart(part.program, part.time_ns, part.start_ns, terms, part.tail_ns)


def _whole_or_none(record: Layout | MemoryConfigArgument, place: str) -> None:
    """Shards are described whole or not at all."""
    stated = [record.grid_yx, record.core_ranges, record.orientation]
    if (record.shard_shape is None and any(x is not None for x in stated)) or (
        record.shard_shape is not None and (record.grid_yx is None or record.core_ranges is None)
    ):
        raise FormatError("shards need 'shard_shape', 'grid_yx' and 'core_ranges', or none of them", node=place)


def _memory_config(record: MemoryConfigArgument, op_id: str) -> MemoryConfig:
    _whole_or_none(record, op_id)
    try:
        spec = None
        if record.shard_shape is not None and record.grid_yx is not None:
            rows, cols = record.grid_yx
            height, width = record.shard_shape
            spec = ShardSpec(
                grid_yx=(rows, cols),
                shape=(height, width),
                core_ranges=tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in record.core_ranges or []),
                orientation=ShardOrientation(record.orientation or "row_major"),
            )
        return MemoryConfig(TensorMemoryLayout(record.memory_layout), BufferType(record.buffer_type), spec)
    except ValueError as error:
        raise FormatError(f"not a memory config: {error}", node=op_id) from error
