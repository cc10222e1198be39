"""How far a plan is from the physical limit, and what the rest of its time is lost by, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.errors import shortened
from optimizer.wording.units import bytes_text, percent_text, time_text

Document = Mapping[str, Any]
SHOWN_LOSSES = 3
"""Reasons that the summary names; `graph.json` and the report have all of them."""
WORDS = {
    "below_peak": "products below the engine's peak",
    "conversions": "tiles to rows and back",
    "copies": "reshards, spills and loads",
    "dram_rate": "operands of products below the best DRAM bandwidth",
    "dram_traffic": "DRAM traffic beyond the compulsory",
    "elementwise": "element-wise ops",
    "feeding": "operands of products between cores",
    "idle_cores": "products on part of the cores",
    "kernels": "kernels of ours",
    "movement": "ops that move elements",
    "norms": "norms, softmax and reductions",
    "padding": "products of padding",
    "pools": "pools and sampling",
    "serial": "DRAM and arithmetic one after the other",
    "starts": "fixed start of {programs} programs",
    "transfers": "transfers to and from the host",
    "windows": "edges and windows of convolutions",
}
"""Kind of loss (`optimizer.result.summary.LossKind`) -> what a person is told."""


def limit_facts(summary: Document) -> list[tuple[str, object]]:
    """`of limit` and the largest losses; documents of older versions state neither."""
    limit = summary.get("limit")
    if limit is None:
        return []
    needs = f"{bytes_text(limit['compulsory_dram_bytes'])} of DRAM {time_text(limit['dram_ns'])}"
    needs += f", {operations_text(limit['flops'])} {time_text(limit['compute_ns'])}"
    facts: list[tuple[str, object]] = [
        ("of limit", f"{percent_text(limit['of_limit'])} (limit {time_text(limit['limit_ns'])}: {needs})")
    ]
    time_ns = summary["predicted_time_ns"] or 1
    shown = [f"{loss_text(x['kind'], summary)} {percent_text(x['ns'] / time_ns)}" for x in limit["losses"]]
    return [*facts, ("lost by", ", ".join(shown[:SHOWN_LOSSES]))] if shown else facts


def loss_text(kind: str, summary: Document) -> str:
    """What a loss is called; of a kind that only another version knows, its name there."""
    words = WORDS.get(kind)
    return shortened(kind) if words is None else words.format(programs=summary.get("programs", 0))


def op_limit_text(predicted: Document) -> str | None:
    """How far one op is from its limit; None where the document does not say (older versions)."""
    limit_ns = predicted.get("limit_ns")
    if limit_ns is None:
        return None
    if not limit_ns:
        return "its results need neither products nor compulsory DRAM traffic"
    needs = f"{bytes_text(predicted['compulsory_dram_bytes'])} of DRAM, {operations_text(predicted['flops'])}"
    return f"{percent_text(limit_ns / (predicted['time_ns'] or 1))} (limit {time_text(limit_ns)}: {needs})"


def operations_text(flops: int) -> str:
    """`8.2 GFLOP`."""
    for unit, scale in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if flops >= scale:
            return f"{flops / scale:.1f} {unit}"
    return f"{flops:,} FLOP"
