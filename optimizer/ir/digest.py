"""SHA-256 over what a graph computes: its interface, values and ops, without where anything lies or runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from optimizer.ir.graph import Graph


def graph_sha256(graph: Graph) -> str:
    """The digest that a `graph.json` states as `model.graph_sha256`.

    It has no key: it finds what got lost or mixed up on the way, not what somebody changed who computes it anew.
    """
    values = {v.id: [v.shape, v.dtype.value, v.kind.value, v.data] for v in graph.values.values()}
    ops = [[op.id, op.op, op.inputs, op.outputs, dict(op.attrs)] for op in graph.ops()]
    return _sha256([graph.inputs, graph.outputs, values, ops])


def digest_of(document: Mapping[str, Any]) -> str:
    """The same of a decoded `graph.json`."""
    model, stated = document["model"], document["values"]
    values = {v: [x["shape"], x["dtype"], x["kind"], x.get("data")] for v, x in stated.items()}
    ops = [[op["id"], op["op"], op["inputs"], op["outputs"], op["attrs"]] for op in document["ops"]]
    return _sha256([model["inputs"], model["outputs"], values, ops])


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
