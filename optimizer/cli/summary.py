"""The summary of a result for a person: before -> after, what failed, what is unsupported."""

from __future__ import annotations

from collections import Counter
from typing import Any

from optimizer.cli.tables import bytes_text, pairs, percent_text, table, time_text

SHOWN_CHAINS = 5
"""Failed chains that the summary lists one by one."""

SHOWN_RISKS = 5
"""Places of numeric risk that the summary names."""
SHOWN_PARTS = 3
"""Parts of a fused kernel, likewise."""

Document = dict[str, Any]
"""A decoded `graph.json`."""


def summary_text(document: Document, name: str) -> str:
    """Several lines under the name a person knows the model by; every figure is the document's own."""
    summary = document["summary"]
    title = f"{name} on {document['device']['name']}: {plan_text(summary)}"
    return "\n\n".join([title, _before_after(summary), pairs(_facts(document))])


def plan_text(summary: Document) -> str:
    """`verified plan of policy dfsharding, status feasible`."""
    text = f"verified plan of policy {summary['policy']}, status {summary['status']}"
    gap = summary.get("gap")
    return text if gap is None else f"{text}, gap {percent_text(gap)}"


def _before_after(summary: Document) -> str:
    base = summary["baselines"]
    rows = [
        ("predicted time", base.get("dram_ns"), summary["predicted_time_ns"], time_text),
        ("DRAM read", base.get("dram_read_bytes_total"), summary["dram_read_bytes_total"], bytes_text),
        ("DRAM written", base.get("dram_write_bytes_total"), summary["dram_write_bytes_total"], bytes_text),
    ]
    return table(
        ("", "all in DRAM", "this plan", "change"),
        [(name, show(before), show(after), change_text(before, after)) for name, before, after, show in rows],
    )


def change_text(before: float | None, after: float | None) -> str:
    """`-12.3 %`; `-` where there is nothing to compare with."""
    if not before or after is None:
        return "-"
    return f"{100 * (after - before) / before:+.1f} %"


def _dram_facts(summary: Document) -> list[tuple[str, object]]:
    """The fullest DRAM bank; documents of older versions do not state it."""
    peak, limit = summary.get("dram_peak_bank_bytes"), summary.get("dram_bank_bytes")
    if peak is None or limit is None:
        return []
    return [("DRAM peak per bank", f"{bytes_text(peak)} of {bytes_text(limit)} ({percent_text(peak / limit)})")]


def _facts(document: Document) -> list[tuple[str, object]]:
    summary = document["summary"]
    peak, limit = summary["l1_peak_bytes"], summary["l1_limit_bytes"]
    facts: list[tuple[str, object]] = [
        ("L1 peak per core", f"{bytes_text(peak)} of {bytes_text(limit)} ({percent_text(peak / limit)})"),
        *_dram_facts(summary),
        ("weights in L1 per core", bytes_text(summary.get("l1_weights_bytes", 0))),
        ("L1-resident share", percent_text(summary["l1_resident_fraction"])),
        *_time_facts(summary),
        ("ops", _ops(document)),
        ("reshards", summary["reshards"]),
        ("loads", summary["loads"]),
        ("spills", summary["spills"]),
        ("chains", _chains(document)),
    ]
    failed = failed_chains(document)
    facts += [(f"  failed {c['id']}", c["reason"] or "no reason given") for c in failed[:SHOWN_CHAINS]]
    if len(failed) > SHOWN_CHAINS:
        facts.append(("  ...", f"{len(failed) - SHOWN_CHAINS} more failed; `chains` of graph.json has every reason"))
    facts += [("fell back", text) for text in fallback_texts(document)]
    facts += _fused_facts(document)
    facts.append(("unsupported ops", unsupported_ops(summary) or "none"))
    if summary.get("check") is not None:
        facts += check_facts(summary["check"])
    facts += [("warning", warning) for warning in summary["warnings"]]
    risks = summary.get("numeric_risks", [])
    facts += [("numeric risk", risk["because"]) for risk in risks[:SHOWN_RISKS]]
    if len(risks) > SHOWN_RISKS:
        facts.append(("numeric risk", f"and {len(risks) - SHOWN_RISKS} more: `numeric_risks` in graph.json"))
    facts.append(("seconds", f"{sum(document['timings']['stages_s'].values()):.1f}"))
    return facts


