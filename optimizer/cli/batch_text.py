"""What `ttopt batch` prints: the results, times side by side, the Pareto front, failures."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.batch.comparison import Pivot, Record, Sweep, failures, pareto, pivot
from optimizer.batch.tables import GEOMETRIC_MEAN
from optimizer.cli.tables import bytes_text, counted, percent_text, table, time_text
from optimizer.errors import shortened
from optimizer.options import value_text
from optimizer.wording.units import change_text

MOST_ROWS = 200
"""Of a table; the files hold the others."""


def results_text(records: Sequence[Record], sweep: Sweep) -> str:
    """All of it. Models that fail come once, last."""
    good = [record for record in records if record["ok"]]
    blocks = [_results(good, tuple(sweep))] if good else []
    if sweep and good:
        blocks += [_pivot(pivot(records, sweep)), _front(pareto(records), tuple(sweep))]
    bad = len(records) - len(good)
    failed = [_failure(model, messages, bool(sweep)) for model, messages in failures(records)]
    blocks.append("\n".join([f"{len(good)} done, {bad} failed", *failed]))
    return "\n\n".join(blocks)


def _results(records: Sequence[Record], swept: Sequence[str]) -> str:
    compared = any("earlier_ns" in record for record in records)
    header = ["model", *swept, "status", "gap", "ops", "unsupported", "reshards", "loads", "spills"]
    header += ["L1 peak", "in L1", "DRAM", "plan", "change", "of limit"]
    header += [*(["earlier", "change"] if compared else []), "s"]
    rows = [_row(record, swept, compared) for record in records[:MOST_ROWS]]
    return _cut(table(header, rows), len(records))


def _row(record: Record, swept: Sequence[str], compared: bool) -> list[object]:
    plan_ns, dram_ns, earlier_ns = record["predicted_time_ns"], record["dram_ns"], record.get("earlier_ns")
    return [
        record["model"],
        *(value_text(record[name]) for name in swept),
        record["status"] if record["stopped"] is None else f"{record['status']}, stopped",
        percent_text(record["gap"]),
        record["ops"],
        record["unsupported"],
        record["reshards"],
        record["loads"],
        record["spills"],
        bytes_text(record["l1_peak_bytes"]),
        percent_text(record["l1_resident_fraction"]),
        time_text(dram_ns),
        time_text(plan_ns),
        change_text(dram_ns, plan_ns),
        percent_text(record.get("of_limit")),
        *([time_text(earlier_ns), change_text(earlier_ns, plan_ns)] if compared else []),
        f"{record['seconds']:.1f}",
    ]


def _pivot(times: Pivot) -> str:
    rows: list[list[object]] = [[model, *(time_text(t) for t in row)] for model, row in times.rows[:MOST_ROWS]]
    ratios = ["-" if ratio is None else f"x {ratio:.3f}" for ratio in times.ratios]
    text = table(["predicted time", *times.points], [*rows, [GEOMETRIC_MEAN, *ratios]])
    return _cut(text, len(times.rows))


def _front(records: Sequence[Record], swept: Sequence[str]) -> str:
    others = [name for name in swept if name != "board"]
    header = ["fastest for its L1 peak", "board", *others, "plan", "L1 peak"]
    rows = [
        [
            r["model"],
            r["board"],
            *(value_text(r[name]) for name in others),
            time_text(r["predicted_time_ns"]),
            bytes_text(r["l1_peak_bytes"]),
        ]
        for r in records[:MOST_ROWS]
    ]
    return _cut(table(header, rows), len(records))


def _cut(text: str, rows: int) -> str:
    return text if rows <= MOST_ROWS else f"{text}\n... {counted(rows - MOST_ROWS, 'more row')} in the files"


def _failure(model: str, messages: Sequence[tuple[str, int]], swept: bool) -> str:
    """A model and what became of it, in one line if it failed alike everywhere."""
    told = [f"{f' ({counted(count, "point")})' if swept else ''}: {shortened(text)}" for text, count in messages]
    return f"FAILED {model}{told[0]}" if len(told) == 1 else "\n ".join([f"FAILED {model}", *told])
