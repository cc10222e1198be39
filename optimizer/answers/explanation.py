"""`ttopt explain`: why one op has its layout and config, and what the others would have cost.

Around the op the plan is solved again (`solving_again`, `sharding.runner_up`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.answers.solving_again import planned, rebuilt
from optimizer.errors import TtoptError, UnknownNameError
from optimizer.export.facts import COPY_ROLES
from optimizer.export.reader import as_result
from optimizer.pipeline import Clock, Progress
from optimizer.pipeline.stages import NAMES
from optimizer.result import Role, explained
from optimizer.sharding.runner_up import RunnerUp
from optimizer.wording.plan import Document

if TYPE_CHECKING:
    from optimizer.export.schema import AnnotatedGraph


def names_chain(document: Document, name: str) -> bool:
    """Whether a name is a chain's; ops and nodes of the same name count more."""
    known = {name for op in document["ops"] for name in (op["id"], op["name"], *op["origin"])}
    return name not in known and any(chain["id"] == name for chain in document["chains"])


def explanation(document: Document, op: str) -> dict[str, Any]:
    """What `OptimizedGraph.explain` says, from the document; a foreign node names the op that computes it.

    UnknownNameError lists near matches.
    """
    chosen = _found(document, op)
    fallback = next((f["cause"] for f in document["summary"]["fallbacks"] if chosen["id"] in f["ops"]), None)
    return {**explained(document, chosen), "rewritten": _rewritten(document, chosen), "fallback": fallback}


def _rewritten(document: Document, op: dict[str, Any]) -> list[dict[str, Any]]:
    """In what ways parts are computed that the op belongs to."""
    notes: list[dict[str, Any]] = list(document["summary"].get("rewritten", ()))
    return [note for note in notes if set(op["origin"]) & set(note.get("origin", ()))]


def _found(document: Document, name: str) -> dict[str, Any]:
    ops: list[dict[str, Any]] = document["ops"]
    for names in (lambda o: (o["id"], o["name"]), lambda o: o["origin"]):
        for op in ops:
            if name in names(op):
                return op
    raise UnknownNameError("op or chain", name, [*(op["id"] for op in ops), *(c["id"] for c in document["chains"])])


def choices(
    found: AnnotatedGraph, source: Path | bytes, op_id: str, progress: Progress | None = None
) -> dict[str, Any]:
    """The plan of a document solved again with each alternative of an op forced: the record of `RunnerUp`, or `{note}`
    where there is nothing to choose or to solve again. `source`: what the document was read from."""
    clock = Clock(NAMES, progress)
    try:
        result = as_result(found)
        role = result.records[op_id].role
        if role in COPY_ROLES:
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
