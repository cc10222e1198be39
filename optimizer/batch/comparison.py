"""What a sweep says: times of models side by side, and the results that nothing beats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.options import value_text

Record = dict[str, Any]
"""A row of the results table."""
Sweep = Mapping[str, Sequence[Any]]
"""Swept options by name, each with its values."""


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


def pivot(records: Iterable[Record], sweep: Sweep) -> Pivot:
    """The times of a batch: models in order of name, points in that of the sweep, whatever ran at them."""
    columns = tuple(point_text(point) for point in points(sweep))
    times: dict[str, dict[str, int]] = {}
    for record in records:
        row = times.setdefault(record["model"], {})
        if record["ok"]:
            row[point_text({name: record[name] for name in sweep})] = record["predicted_time_ns"]
    return Pivot(columns, tuple((model, tuple(map(row.get, columns))) for model, row in sorted(times.items())))


def points(sweep: Sweep) -> list[dict[str, Any]]:
    """Every choice of one value per swept option, the last option changing fastest; without a sweep one, empty."""
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


def point_text(point: Mapping[str, Any]) -> str:
    """A point of a sweep, for people."""
    return " ".join(f"{name}={value_text(value)}" for name, value in point.items())


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


def failures(records: Iterable[Record]) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Every model that failed, once: its name and its messages, each with the number of points that it came at."""
    counts: dict[str, dict[str, int]] = {}
    for record in records:
        if not record["ok"]:
            messages = counts.setdefault(record["model"], {})
            messages[record["error"]["message"]] = messages.get(record["error"]["message"], 0) + 1
    return [(model, tuple(messages.items())) for model, messages in counts.items()]
