"""`ttopt optimize` and `ttopt inspect`: from a model file."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import Commands, add_format, add_options, add_verbosity, options_from, path_argument
from optimizer.cli.ending import INTERRUPTED
from optimizer.cli.interruption import Interruption
from optimizer.cli.progress import ProgressBar
from optimizer.cli.tables import as_json, bytes_text, pairs, print_record, table
from optimizer.cli.terminal import one_line, with_shown_names
from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.wording.plan import Document, before_after, figures, notices, plan_text

if TYPE_CHECKING:
    from optimizer.ir.graph import Graph
    from optimizer.options import Options
    from optimizer.pipeline import ProgressEvent
    from optimizer.values.given import GivenValues

MODEL_HELP = "an ONNX file or a JSON graph (docs/formats.md)"
EACH_STEP = "all"
"""As `--print-after`: every import pass and stage that changes the graph."""


def add(commands: Commands) -> None:
    optimize = commands.add_parser(
        "optimize", help="choose layouts for a model, write the annotated graph", allow_abbrev=False
    )
    optimize.add_argument("model", type=path_argument, metavar="MODEL", help=MODEL_HELP)
    optimize.add_argument(
        "-o", "--output", type=path_argument, metavar="DIR", help="folder for results (default: MODEL.ttopt)"
    )
    optimize.add_argument(
        "--emit", action="append", default=[], metavar="NAMES", help="more artifacts, a,b,... (`ttopt emitters`)"
    )
    for flag, what in (("--weights", "weights"), ("--calibration", "inputs")):
        optimize.add_argument(
            flag, type=path_argument, metavar="FILE",
            help=f"{what} that an error budget is measured with, by name (.npz or .safetensors; docs/precision.md)",
        )  # fmt: skip
    optimize.add_argument(
        "--print-after", action="append", default=[], metavar="NAME",
        help="print the graph on stderr after an import pass or a stage, or after `all` that change it",
    )  # fmt: skip
    add_format(optimize)
    add_verbosity(optimize)
    add_options(optimize)
    optimize.set_defaults(run=run_optimize)

    inspect = commands.add_parser("inspect", help="what the importer understands of a model", allow_abbrev=False)
    inspect.add_argument("model", type=path_argument, metavar="MODEL", help=MODEL_HELP)
    inspect.add_argument("--text", action="store_true", help="print the imported graph, one line an op")
    add_format(inspect)
    add_verbosity(inspect)
    add_options(inspect)
    inspect.set_defaults(run=run_inspect)


def run_optimize(args: argparse.Namespace) -> int:
    options = options_from(args)
    emitters = checked_emitters(args.emit)
    folder: Path = args.output or default_folder(args.model)
    if folder.exists() and not folder.is_dir():
        raise OptionError("the output must be a folder", node=str(folder))
    given = _given(args, options)
    from optimizer.export.registry import emit
    from optimizer.pipeline import optimize_file

    with Interruption() as interrupted, ProgressBar(args.model.name) as progress:

        def show(event: ProgressEvent) -> None:
            interrupted.enter_stage(event.stage)
            progress(event)

        with read_from(args.model), printed_after(args.print_after):
            result = optimize_file(args.model, options, show, interrupted=interrupted, given=given, began=args.began)
        written = [emit(result, name, folder) for name in ("json", *emitters)]
    if args.format == "json":
        print(as_json({"model": args.model.stem, **result.summary.to_json(), "files": [str(p) for p in written]}))
    else:
        print(summary_text(with_shown_names(result.to_json()), one_line(args.model.stem)))
        print()
    for path in written:
        print(f"wrote {path}", file=sys.stderr if args.format == "json" else sys.stdout)
    if interrupted():
        print("ttopt: interrupted; the result is the best plan found until then", file=sys.stderr)
        return INTERRUPTED
    checked, precision = result.summary.check, result.summary.precision
    is_kept = result.summary.unjudged is None and (precision is None or precision.kept)
    return 0 if is_kept and (checked is None or checked.ok) else 1


def summary_text(document: Document, name: str) -> str:
    """Several lines under the name a person knows the model by; every figure is the document's own."""
    summary = document["summary"]
    title = f"{name} on {document['device']['name']}: {plan_text(summary)}"
    compared = table(("", "all in DRAM", "this plan", "change"), before_after(summary))
    seconds = ("seconds", f"{sum(document['timings']['stages_s'].values()):.1f}")
    return "\n\n".join([title, compared, pairs([*figures(document), *notices(document), seconds])])


def _given(args: argparse.Namespace, options: Options) -> GivenValues | None:
    """The arrays of `--weights` and `--calibration`; OptionError where nothing is measured with them."""
    if args.weights is None and args.calibration is None:
        return None
    if options.least_pcc is None:
        flag = "--weights" if args.weights is not None else "--calibration"
        raise OptionError("nothing is measured without an error budget", node=flag, alternatives=("--least-pcc 0.99",))
    from optimizer.execution.arrays import read_file
    from optimizer.values.given import GivenValues

    weights, inputs = (None if path is None else read_file(path) for path in (args.weights, args.calibration))
    return GivenValues(weights, inputs)


