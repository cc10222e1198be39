"""Whole programs with random weights on tt-metal's simulator, against onnxruntime in f32.

    python benchmarks/simulated_programs.py MODEL.onnx[:TENSOR]... [--board n150] [--policy global] [--per-op]
                                            [--device sim|real] [--seed S] [--fuse-kernels] [-o RUNS.jsonl]

Weights keep activations near unit variance; those and random inputs are made from the seed, a weight that the file
holds stays. `MODEL.onnx:TENSOR` is the model up to that tensor, the only output then (the first layers of a deep one).
Each is planned, and its emitted program runs as `ttopt run` runs it. Prints one line an output: kernels of ours and the
ops in them, Pearson correlation, relative error, ratio, seconds; `--per-op` names the ops of the least correlation and
of the largest gain. `-o` appends one JSON line a model and skips those that it holds. Exits 1 if a correlation is below
0.99, an error above 0.1 or a ratio more than 2 % off.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from optimizer.cli.tables import table
from optimizer.errors import TtoptError
from optimizer.execution import Reference, RunOptions, read_weights, run_result
from optimizer.execution.running import taps
from optimizer.export.ttnn_py.run_model import to_bfloat16
from optimizer.options import Options
from optimizer.pipeline import optimize_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "importers"))
from witness import random_inputs, random_weights, to_float32  # noqa: E402 - the witness is the tests'

COLUMNS = ("model", "output", "calls", "kernels", "PCC", "error", "ratio", "seconds", "result")
MOST_GAIN = 0.02


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx[:TENSOR]")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--policy", default="global")
    parser.add_argument("--per-op", action="store_true")
    parser.add_argument("--device", choices=("sim", "real"), default="sim")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fuse-kernels", action="store_true", help="with kernels of ours where they pay")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="JSON lines; what is there is kept")
    args = parser.parse_args()
    known = {} if args.output is None or not args.output.exists() else _known(args.output)
    for name in args.models:
        kernels = ("kernels",) if args.fuse_kernels else ()
        key = " ".join((name.rpartition("/")[2], args.board, args.policy, str(args.seed), *kernels))
        if key not in known:
            known[key] = {"key": key, **_run(name, args)}
            print(json.dumps({k: v for k, v in known[key].items() if k != "per_op"}), file=sys.stderr, flush=True)
            if args.output is not None:
                with args.output.open("a") as file:
                    file.write(json.dumps(known[key]) + "\n")
    rows = [row for record in known.values() for row in _rows(record)]
    print(table(COLUMNS, rows))
    for record in known.values():
        for text in _worst(record):
            print(text)
    return 0 if all(row[-1] == "right" for row in rows) else 1


def _known(path: Path) -> dict[str, Any]:
    return {record["key"]: record for record in map(json.loads, path.read_text().splitlines())}


def _run(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """What a run gave, or why there is none."""
    start = time.perf_counter()
    file, _, tensor = name.partition(":")
    rng = np.random.default_rng(args.seed)
    model = weighted(until(onnx.load(file, load_external_data=False), tensor), rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(file).name
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
        inputs = random_inputs(model.graph, rng)
        try:
            result = optimize_file(path, Options(board=args.board, policy=args.policy, fuse_kernels=args.fuse_kernels))
            reference = Reference(path, taps=taps(result) if args.per_op else ())
            weights = read_weights(path, result)
            options = RunOptions(device=args.device)
            found = run_result(result, weights, inputs, options, reference=reference, per_op=args.per_op)
        except TtoptError as error:
            return {"problem": f"{type(error).__name__}: {error}", "seconds": time.perf_counter() - start}
    kernels = [len(region["ops"]) for region in result.fused_kernels]
    return {**found.record, "problem": None, "kernels": kernels, "seconds": time.perf_counter() - start}


def until(model: onnx.ModelProto, tensor: str) -> onnx.ModelProto:
    """A model that ends at a tensor; all of it if none is named."""
    if not tensor:
        return model
    kept: list[onnx.NodeProto] = []
    needed = {tensor}
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(node.input)
    if not kept:
        raise SystemExit(f"no node of the model computes '{tensor}'")
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(reversed(kept))
    for held in (model.graph.initializer, model.graph.input):
        rest = [entry for entry in held if entry.name in needed]
        del held[:]
        held.extend(rest)
    said = next((v for v in model.graph.value_info if v.name == tensor), onnx.ValueInfoProto(name=tensor))
    model.graph.output.append(said)
    shaped = onnx.shape_inference.infer_shapes(model)
    found = next((v for v in shaped.graph.output if v.type.HasField("tensor_type")), None)
    if found is None:
        raise SystemExit(f"the shape of '{tensor}' is not known")
    return shaped


def weighted(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """The model in f32 with random weights, all of which bf16 holds, for those whose data the file lacks."""
    model = to_float32(model)
    for name, array in random_weights(model.graph, rng).items():
        held = next(t for t in model.graph.initializer if t.name == name)
        held.CopyFrom(numpy_helper.from_array(_in_bf16(array), name))
    return model


def _in_bf16(array: Any) -> Any:
    if array.dtype != np.float32:
        return array
    return (to_bfloat16(array).astype(np.uint32) << 16).view(np.float32).reshape(array.shape)


def _rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    model, seconds = record["key"].split()[0], f"{record['seconds']:.0f}"
    if record["problem"]:
        return [(model, "", "", "", "", "", "", seconds, record["problem"])]
    kernels = f"{len(record['kernels'])} ({sum(record['kernels'])})"
    return [
        (
            model, o["name"], str(record["steps"]), kernels, f"{o['pcc']:.5f}", f"{o['relative_error']:.4f}",
            f"{o['ratio']:.4f}", seconds, "right" if o["ok"] and abs(o["ratio"] - 1) <= MOST_GAIN else "WRONG",
        )
        for o in record["outputs"]
    ]  # fmt: skip


def _worst(record: dict[str, Any]) -> list[str]:
    """Ops of the least correlation and of the largest gain, if ops were compared."""
    ops = (record.get("per_op") or {}).get("ops") or []
    if not ops:
        return []
    least, most = min(ops, key=lambda o: o["pcc"]), max(ops, key=lambda o: abs(o["ratio"] - 1))
    text = "{}: {} of {} ops: {op} ({kind}), PCC {pcc:.5f}, error {relative_error:.4f}, ratio {ratio:.4f}"
    model = record["key"].split()[0]
    return [text.format(model, what, len(ops), **o) for what, o in (("least PCC", least), ("largest gain", most))]


if __name__ == "__main__":
    sys.exit(main())
