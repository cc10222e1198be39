"""Between what times a predicted one lies in eight of ten cases.

A backend may say, by kind of program, what the measured times of its judging rows were of the predicted ones (`Span`).
Errors of programs of one kind are taken as the same error: they have the same formula and the same constants, so what
is wrong with one is wrong with all. Those of different kinds are taken as independent, as is what a whole network shows
besides its programs (the kind `networks`: configs and placements that differ from the ones priced). So the distances of
the kinds add up as squares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Protocol, runtime_checkable

from optimizer.opmodel.base import OpCost, OpModel

NETWORKS = "networks"
"""The kind whose span is that of a whole plan."""


@dataclass(frozen=True, slots=True)
class Span:
    """Shares of a predicted time: at 1 in 10 the measured one is shorter than `low`, at 1 in 10 longer than `high`."""

    low: float
    high: float


@runtime_checkable
class SpannedOpModel(Protocol):
    """A backend that says how far its times are off."""

    spans: Mapping[str, Span]
    """By kind of program (`CostPart.name`); kinds that are not there are exact."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An 80 % interval of a time, in nanoseconds; None and None where the backend does not say."""

    low_ns: int | None = None
    high_ns: int | None = None


def of_op(cost: OpCost, model: OpModel) -> Interval:
    """The interval of one op."""
    return _interval(cost.time_ns, ((part.name, part.time_ns) for part in cost.parts), spans_of(model), whole=False)


def of_plan(time_ns: int, by_kind_ns: Mapping[str, float], model: OpModel) -> Interval:
    """The interval of a run whose programs take so long, by kind."""
    return _interval(time_ns, by_kind_ns.items(), spans_of(model), whole=True)


def spans_of(model: OpModel) -> Mapping[str, Span]:
    """The spans of a backend; empty where it does not say."""
    return model.spans if isinstance(model, SpannedOpModel) else {}


def _interval(time_ns: int, parts: Iterable[tuple[str, float]], spans: Mapping[str, Span], *, whole: bool) -> Interval:
    times: dict[str, float] = {}
    for kind, ns in parts:
        times[kind] = times.get(kind, 0.0) + ns
    if not spans or not times:
        return Interval()
    if whole:
        times[NETWORKS] = time_ns
    known = [(ns, spans[kind]) for kind, ns in sorted(times.items()) if kind in spans]
    below = sqrt(sum((ns * (1 - span.low)) ** 2 for ns, span in known))
    above = sqrt(sum((ns * (span.high - 1)) ** 2 for ns, span in known))
    return Interval(max(0, min(time_ns, round(time_ns - below))), max(time_ns, round(time_ns + above)))
