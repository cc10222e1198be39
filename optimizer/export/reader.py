"""`graph.json` read back into an `OptimizedGraph`, for checking and pricing it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError
from optimizer.export.schema import MemoryConfigArgument, PlacedGraph, PlacedOp, Value, read_placed
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, ValueKind
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
from optimizer.options import Options
from optimizer.result import OpRecord, OptimizedGraph, Role, attr_from_json


def read_result(path: Path) -> OptimizedGraph:
    """The result in a `graph.json` (or its folder), ours or foreign, without predictions and chains.

    Ops keep the order of the file, which is the schedule. Raises InputError naming what is wrong where.
    """
    document = read_placed(path)
    graph = _graph(document)
    return OptimizedGraph(
        graph=graph,
        layouts={v: _layout(v, value) for v, value in document.values.items() if value.layout is not None},
        records={op.id: _record(op) for op in document.ops},
        device=DeviceSpec.from_json(document.device),
        options=Options.from_mapping(document.options),
        model={"name": document.model.name, "sha256": document.model.sha256},
    )


def _graph(document: PlacedGraph) -> Graph:
    graph = Graph(document.model.name, document.model.inputs, document.model.outputs)
    for value_id, value in document.values.items():
        data = None if value.data is None else tuple(value.data)
        shape, kind = tuple(value.shape), ValueKind(value.kind)
        graph.add_value(GraphValue(value_id, shape, DType(value.dtype), kind, data))
    for op in document.ops:
        attrs = {k: attr_from_json(v) for k, v in op.attrs.items()}
        graph.add_op(Op(op.id, op.op, tuple(op.inputs), tuple(op.outputs), attrs, op.name, tuple(op.origin)))
    return graph


def _layout(value_id: str, value: Value) -> TensorLayout:
    record: Any = None if value.layout is None else value.layout.model_dump()
    return TensorLayout.from_json(record, f"layout of {value_id}")


def _record(op: PlacedOp) -> OpRecord:
    request = op.memory_config_argument
    return OpRecord(
        role=Role(op.role),
        config=op_config_from_json(op.config, f"config of {op.id}"),
        request=None if request is None else _memory_config(request, op.id),
    )


def _memory_config(record: MemoryConfigArgument, op_id: str) -> MemoryConfig:
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
