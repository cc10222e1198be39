"""What a plan says of each foreign node: the ops that compute it, and what they take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimizer.export.facts import MOVES, as_text, attributes_of
from optimizer.ir.graph import Op
from optimizer.result import OptimizedGraph, Role

MOST_ALTERNATIVES = 3
"""Of a reason, which may list more."""


@dataclass
class NodeFacts:
    """The ops of one foreign node, in schedule order."""

    compute: list[Op] = field(default_factory=list)
    """Those that compute it, views included."""
    copies: list[Op] = field(default_factory=list)
    """Those that bring its operands or results to another place or into other pages."""
    once: list[Op] = field(default_factory=list)
    """Those on weights only, which run before the first run."""
    shared_with: dict[str, None] = field(default_factory=dict)
    """Other foreign nodes that the same ops compute."""


def facts_by_node(result: OptimizedGraph, known: Collection[str]) -> Mapping[str, NodeFacts]:
    """Name of a foreign node -> what the plan makes of it; `known` are the names of the nodes in the file."""
    found: dict[str, NodeFacts] = defaultdict(NodeFacts)
    for op in result.graph.ops():
        role = result.records[op.id].role
        names = _foreign_names(op, role, known)
        for name in names:
            facts = found[name]
            if result.graph.is_const_eval(op):
                facts.once.append(op)
                continue
            (facts.copies if role in MOVES else facts.compute).append(op)
            if role not in MOVES:
                facts.shared_with |= dict.fromkeys(other for other in names if other != name)
    return found


def _foreign_names(op: Op, role: Role, known: Collection[str]) -> tuple[str, ...]:
    """The foreign nodes of an op: those that it says it computes, and the one that it is called after."""
    own = (op.name,) if role not in MOVES and op.name in known else ()
    return tuple(dict.fromkeys((*op.origin, *own)))


def joined(parts: Sequence[NodeFacts]) -> NodeFacts:
    """The facts of nodes that are one in the file: those of a local function."""
    if len(parts) == 1:
        return parts[0]
    whole = NodeFacts()
    for name in ("compute", "copies", "once"):
        ops = {op.id: op for part in parts for op in getattr(part, name)}
        setattr(whole, name, list(ops.values()))
    return whole


def record(result: OptimizedGraph, facts: NodeFacts) -> dict[str, Any]:
    """The facts of one node as JSON; what a node has none of is left out."""
    found: dict[str, Any] = {}
    if facts.compute:
        last = facts.compute[-1]
        found["op"] = ", ".join(dict.fromkeys(op.op for op in facts.compute))
        found["ids"] = [op.id for op in facts.compute]
        found["layout"] = result.layouts[last.outputs[0]].describe() if last.outputs else None
        found |= _decision(result, facts.compute)
    ops = (*facts.compute, *facts.copies)
    predicted = [p for op in ops if (p := result.records[op.id].predicted) is not None]
    if predicted:
        found["predicted_ns"] = sum(p.time_ns for p in predicted)
        found["peak_l1_bytes"] = max(p.peak_l1_bytes for p in predicted)
    if facts.copies:
        found["copies"] = [_copy(result, op) for op in facts.copies]
    if facts.once:
        found["once"] = list(dict.fromkeys(op.op for op in facts.once))
    if facts.shared_with:
        found["shared_with"] = list(facts.shared_with)
    return found


def _decision(result: OptimizedGraph, ops: list[Op]) -> dict[str, Any]:
    """Chain, config, bound and reason of the ops, those of the slowest one where only one can be told."""
    found: dict[str, Any] = {}
    configs = {op.id: result.records[op.id].config for op in ops}
    stated = [config.to_json() for config in configs.values() if config is not None]
    if stated:
        found["config"] = stated[0] if len(stated) == 1 else stated
    slowest = max(ops, key=lambda op: p.time_ns if (p := result.records[op.id].predicted) is not None else -1)
    record = result.records[slowest.id]
    if record.chain is not None:
        found["chain"] = record.chain
    if record.predicted is not None:
        found |= {"bound": record.predicted.bound, "cores": record.predicted.cores}
    if record.reason:
        found["reason"] = dict(record.reason)
    attrs = attributes_of(slowest)
    return {**found, "attrs": attrs} if attrs else found


def _copy(result: OptimizedGraph, op: Op) -> dict[str, Any]:
    predicted = result.records[op.id].predicted
    return {
        "role": result.records[op.id].role.value,
        "id": op.id,
        "from": result.layouts[op.inputs[0]].describe(),
        "to": result.layouts[op.outputs[0]].describe(),
        "predicted_ns": None if predicted is None else predicted.time_ns,
    }


def as_properties(found: Mapping[str, Any]) -> dict[str, str]:
    """The record as `metadata_props` for people: text under `ttopt.` keys, of a reason what was chosen and what else.

    What is neither text nor a number is JSON.
    """
    properties: dict[str, str] = {}
    for key, value in found.items():
        if key == "reason":
            properties |= _reason(value)
        elif key == "copies":
            properties["copies"] = "; ".join(f"{c['role']}: {c['from']} -> {c['to']}" for c in value)
        else:
            properties[key] = as_text(value)
    return {f"ttopt.{key}": value for key, value in properties.items()}


def _reason(reason: Mapping[str, Any]) -> dict[str, str]:
    found = {"reason": "; ".join(as_text(reason[key]) for key in ("chosen", "because", "override") if key in reason)}
    listed = reason.get("alternatives")
    if isinstance(listed, list | tuple) and listed:
        shown = [a for a in listed[:MOST_ALTERNATIVES] if isinstance(a, Mapping)]
        found["alternatives"] = "; ".join(f"{a.get('layout')}: {a.get('time_ns')} ns" for a in shown)
    return {key: value for key, value in found.items() if value}
