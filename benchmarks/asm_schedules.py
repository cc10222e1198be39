"""What scheduling changes: cycles of one wave, how far waits stand from their loads, registers, waves per SIMD.

    python benchmarks/asm_schedules.py [--mutants N | --no-mutations]

Each kernel is built as it is written and scheduled, and run in the interpreter on random data. `cycles` are those of
its first wave by the model in `optimizer/kernels/amdgpu/scheduling` (`machine.py` says what it knows,
and from where); `memory` is how many of them are spent in s_waitcnt. `distance` is how many instructions, and how many
cycles, are between a load and the wait for it, the mean over all loads executed. `counted` are waits that leave
something outstanding, of all. `mutants`: texts of the scheduled kernel with one wait, one counter or one nop removed or
weakened, and how many of them the interpreter refuses.

Then the short programs of `fixtures/kernels/amdgpu_cases.json` that can be built, whose loops are gone through once.

Exits with 1 if a result is wrong, LLVM disagrees with a text, a mutant passes, fewer waves fit, or cycles are more.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from asm_kernel_cases import SCHEDULED, WRITTEN, Case, cases, gemm_case
from gfx942.cycles import FinishedMachine, first_wave
from gfx942.library.gemm_shape import GemmShape
from gfx942.llvm import require_llvm
from gfx942.mutations import mutations

from optimizer.errors import InputError
from optimizer.kernels.amdgpu.operands import WaitCount
from optimizer.kernels.amdgpu.pipeline import Assembly, AssemblyOptions, build
from optimizer.kernels.amdgpu.program_json import read_cases
from optimizer.kernels.amdgpu.scheduling.occupancy import occupancy
from optimizer.kernels.amdgpu.witness.errors import ExecutionError

PUBLISHED = Path(__file__).parents[1] / "fixtures/kernels/amdgpu_cases.json"
MOST_ROUNDS = 9
COLUMNS = (
    "kernel",
    "cycles",
    "",
    "memory",
    "distance",
    "in cycles",
    "counted",
    "vgpr",
    "waves",
    "instructions",
    "mutants",
)


@dataclass(frozen=True)
class Measured:
    """One form of a kernel."""

    assembly: Assembly
    machine: FinishedMachine
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
    parser.add_argument("--mutants", type=int, default=40, metavar="N", help="of each kernel, 0 for all (default: 40)")
    args = parser.parse_args()
    print(_line(*COLUMNS))
    print("|---" * len(COLUMNS) + "|")
    problems: list[str] = []
    totals = [0, 0]
    for case in (*cases(), *long_cases()):
        before, after = measured(case, WRITTEN), measured(case, SCHEDULED)
        totals = [totals[0] + before.machine.clock, totals[1] + after.machine.clock]
        problems += _problems(case, before, after)
        caught, passed = (0, []) if args.no_mutations else _mutants(case, after.assembly.text, args.mutants)
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
        cycles = [FinishedMachine().run(item for _, item in assembly.program.instructions) for assembly in found]
        totals, built = [totals[0] + cycles[0], totals[1] + cycles[1]], built + 1
        faster += cycles[1] < cycles[0]
    found = f"published cases: {built} of {len(programs)} are programs"
    return f"{found}; {totals[0]} cycles, scheduled {totals[1]}, {faster} faster"


def _row(case: Case, before: Measured, after: Measured, mutants: str) -> str:
    one, other = before.machine.clock, after.machine.clock
    (near, cycles), (far, more) = before.distance, after.distance
    instructions = [len(m.assembly.program.instructions) for m in (before, after)]
    return _line(
        case.name,
        f"{one} -> {other}",
        f"{100 * (other - one) / one:+.0f} %",
        f"{before.memory} -> {after.memory}",
        f"{near:.1f} -> {far:.1f}",
        f"{cycles:.0f} -> {more:.0f}",
        f"{before.counted} -> {after.counted}",
        f"{before.assembly.footprint.vgprs} -> {after.assembly.footprint.vgprs}",
        f"{before.waves} -> {after.waves}",
        f"{instructions[0]} -> {instructions[1]}",
        mutants,
    )


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


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


def _mutants(case: Case, text: str, most: int) -> tuple[int, list[str]]:
    """How many the interpreter refuses, and descriptions of the others; `most`: so many, evenly, of more.

    Which way a pipelined loop is left, and which of its waits are needed, depends on how often it runs: a mutant is run
    as the kernel is, and for other numbers of rounds, in which the buffers' bounds give zeros.
    """
    runs = [(text, case.run(text).statistics.executed_lines)]
    runs += [(other, case.run(other).statistics.executed_lines) for other in _other_rounds(text)]
    found = [m for m in mutations(text) if any(m.line in lines for _, lines in runs)]
    caught, passed = 0, []
    for mutation in found[:: -(-len(found) // most) if most else 1]:
        line = mutation.text.splitlines()[mutation.line - 1]
        tried = (_with_line(other, mutation.line, line) for other, lines in runs if mutation.line in lines)
        if any(_is_refused(case, changed) for changed in tried):
            caught += 1
        else:
            passed.append(mutation.description)
    return caught, passed


def _other_rounds(text: str) -> list[str]:
    """The text with its loop counter started otherwise; none without a loop."""
    step = re.search(r"s_sub_u32 (s\d+), \1, 1", text)
    if step is None:
        return []
    *_, start = re.finditer(rf"s_mov_b32 {step[1]}, (\w+)", text[: step.start()])
    return [f"{text[: start.start(1)]}{n}{text[start.end(1) :]}" for n in range(MOST_ROUNDS)]


def _with_line(text: str, number: int, line: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[: number - 1], line, *lines[number:]]) + "\n"


def _is_refused(case: Case, text: str) -> bool:
    try:
        case.run(text)
    except ExecutionError:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
