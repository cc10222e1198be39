"""Refits the time model's constants to a table of measured op times and prints how well they predict.

    python scripts/calibrate.py calibration.csv                 # refit, judge, print; nothing is written
    python scripts/calibrate.py calibration.csv --write         # and write the constants' files and the spans
    python scripts/calibrate.py calibration.csv --as-they-are   # errors of the constants in force, no fit

The table has one device operation per row (docs/cost-model.md). Every constant with a `fit` in
`optimizer/opmodel/analytical/constants/<arch>.json` is fitted to the rows of that class, within its `low` and
`high`; the others stay, or follow the constant they name in `as`. A fit starts from `start` and draws nothing at
random: the same table gives the same constants, whatever values are in force.

The model is judged twice, on rows that the fit has not seen: every shape family (column `family`) predicted by
constants fitted without it, and every capture (file of column `source`) without it. The first errors also give the
80 % spans of `constants/spans.json`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from calibration_fit.held_out import without_family, without_source
from calibration_fit.least_squares import Vector
from calibration_fit.model import (
    ARCHITECTURES,
    Measured,
    measured,
    predicted,
    read_constants,
    refit_all,
    values,
    write_constants,
)
from calibration_fit.spans import spans, write_spans
from calibration_fit.tables import board_lines, by_class, choices, error_lines, roofline, spearman

CONSTANTS = Path(__file__).parent.parent / "optimizer" / "opmodel" / "analytical" / "constants"
ROUNDS = 40


def report(rows: Sequence[Measured], found: Vector, title: str) -> None:
    times = np.array([r.time_ns for r in rows])
    print(f"\n{title}")
    for line in (*error_lines(by_class(rows, found, roofline(rows))), "", *board_lines(rows, found)):
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
    parser.add_argument("--write", action="store_true", help="write the constants' files and the spans")
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
    found = np.empty(len(rows))
    for arch in ARCHITECTURES:
        places = [i for i, r in enumerate(rows) if r.arch == arch]
        if places:
            found[places] = predicted([rows[i] for i in places], values(records[arch]))
    report(rows, found, "in sample")
    if not options.as_they_are:
        apart = without_family(rows, records, ROUNDS)
        report(rows, apart, "without the row's shape family")
        report(rows, without_source(rows, records, ROUNDS), "without the row's capture")
        if options.write:
            for arch in ARCHITECTURES:
                write_constants(options.constants, arch, records[arch])
            write_spans(options.constants, spans(rows, apart))
    return 0


if __name__ == "__main__":
    sys.exit(main())
