"""L1 over the schedule: what every step adds up to, and from when to when each value is there."""

from __future__ import annotations

from typing import Any

from optimizer.export.report.entries import Entries
from optimizer.result import OptimizedGraph
from optimizer.result.l1_contents import Contents, Taken, contents

PARTS = ("weight", "tensor", "result", "circular_buffers", "temporaries")
"""Kinds of items that make up the bands of the chart, from below."""
OP_ITSELF = ("circular_buffers", "temporaries")
"""Kinds of items that are no values."""


def memory_record(result: OptimizedGraph, entries: Entries) -> dict[str, Any]:
    """`{limit_bytes, bank_bytes, steps: [[position, bytes of every part...]], held: [[value, first, last, bytes]]}`.

    The figures are those that the result states; an op that states none is no step. `first` and `last` are steps; a
    value in another's buffer has that one's number behind.
    """
    stated = {op: record.predicted for op, record in result.records.items() if record.predicted is not None}
    found = list(contents(result, {op: Taken(p.peak_l1_bytes, p.cb_bytes) for op, p in stated.items()}))
    options, device = result.options, result.device
    return {
        "limit_bytes": device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap),
        "bank_bytes": device.l1_bank_bytes(options.l1_small_bytes),
        "steps": [[at.position, *_parts(at)] for at in found],
        "held": _held(found, entries),
    }


def _parts(at: Contents) -> list[int]:
    return [sum(item.bytes for item in at.items if item.kind == part) for part in PARTS]


def _held(found: list[Contents], entries: Entries) -> list[list[int]]:
    """One record per value and run of steps in which it is there."""
    spans: dict[str, list[int]] = {}
    done: list[list[int]] = []
    for step, at in enumerate(found):
        for item in at.items:
            if item.kind in OP_ITSELF:
                continue
            span = spans.get(item.value)
            if span is None or span[2] < step - 1:
                alias = [entries.number(item.alias_of)] if item.alias_of else []
                spans[item.value] = [entries.number(item.value), step, step, item.size_bytes, *alias]
                done.append(spans[item.value])
            else:
                span[2] = step
    return done
