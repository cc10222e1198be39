"""What is left where no plan keeps an error budget: results in f32, of the ops with most of the errors, then of all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from optimizer.errors import InfeasibleError, InputError
from optimizer.importers.passes.exact_values import can_widen, widened
from optimizer.ir.graph import Graph
from optimizer.opmodel.pricing import OpPricer
from optimizer.pipeline.legal import PageLayouts, runs_from_dram
from optimizer.pipeline.work import Stage, Work

MOST_OF_IT = 0.9
"""Share of all errors that the first set of ops has."""


def raised(
    work: Work, errors: Mapping[str, float], prepared: Sequence[Stage], written: Sequence[Stage]
) -> Iterator[tuple[Work, tuple[str, ...]]]:
    """Runs that planned the model with more and more of its results in f32, and of which ops; `errors` are those of
    the plan without."""
    able = [op.id for op in work.imported.run_ops() if can_widen(work.imported, op)]
    order = sorted(able, key=lambda op_id: -errors.get(op_id, 0.0))
    before: tuple[str, ...] = ()
    for chosen in (_largest(order, errors), order):
        other = work.fork()
        ops = _runnable(work, prepared, chosen)
        if ops in ((), before):
            continue
        before, other.imported = ops, widened(work.imported, ops)
        try:
            for stage in (*prepared, *written):
                stage.apply(other)
        except (InfeasibleError, InputError):  # an op does not run so, or there is no room: the plan before is left
            continue
        yield other, ops


def _largest(order: Sequence[str], errors: Mapping[str, float]) -> list[str]:
    """The first ops, until they have most of the errors."""
    wanted, found = MOST_OF_IT * sum(errors.get(op_id, 0.0) for op_id in order), list[str]()
    for op_id in order:
        if wanted <= 0.0:
            break
        found.append(op_id)
        wanted -= errors.get(op_id, 0.0)
    return found


def _runnable(work: Work, prepared: Sequence[Stage], chosen: Collection[str]) -> tuple[str, ...]:
    """Those of the ops that run in f32, their operands in DRAM, if they run at all without a config."""
    plain, left = _pricer(work, prepared, work.imported), list(chosen)
    while True:
        wide = _pricer(work, prepared, widened(work.imported, left))
        refused = {
            op_id for op_id in left
            if not runs_from_dram(wide, wide.graph.op(op_id)) and runs_from_dram(plain, plain.graph.op(op_id))
        }  # fmt: skip
        if not refused:
            return tuple(sorted(left))
        left = [op_id for op_id in left if op_id not in refused]


def _pricer(work: Work, prepared: Sequence[Stage], graph: Graph) -> OpPricer:
    other = work.fork()
    other.imported = graph
    for stage in prepared:
        stage.apply(other)
        if isinstance(stage, PageLayouts):
            break
    model = other.opmodel
    return OpPricer(other.graph, other.pages, model, model.device.cb_limit_bytes)
