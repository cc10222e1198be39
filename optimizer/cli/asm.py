"""`ttopt asm`: AMD GPU kernels for gfx942: register allocation (`alloc`)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import Commands, path_argument
from optimizer.errors import FormatError, TtoptError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

    from optimizer.kernels.amdgpu.allocate import AllocationOptions
    from optimizer.kernels.amdgpu.program_json import ProgramCase


def add(commands: Commands) -> None:
    parser = commands.add_parser("asm", help="AMD GPU kernels: register allocation", allow_abbrev=False)
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)
    alloc = subcommands.add_parser("alloc", help="registers for the programs of a document", allow_abbrev=False)
    alloc.add_argument("source", type=path_argument, metavar="CASES.json", help="cases, or one program")
    alloc.add_argument("--id", dest="case_id", metavar="ID", help="only this case")
    alloc.add_argument(
        "--rewrite", action="store_true", help="change what does not fit: make constants again, split live ranges"
    )
    alloc.add_argument("--allow-spill", action="store_true", help="spill what still does not fit (implies --rewrite)")
    alloc.set_defaults(run=run_alloc)


def run_alloc(args: argparse.Namespace) -> int:
    """One JSON line per program. 0: all placed; 1: some have an error; 2: the document cannot be read."""
    from optimizer.kernels.amdgpu.allocate import AllocationOptions

    options = AllocationOptions(rewrite=args.rewrite or args.allow_spill, allow_spill=args.allow_spill)
    failed = False
    for case in _cases(args.source, args.case_id):
        record = _allocated(case, options)
        failed = failed or "error" in record
        print(json.dumps(record), flush=True)
    return 1 if failed else 0


def _allocated(case: ProgramCase, options: AllocationOptions) -> dict[str, Any]:
    from optimizer.kernels.amdgpu.allocate import allocate
    from optimizer.kernels.amdgpu.check_allocation import check_allocation
    from optimizer.kernels.amdgpu.errors import AllocationError
    from optimizer.kernels.amdgpu.program_json import program_json

    try:
        program = case.program
        allocation = allocate(program, options)
        check_allocation(allocation.program, allocation.mapping)
    except TtoptError as error:
        details = error.details if isinstance(error, AllocationError) else {}
        return {"id": case.id, "error": {"code": error.code, "message": str(error), "node": error.node, **details}}
    record: dict[str, Any] = {
        "id": case.id,
        "mapping": {str(register): number for register, number in allocation.mapping.items()},
        "peak_vgprs": allocation.peak_vgprs,
        "peak_sgprs": allocation.peak_sgprs,
    }
    if allocation.peak_agprs:
        record["peak_agprs"] = allocation.peak_agprs
    if allocation.program != program:
        record["program"] = program_json(allocation.program)
    for warning in allocation.warnings:
        print(f"ttopt: warning: {case.id}: {warning}", file=sys.stderr)
    if allocation.warnings:
        record["warnings"] = list(allocation.warnings)
    return record


def _cases(source: Path, case_id: str | None) -> tuple[ProgramCase, ...]:
    from optimizer.kernels.amdgpu.program_json import ProgramCase, read_cases

    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"not JSON: {error}", node=str(source)) from None
    if isinstance(document, dict) and "instructions" in document:
        cases: tuple[ProgramCase, ...] = (ProgramCase(source.stem, "alloc", document),)
    else:
        cases = read_cases(document)
    if case_id is None:
        return cases
    chosen = tuple(case for case in cases if case.id == case_id)
    if not chosen:
        raise UnknownNameError("case", case_id, [case.id for case in cases])
    return chosen
