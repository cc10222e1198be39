"""`ttopt explain`: one op of a finished graph.json with what its alternatives would have cost.

Around the op the plan is solved again (`solving_again`, `sharding.runner_up`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.answers.solving_again import planned, rebuilt
from optimizer.errors import TtoptError
from optimizer.export.reader import read_result
from optimizer.pipeline import Clock, Progress
from optimizer.pipeline.stages import NAMES
from optimizer.result import COPIES, Role
from optimizer.sharding.runner_up import RunnerUp

MOVES = (*COPIES, Role.TRANSFER)


def choices(source: Path | bytes, op_id: str, progress: Progress | None = None) -> dict[str, Any]:
    """The record of `RunnerUp` for an op, or `{note}` where there is nothing to choose or to solve again."""
    clock = Clock(NAMES, progress)
    try:
        result = read_result(source)
        role = result.records[op_id].role
        if role in MOVES:
            return {"note": f"a {role.value} has none of its own; ask about the op it is made for"}
        if role is Role.HOST:
            return {"note": "the op runs on the host: there is nothing to lay out"}
        problem = rebuilt(source, result, clock)
    except TtoptError as error:
        return {"note": f"this document cannot be solved again: {error}"}
    if op_id not in {op.id for op in problem.graph.run_ops()}:
        return {"note": "a conversion that the layouts of its neighbours make necessary has none"}
    with clock.stage("policy"):
        schedule, decisions = planned(problem, result)
        return RunnerUp(problem, schedule, decisions, op_id).record()