@contextmanager
def printed_after(names: Iterable[str]) -> Iterator[None]:
    """In the block the graph is printed on stderr after each of these; UnknownNameError names those there are."""
    wanted = set(names)
    if not wanted:
        yield
        return
    from optimizer.export.placed_text import placed_text
    from optimizer.ir.watching import watched

    known = _known_steps()
    for name in sorted(wanted):
        if name not in known:
            raise UnknownNameError("pass or stage", name, known, node="--print-after")

    last = ""

    def show(name: str, graph: Graph, layouts: Mapping[str, Any]) -> None:
        nonlocal last
        text = placed_text(graph, layouts)
        if name in wanted or (EACH_STEP in wanted and text != last):
            print(f"# after {name}\n{text}", file=sys.stderr)
        last = text

    with watched(show):
        yield


def _known_steps() -> Collection[str]:
    from optimizer.importers.passes import passes
    from optimizer.pipeline.stages import NAMES

    return dict.fromkeys((EACH_STEP, *(step.name for step in passes()), *NAMES))


@contextmanager
def read_from(model: Path) -> Iterator[None]:
    """In the block, a FormatError that names no place is one of the model's file."""
    try:
        yield
    except FormatError as error:
        if error.node is None and str(model) not in error.message:
            error = FormatError(error.message, node=str(model), limit=error.limit, alternatives=error.alternatives)
        raise error from error.__cause__


def default_folder(model: Path) -> Path:
    """`MODEL.ttopt` beside the model."""
    if not model.name:
        raise OptionError("the model must be a file", node=str(model))
    return model.with_name(model.stem + ".ttopt")


def checked_emitters(texts: Iterable[str]) -> tuple[str, ...]:
    """Emitters of `--emit a,b --emit c` without `json`, which is always written; unknown names raise."""
    from optimizer.export.registry import emitter_names

    known = emitter_names()
    names = dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise UnknownNameError("emitter", name, known)
    return tuple(name for name in names if name != "json")


def run_inspect(args: argparse.Namespace) -> int:
    options = options_from(args)
    from optimizer.answers.inspection import inspection
    from optimizer.ir.text import graph_text
    from optimizer.pipeline import import_model

    with ProgressBar(args.model.name), read_from(args.model):
        if args.text:
            print(graph_text(import_model(args.model, options).graph), end="")
            return 0
        record = inspection(args.model, options)
    print_record(record, args.format, inspection_text)
    return 0


def survey_text(record: dict[str, Any]) -> str:
    """The survey for a person, with what to say so that the whole model can be inspected."""

    def shown(tensor: dict[str, Any]) -> str:
        dims = "unknown shape" if tensor["shape"] is None else f"[{', '.join(map(str, tensor['shape']))}]"
        return f"{tensor['dtype'] or 'unknown type'} {dims}"

    nameless = [v["id"] for v in record["inputs"] if v["shape"] is None or "?" in v["shape"]]
    flags = [f"--dim {quote(f'{name}=N')}" for name in record["open_dims"]]
    flags += [f"--input-shapes {quote(f'{name}:SIZES')}" for name in nameless]
    lines = [
        ("model", record["name"]),
        *((f"input {v['id']}", shown(v)) for v in record["inputs"]),
        *((f"output {v['id']}", shown(v)) for v in record["outputs"]),
        ("open sizes", ", ".join([*record["open_dims"], *(f"of {name}" for name in nameless)])),
        ("to go on", f"give each a number: {' '.join(flags)}"),
        ("parameters", f"{record['parameter_count']:,}"),
        ("unsupported", unsupported_text(record["unsupported"])),
        *(("warning", warning) for warning in record["warnings"]),
    ]
    return pairs(lines) + "\n\n" + table(("op in the file", "count"), Counter(record["foreign_ops"]).most_common())


def inspection_text(record: dict[str, Any]) -> str:
    """The inspection for a person; the schedule is left to `--format json`."""
    if record["ops"] is None:
        return survey_text(record)
    foreign, ops = sum(record["foreign_ops"].values()), sum(record["ops"].values())
    lines = [
        ("model", record["name"]),
        *((f"input {v['id']}", f"{v['dtype']} {v['shape']}") for v in record["inputs"]),
        *((f"output {v['id']}", f"{v['dtype']} {v['shape']}") for v in record["outputs"]),
        ("parameters", f"{record['parameter_count']:,} ({bytes_text(record['parameter_bytes'])})"),
        ("ops", f"{foreign} in the file -> {ops} to run, {record['ops_on_weights_only']} on weights only"),
        ("fused", ", ".join(f"{name} x{n}" for name, n in record["fused"].items()) or "nothing"),
        ("converted", ", ".join(f"{name} x{n}" for name, n in record["dtype_conversions"].items()) or "nothing"),
        ("unsupported", unsupported_text(record["unsupported"])),
        *(("warning", warning) for warning in record["warnings"]),
    ]
    return pairs(lines) + "\n\n" + table(("op", "count"), Counter(record["ops"]).most_common())


def unsupported_text(found: list[dict[str, Any]]) -> str:
    """`none`, or op types with their number and first node."""
    return ", ".join(f"{u['op']} x{len(u['nodes'])} (first: {u['nodes'][0]})" for u in found) or "none"
