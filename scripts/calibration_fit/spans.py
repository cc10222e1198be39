"""What measured times are of predicted ones, by kind of program: the 80 % spans that the cost model states.

An error is measured / predicted, by constants fitted without the row's family. Families count alike, however many rows
they have. With n families the 10 % quantile is taken at 0.1 - 0.1 / n and the 90 % quantile mirrored to it (as
conformal prediction does), so few families make a span wider. With fewer than `FEWEST` families the span
also covers that of all measured rows of the architecture; a kind without rows takes the least and the greatest of the
architecture's kinds.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibration_fit.least_squares import Vector
from calibration_fit.model import ARCHITECTURES, Measured
from optimizer.opmodel.analytical.formulas import FORMULAS

LOW, HIGH = 0.1, 0.9
FEWEST = 10
LEFT_OUT = "matmul_hs"
"""A sweep of one kernel on one board, whose errors say little of other matmuls."""
EXACT = ("view", "transfer")
"""Kinds whose times are not fitted: nothing runs, or the host's link."""


def spans(rows: Sequence[Measured], found: Vector) -> dict[str, Any]:
    """Architecture -> kind of program -> the record of its span; nothing of an architecture without rows."""
    known = {arch: [(r, ns) for r, ns in zip(rows, found, strict=True) if r.arch == arch] for arch in ARCHITECTURES}
    return {arch: _of_arch(mine) for arch, mine in known.items() if mine}


def write_spans(folder: Path, record: dict[str, Any]) -> None:
    """One kind per line; what is not measured here (`networks`) is kept."""
    path = folder / "spans.json"
    kept = json.loads(path.read_text("utf-8"))
    for arch, kinds in record.items():
        kept[arch] = {**{k: v for k, v in kept.get(arch, {}).items() if k == "networks"}, **kinds}
    blocks = []
    for arch in ARCHITECTURES:
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(kept[arch].items()))
        blocks.append(f"  {json.dumps(arch)}: {{\n{lines}\n  }}")
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", "utf-8")


def _of_arch(rows: Sequence[tuple[Measured, float]]) -> dict[str, Any]:
    by_kind: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row, ns in rows:
        if row.group != LEFT_OUT:
            by_kind[row.work.family].append((row.family, row.time_ns / ns))
    every = _span([pair for pairs in by_kind.values() for pair in pairs])
    result = {}
    for kind, pairs in by_kind.items():
        low, high = _span(pairs)
        families = len({family for family, _ in pairs})
        rule = "own rows"
        if families < FEWEST:
            low, high, rule = min(low, every[0]), max(high, every[1]), "own rows and all others: few families"
        result[kind] = _record(low, high, len(pairs), families, rule)
    widest = (min(e["low"] for e in result.values()), max(e["high"] for e in result.values()))
    for kind in sorted(set(FORMULAS) - set(result) - set(EXACT)):
        result[kind] = _record(*widest, 0, 0, "widest of the architecture: no rows")
    return result


def _record(low: float, high: float, rows: int, families: int, rule: str) -> dict[str, Any]:
    span = {"low": round(min(low, 1.0), 3), "high": round(max(high, 1.0), 3)}
    return {**span, "rows": rows, "families": families, "rule": rule}


def _span(pairs: Sequence[tuple[str, float]]) -> tuple[float, float]:
    """Weighted quantiles of the ratios, every family with the same weight."""
    count = Counter(family for family, _ in pairs)
    ordered = sorted((ratio, 1 / count[family]) for family, ratio in pairs)
    ratios = np.array([r for r, _ in ordered])
    reached = np.cumsum([w for _, w in ordered]) / len(count)
    slack = (1 - HIGH) / len(count)
    low = ratios[min(len(ratios) - 1, int(np.searchsorted(reached, max(0.0, LOW - slack) + 1e-12)))]
    high = ratios[min(len(ratios) - 1, int(np.searchsorted(reached, min(1.0, HIGH + slack) - 1e-12)))]
    return float(low), float(high)
