"""Every tile op with values on Tenstorrent's functional simulator, against the interpreter with the chip's units.

    TTOPT_SIMULATOR=.../libttsim.so python benchmarks/tile_values.py [WORD...] [--dags N]

Runs the cases of `tests/kernels/tensix/simulated_tiles.py` whose name contains one of the words (all by default):
every op by every element type of circular buffers, width of DST, fidelity, form and broadcast. Prints per op how many
elements are equal bit for bit, and how far the others are in units of the last place that DST keeps, with the bound
that is stated (`device/sfpu.py`). `--dags` runs so many random tile DAGs (`tile_dags.py`) besides, judged by their
error bounds. A case that the simulator cannot run ends with its reason, the next one gets a new process. Exits 1 if an
op is not within its bound or a DAG is wrong; what the simulator lacks is no failure.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from optimizer.cli.tables import table
from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.execution.launching import KernelDevice, launched
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.opmodel.ttmetal import environment, simulator

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "kernels" / "tensix"), str(ROOT / "benchmarks")]
from simulated_tiles import Compared, cases, compare  # noqa: E402 - the cases are the tests'
from tile_dags import record  # noqa: E402 - the DAGs are another benchmark's

BOARDS = {"wormhole_b0": "n150", "blackhole": "p150"}
COLUMNS = ("element type", "DST", "op", "elements", "exact", "largest error", "bound")
MOST_OPS, BLOCK = 20, 3
"""Ops of a random DAG, rows and columns of tiles of its block: at most."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="words of names")
    parser.add_argument("--dags", type=int, default=0, metavar="N", help="random DAGs to run besides")
    parser.add_argument("--seed", type=int, default=0, help="of the DAGs")
    args = parser.parse_args()
    try:
        arch = simulator.architecture(simulator.library_path())
    except environment.EnvironmentProblem as problem:
        parser.error(str(problem))
    with KernelDevice(DeviceSpec.preset(BOARDS[arch]), "sim") as device:
        failed = _run_cases(args.cases, device)
        failed += _run_dags(args.dags, random.Random(args.seed), device)
    return 1 if failed else 0


def _run_cases(words: Sequence[str], device: KernelDevice) -> int:
    """Ops that are not within their bound."""
    found: dict[tuple[str, str, str], list[Compared]] = {}
    for name, case in cases().items():
        if words and not any(word in name for word in words):
            continue
        try:
            made = compare(case, device)
        except ExecutionError as error:
            print(f"not run: {name}: {error}", flush=True)
            continue
        for one in made:
            found.setdefault((case.dtype.value, "32" if case.wide else "16", one.op), []).append(one)
    print(table(COLUMNS, list(_rows(found))))
    everything = [one for group in found.values() for one in group]
    elements, exact = sum(one.elements for one in everything), sum(one.exact for one in everything)
    wrong = sum(not one.right for one in everything)
    print(f"{len(everything)} ops, {elements} elements, {exact} equal bit for bit; {wrong} ops beyond their bound")
    return wrong


def _rows(found: dict[tuple[str, str, str], list[Compared]]) -> Iterator[tuple[str, ...]]:
    for (dtype, width, op), group in sorted(found.items()):
        counts = str(sum(one.elements for one in group)), str(sum(one.exact for one in group))
        yield dtype, width, op, *counts, f"{max(one.ulps for one in group):.3g}", f"{group[0].bound:g}"


def _run_dags(count: int, generator: random.Random, device: KernelDevice) -> int:
    """DAGs that are not right."""
    told: Counter[str] = Counter()
    largest = 0.0
    for n in range(count):
        block = generator.randint(1, BLOCK), generator.randint(1, BLOCK)
        made = record(generator, f"random-{n}", generator.randint(1, MOST_OPS), block)
        program = case_program(read_cases({"cases": [made]})[0])
        try:
            ran = launched(program, KernelOptions(board=device.board), device, n)
        except ExecutionError as error:
            print(f"not run: {made['id']}: {error}", flush=True)
            told["not run"] += 1
            continue
        largest = max(largest, ran.largest_error)
        told["right" if ran.right else "WRONG"] += 1
        told["equal bit for bit"] += ran.interpreter_differs == 0
        told["C++ other than the interpreter"] += ran.executed_differs not in (None, ran.interpreter_differs)
        if not ran.right:
            print(f"WRONG: {ran.to_json()}: {made}", flush=True)
    if count:
        print(f"{count} random DAGs: {dict(told)}; largest error {largest:.3g} error bounds")
    return told["WRONG"]


if __name__ == "__main__":
    sys.exit(main())
