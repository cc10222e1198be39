"""The figures of a result for a person: before -> after, what failed, what is unsupported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from optimizer.wording.limits import limit_facts
from optimizer.wording.units import bytes_text, change_text, counted, percent_text, time_text

SHOWN_CHAINS = 5
"""Failed chains that the summary lists one by one."""

SHOWN_RISKS = 5
"""Places of numeric risk that the summary names."""
SHOWN_OUTPUTS = 3
"""Parts of outputs whose correlations it names."""
SHOWN_PARTS = 3
"""Parts of a fused kernel, likewise."""

NOT_JUDGED = "NOT JUDGED"
"""How the text begins of a kernel whose values nobody has seen to be right."""

Document = dict[str, Any]
"""A decoded `graph.json`."""
Fact = tuple[str, object]
"""What a figure or notice is called, and what it says."""


def plan_text(summary: Document) -> str:
    """`verified plan of policy global, status optimal, gap 0.0 %, at 17.6 % of the board's limit`."""
    text = f"verified plan of policy {summary['policy']}, status {summary['status']}"
    gap, limit = summary.get("gap"), summary.get("limit")
    text += "" if gap is None else f", gap {percent_text(gap)}"
    return text if limit is None else f"{text}, at {percent_text(limit['of_limit'])} of the board's limit"


_COMPARED = (
    ("predicted time", "dram_ns", "predicted_time_ns", time_text),
    ("DRAM read", "dram_read_bytes_total", "dram_read_bytes_total", bytes_text),
    ("DRAM written", "dram_write_bytes_total", "dram_write_bytes_total", bytes_text),
)
"""Figures that the plan in DRAM has too, by their names among the baselines and in the summary."""


def compared_numbers(summary: Document) -> list[tuple[float | None, float]]:
    """Those figures of both plans."""
    return [(summary["baselines"].get(before), summary[after]) for _, before, after, _ in _COMPARED]


def before_after(summary: Document) -> list[tuple[str, str, str, str]]:
    """(figure, all in DRAM, this plan, change) of those figures."""
    numbers = zip(_COMPARED, compared_numbers(summary), strict=True)
    return [(name, show(a), show(b), change_text(a, b)) for (name, _, _, show), (a, b) in numbers]


def _dram_facts(summary: Document) -> list[Fact]:
    """The fullest DRAM bank; documents of older versions do not state it."""
    peak, limit = summary.get("dram_peak_bank_bytes"), summary.get("dram_bank_bytes")
    if peak is None or limit is None:
        return []
    return [("DRAM peak per bank", f"{bytes_text(peak)} of {bytes_text(limit)} ({percent_text(peak / limit)})")]


def _rewritten_facts(summary: Document) -> list[Fact]:
    """In what other ways parts are computed since that is faster, and what each saves by itself."""
    saved: dict[str, list[int]] = {}
    for note in summary.get("rewritten", ()):
        if note.get("saved_ns") is not None:
            saved.setdefault(note["pass"], []).append(note["saved_ns"])
    return [
        ("computed otherwise", f"{counted(len(times), 'part')} by {name}: {time_text(sum(times))} less")
        for name, times in saved.items()
    ]


def figures(document: Document) -> list[Fact]:
    """What the table of `before_after` leaves, line by line."""
    summary = document["summary"]
    peak, limit = summary["l1_peak_bytes"], summary["l1_limit_bytes"]
    return [
        *limit_facts(summary),
        *_precision_facts(summary),
        ("L1 peak per core", f"{bytes_text(peak)} of {bytes_text(limit)} ({percent_text(peak / limit)})"),
        *_dram_facts(summary),
        ("weights in L1 per core", bytes_text(summary.get("l1_weights_bytes", 0))),
        ("L1-resident share", percent_text(summary["l1_resident_fraction"])),
        *_time_facts(summary),
        *_rewritten_facts(summary),
        ("ops", _ops(document)),
        ("reshards", summary["reshards"]),
        ("loads", summary.get("loads", 0)),
        ("spills", summary["spills"]),
        ("chains", _chains(document)),
    ]


def _precision_facts(summary: Document) -> list[Fact]:
    """What a plan within an error budget does to the outputs, and what that buys; nothing without one."""
    found = summary.get("precision")
    if not found:
        return []
    faster = found["exact_ns"] / summary["predicted_time_ns"]
    several = f", worst of {n} samples" if (n := found.get("samples", 1)) > 1 else ""
    return [
        (
            "PCC of outputs",
            f"{found['measured_pcc']:.5f} measured by emulation, at least {found['least_pcc']} asked "
            f"({found['weights']} weights, {found['inputs']} inputs{several})",
        ),
        *[
            (f"  {row['name']}", f"{row['pcc']:.5f}" + (f" of {row['part']}" if row.get("part") else ""))
            for row in _worst_parts(found["outputs"])
        ],
        ("without a budget", f"{time_text(found['exact_ns'])}: {_gain(found, faster)}"),
        *[("PCC for time", f"{p['measured_pcc']:.5f} in {time_text(p['time_ns'])}") for p in found.get("front", ())],
    ]


def _worst_parts(outputs: Sequence[Document]) -> list[Document]:
    """The parts of the outputs that are least like the model's, where there are several."""
    return sorted(outputs, key=lambda row: float(row["pcc"]))[:SHOWN_OUTPUTS] if len(outputs) > 1 else []


