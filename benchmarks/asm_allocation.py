"""Register allocation of random kernels: right, and with how few registers.

    python benchmarks/asm_allocation.py [--programs 300] [--seed 0]

Every mapping is checked by `check_allocation`. `exact` is the pressure (half-open) plus the reserved registers: no
allocation has a lower peak, and with ranges the lowest one is often higher: `or proven` counts the programs whose peak
is within two of it or proven to be as low as can be by exhaustive search. `with moves`: programs above that are given
exact + 2 registers and no more, so that values have to move between registers; `moves` is how many moves that inserted
per such program. Near the limit: as many registers as exact plus the slack, no more; without moves, then with them.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace

from random_programs import Wishes, random_program

from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.registers.allocate import Allocation, AllocationOptions, allocate
from optimizer.kernels.amdgpu.registers.check_allocation import violations

SINGLES = Wishes(sizes=(1,))
TUPLES = Wishes()
"""Ranges of 2 to 4 registers that begin at even ones: what gfx942 asks of loads, stores and small matrix products."""
RANGES = Wishes(sizes=(1,) * 24 + (2,) * 10 + (3,) * 4 + (4,) * 10 + (16,))
"""Now and then an accumulator of 16, too."""
HARSH = Wishes(sizes=(1, 1, 1, 2, 3, 4, 16), alignments=(2, 4))
"""One value in seven takes 16 registers, and half of the ranges begin at multiples of four."""
KINDS = (
    ("single registers", SINGLES),
    ("ranges of 1..4", TUPLES),
    ("ranges of 1..16", RANGES),
    ("many of 16, aligned to 4", HARSH),
)
PLAIN = AllocationOptions(rewrite=False)
MOVING = AllocationOptions()
CLOSE = 2
"""VGPRs above exact that are close to it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    shares = f"{'peak = exact':>14}{'<= exact + 2':>14}{'or proven':>11}{'with moves':>12}{'moves':>7}"
    print(f"{'programs':<26}{'count':>6}{'wrong':>7}{shares}{'worst':>7}{'s':>7}")
    for name, wishes in KINDS:
        _report(name, [random_program(args.seed + n, _sized(wishes, n)) for n in range(args.programs)])
    _near_the_limit([random_program(args.seed + n, _sized(RANGES, n)) for n in range(args.programs)])
    _large(args.seed)


def _sized(wishes: Wishes, number: int) -> Wishes:
    """Programs of 20 to 200 steps, for 16 to 100 registers."""
    return replace(wishes, steps=20 + 20 * (number % 10), pressure=16 + 12 * (number % 8))


def _report(name: str, programs: list[Program]) -> None:
    gaps: Counter[int] = Counter()
    moves: list[int] = []
    wrong = good = 0
    start = time.perf_counter()
    for program in programs:
        allocation = allocate(program, PLAIN)
        gaps[gap(allocation)] += 1
        good += gap(allocation) <= CLOSE or allocation.classes["v"].proven
        wrong += bool(violations(allocation.program, allocation.mapping))
        if gap(allocation) > CLOSE:
            moved = within(program, allocation.classes["v"].pressure + 1 + CLOSE, MOVING)
            if moved is not None:
                moves.append(moved.moves)
                wrong += bool(violations(moved.program, moved.mapping))
    seconds = time.perf_counter() - start
    count = len(programs)
    near = sum(n for g, n in gaps.items() if g <= CLOSE)
    shares = f"{gaps[0] / count:>14.1%}{near / count:>14.1%}{good / count:>11.1%}{(near + len(moves)) / count:>12.1%}"
    mean = f"{sum(moves) / max(len(moves), 1):>7.1f}"
    print(f"{name:<26}{count:>6}{wrong:>7}{shares}{mean}{max(gaps):>7}{seconds:>7.1f}", flush=True)


def within(program: Program, vgprs: int, options: AllocationOptions) -> Allocation | None:
    """An allocation in so many VGPRs, None if none is found."""
    try:
        return allocate(replace(program, max_vgprs=vgprs), options)
    except AllocationError:
        return None


def gap(allocation: Allocation) -> int:
    """VGPRs above pressure and v0."""
    vgprs = allocation.classes["v"]
    return vgprs.peak - vgprs.pressure - 1


def _near_the_limit(programs: list[Program]) -> None:
    for slack in (0, 1, 2):
        fits: Counter[bool] = Counter()
        wrong = 0
        for program in programs:
            pressure = allocate(program, AllocationOptions(rewrite=False, effort=0)).classes["v"].pressure
            for options in (PLAIN, MOVING):
                allocation = within(program, pressure + 1 + slack, options)
                if allocation is not None:
                    fits[options.rewrite] += 1
                    wrong += bool(violations(allocation.program, allocation.mapping))
        shares = f"{fits[False] / len(programs):>14.1%} fit{fits[True] / len(programs):>14.1%} with moves"
        print(f"{f'limit = exact + {slack}':<26}{len(programs):>6}{wrong:>7}{shares}", flush=True)


def _large(seed: int) -> None:
    for name, wishes in KINDS[:3]:
        program = random_program(seed, replace(wishes, steps=1600, pressure=180))
        start = time.perf_counter()
        allocation = allocate(program, PLAIN)
        seconds = time.perf_counter() - start
        wrong = len(violations(allocation.program, allocation.mapping))
        count = len(program.instructions)
        print(f"{name:<26}{count:>6} instructions in {seconds:.2f} s, gap {gap(allocation)}, wrong {wrong}")


if __name__ == "__main__":
    main()
