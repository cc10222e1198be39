"""The figures of a whole plan: against the plan in DRAM, by kind of op, and what to know besides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optimizer.errors import shortened
from optimizer.export.report.drawing.network import prepared
from optimizer.export.report.entries import PLACEMENTS, op_kind, placement
from optimizer.layouts.tiling import tensor_bytes
from optimizer.result import COPIES, OptimizedGraph, Role
from optimizer.wording.limits import loss_text
from optimizer.wording.plan import (
    NOT_JUDGED,
    before_after,
    check_facts,
    compared_numbers,
    figures,
    fused_facts,
    plan_text,
    unsupported_ops,
)
from optimizer.wording.units import change_text

SAID_OF_ALL = ("", "graph", "main", "main_graph", "model", "torch_jit", "torch-jit-export", "tf2onnx")
"""Names that exporters give whatever they export."""
Record = dict[str, Any]


def header(result: OptimizedGraph) -> Record:
    """What the plan is of, and its figures beside those of the plan in DRAM; None where it states no figures."""
    summary = dict(result.summary_json())
    return {
        "title": shortened(title(result)),
        "board": shortened(result.device.name),
        "grid_yx": list(result.device.grid_yx),
        "plan": plan_text(summary) if summary else None,
        "model": _model(result),
        "compared": _compared(summary) if summary else [],
        "plans": _plans(summary) if summary else [],
        "l1_peak_bytes": summary.get("l1_peak_bytes"),
        "l1_limit_bytes": summary.get("l1_limit_bytes"),
        "figures": [[name, str(text)] for name, text in figures(_document(result))] if summary else [],
    }


def title(result: OptimizedGraph) -> str:
    """The name of the model; where its exporter left one that all its models have, that of its file."""
    name = str(result.model.get("name", "graph"))
    return result.source.stem if name in SAID_OF_ALL and result.source is not None else name


def _document(result: OptimizedGraph) -> Record:
    """As much of the document as the wording of figures looks at."""
    return {
        "summary": dict(result.summary_json()),
        "ops": [{"role": result.records[op.id].role.value} for op in result.graph.ops()],
        "chains": [chain.to_json() for chain in result.chains],
        "fused_kernels": [dict(region) for region in result.fused_kernels],
        "refused_kernels": [dict(group) for group in result.refused_kernels],
        "options": {"fuse_kernels": result.options.fuse_kernels},
    }


def _model(result: OptimizedGraph) -> list[list[str]]:
    graph, options = result.graph, result.options
    found = [["graph", shortened(str(result.model.get("name", "graph")))]]
    if result.model.get("sha256"):
        found.append(["SHA-256", shortened(str(result.model["sha256"]))])
    for what, ids in (("input", graph.inputs), ("output", graph.outputs)):
        found += [[what, f"{shortened(v)}: {graph.value(v).dtype.value} {list(graph.value(v).shape)}"] for v in ids]
    rows, columns = result.device.grid_yx
    found.append(["board", f"{shortened(result.device.name)}, {rows}x{columns} cores, {result.device.clock_mhz} MHz"])
    given = ", ".join(f"{k}={v}" for k, v in options.to_json().items() if v not in (None, "", [], {}, False))
    return [*found, ["options", shortened(given, 4000)]]


def _compared(summary: Record) -> list[Record]:
    return [
        {"name": name, "before": before, "after": after, "change": change, "numbers": list(numbers)}
        for (name, before, after, change), numbers in zip(before_after(summary), compared_numbers(summary), strict=True)
    ]


def _plans(summary: Record) -> list[list[Any]]:
    """[name, predicted time, change against DRAM] of every plan whose time is known, slowest first, this one last."""
    base = summary["baselines"]
    others = [(_plan_name(key), ns) for key, ns in base.items() if key.endswith("_ns") and ns is not None]
    ours = summary["predicted_time_ns"]
    listed = sorted(others, key=lambda plan: (-plan[1], plan[0]))
    return [[name, ns, change_text(base.get("dram_ns"), ns)] for name, ns in [*listed, ("this plan", ours)]]


def _plan_name(key: str) -> str:
    return "all in DRAM" if key == "dram_ns" else key.removesuffix("_ns")


def times(result: OptimizedGraph) -> Record:
    """Predicted time by kind of op (with how many there are), by class, by what bounds it, and beyond the limit."""
    summary, kinds = result.summary_json(), dict[str, list[int]]()
    for op in result.graph.ops():
        record = result.records[op.id]
        if record.predicted is not None:
            entry = kinds.setdefault(op_kind(op, record.role), [0, 0])
            entry[0] += record.predicted.time_ns
            entry[1] += 1
    return {
        "kind": [[name, ns, count] for name, (ns, count) in _longest_first(kinds, lambda entry: entry[0])],
        "class": [[name, ns] for name, ns in _longest_first(summary.get("time_by_class_ns", {}), int)],
        "bound": [[name, ns] for name, ns in _longest_first(summary.get("time_by_bound_ns", {}), int)],
        "limit": _beyond_limit(summary),
    }


def _beyond_limit(summary: Mapping[str, Any]) -> list[list[Any]]:
    """The physical limit, then what the rest of the time is lost by; nothing in documents of older versions."""
    limit = summary.get("limit")
    if limit is None:
        return []
    losses = [[loss_text(loss["kind"], summary), loss["ns"]] for loss in limit["losses"]]
    return [["the limit", limit["limit_ns"]], *losses]


def _longest_first(spent: Mapping[str, Any], key: Any) -> list[tuple[str, Any]]:
    return sorted(spent.items(), key=lambda item: (-key(item[1]), item[0]))


def moved(result: OptimizedGraph) -> Record:
    """Where results lie (all of them in DRAM without a plan), the copies that takes, and the weights kept in L1."""
    graph, where = result.graph, {p: [0, 0] for p in PLACEMENTS}
    copies: dict[Role, list[int]] = {role: [0, 0] for role in COPIES}
    for op in graph.ops():
        record = result.records[op.id]
        if record.role in copies:
            copies[record.role][0] += 1
            copies[record.role][1] += 0 if record.predicted is None else record.predicted.time_ns
        elif record.role is not Role.HOST:
            for v in op.outputs:
                value, layout = graph.value(v), result.layouts[v]
                entry = where[placement(layout)]
                entry[0] += 1
                entry[1] += tensor_bytes(value.shape, value.dtype, layout.page_layout)
    return {
        "placements": [[p, *entry] for p, entry in where.items() if entry[0]],
        "copies": [[role.value, *entry] for role, entry in copies.items()],
        "weights_in_l1": len(result.program.weights),
        "prepared": len(prepared(result)),
    }


def notices(result: OptimizedGraph) -> list[Record]:
    """Everything that a person has to know, none left out: `{kind, text, ops}`, ops by their positions."""
    summary = result.summary_json()
    at = {op.id: n for n, op in enumerate(result.graph.ops())}

    def notice(kind: str, text: object, ops: Iterable[str] = ()) -> Record:
        return {"kind": kind, "text": shortened(str(text), 4000), "ops": [at[op] for op in ops if op in at]}

    found = []
    if unsupported := unsupported_ops(dict(summary)) if summary else "":
        found.append(notice("unsupported ops", unsupported, [str(op) for _, op in summary["unsupported"]]))
    found += [notice("warning", text) for text in summary.get("warnings", ())]
    found += [notice("numeric risk", r["because"], [r["op"]]) for r in summary.get("numeric_risks", ())]
    found += [notice("fell back", f["cause"], f["ops"]) for f in summary.get("fallbacks", ())]
    for chain in result.chains:
        if chain.state == "failed":
            found.append(notice("failed chain", f"{chain.id}: {chain.reason or 'no reason given'}", chain.ops))
    fused = [op for region in result.fused_kernels for op in region["ops"]]
    for name, text in fused_facts(_document(result)) if summary else ():
        kind = "not judged" if str(text).startswith(NOT_JUDGED) else "fused kernels"
        found.append(notice(kind, text, fused if name == kind else ()))
    if summary.get("check") is not None:
        found += [notice("check", f"{name.strip()}: {text}") for name, text in check_facts(summary["check"])]
    return found
