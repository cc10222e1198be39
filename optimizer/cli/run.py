"""`ttopt run`: a result's program executed with weights and inputs, its values compared with the model's."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import RESULT_HELP, Commands, add_format, path_argument
from optimizer.cli.progress import ProgressBar
from optimizer.cli.tables import pairs, print_record, table, time_text
from optimizer.errors import OptionError

if TYPE_CHECKING:
    from optimizer.execution import Reference
    from optimizer.execution.running import Outcome, RunOptions
    from optimizer.result import OptimizedGraph

DEVICES = ("mock", "emulate", "sim", "real")
LARGEST_SEED = (1 << 63) - 1


def add(commands: Commands) -> None:
    run = commands.add_parser("run", help="execute a result's program with weights and inputs", allow_abbrev=False)
    run.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    run.add_argument(
        "--weights",
        type=path_argument,
        metavar="FILE",
        required=True,
        help="the model (ONNX), weights.safetensors of `--emit weights`, or an .npz file by the names in PARAMETERS",
    )
    run.add_argument(
        "--inputs", type=path_argument, metavar="X.npz", help="arrays by the names of the inputs (default: random)"
    )
    run.add_argument("--seed", type=_whole, default=0, metavar="N", help="of random inputs (default: 0)")
    run.add_argument(
        "--device",
        choices=DEVICES,
        help="what to run on; emulate: every op and rounding on this CPU (default: TTOPT_TTMETAL_DEVICE, else mock)",
    )
    run.add_argument("--compare", action="store_true", help="compare outputs with the model's, by onnxruntime in f32")
    run.add_argument("--per-op", action="store_true", help="compare results of ops too, and name the first bad one")
    run.add_argument("--model", type=path_argument, metavar="MODEL.onnx", help="to compare with (default: --weights)")
    run.add_argument(
        "--expected", type=path_argument, metavar="Y.npz", help="compare with these arrays, by the names of the outputs"
    )
    run.add_argument(
        "--least-pcc", type=_number, metavar="R", help="exit 1 below it (default: the plan's error budget, else 0.99)"
    )
    run.add_argument(
        "--most-error",
        type=_number,
        metavar="E",
        help="exit 1 above it: relative L2 error (default: none with an error budget, else 0.1)",
    )
    run.add_argument("--iterations", type=_whole, default=0, metavar="N", help="runs to time, on a real device")
    run.add_argument("--trace", action="store_true", help="also run it from a trace, and compare with plain runs")
    run.add_argument("--queues", type=int, choices=(1, 2), default=1, help="2: inputs are written while a run computes")
    run.add_argument("--step-seconds", type=_number, metavar="S", help="how long one op may take")
    run.add_argument("-o", "--output", type=path_argument, metavar="Y.npz", help="file to write the outputs to")
    add_format(run)
    run.set_defaults(run=run_run)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"a whole number from 0 to 2**63 - 1, got '{text}'")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"a number of at least 0, got '{text}'")
    return number


def run_run(args: argparse.Namespace) -> int:
    from optimizer.execution import RunOptions, read_weights, run_result
    from optimizer.execution.arrays import read_file
    from optimizer.execution.comparing import bounds_of
    from optimizer.export.reader import read_result
    from optimizer.opmodel.ttmetal.location import device_source

    options = RunOptions(
        args.device or device_source(),
        args.seed,
        args.iterations,
        step_seconds=args.step_seconds or None,
        trace=args.trace,
        queues=args.queues,
    )
    _check(args, options)
    result = read_result(args.result)
    usual, given = bounds_of(result), {"least_pcc": args.least_pcc, "most_error": args.most_error}
    options = replace(options, bounds=replace(usual, **{k: v for k, v in given.items() if v is not None}))
    with ProgressBar(args.result.name) as progress:
        outcome = run_result(
            result,
            read_weights(args.weights, result),
            None if args.inputs is None else read_file(args.inputs),
            options,
            reference=_reference(args, result),
            expected=None if args.expected is None else read_file(args.expected),
            per_op=args.per_op,
            report=lambda number, count, op: progress.show(number / max(count, 1), op),
        )
    written = _written(args.output, outcome)
    record = {**outcome.record, "warnings": _warnings(args, result), "files": written}
    print_record(record, args.format, _text)
    return 0 if outcome.ok else 1


def _check(args: argparse.Namespace, options: RunOptions) -> None:
    """What can be told before anything is read."""
    compares = args.compare or args.per_op
    if compares and args.expected is not None:
        raise OptionError("--compare and --expected say two things to compare with", node="run")
    if options.device == "mock":
        named = {"--compare": compares, "--expected": args.expected is not None, "--output": args.output is not None}
        wanted = [name for name, given in named.items() if given]
        if wanted:
            raise OptionError(
                f"a mock device computes no values for {wanted[0]}",
                node="run",
                alternatives=("--device emulate", "sim", "real"),
            )


def _reference(args: argparse.Namespace, result: OptimizedGraph) -> Reference | None:
    if not (args.compare or args.per_op):
        return None
    from optimizer.execution import Reference
    from optimizer.execution.running import taps
    from optimizer.execution.weights import holds_arrays
    from optimizer.export.model_file import limits_of

    model: Path = args.model or args.weights
    if holds_arrays(model):
        raise OptionError(f"{model.name} holds no model to compare with: name one by --model", node="run")
    return Reference(model, limits_of(result), taps(result) if args.per_op else ())


def _warnings(args: argparse.Namespace, result: OptimizedGraph) -> list[str]:
    from optimizer.execution.weights import holds_arrays, same_model

    model: Path = args.model or args.weights
    if holds_arrays(model) or same_model(model, result):
        return []
    return [f"{model.name} is another file than the one that the result was made of"]


def _written(path: Path | None, outcome: Outcome) -> list[str]:
    if path is None:
        return []
    from optimizer.export.ttnn_py.run_model import write_arrays
    from optimizer.process.files import replacing

    with replacing(path) as file:
        write_arrays(file, outcome.outputs)
    return [str(path)]


_MEASURES = ("pcc", "relative_error", "ratio", "largest_error")
_BLIND = "errors before it hardly show; --per-op compares what it is made of"
_HEADER = ("PCC", "relative error", "ratio", "largest error", "")


def _text(record: dict[str, Any]) -> str:
    lines = [
        ("model", f"{record['model']} on {record['board']}, {record['device']} device"),
        ("ran", f"{record['steps']} ops, {record['weights']} weights, inputs: {record['inputs']}"),
        *(("warning", warning) for warning in record["warnings"]),
        *(("wrote", path) for path in record["files"]),
    ]
    if record["device"] == "mock":
        lines.append(("values", "none: a mock device checks shapes, types and places"))
    time = record["time"]
    if time is not None:
        measured = f"{time_text(time['best_ns'])} at best, {time_text(time['median_ns'])} in the middle"
        lines.append(("time", f"{measured} of {time['iterations']} runs; predicted {time_text(time['predicted_ns'])}"))
    if record["full_speed"] is not None:
        lines += _full_speed_lines(record["full_speed"])
    text = pairs(lines)
    outputs = record["outputs"]
    if outputs and "pcc" in outputs[0]:
        text += "\n\n" + table(("output", *_HEADER), [_row(entry["name"], entry) for entry in outputs])
        blind = [entry for entry in outputs if entry["blind"]]
        text += "".join(f"\n{entry['name']} is {entry['blind']}: {_BLIND}" for entry in blind)
    if record["per_op"] is not None:
        text += "\n\n" + _per_op_text(record["per_op"])
    return text


def _full_speed_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    how = ("from a trace" if found["trace"] else "without a trace") + f", {found['queues']} command queue(s)"
    size = "" if found["trace_bytes"] is None else f"; the trace takes {found['trace_bytes']} bytes of DRAM"
    lines = [("at full speed", how + size), *(("warning", remark) for remark in found["remarks"])]
    if found["checked_runs"]:
        lines.append(("checked", f"the outputs of {found['checked_runs']} runs are those of plain runs, bit for bit"))
    if found["per_run_ns"] is not None:
        speed = f"{1e9 / found['per_run_ns']:.1f} runs a second, {time_text(found['per_run_ns'])} a run"
        lines.append(("throughput", f"{speed}; predicted {time_text(found['predicted_ns'])} without transfers"))
        shown = ", ".join(f"{name} {time_text(ns)}" for name, ns in found["latency_ns"].items())
        lines.append(("latency", f"{shown} of {found['iterations']} runs one by one"))
    return lines


def _row(name: str, entry: dict[str, Any]) -> list[str]:
    return [name, *(f"{entry[key]:.6g}" for key in _MEASURES), "ok" if entry["ok"] else "bad"]


def _per_op_text(found: dict[str, Any]) -> str:
    first = found["first_bad"]
    shown = [_row(f"{entry['op']} ({entry['kind']})", entry) for entry in found["ops"]]
    told = "none" if first is None else f"{first['op']} ({first['kind']}), PCC {first['pcc']:.6g}"
    told_pairs = [
        ("first bad op", told),
        ("compared", f"{found['compared']} results, {found['skipped']} have no match"),
    ]
    return table(("op", *_HEADER), shown) + "\n\n" + pairs(told_pairs)
