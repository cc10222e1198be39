"""A finished result as the program that it runs, for `l1`: one step per op of a run."""

from __future__ import annotations

from optimizer.ir.graph import Op
from optimizer.l1.program import Buffer, Program, Step
from optimizer.l1.run import Bank
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.tiling import l1_bytes_per_core
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.pricing import op_query
from optimizer.opmodel.steps import step_of
from optimizer.result import OptimizedGraph, Role


def result_program(result: OptimizedGraph, model: OpModel) -> Program:
    """The ops of a run in their order; weights that they read from L1 are there before them."""
    graph, layouts = result.graph, result.layouts
    ops = [op for op in graph.ops() if result.records[op.id].role is not Role.HOST]
    kept = tuple((weight.value, weight.allocated_bytes) for weight in result.program.weights)
    weights = {v for v, _ in kept}
    last_reads = {v: at for at, op in enumerate(ops) for v in op.inputs if layouts[v].is_l1 and v not in weights}
    return Program([(_step(result, model, op, weights),) for op in ops], last_reads, kept)


def bank_of_result(result: OptimizedGraph) -> Bank:
    """The L1 that the result's plan may use."""
    options, device = result.options, result.device
    limit_bytes = device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap)
    return Bank.of(device, options.l1_small_bytes, limit_bytes)


def _step(result: OptimizedGraph, model: OpModel, op: Op, weights: set[str]) -> Step:
    record, layouts = result.records[op.id], result.layouts
    query = op_query(result.graph, op, [layouts[v] for v in op.inputs], record.config, record.request)
    reads: dict[int, Buffer] = {k: (v, "") for k, v in enumerate(op.inputs) if layouts[v].is_l1 and v not in weights}
    writes = tuple(((v, ""), _bytes(result, v)) for v in op.outputs if layouts[v].is_l1)
    shared = 0 if record.role is Role.VIEW else overwritten_operand(record.config)
    shares = None if shared is None else reads.get(shared)
    answer = model.constraints(query)
    return step_of(
        op.id, answer, model.runtime_ns(query), tuple(reads.values()), writes, shares=shares, operand=reads.get(0)
    )


def _bytes(result: OptimizedGraph, value_id: str) -> int:
    value = result.graph.value(value_id)
    return l1_bytes_per_core(value.shape, value.dtype, result.layouts[value_id], result.device)
