"""The measured rows with their work, and the fit of the constants of one class of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibration_fit.least_squares import Vector, fit
from optimizer.opmodel.analytical.calibration import row_work
from optimizer.opmodel.analytical.timing import Timing
from optimizer.opmodel.analytical.work import Work

ORDER = ("eltwise", "matmul", "matmul_hs", "conv", "norm", "tm", "reshard", "noc_trace", "halo", "tilize", "pool")
"""Classes in the order of their fits: later ones use constants of earlier ones."""
ARCHITECTURES = ("wormhole_b0", "blackhole")
Record = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Measured:
    """A measured row."""

    row: Mapping[str, str]
    arch: str
    clock_mhz: int
    group: str
    """Class of the fit: that of the table, halos apart from other reshards."""
    family: str
    time_ns: float
    work: Work


def measured(rows: Sequence[Mapping[str, str]]) -> list[Measured]:
    """Every row of the table; FormatError where one cannot be read."""
    return [
        Measured(
            row, row["arch"], int(row["clock_mhz"]), "halo" if row["op"].startswith("Halo") else row["op_class"],
            row["family"], float(row["time_ns"]), row_work(row),
        )
        for row in rows
    ]  # fmt: skip


def read_constants(folder: Path, arch: str) -> Record:
    record: Record = json.loads((folder / f"{arch}.json").read_text("utf-8"))
    return record


def write_constants(folder: Path, arch: str, record: Record) -> None:
    """One constant per line, so that changes show as such."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(record.items()))
    (folder / f"{arch}.json").write_text("{\n" + lines + "\n}\n", "utf-8")


def values(record: Record) -> dict[str, float]:
    return {name: float(entry["value"]) for name, entry in record.items()}


def predicted(rows: Sequence[Measured], constants: Mapping[str, float]) -> Vector:
    """Nanoseconds of rows of one architecture."""
    timings = {clock: Timing(rows[0].arch, clock, constants) for clock in {r.clock_mhz for r in rows}}
    return np.array([timings[r.clock_mhz].breakdown(r.work).total_ns for r in rows])


class _Asked(dict[str, float]):
    """Constants that note which of them were looked at, so that a fit is known by all that it depends on."""

    def __init__(self, constants: Mapping[str, float]) -> None:
        super().__init__(constants)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: float | None = None) -> float | None:  # type: ignore[override]
        self.names.add(name)
        return super().get(name, default)


@dataclass
class Memory:
    """Fits by their rows and by the constants that they look at: what is left out of one class leaves most others."""

    fits: dict[Hashable, dict[str, float]] = field(default_factory=dict)
    asked: dict[Hashable, tuple[str, ...]] = field(default_factory=dict)

    def key(self, group: str, mine: Sequence[Measured], constants: Mapping[str, float]) -> Hashable:
        rows = (group, tuple(map(id, mine)))
        if rows not in self.asked:
            asked = _Asked(constants)
            predicted(mine, asked)
            self.asked[rows] = tuple(sorted(asked.names))
        return (rows, tuple(constants.get(name) for name in self.asked[rows]))


def refit(
    rows: Sequence[Measured], record: Record, group: str, rounds: int, known: Memory | None = None
) -> dict[str, float]:
    """The constants of one class fitted to its rows of one architecture; those without influence stay."""
    mine = [r for r in rows if r.group == group]
    names = sorted(name for name, entry in record.items() if entry.get("fit") == group)
    if not mine or not names:
        return {}
    if known is None:
        return _refit(mine, record, names, rounds)
    key = known.key(group, mine, values(record))
    if key not in known.fits:
        known.fits[key] = _refit(mine, record, names, rounds)
    return known.fits[key]


def _refit(mine: Sequence[Measured], record: Record, names: Sequence[str], rounds: int) -> dict[str, float]:
    constants, logs = values(record), np.log([r.time_ns for r in mine])

    def residuals(chosen: Sequence[str]) -> Callable[[Vector], Vector]:
        def of(found: Vector) -> Vector:
            tried = {**constants, **dict(zip(chosen, map(float, found), strict=True))}
            return np.log(predicted(mine, tried)) - logs

        return of

    base = residuals(())(np.array([]))
    live = [n for n in names if np.abs(residuals((n,))(np.array([constants[n] * 1.3])) - base).sum() > 1e-9]
    if not live:
        return {}
    bounds = [np.array([float(record[n][side]) for n in live]) for side in ("low", "high")]
    start = np.array([float(record[n]["start"]) for n in live])
    found = fit(residuals(live), start, bounds[0], bounds[1], rounds)
    return {n: float(f"{v:.4g}") for n, v in zip(live, found, strict=True)}


CLOCKS_MHZ = {"wormhole_b0": 1000, "blackhole": 1350}


def _follow(records: Mapping[str, Record]) -> None:
    """Constants that are not measured on an architecture take the value of the one they name, in cycles.

    Times of single steps (unit ns) are those of processors on the chip's clock, so they grow as the clock slows.
    """
    for own, record in records.items():
        for name, entry in record.items():
            if "as" in entry:
                arch, _, key = str(entry["as"]).partition(":")
                scale = CLOCKS_MHZ[arch] / CLOCKS_MHZ[own] if entry["unit"] == "ns" else 1.0
                entry["value"] = float(f"{records[arch][key or name]['value'] * scale:.4g}")


def refit_all(
    rows: Sequence[Measured], records: Mapping[str, Record], rounds: int, known: Memory | None = None
) -> dict[str, Record]:
    """New records of both architectures, fitted from the start values."""
    fitted = {arch: {name: dict(entry) for name, entry in records[arch].items()} for arch in ARCHITECTURES}
    for record in fitted.values():
        for entry in record.values():
            if "fit" in entry:
                entry["value"] = entry["start"]
    _follow(fitted)
    for arch, record in fitted.items():
        mine = [r for r in rows if r.arch == arch]
        for group in ORDER:
            for name, value in refit(mine, record, group, rounds, known).items():
                record[name]["value"] = value
    _follow(fitted)
    return fitted