def _fused_facts(document: Document) -> list[tuple[str, object]]:
    """Regions that run as kernels of ours, and what that saves; nothing where they were not asked for."""
    regions = document["fused_kernels"]
    if not document["options"]["fuse_kernels"]:
        return []
    kernels = len({r["kernel"] for r in regions})
    saved = {key: sum(r[key] for r in regions) for key in ("round_trips_saved", "dram_bytes_saved_total")}
    trips, dram = saved["round_trips_saved"], bytes_text(saved["dram_bytes_saved_total"])
    facts: list[tuple[str, object]] = [
        ("fused kernels", f"{len(regions)} regions, {kernels} kernels: {trips} round trips and {dram} of DRAM saved")
    ]
    return facts + [("  values", text) for text in _judged_texts(regions)]


def _judged_texts(regions: list[Document]) -> list[str]:
    """Whose values have been seen to be right, by kernel; documents of older versions do not tell."""
    missing = {r["kernel"]: r["unjudged"] for r in regions if r.get("unjudged")}
    by = next((r["judged_by"] for r in regions if r.get("judged_by")), None)
    texts = [f"all that the kernels are made of was right by {by}"] if regions and by and not missing else []
    for kernel, parts in sorted(missing.items()):
        shown = ", ".join(parts[:SHOWN_PARTS]) + (", ..." if len(parts) > SHOWN_PARTS else "")
        texts.append(f"NOT JUDGED: {kernel} has {len(parts)} part(s) nobody has seen give right values: {shown}")
    return texts


def _time_facts(summary: Document) -> list[tuple[str, object]]:
    """Where the predicted time goes, and what a whole run takes with the gaps between programs."""
    facts: list[tuple[str, object]] = []
    for title, key in (("time by class", "time_by_class_ns"), ("time bound by", "time_by_bound_ns")):
        shares = sorted((summary.get(key) or {}).items(), key=lambda item: (-item[1], item[0]))
        total = sum(ns for _, ns in shares)
        if total:
            facts.append((title, ", ".join(f"{name} {percent_text(ns / total)}" for name, ns in shares)))
    if summary.get("traced_ns") is not None:
        wall = f"{time_text(summary['traced_ns'])} from a trace, {time_text(summary['untraced_ns'])} without"
        facts.append(("with launches", f"{wall} ({summary['programs']} programs)"))
    return facts


def check_facts(check: Document) -> list[tuple[str, object]]:
    """What the replay found: the verdict, then every op that is still refused and why the search ended."""
    l1 = check["l1"]
    verdict = "runs from end to end" if check["ok"] else f"{len(check['refused'])} op(s) refused"
    rounds = f"{check['rounds']} replay(s), {len(check['repaired'])} op(s) repaired"
    facts: list[tuple[str, object]] = [
        (f"check on {check['opmodel']}", f"{verdict}; {rounds}; L1 exact in {l1['exact']} of {l1['steps']} steps")
    ]
    facts += [(f"  refused {r['op']}", r["message"]) for r in check["refused"]]
    if check["given_up"]:
        facts.append(("  given up", check["given_up"]))
    return facts


def failed_chains(document: Document) -> list[Document]:
    """Chains that fell back to DRAM."""
    return [c for c in document["chains"] if c["state"] == "failed"]


def fallback_texts(document: Document) -> list[str]:
    """One line per cause for ops that are in DRAM for want of a sharded config; failed chains have their own lines."""
    chained = {op for chain in failed_chains(document) for op in chain["ops"]}
    lines = []
    for fallback in document["summary"].get("fallbacks", ()):
        ops = fallback["ops"]
        if not chained.issuperset(ops):
            lines.append(f"{len(ops)} op(s), {ops[0]}{', ...' if len(ops) > 1 else ''}: {fallback['cause']}")
    return lines


def unsupported_ops(summary: Document) -> str:
    """Unsupported ops in one line, `foreign.Foo x2 (first: foo_1)`; empty if there are none."""
    nodes: dict[str, list[str]] = {}
    for op, op_id in summary["unsupported"]:
        nodes.setdefault(op, []).append(op_id)
    return ", ".join(f"{op} x{len(ids)} (first: {ids[0]})" for op, ids in sorted(nodes.items()))


def _ops(document: Document) -> str:
    counts = Counter(op["role"] for op in document["ops"])
    on_host = counts.pop("host", 0)
    lacking = len(document["summary"]["unsupported"])
    text = f"{sum(counts.values())} ({', '.join(f'{role} {n}' for role, n in sorted(counts.items()))})"
    text += f", {lacking} on the host" if lacking else ""
    return f"{text}, and {on_host - lacking} on weights only" if on_host > lacking else text


def _chains(document: Document) -> str:
    counts = Counter(c["state"] for c in document["chains"])
    detail = ", ".join(f"{state} {n}" for state, n in sorted(counts.items()))
    return f"{len(document['chains'])} ({detail})" if detail else "0"