def _gain(found: Document, faster: float) -> str:
    """What the budget bought, or what it cost."""
    if raised := found.get("raised"):
        slower = f"{1 / faster:.2f} times as slow"
        return f"that misses the budget; this has the results of {counted(len(raised), 'op')} in f32, {slower}"
    if not found.get("kept", True):
        return "no plan keeps the budget, and this one comes nearest"
    return "nothing faster keeps the budget" if found["given_up"] else f"this is {faster:.2f} times as fast"


def notices(document: Document) -> list[Fact]:
    """What a person has to know besides: what failed and fell back, what is unsupported, checked, warned of."""
    summary, failed = document["summary"], failed_chains(document)
    found: list[Fact] = [(f"  failed {c['id']}", c["reason"] or "no reason given") for c in failed[:SHOWN_CHAINS]]
    if len(failed) > SHOWN_CHAINS:
        found.append(("  ...", f"{len(failed) - SHOWN_CHAINS} more failed; `chains` of graph.json has every reason"))
    found += [("fell back", text) for text in fallback_texts(document)]
    found += fused_facts(document)
    found.append(("unsupported ops", unsupported_ops(summary) or "none"))
    if summary.get("check") is not None:
        found += check_facts(summary["check"])
    found += [("warning", warning) for warning in summary["warnings"]]
    risks = summary.get("numeric_risks", [])
    found += [("numeric risk", risk["because"]) for risk in risks[:SHOWN_RISKS]]
    if len(risks) > SHOWN_RISKS:
        found.append(("numeric risk", f"and {len(risks) - SHOWN_RISKS} more: `numeric_risks` in graph.json"))
    return found


def fused_facts(document: Document) -> list[Fact]:
    """Regions that run as our kernels, and what that saves; nothing where they were not asked for."""
    regions = document["fused_kernels"]
    if not document["options"]["fuse_kernels"]:
        return []
    kernels = len({r["kernel"] for r in regions})
    keys = ("saved_ns", "round_trips_saved", "dram_bytes_saved_total")
    saved = {key: sum(r.get(key) or 0 for r in regions) for key in keys}
    trips, dram = saved["round_trips_saved"], bytes_text(saved["dram_bytes_saved_total"])
    time = f"{time_text(saved['saved_ns'])}, " if any("saved_ns" in r for r in regions) else ""
    facts: list[Fact] = [
        (
            "fused kernels",
            f"{len(regions)} regions, {kernels} kernels: {time}{trips} round trips and {dram} of DRAM saved",
        )
    ]
    facts += [("  refused", text) for text in refused_texts(document.get("refused_kernels", []))]
    return facts + [("  values", text) for text in judged_texts(regions)]


