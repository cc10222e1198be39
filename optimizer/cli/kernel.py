"""`ttopt kernel`: tile DAG cases and kernel programs to C++ (`compile`), stage by stage (`print`), and run (`run`)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import Commands, path_argument
from optimizer.errors import (
    ExecutionError,
    FormatError,
    InfeasibleError,
    InputError,
    OptionError,
    UnknownNameError,
    VerificationError,
)
from optimizer.files import make_folder, write_text
from optimizer.identifiers import FILE_NAMES, Identifiers

if TYPE_CHECKING:
    from optimizer.kernels.tensix.cases import TileCase
    from optimizer.kernels.tensix.ir import Op
    from optimizer.kernels.tensix.pipeline import KernelOptions


def add(commands: Commands) -> None:
    parser = commands.add_parser("kernel", help="compile fused tile regions to Tensix kernels", allow_abbrev=False)
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)
    compile_ = subcommands.add_parser("compile", help="kernels of tile DAG cases or of a program", allow_abbrev=False)
    _add_source(compile_)
    compile_.add_argument("-o", "--output", type=path_argument, metavar="DIR", help="write DIR/<id>/*.cpp")
    compile_.set_defaults(run=run_compile)
    print_ = subcommands.add_parser("print", help="the program after each pass, and its C++", allow_abbrev=False)
    _add_source(print_)
    print_.add_argument("--stages", action="store_true", help="after every pass")
    print_.add_argument(
        "--print-after", metavar="PASS", action="append", default=[], help="after this pass (repeatable)"
    )
    print_.add_argument("--lifetimes", action="store_true", help="when each value is in DST, and in which slot")
    print_.set_defaults(run=run_print)
    run = subcommands.add_parser("run", help="run the C++ and compare it with numpy", allow_abbrev=False)
    _add_source(run)
    run.add_argument(
        "--device",
        choices=("none", "sim", "real"),
        default="none",
        help="launch with ttnn on a simulator or a board, besides running under g++ here (default: none)",
    )
    run.add_argument(
        "--arg",
        dest="arguments",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="a run-time argument, the same for all cores (repeatable)",
    )
    run.add_argument("--seed", type=int, default=0, help="of the random inputs (default: 0)")
    run.set_defaults(run=run_run)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        type=path_argument,
        metavar="CASES.json|PROGRAM.ttl",
        help="tile DAGs (docs/formats.md), or a program in text",
    )
    parser.add_argument("--id", dest="case_id", metavar="ID", help="only this case")
    parser.add_argument(
        "--allocator", choices=("default", "seed"), default="default", help="what places values in DST slots"
    )
    parser.add_argument(
        "--schedule",
        choices=("search", "pressure", "critical-path", "given"),
        help="order of a body's ops: the cheapest, by register pressure, by the longest path, as given"
        " (default: search; with --allocator seed given)",
    )
    parser.add_argument(
        "--enable-unroll", action="store_true", help="write every tile's calls out instead of loops over tiles"
    )
    parser.add_argument("--no-fuse", action="store_true", help="send the result of every block op through L1")


def run_compile(args: argparse.Namespace) -> int:
    from optimizer.kernels.tensix.cases import compile_case
    from optimizer.kernels.tensix.compute_config import compute_config
    from optimizer.kernels.tensix.pipeline import compile_program, read_short

    options = _options(args)
    failed = False
    folders = Identifiers(FILE_NAMES)
    if _is_program(args.source):
        program = _program(args.source)
        kernels = compile_program(program, options)
        name = program.string("sym_name")
        _write(args.output, folders.fresh(name), {k.kind: k.text for k in kernels})
        record = {
            "id": name,
            "kernels": [k.kind for k in kernels],
            "read_at_19_bits": read_short(program),
            "compute_config": compute_config(program, options.board.arch).to_json(),
            "error": None,
        }
        print(json.dumps(record))
        return 0
    for case in _cases(args):
        result = compile_case(case, options)
        failed = failed or result.record["error"] is not None
        _write(args.output, folders.fresh(case.id), {k.kind: k.text for k in result.kernels})
        print(json.dumps(result.record), flush=True)
    return 1 if failed else 0


def run_print(args: argparse.Namespace) -> int:
    from optimizer.kernels.tensix.emit_cpp import emit_program
    from optimizer.kernels.tensix.lifetimes import picture
    from optimizer.kernels.tensix.pipeline import lower, passes
    from optimizer.kernels.tensix.text import text_of

    options = _options(args)
    known = ("initial", *(p.name for p in passes(options)))
    for name in args.print_after:
        if name not in known:
            raise UnknownNameError("pass", name, known)

    def show(stage: str, program: Op) -> None:
        if args.stages or stage in args.print_after:
            print(f"// -- {stage}\n{text_of(program)}")
        if args.lifetimes and stage == "assign-dst":
            print(picture(program))

    for _, program in _programs(args):
        lowered = lower(program, options, show)
        if args.stages or not (args.print_after or args.lifetimes):
            for kernel in emit_program(lowered):
                print(f"// -- {kernel.kind}\n{kernel.text}")
    return 0


def run_run(args: argparse.Namespace) -> int:
    failed = False
    if args.seed < 0:
        raise OptionError(f"--seed {args.seed} is negative", node="--seed", limit=0)
    programs = _programs(args)
    with _runner(args) as run:
        for name, program in programs:
            record: dict[str, Any] = {"id": name}
            try:
                record |= {**run(program), "error": None}
            except (ExecutionError, InputError, InfeasibleError, VerificationError) as error:
                record["error"] = str(error)
            failed = failed or record["error"] is not None or not record.get("agrees", False)
            print(json.dumps(record), flush=True)
    return 1 if failed else 0


@contextmanager
def _runner(args: argparse.Namespace) -> Iterator[Callable[[Op], dict[str, Any]]]:
    """What runs one program and says how it compares."""
    options = _options(args)
    arguments = dict(_argument(text) for text in args.arguments)
    if args.device == "none":
        from optimizer.kernels.tensix.whole_tensors import compared
        from optimizer.kernels.tensix.witness import is_one_block, witness

        def run_here(program: Op) -> dict[str, Any]:
            if is_one_block(program) and not arguments:
                return witness(program, options, args.seed).to_json()
            return compared(program, options, args.seed, arguments).to_json()

        yield run_here
        return
    from optimizer.execution.launching import KernelDevice, launched

    with KernelDevice(options.board, args.device) as device:
        yield lambda program: launched(program, options, device, args.seed, arguments).to_json()


def _argument(text: str) -> tuple[str, int]:
    name, equals, number = text.partition("=")
    if not equals or not number.isascii() or not number.isdecimal():
        raise OptionError(f"--arg {text}: NAME=NUMBER is due", node="--arg")
    return name, int(number)


def _options(args: argparse.Namespace) -> KernelOptions:
    from optimizer.kernels.tensix.pipeline import KernelOptions

    return KernelOptions(
        allocator=args.allocator,
        fuse=not args.no_fuse,
        schedule=args.schedule,
        unroll=args.enable_unroll,
    )


def _is_program(path: Path) -> bool:
    """Whether a source is a program in text; FormatError for a model."""
    if path.suffix == ".onnx":
        told = "an ONNX model, which `ttopt optimize` reads; tile DAGs (.json) and programs (.ttl) are due"
        raise FormatError(told, node=str(path))
    return path.suffix == ".ttl"


def _program(path: Path) -> Op:
    from optimizer.kernels.json_document import read_text
    from optimizer.kernels.tensix.source_rules import check_source
    from optimizer.kernels.tensix.text import parse

    program = parse(read_text(path))
    check_source(program)
    return program


def _programs(args: argparse.Namespace) -> list[tuple[str, Op]]:
    """Id and program of each."""
    from optimizer.kernels.tensix.cases import case_program

    if _is_program(args.source):
        program = _program(args.source)
        return [(program.string("sym_name"), program)]
    return [(case.id, case_program(case)) for case in _cases(args)]


def _cases(args: argparse.Namespace) -> tuple[TileCase, ...]:
    from optimizer.kernels.json_document import read
    from optimizer.kernels.tensix.cases import read_cases

    cases = read_cases(read(args.source))
    if args.case_id is None:
        return cases
    chosen = tuple(case for case in cases if case.id == args.case_id)
    if not chosen:
        raise UnknownNameError("case", args.case_id, [case.id for case in cases])
    return chosen


def _write(folder: Path | None, name: str, texts: dict[str, str]) -> None:
    if folder is None or not texts:
        return
    target = folder / name
    make_folder(target)
    for kind, text in texts.items():
        write_text(target / f"{kind}.cpp", text)
    print(f"wrote {target}", file=sys.stderr)
