"""What scheduling changes: cycles of one wave, how far waits stand from their loads, registers, waves per SIMD.

    python benchmarks/asm_schedules.py [--no-mutations]

Each kernel is built as it is written and scheduled, and run in the interpreter on random data. `cycles` are those of
its first wave by the model in `optimizer/kernels/amdgpu/scheduling` (`latencies.py` and `machine.py` say what it knows,
and from where); `memory` is how many of them are spent in s_waitcnt. `distance` is how many instructions, and how many
cycles, are between a load and the wait for it, the mean over all loads executed. `counted` are waits that leave
something outstanding, of all. `mutants`: texts of the scheduled kernel with one wait, one counter or one nop removed or
weakened, and how many of them the interpreter refuses; only lines that the run comes to, as which way a pipelined loop
is left depends on how often it runs (the tests of random loops run them all).

Then the short programs of `fixtures/kernels/amdgpu_cases.json` that can be built, whose loops are gone through once.

Exits with 1 if a result is wrong, LLVM disagrees with a text, a mutant passes, fewer waves fit, or cycles are more.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from asm_kernel_cases import SCHEDULED, WRITTEN, Case, cases, gemm_case
from gfx942.cycles import first_wave
from gfx942.library.gemm_shape import GemmShape
from gfx942.llvm import require_llvm
from gfx942.mutations import mutations

from optimizer.errors import InputError
from optimizer.kernels.amdgpu.operands import WaitCount
from optimizer.kernels.amdgpu.pipeline import Assembly, AssemblyOptions, build
from optimizer.kernels.amdgpu.program_json import read_cases
from optimizer.kernels.amdgpu.scheduling.machine import Machine
from optimizer.kernels.amdgpu.scheduling.occupancy import occupancy
from optimizer.kernels.amdgpu.witness.errors import ExecutionError

PUBLISHED = Path(__file__).parents[1] / "fixtures/kernels/amdgpu_cases.json"
COLUMNS = (
    f"{'kernel':<32}{'cycles':>15}{'':>6}{'memory':>15}{'distance':>12}{'in cycles':>12}{'counted':>14}"
    f"{'vgpr':>9}{'waves':>7}{'instr':>10}{'mutants':>9}"
)


@dataclass(frozen=True)
class Measured:
    """One form of a kernel."""

    assembly: Assembly
    machine: Machine
    waves: int

    @property
    def memory(self) -> int:
        return sum(self.machine.waiting.values())

    @property
    def distance(self) -> tuple[float, float]:
        """Mean instructions and cycles between loads and their waits."""
        covered = self.machine.covered
        count = max(1, len(covered))
        return sum(c.instructions for c in covered) / count, sum(c.cycles for c in covered) / count

    @property
    def counted(self) -> str:
        """Waits of the text with a count above zero, of all."""
        waits = [item for _, item in self.assembly.program.instructions if item.name == "s_waitcnt"]
        above = [w for w in waits if any(isinstance(use, WaitCount) and use.value for use in w.uses)]
        return f"{len(above)}/{len(waits)}"


def long_cases() -> tuple[Case, ...]:
    """Products with more rounds along k than those of `cases`."""
    return (
        gemm_case("gemm 64x64x512, 4 waves", GemmShape(64, 64, 512, 32, 32, 64, 2, 2)),
        gemm_case("gemm 32x32x512, 4 tiles", GemmShape(32, 32, 512, 32, 32, 32)),
        gemm_case("gemm 32x32x512, 4 tiles, no LDS", GemmShape(32, 32, 512, 32, 32, 32, staged=False)),
        gemm_case("gemm 64x64x256, 16 tiles", GemmShape(64, 64, 256, 64, 64, 32)),
    )


def measured(case: Case, options: AssemblyOptions) -> Measured:
    """A kernel built and run."""
    assembly = case.build(options)
    machine = first_wave(assembly, lambda observe: case.run(assembly.text, observe=observe))
    return Measured(assembly, machine, occupancy(assembly.footprint, case.kernel.program.launch, options.mcpu))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-mutations", action="store_true", help="leave the mutants out")
    mutate = not parser.parse_args().no_mutations
    print(COLUMNS)
    problems: list[str] = []
    totals = [0, 0]
    for case in (*cases(), *long_cases()):
        before, after = measured(case, WRITTEN), measured(case, SCHEDULED)
        totals = [totals[0] + before.machine.clock, totals[1] + after.machine.clock]
        problems += _problems(case, before, after)
        caught, passed = _mutants(case, after.assembly.text) if mutate else (0, [])
        problems += [f"{case.name}: passes with {change}" for change in passed]
        print(_row(case, before, after, f"{caught}/{caught + len(passed)}"), flush=True)
    print(f"together: {totals[0]} cycles, scheduled {totals[1]}")
    print(_published())
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _published() -> str:
    """Cycles of the published cases in the order of the text."""
    programs = [case.program for case in read_cases(json.loads(PUBLISHED.read_text(encoding="utf-8")))]
    totals, built, faster = [0, 0], 0, 0
    for program in programs:
        try:
            found = [build(program, AssemblyOptions(schedule=scheduled)) for scheduled in (False, True)]
        except InputError:
            continue  # a fragment, which reads what nothing defines
        cycles = [Machine(finished=True).run(item for _, item in assembly.program.instructions) for assembly in found]
        totals, built = [totals[0] + cycles[0], totals[1] + cycles[1]], built + 1
        faster += cycles[1] < cycles[0]
    found = f"published cases: {built} of {len(programs)} are programs"
    return f"{found}; {totals[0]} cycles, scheduled {totals[1]}, {faster} faster"


def _row(case: Case, before: Measured, after: Measured, mutants: str) -> str:
    one, other = before.machine.clock, after.machine.clock
    (near, cycles), (far, more) = before.distance, after.distance
    instructions = [len(m.assembly.program.instructions) for m in (before, after)]
    return (
        f"{case.name:<32}{f'{one} -> {other}':>15}{f'{100 * (other - one) / one:+.0f}%':>6}"
        f"{f'{before.memory} -> {after.memory}':>15}{f'{near:.1f} -> {far:.1f}':>12}{f'{cycles:.0f} -> {more:.0f}':>12}"
        f"{f'{before.counted} -> {after.counted}':>14}"
        f"{f'{before.assembly.footprint.vgprs} -> {after.assembly.footprint.vgprs}':>9}"
        f"{f'{before.waves} -> {after.waves}':>7}{f'{instructions[0]} -> {instructions[1]}':>10}{mutants:>9}"
    )


def _problems(case: Case, before: Measured, after: Measured) -> list[str]:
    found = []
    for measured_ in (before, after):
        require_llvm().check(measured_.assembly.text)
        if error := case.error(measured_.assembly.text):
            found.append(f"{case.name}: {error}")
    if after.waves < before.waves:
        found.append(f"{case.name}: {after.waves} waves per SIMD, {before.waves} as it is written")
    if after.machine.clock > before.machine.clock:
        found.append(f"{case.name}: {after.machine.clock} cycles, {before.machine.clock} as it is written")
    return found


def _mutants(case: Case, text: str) -> tuple[int, list[str]]:
    """How many the interpreter refuses, and descriptions of the others; of the lines that the run comes to."""
    caught, passed = 0, []
    executed = case.run(text).statistics.executed_lines
    for mutation in (m for m in mutations(text) if m.line in executed):
        try:
            case.run(mutation.text)
        except ExecutionError:
            caught += 1
        else:
            passed.append(mutation.description)
    return caught, passed


if __name__ == "__main__":
    sys.exit(main())