def refused_texts(refused: list[Document]) -> list[str]:
    """How many groups of ops stay ops of TTNN, by why."""
    count = Counter(group["because"] for group in refused)
    slower = [g["predicted_ns"] - g["ops_ns"] for g in refused if g.get("predicted_ns") is not None]
    least = f" (by {time_text(min(slower))} or more)" if slower and min(slower) > 0 else ""
    words = {"slower": f"slower as kernels{least}"}
    return [f"{n} more groups of ops: {words.get(because, because)}" for because, n in sorted(count.items())]


def fused_fact(document: Document, op_id: str) -> str | None:
    """What became of an op as part of a kernel, in a sentence; None where it is part of no group."""
    for region in document.get("fused_kernels", ()):
        if op_id in region["ops"]:
            text = f"runs in kernel {region['kernel']} with {len(region['ops']) - 1} other op(s)"
            return text if region.get("predicted_ns") is None else f"{text}: {_instead(region)}"
    for group in document.get("refused_kernels", ()):
        if op_id in group["ops"]:
            text = f"no kernel with {len(group['ops']) - 1} other op(s)"
            known = group.get("predicted_ns") is not None
            return f"{text}: it would take {_instead(group)}" if known else f"{text}: {group['because']}"
    return None


def _instead(group: Document) -> str:
    return f"{time_text(group['predicted_ns'])} instead of {time_text(group['ops_ns'])}"


def judged_texts(regions: list[Document]) -> list[str]:
    """Whose values have been seen to be right, by kernel; documents of older versions do not tell."""
    missing = {r["kernel"]: r["unjudged"] for r in regions if r.get("unjudged")}
    by = next((r["judged_by"] for r in regions if r.get("judged_by")), None)
    texts = [f"all that the kernels are made of was right by {by}"] if regions and by and not missing else []
    for kernel, parts in sorted(missing.items()):
        shown = ", ".join(parts[:SHOWN_PARTS]) + (", ..." if len(parts) > SHOWN_PARTS else "")
        texts.append(f"{NOT_JUDGED}: {kernel} has {len(parts)} part(s) nobody has seen give right values: {shown}")
    return texts


def _interval_facts(summary: Document) -> list[Fact]:
    """How sure the predicted time is; documents of older versions and some backends do not tell."""
    low, high = summary.get("predicted_low_ns"), summary.get("predicted_high_ns")
    if low is None or high is None:
        return []
    return [("80 % interval", f"{time_text(low)} to {time_text(high)}, of the predicted time")]


def _time_facts(summary: Document) -> list[Fact]:
    """Where the predicted time goes, and what a whole run takes with the gaps between programs."""
    facts = _interval_facts(summary)
    for title, key in (("time by class", "time_by_class_ns"), ("time bound by", "time_by_bound_ns")):
        shares = sorted((summary.get(key) or {}).items(), key=lambda item: (-item[1], item[0]))
        total = sum(ns for _, ns in shares)
        if total:
            facts.append((title, ", ".join(f"{name} {percent_text(ns / total)}" for name, ns in shares)))
    if summary.get("traced_ns") is not None:
        wall = f"{time_text(summary['traced_ns'])} from a trace, {time_text(summary['untraced_ns'])} without"
        facts.append(("with launches", f"{wall} ({summary['programs']} programs)"))
    return facts


def check_facts(check: Document) -> list[Fact]:
    """What the replay found: the verdict, then every op that is still refused and why the search ended."""
    l1 = check["l1"]
    verdict = "runs from end to end" if check["ok"] else f"{len(check['refused'])} op(s) refused"
    rounds = f"{check['rounds']} replay(s), {len(check['repaired'])} op(s) repaired"
    facts: list[Fact] = [
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
