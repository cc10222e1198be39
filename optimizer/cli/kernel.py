"""`ttopt kernel`: tile DAG cases, programs and kernels in Python to C++ and a launcher (`compile`), stage by stage
(`print`), run beside their witnesses (`run`), and launched (`launch`)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from optimizer.options import Options
from optimizer.process.files import make_folder, write_text
from optimizer.process.identifiers import FILE_NAMES, Identifiers
from optimizer.process.work_limit import bounded

if TYPE_CHECKING:
    from optimizer.kernels.tensix.ir import Op
    from optimizer.kernels.tensix.launch import BuiltKernel
    from optimizer.kernels.tensix.pipeline import KernelOptions
    from optimizer.kernels.tensix.source.cases import TileCase


def add(commands: Commands) -> None:
    parser = commands.add_parser("kernel", help="compile fused tile regions to Tensix kernels", allow_abbrev=False)
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)
    compile_ = subcommands.add_parser("compile", help="kernels of tile DAG cases or of a program", allow_abbrev=False)
    _add_source(compile_)
    compile_.add_argument(
        "-o", "--output", type=path_argument, metavar="DIR", help="write DIR/<id>/: C++, manifest.json, launch.py"
    )
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
    _add_arguments(run)
    _add_seed(run)
    run.set_defaults(run=run_run)
    launch = subcommands.add_parser("launch", help="run a kernel's launch.py and compare", allow_abbrev=False)
    launch.add_argument("folder", type=path_argument, metavar="DIR", help="what `compile -o` wrote for one kernel")
    launch.add_argument(
        "--device", choices=("real", "sim"), default="real", help="a board (default), or Tenstorrent's simulator"
    )
    _add_arguments(launch)
    _add_seed(launch)
    launch.set_defaults(run=run_launch)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--arg",
        dest="arguments",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="a run-time argument, the same for all cores (repeatable)",
    )


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (default: 0)")


def _checked_seed(args: argparse.Namespace) -> int:
    seed: int = args.seed
    if seed < 0:
        raise OptionError(f"--seed {seed} is negative", node="--seed", limit=0)
    return seed


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        type=path_argument,
        metavar="CASES.json|PROGRAM.ttl|KERNELS.py",
        help="tile DAGs (docs/formats.md), a program in text, or kernels in Python, which is executed",
    )
    parser.add_argument("--id", dest="case_id", metavar="ID", help="only this case or kernel")
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
        "--push",
        choices=("section", "block"),
        default="section",
        help="hand results to the writer section by section (default), or when the block is done",
    )
    parser.add_argument(
        "--enable-unroll", action="store_true", help="write every tile's calls out instead of loops over tiles"
    )
    board = Options.board
    parser.add_argument("--board", default=board, metavar="BOARD", help=f"a preset or a .json file (default: {board})")
    parser.add_argument("--no-fuse", action="store_true", help="send the result of every block op through L1")


def _document_limit(args: argparse.Namespace) -> AbstractContextManager[None]:
    """LimitError around the compiling of more kernels of one file than a person waits for."""
    from optimizer.kernels.tensix.pipeline import MAX_FILE_STEPS

    return bounded("compiling all of it", MAX_FILE_STEPS, str(args.source), ("a part of it (--id)",))


def run_compile(args: argparse.Namespace) -> int:
    from optimizer.kernels.tensix.source.cases import compile_case

    options = _options(args)
    failed = False
    folders = Identifiers(FILE_NAMES)
    if _is_cases(args.source):
        with _document_limit(args):
            for case in _cases(args):
                result = compile_case(case, options)
                failed = failed or result.record["error"] is not None
                _write(args.output, folders.fresh(case.id), result.kernel)
                print(json.dumps(result.record), flush=True)
    else:
        for name, program in _programs(args):
            _compile_program(args, folders.fresh(name), name, program)
    return 1 if failed else 0


def _compile_program(args: argparse.Namespace, folder: str, name: str, program: Op) -> None:
    from optimizer.kernels.tensix.emitted import program_record
    from optimizer.kernels.tensix.launch import build
    from optimizer.kernels.tensix.witness.transfers import check_places

    stages: dict[str, Op] = {}
    kernel = build(program, _options(args), stages.__setitem__)
    check_places(program)
    _write(args.output, folder, kernel)
    print(json.dumps(program_record(name, kernel, stages)), flush=True)


def run_print(args: argparse.Namespace) -> int:
    from optimizer.kernels.tensix.emit_cpp import emit_program
    from optimizer.kernels.tensix.emitted import picture
    from optimizer.kernels.tensix.pipeline import lower, passes
    from optimizer.kernels.tensix.source.text import text_of

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

    programs = _programs(args)
    with _document_limit(args):
        for name, program in programs:
            if len(programs) > 1:
                print(f"// == {name}")
            lowered = lower(program, options, show)
            if args.stages or not (args.print_after or args.lifetimes):
                for kernel in emit_program(lowered):
                    print(f"// -- {kernel.kind}\n{kernel.text}")
    return 0


def run_run(args: argparse.Namespace) -> int:
    failed = False
    programs = _programs(args)
    with _document_limit(args), _runner(args) as run:
        for name, program in programs:
            record: dict[str, Any] = {"id": name}
            try:
                record |= {**run(program), "error": None}
            except (ExecutionError, InputError, InfeasibleError, VerificationError) as error:
                record["error"] = str(error)
            failed = failed or record["error"] is not None or not record.get("agrees", False)
            print(json.dumps(record), flush=True)
    return 1 if failed else 0


def run_launch(args: argparse.Namespace) -> int:
    from optimizer.execution.launching import launched_again

    arguments = dict(_argument(text) for text in args.arguments)
    found = launched_again(args.folder, args.device, _checked_seed(args), arguments)
    print(json.dumps({"id": args.folder.resolve().name, **found.to_json(), "error": None}))
    return 0 if found.right else 1


@contextmanager
def _runner(args: argparse.Namespace) -> Iterator[Callable[[Op], dict[str, Any]]]:
    """What runs one program and says how it compares."""
    options, seed = _options(args), _checked_seed(args)
    arguments = dict(_argument(text) for text in args.arguments)
    if args.device == "none":
        from optimizer.kernels.tensix.witness.whole_tensors import witness

        yield lambda program: witness(program, options, seed, arguments=arguments).to_json()
        return
    from optimizer.execution.launching import KernelDevice, launched

    with KernelDevice(options.board, args.device) as device:
        yield lambda program: launched(program, options, device, seed, arguments).to_json()


def _argument(text: str) -> tuple[str, int]:
    name, equals, number = text.partition("=")
    if not equals or not number.isascii() or not number.isdecimal():
        raise OptionError(f"--arg {text}: NAME=NUMBER is due", node="--arg")
    return name, int(number)


def _options(args: argparse.Namespace) -> KernelOptions:
    from optimizer.device import DeviceSpec
    from optimizer.kernels.tensix.pipeline import KernelOptions

    return KernelOptions(
        allocator=args.allocator,
        fuse=not args.no_fuse,
        schedule=args.schedule,
        push=args.push,
        unroll=args.enable_unroll,
        board=DeviceSpec.load(args.board),
    )


def _is_cases(path: Path) -> bool:
    """Whether a source is a document of tile DAGs, not programs; FormatError for a model."""
    if path.suffix == ".onnx":
        told = (
            "an ONNX model, which `ttopt optimize` reads; tile DAGs (.json), programs (.ttl) or kernels in Python "
            "(.py) are due"
        )
        raise FormatError(told, node=str(path))
    return path.suffix not in (".ttl", ".py")


def _programs(args: argparse.Namespace) -> list[tuple[str, Op]]:
    """Id and program of each that was asked for."""
    from optimizer.kernels.tensix.source.cases import case_program
    from optimizer.kernels.tensix.source.python_file import read_kernels
    from optimizer.kernels.tensix.source.rules import check_source
    from optimizer.kernels.tensix.source.text import parse
    from optimizer.process.json_document import read_text

    if _is_cases(args.source):
        return [(case.id, case_program(case)) for case in _cases(args)]
    if args.source.suffix == ".py":
        found = read_kernels(args.source)
    else:
        program = parse(read_text(args.source))
        check_source(program)
        found = [(program.string("sym_name"), program)]
    return _chosen(args, "kernel", found, [name for name, _ in found])


def _cases(args: argparse.Namespace) -> tuple[TileCase, ...]:
    from optimizer.kernels.tensix.source.cases import read_cases
    from optimizer.process.json_document import read

    cases = read_cases(read(args.source))
    return tuple(_chosen(args, "case", cases, [case.id for case in cases]))


def _chosen[T](args: argparse.Namespace, kind: str, found: Sequence[T], ids: list[str]) -> list[T]:
    """All, or those of the id that was named; UnknownNameError if there is none."""
    if args.case_id is None:
        return list(found)
    if args.case_id not in ids:
        raise UnknownNameError(kind, args.case_id, ids)
    return [one for one, id_ in zip(found, ids, strict=True) if id_ == args.case_id]


def _write(folder: Path | None, name: str, kernel: BuiltKernel | None) -> None:
    """A folder of its own for a kernel that was asked for and compiled."""
    if folder is None or kernel is None:
        return
    from optimizer.export.launcher import kernel_files

    target = folder / name
    make_folder(target)
    for file, text in kernel_files(kernel).items():
        write_text(target / file, text)
    print(f"wrote {target}", file=sys.stderr)
