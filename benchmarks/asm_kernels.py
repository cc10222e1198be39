"""The kernels of `gfx942/library`: registers, instructions, waits, and three witnesses.

    python benchmarks/asm_kernels.py [--no-mutations]

`vgpr`, `sgpr` are one more than the highest register that the kernel names or finds set at entry; in brackets the most
virtual registers that live at once. `wave` is what the allocator of iree-org/wave takes for the same shape. `instr` are
all instructions, waits and nops too. `blanket` is what a back end writes that waits for everything before every use and
puts an s_nop behind every vector instruction. `result` is the interpreter's against numpy; `mutants` are the texts with
one wait, one counter of a wait or one nop removed or weakened, and how many of them the interpreter refuses.

Exits with 1 if LLVM or numpy disagree, a mutant passes, or a kernel takes more registers than wave's.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from asm_kernel_cases import Case, cases
from gfx942.llvm import Llvm, require_llvm
from gfx942.mutations import mutations
from gfx942.wait_counts import wait_counts

from optimizer.kernels.amdgpu.pipeline import Assembly
from optimizer.kernels.amdgpu.witness.errors import ExecutionError

COLUMNS = (
    f"{'kernel':<31}{'vgpr':>9}{'wave':>9}{'sgpr':>9}{'wave':>9}{'instr':>7}{'wave':>6}"
    f"{'waits':>7}{'blanket':>9}{'nops':>6}{'blanket':>9}{'LLVM':>6}{'result':>8}{'mutants':>9}"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-mutations", action="store_true", help="leave the mutants out")
    mutate = not parser.parse_args().no_mutations
    llvm = require_llvm()
    print(COLUMNS)
    problems: list[str] = []
    totals: Counter[str] = Counter()
    for case in cases():
        problems += _report(case, llvm, mutate, totals)
    print(
        f"together: {totals['waits']} waits (blanket {totals['blanket waits']}), {totals['nops']} nops (blanket "
        f"{totals['blanket nops']}), {totals['caught']} of {totals['mutants']} mutants refused"
    )
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _report(case: Case, llvm: Llvm, mutate: bool, totals: Counter[str]) -> list[str]:
    assembly = case.build()
    counts = wait_counts(assembly.program)
    instructions = llvm.check(assembly.text)
    problem = case.error(assembly.text)
    caught, passed = _mutants(case, assembly.text) if mutate else (0, [])
    totals.update({"waits": counts.waits, "blanket waits": counts.blanket_waits, "nops": counts.nops})
    totals.update({"blanket nops": counts.blanket_nops, "caught": caught, "mutants": caught + len(passed)})
    taken, exact = assembly.footprint, assembly.allocation.classes
    theirs = case.upstream
    vgprs = f"{theirs.peak_vgprs} ({theirs.exact_vgprs})" if theirs else ""
    sgprs = f"{theirs.peak_sgprs} ({theirs.exact_sgprs})" if theirs else ""
    print(
        f"{case.name:<31}{f'{taken.vgprs} ({exact["v"].pressure})':>9}{vgprs:>9}"
        f"{f'{taken.sgprs} ({exact["s"].pressure})':>9}{sgprs:>9}"
        f"{instructions:>7}{theirs.instructions if theirs else '':>6}"
        f"{counts.waits:>7}{counts.blanket_waits:>9}{counts.nops:>6}{counts.blanket_nops:>9}"
        f"{'ok':>6}{'wrong' if problem else 'ok':>8}{f'{caught}/{caught + len(passed)}':>9}",
        flush=True,
    )
    found = [f"{case.name}: {problem}"] if problem else []
    return found + [f"{case.name}: passes with {change}" for change in passed] + _worse(case, assembly, instructions)


def _worse(case: Case, assembly: Assembly, instructions: int) -> list[str]:
    """What wave does with less."""
    theirs, taken = case.upstream, assembly.footprint
    if theirs is None:
        return []
    pairs = (
        ("VGPRs", taken.vgprs, theirs.peak_vgprs),
        ("SGPRs", taken.sgprs, theirs.peak_sgprs),
        ("instructions", instructions, theirs.instructions),
    )
    return [f"{case.name}: {ours} {name}, wave {limit}" for name, ours, limit in pairs if ours > limit]


def _mutants(case: Case, text: str) -> tuple[int, list[str]]:
    """How many the interpreter refuses, and descriptions of the others."""
    caught, passed = 0, []
    for mutation in mutations(text):
        try:
            case.run(mutation.text)
        except ExecutionError:
            caught += 1
        else:
            passed.append(mutation.description)
    return caught, passed


if __name__ == "__main__":
    sys.exit(main())
