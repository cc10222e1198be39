"""Fused kernels of whole models: every region's kernel executed on this machine, every fused program replayed.

    python benchmarks/fused_kernels.py [MODEL...] [--boards n150] [--policies dfsharding global] [--no-replay]
    python benchmarks/fused_kernels.py --times [MODEL...]

`--times` only plans, with kernels and without, and prints what became of every group of ops that one kernel could run,
and both predicted times. Otherwise the kernels of all those groups are executed, whether they pay or not.

Every kernel runs in the interpreter of DST slots and as C++ under g++, on the first and the last core of a grid of at
most 2x2, with positive operands and with operands of both signs. Regions keep their shards; those of more than
`SHARD_TILES` tiles are cut down. Equal kernels are executed once per model. The interpreter's results are within a
running error bound of the exact ones, and the C++ is the interpreter bit for bit; `bound` is the bound relative to the
value, in the median of all runs and the widest run, `unlimited` counts elements beside a pole or a jump. The program
with its `generic_op` calls is replayed on the real tt-metal (mock devices) where ttnn is installed. Prints one line per
run; exits 1 on any mismatch, on a kernel that a core refuses, on a step of a program that tt-metal refuses, or where
more than one element in 1000 is unlimited.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from optimizer.answers.checking import check_record
from optimizer.cli.tables import table
from optimizer.errors import VerificationError
from optimizer.fusion.binding import bound
from optimizer.fusion.choosing import NO_ROOM, SLOWER, choose
from optimizer.fusion.finding import find_regions
from optimizer.fusion.regions import Region
from optimizer.options import Options
from optimizer.pipeline import optimize_file

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "importers"), str(ROOT / "tests" / "export")]
from region_witness import POSITIVE, SIGNED, RegionRun, run_region, shrunk  # noqa: E402 - the witness is the tests'

SHARD_TILES = 64
TIMES = (
    "graph", "board", "policy", "groups", "taken", "ops", "slower", "no room", "saved", "without", "with", "change",
)  # fmt: skip
"""Columns of `--times`: groups that one kernel could run, and what became of them."""
COLUMNS = (
    "graph", "board", "policy", "regions", "ops", "kernels", "elements", "mismatches", "refused", "unlimited", "bound",
    "difference", "L1 saved", "DRAM saved", "trips saved", "buffers saved", "replay", "seconds",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="default: fixtures/onnx")
    parser.add_argument("--boards", nargs="+", default=["n150"])
    parser.add_argument("--policies", nargs="+", default=["dfsharding", "global"])
    parser.add_argument("--no-replay", action="store_true")
    parser.add_argument("--times", action="store_true", help="plan only: groups taken and refused, predicted times")
    args = parser.parse_args()
    models = args.models or sorted((ROOT / "fixtures" / "onnx").glob("*.onnx"))
    replays = not args.no_replay and find_spec("ttnn") is not None
    cases = [
        (model, Options(board=board, policy=policy, fuse_kernels=True))
        for policy in args.policies
        for board in args.boards
        for model in models
    ]
    if args.times:
        print(table(TIMES, [times(model, options) for model, options in cases]))
        return 0
    runs = [run(model, options, replays) for model, options in cases]
    print(table(COLUMNS, [tuple(str(r[c]) for c in COLUMNS) for r in runs]))
    wrong = any(r["mismatches"] or r["refused"] or r["replay"] == "refused" for r in runs)
    return 1 if wrong or any(1000 * r["unlimited"] > r["elements"] for r in runs) else 0


def times(model: Path, options: Options) -> tuple[str, ...]:
    """One model planned with kernels and without: a row of `TIMES`."""
    without = optimize_file(model, replace(options, fuse_kernels=False)).summary.predicted_time_ns
    result = optimize_file(model, options)
    taken, refused = result.fused_kernels, Counter(group["because"] for group in result.refused_kernels)
    fused = result.summary.predicted_time_ns
    print(f"{model.stem} {options.board} {options.policy}: {without} ns, {fused} ns", file=sys.stderr, flush=True)
    offered = len(taken) + sum(refused.values())
    figures = (offered, len(taken), sum(len(r["ops"]) for r in taken), refused[SLOWER], refused[NO_ROOM])
    saved = sum(region["saved_ns"] for region in taken)
    spent = (f"{saved / 1e3:.1f} us", f"{without / 1e3:.1f} us", f"{fused / 1e3:.1f} us", percent(fused / without - 1))
    return (model.stem, options.board, options.policy, *map(str, figures), *spent)


def percent(change: float) -> str:
    return f"{100 * change:+.2f} %"


def run(model: Path, options: Options, replays: bool) -> dict[str, Any]:
    """One model's kernels executed and its program replayed."""
    started = time.perf_counter()
    result = optimize_file(model, options)
    kernels, records = bound(result, (*choose(result).taken, *find_regions(result))), result.fused_kernels
    place = f"{model.stem} {options.board} {options.policy}"
    runs: list[RegionRun] = []
    refused = 0
    for kernel in kernels:
        small = cut_down(kernel.region)
        for core in corners(small):
            try:
                ours = [run_region(small, core, between=between) for between in (POSITIVE, SIGNED)]
            except VerificationError as error:
                print(f"{place}: {kernel.name}: {error}")
                refused += 1
                continue
            runs += ours
            if any(r.mismatches for r in ours):
                print(f"{place}: {kernel.name} on core {core}: {ours}")
    replay = "not asked"
    if replays:
        checked = check_record(result, "ttmetal")
        replay = "ok" if checked["ok"] else "refused"
        for error in checked["errors"]:
            print(f"{place}: {error['op']}: {error['message']}")
    print(f"{place}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    return {
        "graph": model.stem,
        "board": options.board,
        "policy": options.policy,
        "regions": len(records),
        "ops": sum(len(r["ops"]) for r in records),
        "kernels": len(kernels),
        "elements": sum(r.elements for r in runs),
        "mismatches": sum(r.mismatches for r in runs),
        "refused": refused,
        "unlimited": sum(r.unlimited for r in runs),
        "bound": f"{median(r.sharpness for r in runs):.1e} to {max(r.sharpness for r in runs):.1e}" if runs else "",
        "difference": f"{max((r.difference for r in runs), default=0.0):.1e}",
        "L1 saved": sum(r["l1_bytes_saved"] for r in records),
        "DRAM saved": sum(r["dram_bytes_saved_total"] for r in records),
        "trips saved": sum(r["round_trips_saved"] for r in records),
        "buffers saved": sum(r["circular_buffers_saved"] for r in records),
        "replay": replay,
        "seconds": f"{time.perf_counter() - started:.1f}",
    }


def cut_down(region: Region) -> Region:
    """The region on at most 2x2 cores, with shards of at most `SHARD_TILES` tiles, rows whole where they must be."""
    rows, columns = region.home.shard
    if not region.needs_rows:
        columns = min(columns, SHARD_TILES)
    return shrunk(region, (2, 2), (max(1, min(rows, SHARD_TILES // columns)), columns))


def corners(region: Region) -> Iterator[tuple[int, int]]:
    """The first and the last core."""
    known = region.home.core_map
    x, y = (0, 0) if known is None else known.origin
    width = 1 if known is None else known.width
    last = prod(region.home.grid) - 1  # of the cores, row by row
    yield from dict.fromkeys(((x, y), (x + last % width, y + last // width)))


if __name__ == "__main__":
    sys.exit(main())
