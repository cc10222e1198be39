"""A plan found elsewhere, as a choice of a `GlobalProblem`."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.base import OpDecision
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.solver.graphs.graph_problem import FORBIDDEN

Decisions = Mapping[str, OpDecision]


def choice_of_plan(model: GlobalProblem, pricer: OpPricer, decisions: Decisions) -> tuple[int, ...] | None:
    """The options with the plan's layouts, which cost no more than the plan, but for those that others stand for
    (`option_fronts`); None if some op has no such option.

    Of kernels, those that save most. Whether it fits is not asked: a value is charged as the homes allow, which may be
    longer than in the plan.
    """
    ops = [pricer.graph.op(op_id) for op_id in model.schedule]
    made = {v: pricer.result_layout(op, v, decisions[op.id].candidate.output) for op in ops for v in op.outputs}
    chosen: list[int | None] = [_way(model, pricer, t, op, decisions[op.id], made) for t, op in enumerate(ops)]
    chosen += (_home(model, pricer, v, made[v], decisions) for v in model.homes)
    chosen += (_weight(model, pricer, v, decisions) for v in model.weights)
    found = tuple(i for i in chosen if i is not None)
    if len(found) != len(chosen):
        return None
    found = model.with_best_kernels(found)
    return found if model.integers.value(found) < FORBIDDEN else None


def _way(
    model: GlobalProblem, pricer: OpPricer, t: int, op: Op, decision: OpDecision, made: Mapping[str, TensorLayout]
) -> int | None:
    """The fastest way that reads and gives the same, with the plan's own config if that is among them; else one that
    reads weights otherwise."""
    model.poll()
    copied = []
    for k, (v, wanted) in enumerate(zip(op.inputs, decision.operands, strict=True)):
        if wanted.is_l1 and not pricer.is_weight(v):
            copied += [k] if wanted != made.get(v, pricer.default_layout(pricer.graph.value(v))) else []
    tensors = [k for k, v in enumerate(op.inputs) if not pricer.is_weight(v)]
    ranked = [
        (
            way.option.operands != decision.operands,
            way.option.candidate.config != decision.candidate.config,
            way.option.time_ns,
            i,
        )
        for i, way in enumerate(model.ways[t])
        if all(way.option.operands[k] == decision.operands[k] for k in tensors)
        and way.option.candidate.output == decision.candidate.output
        and list(way.copied) == copied
    ]
    return min(ranked)[-1] if ranked else None


def _home(model: GlobalProblem, pricer: OpPricer, v: str, layout: TensorLayout, decisions: Decisions) -> int | None:
    """The home that lasts as long as the value is read from L1."""
    readers = [pricer.graph.op(op_id) for op_id in model.readers(v)]
    from_l1 = [decisions[op.id].operands[op.inputs.index(v)].is_l1 for op in readers]
    last = max((n + 1 for n, is_l1 in enumerate(from_l1) if is_l1), default=0)
    in_dram = v in pricer.graph.outputs or not all(from_l1)
    ranked = [
        (home.in_dram is not in_dram, home.last, i)
        for i, home in enumerate(model.homes[v])
        if home.layout == layout and (home.last >= last or not layout.is_l1) and (home.in_dram or not in_dram)
    ]
    return min(ranked)[2] if ranked else None


def _weight(model: GlobalProblem, pricer: OpPricer, v: str, decisions: Decisions) -> int:
    """Where a weight with several readers is: 0 for DRAM alone."""
    readers = [pricer.graph.op(op_id) for op_id in model.readers(v)]
    wanted = dict.fromkeys(decisions[op.id].operands[op.inputs.index(v)] for op in readers)
    in_l1 = [layout for layout in wanted if layout in model.weights[v]]
    return 1 + model.weights[v].index(in_l1[0]) if in_l1 else 0
