"""SHA-256 over what a graph computes: its interface, values and ops, without where anything lies or runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from optimizer.ir.graph import Graph, Value


def graph_sha256(graph: Graph) -> str:
    """The digest that a `graph.json` states as `model.graph_sha256`.

    It has no key: it finds what got lost or mixed up on the way, not what somebody changed who computes it again.
    """
    values = {v.id: _value(v.shape, v.dtype.value, v.kind.value, v.data, _held(v)) for v in graph.values.values()}
    ops = [[op.id, op.op, op.inputs, op.outputs, dict(op.attrs)] for op in graph.ops()]
    return _sha256([graph.inputs, graph.outputs, values, ops])


def digest_of(document: Mapping[str, Any]) -> str:
    """The same of a decoded `graph.json`."""
    model, stated = document["model"], document["values"]
    values = {
        v: _value(x["shape"], x["dtype"], x["kind"], x.get("data"), x.get("stands_for")) for v, x in stated.items()
    }
    ops = [[op["id"], op["op"], op["inputs"], op["outputs"], op["attrs"]] for op in document["ops"]]
    return _sha256([model["inputs"], model["outputs"], values, ops])


def _value(*fields: Any) -> list[Any]:
    """Shape, type, kind, elements, and what the value stands for, if anything."""
    return list(fields if fields[-1] is not None else fields[:-1])


def _held(value: Value) -> dict[str, Any] | None:
    return None if value.stands_for is None else value.stands_for.to_json()


def _plain(item: Any) -> Any:
    """An item in which whole numbers have one spelling: JSON tools write 1.0 as 1."""
    if isinstance(item, float) and item.is_integer():
        return int(item)
    if isinstance(item, list | tuple):
        return [_plain(member) for member in item]
    return {k: _plain(v) for k, v in item.items()} if isinstance(item, Mapping) else item


def _sha256(record: list[Any]) -> str:
    record = _plain(record)
    return sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
