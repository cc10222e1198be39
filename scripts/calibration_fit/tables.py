"""Error tables: by class, and how well alternatives for the same op are ordered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from calibration_fit.least_squares import Vector
from calibration_fit.model import Measured
from optimizer.device import DeviceSpec
from optimizer.opmodel.analytical.timing import roofline_ns

DIFFERENT = 0.05
"""Alternatives whose times differ by less are not ordered."""
_SAME = (
    "arch",
    "board",
    "op",
    "variant",
    "M",
    "K",
    "N",
    "in0_logical",
    "in1_shape",
    "in0_dtype",
    "in1_dtype",
    "fidelity",
)
"""Columns that rows of the same op share; what else differs (placement, cores, config) are alternatives."""
_SYNTHETIC = ("exp_dataset", "height_sharded", "GEMM_FLOPS")
BOARDS = {"wormhole_b0": DeviceSpec.preset("n150"), "blackhole": DeviceSpec.preset("p150")}


@dataclass
class Errors:
    """Relative errors of one class."""

    model: list[float] = field(default_factory=list)
    roofline: list[float] = field(default_factory=list)
    bias: list[float] = field(default_factory=list)


def roofline(rows: Sequence[Measured]) -> Vector:
    """The plain roofline of every row, at least a nanosecond."""
    return np.array([max(1.0, roofline_ns(r.work, BOARDS[r.arch])) for r in rows])


def by_class(rows: Sequence[Measured], found: Vector, peak: Vector) -> dict[tuple[str, str], Errors]:
    table: dict[tuple[str, str], Errors] = defaultdict(Errors)
    for row, ns, least in zip(rows, found, peak, strict=True):
        names = [(row.group, row.arch), (row.group, "both"), ("all", "both")]
        if "ToInterleaved" in row.row["op"] or "InterleavedTo" in row.row["op"]:
            names.append(("interleaved<->sharded", row.arch))
        for name in names:
            errors = table[name]
            errors.model.append(abs(ns / row.time_ns - 1))
            errors.roofline.append(abs(least / row.time_ns - 1))
            errors.bias.append(ns / row.time_ns)
    return dict(sorted(table.items()))


def error_lines(table: dict[tuple[str, str], Errors]) -> Iterator[str]:
    yield f"{'class':24s} {'arch':12s} {'rows':>5s} {'median':>7s} {'mean':>7s} {'bias':>5s}   roofline median"
    for (group, arch), e in table.items():
        middle, mean = 100 * float(np.median(e.model)), 100 * float(np.mean(e.model))
        peak, bias = 100 * float(np.median(e.roofline)), float(np.median(e.bias))
        yield f"{group:24s} {arch:12s} {len(e.model):5d} {middle:6.1f}% {mean:6.1f}% {bias:5.2f}   {peak:6.1f}%"


def board_lines(rows: Sequence[Measured], found: Vector) -> Iterator[str]:
    """Errors by class and board, and of the rows of op reports and traces alone: sweeps and GEMM tables left out."""
    table: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row, ns in zip(rows, found, strict=True):
        error = 100 * abs(ns / row.time_ns - 1)
        names = [(row.group, row.row["board"])]
        if not any(word in row.row["source"] for word in _SYNTHETIC):
            names += [("real models", row.row["board"]), ("real models", "every board")]
        for name in names:
            table[name].append(error)
    yield f"{'class':12s} {'board':24s} {'rows':>5s} {'median':>7s} {'mean':>7s} {'worst':>8s}"
    for (group, board), errors in sorted(table.items()):
        middle, mean = float(np.median(errors)), float(np.mean(errors))
        yield f"{group:12s} {board:24s} {len(errors):5d} {middle:6.1f}% {mean:6.1f}% {max(errors):7.0f}%"


def spearman(a: Vector, b: Vector) -> float:
    """Rank correlation; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(x: Vector) -> Vector:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


@dataclass(frozen=True)
class Choices:
    """How well alternatives are told apart."""

    groups: int
    pairs: int
    right: float
    regret: float
    """Mean extra time of what the model would choose over the best."""


def choices(rows: Sequence[Measured], found: Vector) -> Choices:
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[tuple(row.row.get(c) or "" for c in _SAME)].append(index)
    pairs = right = 0
    regrets = []
    for members in groups.values():
        if len(members) < 2:
            continue
        times = {i: rows[i].time_ns for i in members}
        for i, j in combinations(members, 2):
            if abs(times[i] - times[j]) > DIFFERENT * min(times[i], times[j]):
                pairs += 1
                right += (times[i] < times[j]) == (found[i] < found[j])
        chosen = min(members, key=lambda i: found[i])
        regrets.append(times[chosen] / min(times.values()) - 1)
    return Choices(len(regrets), pairs, right / max(1, pairs), float(np.mean(regrets)) if regrets else 0.0)
