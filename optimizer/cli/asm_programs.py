"""The programs that `ttopt asm` reads: documents of cases, single programs, the textual form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.wording.documents import other_kind

if TYPE_CHECKING:
    from pathlib import Path

    from optimizer.kernels.amdgpu.ir import Program
    from optimizer.kernels.amdgpu.program_json import ProgramCase

TEXT_SUFFIX = ".kir"
"""Of files that hold a program in the textual form."""


def one_program(source: Path, case_id: str | None) -> Program:
    """The program of a document, JSON or the textual form; OptionError if it holds several and none is chosen."""
    cases = program_cases(source, case_id, encodable=True)
    if len(cases) != 1:
        raise OptionError(
            f"{len(cases)} programs, of which --id chooses one", node=str(source), alternatives=[c.id for c in cases]
        )
    return cases[0].program


def program_cases(source: Path, case_id: str | None, encodable: bool = False) -> tuple[ProgramCase, ...]:
    """The programs of a document, or the one that is asked for. FormatError if there are none."""
    from optimizer.kernels.amdgpu.program_json import ProgramCase, read_cases
    from optimizer.process.json_document import Node, read

    if source.suffix == TEXT_SUFFIX:
        return (ProgramCase(source.stem, "alloc", _textual(source, encodable)),)
    document = read(source, f" (the textual form is read from files that end in {TEXT_SUFFIX})")
    fields = document.value if isinstance(document.value, dict) else {}
    if (other := other_kind(document.value, "asm")) is not None:
        raise FormatError(f"{other}; docs/formats.md describes GPU programs", node=str(source))
    if "instructions" in fields:
        cases: tuple[ProgramCase, ...] = (ProgramCase(source.stem, "alloc", document),)
    else:
        cases = read_cases(Node([fields], "cases") if "program" in fields else document)
    if not cases:
        raise FormatError("no programs: no case has a field 'program'", node=str(source))
    if case_id is None:
        return cases
    chosen = tuple(case for case in cases if case.id == case_id)
    if not chosen:
        raise UnknownNameError("case", case_id, [case.id for case in cases])
    return chosen


def _textual(source: Path, encodable: bool) -> Program:
    """The program of a file in the textual form. FormatError, OpcodeError, OperandError name the line."""
    from optimizer.kernels.amdgpu.text import parse
    from optimizer.process.json_document import read_text

    program = parse(read_text(source), encodable)
    if not program.body:
        raise FormatError("no instructions", node=str(source))
    return program
