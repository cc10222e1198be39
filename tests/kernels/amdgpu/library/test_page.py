"""The example of docs/amdgpu-assembly.md, and its table of kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asm_kernel_cases import SCHEDULED, WRITTEN, cases
from asm_schedules import long_cases, measured

PAGE = (Path(__file__).parents[4] / "docs/amdgpu-assembly.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    assert "assert" in code[1]
    exec(compile(code[1], "docs/amdgpu-assembly.md", "exec"), {})


def test_the_table_shows_what_is_built() -> None:
    rows = {row[1]: row for line in PAGE.splitlines() if len(row := [cell.strip() for cell in line.split("|")]) == 12}
    for case in cases():
        assembly = case.build()
        row = rows[case.name]
        taken, classes = assembly.footprint, assembly.allocation.classes
        assert row[2] == f"{taken.vgprs} ({classes['v'].pressure})"
        assert row[4] == f"{taken.sgprs} ({classes['s'].pressure})"
        assert row[6] == str(len(assembly.program.instructions))


SCHEDULING = (Path(__file__).parents[4] / "docs/amdgpu-scheduling.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_table_of_schedules_shows_what_is_built() -> None:
    rows = {row[1]: row for line in SCHEDULING.splitlines() if len(row := [c.strip() for c in line.split("|")]) == 13}
    for case in (*cases(), *long_cases()):
        before, after = measured(case, WRITTEN), measured(case, SCHEDULED)
        row = rows[case.name]
        assert row[2] == f"{before.machine.clock} -> {after.machine.clock}"
        assert row[8] == f"{before.assembly.footprint.vgprs} -> {after.assembly.footprint.vgprs}"
        assert row[9] == f"{before.waves} -> {after.waves}"
