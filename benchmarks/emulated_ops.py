"""Single ops on the simulator and in the emulation, with the same operands: how near they come to each other.

    python benchmarks/emulated_ops.py FOLDER [--run] [--board n150] [--only TEXT] [--sample FILE] [--records FILE]

`--run` runs the cases that FOLDER lacks on the simulator (docs/values.md, "What is needed"); kernels that were never
compiled cost seconds each. Without it only what FOLDER holds is compared. Prints a line a case that is neither equal
nor within one unit in the last place, and a table by kind; ends with 1 if anything differs in its statistics too.
`--sample` writes some elements of every result, for the tests; `--records` one JSON line a case.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from emulation_cases.cases import Case, cases
from emulation_cases.measuring import Measured, measured
from emulation_cases.recording import record, recorded
from emulation_cases.sampling import write_sample

from optimizer.cli.tables import table

COLUMNS = ("kind", "cases", "equal", "1 unit", "statistics", "differ", "not run", "least equal", "most units",
           "gain apart", "variances")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--run", action="store_true", help="run what is missing on the simulator")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    parser.add_argument("--sample", type=Path, metavar="FILE")
    parser.add_argument("--records", type=Path, metavar="FILE")
    args = parser.parse_args()
    asked = [case for case in cases() if args.only in case.name]
    if args.run:
        record(asked, args.folder, args.board, lambda line: print(line, file=sys.stderr, flush=True))
    if args.sample is not None:
        write_sample(asked, args.folder, args.sample)
    found: dict[Case, Measured | str] = {}
    for case in asked:
        pair = recorded(args.folder, case)
        if pair is not None:
            found[case] = pair if isinstance(pair, str) else measured(case, *pair)
            _tell(case, found[case])
    if args.records is not None:
        args.records.write_text("".join(json.dumps(_record(case, what)) + "\n" for case, what in found.items()))
    kinds = list(dict.fromkeys(case.kind for case in found))
    print(table(COLUMNS, [_row(kind, [w for c, w in found.items() if c.kind == kind]) for kind in kinds]))
    return 1 if any(isinstance(what, Measured) and not what.agrees for what in found.values()) else 0


def _tell(case: Case, what: Measured | str) -> None:
    if isinstance(what, str):
        print(f"{case.name}: not run: {what[:160]}")
    elif what.units > 1:
        print(f"{case.name}: {'' if what.agrees else 'DIFFERS '}{what}")


def _record(case: Case, what: Measured | str) -> dict[str, object]:
    known = {"name": case.name, "kind": case.kind, "dtypes": case.dtypes, "compute": case.compute}
    return {**known, "problem": what} if isinstance(what, str) else {**known, **what.record()}


def _row(kind: str, all_of: Iterable[Measured | str]) -> tuple[object, ...]:
    every = list(all_of)
    rows = [what for what in every if isinstance(what, Measured)]
    counts = (
        sum(r.units == 0 for r in rows), sum(0 < r.units <= 1 for r in rows),
        sum(r.units > 1 and r.agrees for r in rows), sum(not r.agrees for r in rows), len(every) - len(rows),
    )  # fmt: skip
    if not rows:
        return (kind, len(every), *counts, "", "", "", "")
    ratios = [r.emulation.variance / r.device.variance for r in rows if r.device.variance]
    apart = max(abs(r.emulation.gain - r.device.gain) for r in rows)
    return (
        kind, len(every), *counts, f"{min(r.equal for r in rows):.3f}", f"{max(r.units for r in rows):.0f}",
        f"{apart:.4f}", f"{min(ratios, default=1):.2f} to {max(ratios, default=1):.2f}",
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
