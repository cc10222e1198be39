"""Predictions of rows by constants fitted without them: without their shape family, or the capture they come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from calibration_fit.least_squares import Vector
from calibration_fit.model import ARCHITECTURES, Measured, Memory, Record, predicted, refit_all, values

MANY_ROWS = 1000
"""Of classes of more rows (sweeps on Wormhole) a tenth of the families is left out at a time."""
PARTS = 10


def without_family(rows: Sequence[Measured], records: Mapping[str, Record], rounds: int) -> Vector:
    """Every row predicted by constants fitted without its family of shapes, on whatever architecture."""
    families: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: (r.group, r.family)):
        if row.family not in families[row.group]:
            families[row.group].append(row.family)
    parts: dict[str, set[str]] = defaultdict(set)
    for group, names in families.items():
        many = sum(row.group == group for row in rows) > MANY_ROWS
        count = PARTS if many else len(names)
        for index, family in enumerate(names):
            parts[f"{group} {index % count}"].add(family)
    label = {family: part for part, names in parts.items() for family in names}
    return _without(rows, [label[r.family] for r in rows], records, rounds)


def source(row: Measured) -> str:
    """The capture or table that a row was read from, without its folder; traces are one."""
    name = row.row["source"].rsplit("/", 1)[-1]
    return "noc_trace_json" if row.group == "noc_trace" else name


def without_source(rows: Sequence[Measured], records: Mapping[str, Record], rounds: int) -> Vector:
    """Every row predicted by constants fitted without the capture it comes from."""
    return _without(rows, [source(r) for r in rows], records, rounds)


def _without(rows: Sequence[Measured], labels: Sequence[str], records: Mapping[str, Record], rounds: int) -> Vector:
    known = Memory()
    result = np.empty(len(rows))
    for label in sorted(set(labels)):
        rest = [r for r, own in zip(rows, labels, strict=True) if own != label]
        fitted = refit_all(rest, records, rounds, known)
        for arch in ARCHITECTURES:
            places = [i for i, r in enumerate(rows) if labels[i] == label and r.arch == arch]
            if places:
                result[places] = predicted([rows[i] for i in places], values(fitted[arch]))
    return result
