"""Refits the time model's constants to a table of measured op times and prints how well they predict.

    python scripts/calibrate.py calibration.csv                 # refit, cross-validate, print; nothing is written
    python scripts/calibrate.py calibration.csv --write         # and write the constants' files
    python scripts/calibrate.py calibration.csv --as-they-are   # errors of the constants in force, no fit

The table has one device operation per row (docs/cost-model.md). Every constant with a `fit` in
`optimizer/opmodel/analytical/constants/<arch>.json` is fitted to the rows of that class, within its `low` and
`high`; the others stay, or follow the constant they name in `as`. Cross-validation leaves out one fifth of the shape
families (column `family`) at a time. A fit starts from `start` and draws nothing at random: the same table gives the
same constants, whatever values are in force.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from calibration_fit.least_squares import Vector
from calibration_fit.model import (
    ARCHITECTURES,
    Measured,
    cross_validated,
    measured,
    predicted,
    read_constants,
    refit_all,
    values,
    write_constants,
)
from calibration_fit.tables import by_class, choices, error_lines, roofline, spearman

CONSTANTS = Path(__file__).parent.parent / "optimizer" / "opmodel" / "analytical" / "constants"
FOLDS = 5
ROUNDS = 40


def report(rows: Sequence[Measured], found: Vector, title: str) -> None:
    times = np.array([r.time_ns for r in rows])
    print(f"\n{title}")
    for line in error_lines(by_class(rows, found, roofline(rows))):
        print(line)
    told = choices(rows, found)
    print(f"Spearman over all rows {spearman(found, times):.4f}")
    print(
        f"alternatives: {told.pairs} pairs of {told.groups} ops differ by more than 5 %: "
        f"{100 * told.right:.1f} % in the right order, mean regret {100 * told.regret:.2f} %"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, metavar="ROWS.csv")
    parser.add_argument("--write", action="store_true", help="write the constants' files")
    parser.add_argument("--as-they-are", action="store_true", help="no fit: errors of the constants in force")
    parser.add_argument("--constants", type=Path, default=CONSTANTS, metavar="FOLDER", help="other constants' files")
    options = parser.parse_args()
    with options.rows.open(encoding="utf-8", newline="") as file:
        rows = measured(list(csv.DictReader(file)))
    records = {arch: read_constants(options.constants, arch) for arch in ARCHITECTURES}
    if not options.as_they_are:
        began = time.perf_counter()
        records = refit_all(rows, records, ROUNDS)
        print(f"fitted in {time.perf_counter() - began:.0f} s")
        for arch in ARCHITECTURES:
            for name, entry in sorted(records[arch].items()):
                if "fit" in entry:
                    edge = " (at its bound)" if entry["value"] in (entry["low"], entry["high"]) else ""
                    print(f"  {arch:12s} {name:40s} {entry['value']:>10} {entry['unit']}{edge}")
        if options.write:
            for arch in ARCHITECTURES:
                write_constants(options.constants, arch, records[arch])
    found = np.empty(len(rows))
    for arch in ARCHITECTURES:
        places = [i for i, r in enumerate(rows) if r.arch == arch]
        if places:
            found[places] = predicted([rows[i] for i in places], values(records[arch]))
    report(rows, found, "in sample")
    if not options.as_they_are:
        report(rows, cross_validated(rows, records, FOLDS, ROUNDS), f"cross-validated, {FOLDS} folds by family")
    return 0


if __name__ == "__main__":
    sys.exit(main())
