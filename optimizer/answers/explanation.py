"""Why one op has its layout and config, and what the others would have cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.answers.explain import choices
from optimizer.errors import UnknownNameError
from optimizer.pipeline import Progress
from optimizer.result import own_chain
from optimizer.wording.plan import Document, fused_fact


def names_chain(document: Document, name: str) -> bool:
    """Whether a name is a chain's; ops and nodes of the same name count more."""
    known = {name for op in document["ops"] for name in (op["id"], op["name"], *op["origin"])}
    return name not in known and any(chain["id"] == name for chain in document["chains"])


def explanation(document: Document, op: str) -> dict[str, Any]:
    """What `OptimizedGraph.explain` says, from the document; a foreign node names the op that computes it.

    UnknownNameError lists near matches.
    """
    chosen = _found(document, op)

    def described(value_ids: list[str]) -> list[dict[str, Any]]:
        return [{"value": v, **document["values"][v]} for v in value_ids]

    return {
        **chosen,
        "operands": described(chosen["inputs"]),
        "results": described(chosen["outputs"]),
        "fused": fused_fact(document, chosen["id"]),
        "chain_record": own_chain(chosen["id"], chosen["chain"], document["chains"]),
        "fallback": next((f["cause"] for f in document["summary"]["fallbacks"] if chosen["id"] in f["ops"]), None),
    }


def _found(document: Document, name: str) -> dict[str, Any]:
    ops: list[dict[str, Any]] = document["ops"]
    for names in (lambda o: (o["id"], o["name"]), lambda o: o["origin"]):
        for op in ops:
            if name in names(op):
                return op
    raise UnknownNameError("op or chain", name, [*(op["id"] for op in ops), *(c["id"] for c in document["chains"])])


def with_choices(record: dict[str, Any], source: Path | bytes, progress: Progress | None = None) -> dict[str, Any]:
    """An explanation with `choices`: the plan of the document solved again with each alternative forced."""
    return {**record, "choices": choices(source, record["id"], progress)}
