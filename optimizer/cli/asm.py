"""`ttopt asm`: kernels for gfx942 and gfx950: registers (`alloc`), assembly (`build`), the interpreter (`run`)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import Commands, path_argument
from optimizer.cli.asm_arrays import read_arguments, summary, write_array
from optimizer.errors import FormatError, InfeasibleError, InputError, OptionError, TtoptError, UnknownNameError
from optimizer.process.files import write_text
from optimizer.process.work_limit import bounded
from optimizer.wording.documents import other_kind

if TYPE_CHECKING:
    from pathlib import Path

    from optimizer.kernels.amdgpu.ir import Program
    from optimizer.kernels.amdgpu.program_json import ProgramCase
    from optimizer.kernels.amdgpu.registers.allocate import AllocationOptions

TEXT_SUFFIX = ".kir"
"""Of files that hold a program in the textual form."""


def add(commands: Commands) -> None:
    parser = commands.add_parser("asm", help="AMD GPU kernels: registers, assembly, interpreter", allow_abbrev=False)
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)
    alloc = subcommands.add_parser("alloc", help="registers for the programs of a document", allow_abbrev=False)
    alloc.add_argument("source", type=path_argument, metavar="CASES.json|K.kir", help="cases, or one program")
    alloc.add_argument("--id", dest="case_id", metavar="ID", help="only this case")
    alloc.add_argument(
        "--rewrite", action="store_true", help="change what does not fit: make constants again, move values"
    )
    alloc.add_argument("--allow-spill", action="store_true", help="spill what still does not fit (implies --rewrite)")
    alloc.set_defaults(run=run_alloc)
    build = subcommands.add_parser("build", help="all passes, and assembly of a kernel", allow_abbrev=False)
    build.add_argument("source", type=path_argument, metavar="PROGRAM.json|K.kir", help="a program, or cases with --id")
    build.add_argument("-o", "--output", type=path_argument, metavar="K.s", help="default: the text goes to stdout")
    build.add_argument("--id", dest="case_id", metavar="ID", help="which case of a document of several")
    build.add_argument("--mcpu", default="gfx942", metavar="NAME", help="processor: gfx942 (default) or gfx950")
    build.add_argument("--allow-spill", action="store_true", help="spill what does not fit into registers")
    build.add_argument("--no-fuse", action="store_true", help="leave shifts, additions and ors as they are")
    build.add_argument("--remove-dead-code", action="store_true", help="drop what nothing reads")
    build.add_argument("--no-schedule", action="store_true", help="leave the instructions in their order")
    build.add_argument("--no-pipeline", action="store_true", help="schedule, but let no loop load for its next rounds")
    build.add_argument(
        "--loads-apart", action="store_true", help="loads and stores never touch the same memory: loads may pass stores"
    )
    build.add_argument(
        "--waves",
        type=int,
        metavar="N",
        help="waves per SIMD that scheduling leaves room for (default: as many as now)",
    )
    build.set_defaults(run=run_build)
    run = subcommands.add_parser("run", help="build a kernel and run it in the interpreter", allow_abbrev=False)
    run.add_argument("source", type=path_argument, metavar="PROGRAM.json|K.kir|K.s", help="a program, or assembly")
    run.add_argument("--id", dest="case_id", metavar="ID", help="which case of a document of several")
    run.add_argument(
        "--mcpu", default="gfx942", metavar="NAME", help="processor to build a program for (default: gfx942)"
    )
    run.add_argument("--kernel", metavar="NAME", help="which kernel of an assembly file of several")
    run.add_argument("--grid", default="1", metavar="X[,Y,Z]", help="workgroups (default: 1)")
    run.add_argument("--workgroup", metavar="X[,Y,Z]", help="threads (default: what the program says)")
    run.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="x:f32:64x16[:random|range|zeros], x:FILE.npy, or n:u32=5; in the order of the kernel's arguments",
    )
    run.add_argument("--seed", type=int, default=0, help="of random arrays (default: 0)")
    run.add_argument("-o", "--output", type=path_argument, metavar="DIR", help="write DIR/NAME.npy per array")
    run.set_defaults(run=run_run)


def run_alloc(args: argparse.Namespace) -> int:
    """One JSON line per program. 0: all placed; 1: no room in one, or some of several have an error; 2: bad input.

    A program that stands alone is the input: what is wrong with it is said on stderr, too, as other commands do.
    """
    from optimizer.kernels.amdgpu.pipeline import MAX_STEPS
    from optimizer.kernels.amdgpu.registers.allocate import AllocationOptions

    options = AllocationOptions(rewrite=args.rewrite or args.allow_spill, allow_spill=args.allow_spill)
    cases = _program_cases(args.source, args.case_id)
    failures: list[TtoptError] = []
    limit = bounded(
        "finding registers for the programs of the document", MAX_STEPS, str(args.source), ("a part of them (--id)",)
    )
    with limit:
        for case in cases:
            try:
                record = _allocated(case, options)
            except (InputError, InfeasibleError) as error:
                failures.append(error)
                record = _refused(case, error)
            print(json.dumps(record), flush=True)
    if failures and len(cases) == 1:
        raise failures[0]
    return 1 if failures else 0


def run_build(args: argparse.Namespace) -> int:
    """The text on stdout; or, with -o, in a file, and what it holds as JSON on stdout."""
    from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
    from optimizer.kernels.amdgpu.scheduling.occupancy import occupancy

    options = AssemblyOptions(
        args.mcpu,
        allow_spill=args.allow_spill,
        fuse=not args.no_fuse,
        remove_dead_code=args.remove_dead_code,
        loads_at_barriers=not args.loads_apart,
        schedule=not args.no_schedule,
        pipeline_loops=not args.no_pipeline,
        waves=args.waves,
    )
    assembly = build(_one_program(args.source, args.case_id), options)
    for warning in assembly.warnings:
        print(f"ttopt: warning: {assembly.program.name}: {warning}", file=sys.stderr)
    if args.output is None:
        print(assembly.text, end="")
        return 0
    write_text(args.output, assembly.text)
    names = [item.name for _, item in assembly.program.instructions]
    record = {
        "kernel": assembly.program.name,
        "mcpu": options.mcpu,
        "instructions": len(names),
        "vgprs": assembly.footprint.vgprs,
        "sgprs": assembly.footprint.sgprs,
        "agprs": assembly.footprint.agprs,
        "waves_per_simd": occupancy(assembly.footprint, assembly.program.launch, options.mcpu),
        "waits": names.count("s_waitcnt"),
        "nops": names.count("s_nop"),
        "warnings": list(assembly.warnings),
    }
    print(json.dumps(record))
    print(f"wrote {args.output}", file=sys.stderr)
    return 0


def _refused(case: ProgramCase, error: TtoptError) -> dict[str, Any]:
    from optimizer.kernels.amdgpu.errors import AllocationError

    details = error.details if isinstance(error, AllocationError) else {}
    return {"id": case.id, "error": {"code": error.code, "message": str(error), "node": error.node, **details}}


def _allocated(case: ProgramCase, options: AllocationOptions) -> dict[str, Any]:
    """Raises what is wrong with the program, AllocationError if it does not fit."""
    from optimizer.kernels.amdgpu.errors import AllocationError
    from optimizer.kernels.amdgpu.program_json import program_json
    from optimizer.kernels.amdgpu.registers.allocate import allocate
    from optimizer.kernels.amdgpu.registers.allocation_log import log_allocation, log_failure
    from optimizer.kernels.amdgpu.registers.check_allocation import check_allocation

    program = case.program
    try:
        allocation = allocate(program, options)
    except AllocationError as error:
        log_failure(program, error)
        raise
    log_allocation(allocation)
    check_allocation(allocation.program, allocation.mapping)
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
    if allocation.copies:
        record["copies"] = allocation.copies
    if allocation.moves:
        record["moves"] = allocation.moves
    for warning in allocation.warnings:
        print(f"ttopt: warning: {case.id}: {warning}", file=sys.stderr)
    if allocation.warnings:
        record["warnings"] = list(allocation.warnings)
    return record


def run_run(args: argparse.Namespace) -> int:
    """JSON: what every array holds after the run, and what was executed."""
    from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

    if args.seed < 0:
        raise OptionError(f"--seed {args.seed} is negative", node="--seed", limit=0)
    arguments = read_arguments(args.argument, args.seed)
    text, kernel, workgroup = _kernel(args, tuple(arguments))
    done = run_kernel(text, kernel, _sizes(args.grid, "--grid"), workgroup, arguments)
    record: dict[str, Any] = {"kernel": kernel, "buffers": {}}
    for name, array in done.buffers.items():
        record["buffers"][name] = summary(array)
        if args.output is not None:
            write_array(args.output, name, array)
    statistics = dataclasses.asdict(done.statistics)
    statistics["by_mnemonic"] = dict(sorted(done.statistics.by_mnemonic.items()))
    statistics["executed_lines"] = len(done.statistics.executed_lines)
    record["statistics"] = statistics
    print(json.dumps(record))
    return 0


def _kernel(args: argparse.Namespace, names: tuple[str, ...]) -> tuple[str, str, tuple[int, ...]]:
    """Assembly, name of the kernel, threads of a workgroup."""
    from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
    from optimizer.process.json_document import read_text

    given = _sizes(args.workgroup, "--workgroup") if args.workgroup else None
    if args.source.suffix != ".s":
        program = _one_program(args.source, args.case_id)
        wanted = tuple(a.name for a in program.launch.arguments)
        if names != wanted:
            raise OptionError(
                f"--argument gives ({', '.join(names)}), {program.name} takes ({', '.join(wanted)})",
                node=str(args.source),
            )
        return build(program, AssemblyOptions(args.mcpu)).text, program.name, given or program.launch.workgroup
    text = read_text(args.source)
    kernels = re.findall(r"^\s*\.amdhsa_kernel\s+(\S+)", text, re.MULTILINE)
    name = args.kernel or (kernels[0] if len(kernels) == 1 else None)
    if name is None:
        raise OptionError("--kernel must say which kernel to run", node=str(args.source), alternatives=kernels)
    return text, name, given or (64,)


def _sizes(text: str, flag: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,12}(,[0-9]{1,12}){0,2}", text):
        raise OptionError(f"{flag} takes one to three numbers, not '{text}'", alternatives=("64", "16,16"))
    return tuple(map(int, text.split(",")))


def _one_program(source: Path, case_id: str | None) -> Program:
    """The program of a document, JSON or the textual form; OptionError if it holds several and none is chosen."""
    cases = _program_cases(source, case_id, encodable=True)
    if len(cases) != 1:
        raise OptionError(
            f"{len(cases)} programs, of which --id chooses one", node=str(source), alternatives=[c.id for c in cases]
        )
    return cases[0].program


def _program_cases(source: Path, case_id: str | None, encodable: bool = False) -> tuple[ProgramCase, ...]:
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
