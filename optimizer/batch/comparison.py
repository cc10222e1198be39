"""What a sweep says: times of models side by side, and the results that nothing beats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
"""A row of the results table."""


@dataclass(frozen=True)
class Pivot:
    """Predicted times: a row per model, a column per point of the sweep."""

    points: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int | None, ...]], ...]
    """Model and its times in nanoseconds; None where it failed."""

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Per point, the geometric mean of its times over those of the first point, of models that have both."""
        return tuple(self._ratio(column) for column in range(len(self.points)))

    def _ratio(self, column: int) -> float | None:
        pairs = [(times[0], times[column]) for _, times in self.rows]
        logs = [math.log(b / a) for a, b in pairs if a and b]
        return math.exp(sum(logs) / len(logs)) if logs else None


def pivot(records: Iterable[Record], swept: Sequence[str]) -> Pivot:
    """The times of a batch by model and point of its sweep, both in the order of first appearance."""
    points: dict[str, None] = {}
    times: dict[str, dict[str, int]] = {}
    for record in in_order(records, swept):
        point = point_of(record, swept)
        points[point] = None
        row = times.setdefault(record["model"], {})
        if record["ok"]:
            row[point] = record["predicted_time_ns"]
    rows = tuple((model, tuple(row.get(point) for point in points)) for model, row in times.items())
    return Pivot(tuple(points), rows)


def in_order(records: Iterable[Record], swept: Sequence[str]) -> list[Record]:
    """Records by model, then by point of the sweep, whether they failed or not."""
    listed = list(records)
    ranks = [{value: n for n, value in enumerate(dict.fromkeys(r[name] for r in listed))} for name in swept]
    models = {model: n for n, model in enumerate(sorted({r["model"] for r in listed}))}
    return sorted(
        listed, key=lambda r: (models[r["model"]], *(rank[r[name]] for rank, name in zip(ranks, swept, strict=True)))
    )


def point_of(record: Record, swept: Sequence[str]) -> str:
    """The point of the sweep that a record belongs to."""
    return " ".join(f"{name}={record[name]}" for name in swept)


def pareto(records: Iterable[Record]) -> list[Record]:
    """Of every model and board the results that no other one beats: none is faster without a higher L1 peak.

    By model and board, fastest first. Of equals the first counts.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record["ok"]:
            groups.setdefault((record["model"], record["board"]), []).append(record)
    front = []
    for _, group in sorted(groups.items()):
        lowest = math.inf
        for record in sorted(group, key=lambda r: (r["predicted_time_ns"], r["l1_peak_bytes"])):
            if record["l1_peak_bytes"] < lowest:
                lowest = record["l1_peak_bytes"]
                front.append(record)
    return front


def failures(records: Iterable[Record]) -> list[tuple[str, str, int]]:
    """Every way in which a model failed, once: model, message, and at how many points of the sweep."""
    counts: dict[tuple[str, str], int] = {}
    for record in records:
        if not record["ok"]:
            key = record["model"], record["error"]["message"]
            counts[key] = counts.get(key, 0) + 1
    return [(model, message, count) for (model, message), count in counts.items()]
