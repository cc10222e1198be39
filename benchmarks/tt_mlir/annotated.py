"""A plan as one of our annotated graphs: the peer's ops, layouts, configs and copies, ready to verify and price."""

from __future__ import annotations

from optimizer.device import DeviceSpec
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.pricing import op_query
from optimizer.options import Options
from optimizer.result import OpRecord, OptimizedGraph, Role
from tt_mlir.program import COPY, RETILE, PlanProgram

POLICY = "tt-mlir"
"""As whose plan the result is labelled."""


def annotated(program: PlanProgram, device: DeviceSpec, options: Options, model: OpModel) -> OptimizedGraph:
    """The plan on a board, under the same limits as one of our plans; `model` says which reshapes are views."""
    result = OptimizedGraph(
        graph=program.graph,
        layouts=dict(program.layouts),
        records={},
        device=device,
        options=Options.stated({**options.to_json(), "policy": POLICY}),
        model={"name": program.graph.name, "sha256": None},
    )
    for op in program.graph.ops():
        role = _role(result, op, model)
        request = program.layouts[op.outputs[0]].memory
        result.records[op.id] = OpRecord(role, program.configs.get(op.id), request, reason={"chosen": POLICY})
    return result


def _role(result: OptimizedGraph, op: Op, model: OpModel) -> Role:
    if op.op == RETILE:
        return Role.LAYOUT
    source, target = result.layouts[op.inputs[0]], result.layouts[op.outputs[0]]
    if op.op == COPY:
        return _copy_role(source, target)
    return Role.VIEW if _is_view(result, op, source, target, model) else Role.COMPUTE


def _copy_role(source: TensorLayout, target: TensorLayout) -> Role:
    if source.is_l1 and target.is_l1:
        return Role.RESHARD
    if source.is_dram and target.is_dram:
        return Role.COMPUTE
    return Role.SPILL if source.is_l1 else Role.LOAD


def _is_view(result: OptimizedGraph, op: Op, source: TensorLayout, target: TensorLayout, model: OpModel) -> bool:
    """Whether the result lies in its operand's buffer: shards that stay where they are included."""
    row = opdef(op.op)
    if row.view is None or source != target or not source.is_tile:
        return False
    shapes = result.graph.value(op.inputs[0]).shape, result.graph.value(op.outputs[0]).shape
    if not row.view(row.full_attrs(op), *shapes):
        return False
    if not source.is_sharded:
        return True
    answer = model.constraints(op_query(result.graph, op, [source], None, target.memory))
    return answer.valid and answer.peak_bytes == 0
