"""Every document that a command reads, with numbers at and beyond every limit, fields that are missing and names of
nothing, given to every command that reads it and every emitter."""

from __future__ import annotations

import copy
import csv
import functools
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing import json_graphs
from fuzzing.commands import payload_of, run_payload
from fuzzing.document_mutations import (
    EXTREMES,
    TEXT_MUTATORS,
    damaged,
    double_value,
    encoded,
    exchanged,
    extreme,
    remove_value,
    replace_value,
)
from fuzzing.harness import Case
from fuzzing.plan_corruptions import SAMPLES, plan
from fuzzing.plans.kinds import sealed
from optimizer.device import DeviceSpec
from optimizer.export.registry import emitter_names
from optimizer.export.ttnn_py.run_model import write_arrays

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
MUTATORS = (extreme, extreme, extreme, extreme, exchanged, exchanged, remove_value, remove_value, replace_value,
            double_value)  # fmt: skip
POLICIES = ("dram", "dfsharding", "global")


class DocumentTarget:
    """Results, rows of the OpModel, tables, boards, arrays, options: by every command and emitter that reads them."""

    name = "documents"
    seconds = 30.0
    memory_bytes = 2 << 30

    def __init__(self) -> None:
        for sample in SAMPLES:  # solved once, before workers are forked
            plan(sample)

    def case(self, rng: random.Random) -> Case:
        return rng.choice(_KINDS)(rng)

    def run(self, payload: bytes) -> str:
        return run_payload(payload)


def _mutated(document: Any, rng: random.Random, least: int = 1) -> str:
    """Change a document in place; what was done."""
    done = []
    for _ in range(max(least, rng.choice((1, 1, 1, 2, 3)))):
        mutate = rng.choice(MUTATORS)
        mutate(document, rng)
        done.append(mutate.__name__)
    return " + ".join(done)


# -- results -----------------------------------------------------------------------------------------------
def _result(rng: random.Random) -> Case:
    sample = rng.choice(list(SAMPLES))
    document = plan(sample)
    changed = document
    if rng.random() < 0.5:  # a section, as most of a document are values
        changed = document[rng.choice([k for k in document if isinstance(document[k], dict | list) and document[k]])]
    ops = [op["id"] for op in document["ops"]]
    chains = [chain["id"] for chain in document["chains"]]
    arguments = _result_arguments(rng, rng.choice(ops), rng.choice([*chains, "chain0"]))
    done = _mutated(changed, rng)
    try:
        sealed(document)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        done += ", digest left"
    others = {"other_json": json.dumps(plan(sample)).encode(), "model_onnx": SAMPLES["ONNX file"].model()}
    return Case(f"{sample}: {done}: {arguments}", payload_of("graph.json", arguments, encoded(document, rng), **others))


def _result_arguments(rng: random.Random, op: str, chain: str) -> list[str]:
    given: list[list[str]] = [
        ["check", "FILE"], ["check", "FILE"], ["price", "FILE"], ["explain", "FILE", op],
        ["explain", "FILE", op, "--recorded"], ["diff", "FILE", "./other.json"], ["diff", "./other.json", "FILE"],
        ["top", "FILE", "--by", rng.choice(("op", "call", "class", "bound", "role", "chain"))], ["timeline", "FILE"],
        ["timeline", "FILE", op], ["timeline", "FILE", "--csv"], ["chains", "FILE"], ["chains", "FILE", chain],
        ["chains", "FILE", chain, "--members"], ["optimize", "FILE", "-o", "DIR", "--policy", "dram"],
        ["check", "FILE", "--model", "./model.onnx"],
    ]  # fmt: skip
    if rng.random() < 0.4:
        emitter = rng.choice(emitter_names())
        return ["export", "FILE", "-o", "DIR", "--emit", emitter, "--model", "./model.onnx"]
    chosen = rng.choice(given)
    return [*chosen, *(["--format", "json"] if rng.random() < 0.3 and "--csv" not in chosen else [])]


# -- graphs ------------------------------------------------------------------------------------------------
def _graph(rng: random.Random) -> Case:
    name, document = rng.choice(json_graphs.SOURCES)(rng)
    done = _mutated(document, rng, 0)
    arguments = rng.choice((["inspect", "FILE"], ["optimize", "FILE", "-o", "DIR"]))
    arguments = [*arguments, "--policy", rng.choice(POLICIES), "--time-limit", "10"]
    if arguments[0] == "optimize" and rng.random() < 0.5:
        arguments += ["--emit", rng.choice([e for e in emitter_names() if e not in ("onnx", "weights")])]
        arguments += ["--fuse-kernels"] if rng.random() < 0.3 else []
    return Case(f"{name}: {done}: {arguments}", payload_of("model.json", arguments, encoded(document, rng)))


# -- rows --------------------------------------------------------------------------------------------------
@functools.cache
def _rows() -> tuple[tuple[Any, ...], ...]:
    """Questions of the tables, by their ops."""
    found: dict[str, list[Any]] = {}
    for path in sorted((FIXTURES / "opmodel").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            kept = ("id", "board", "op", "attrs", "inputs", "request_mem", "request_dtype")
            found.setdefault(row["op"], []).append({k: row[k] for k in kept if k in row})
    return tuple(map(tuple, found.values()))


def _query(rng: random.Random) -> Case:
    row = copy.deepcopy(rng.choice(rng.choice(_rows())))
    done = f"{row['op']}: {_mutated(row, rng)}"
    return Case(done, payload_of("rows.jsonl", ["opmodel", "query", "FILE"], encoded(row, rng).replace(b"\n", b" ")))


@functools.cache
def _times() -> tuple[dict[str, str], ...]:
    with (FIXTURES / "opmodel" / "measured_times.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _time(rng: random.Random) -> Case:
    row = dict(rng.choice(_times()))
    done = _mutated(row, rng) if rng.random() < 0.4 else "number"
    for key in rng.sample([k for k in row if row[k]], 1):
        row[key] = rng.choice(TEXT_MUTATORS)(str(row[key]), rng)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(row))
    writer.writeheader()
    writer.writerow(row)
    content = text.getvalue().encode("utf-8", "surrogatepass")
    return Case(f"{row.get('op')}: {done}", payload_of("rows.csv", ["opmodel", "time", "FILE"], content))


# -- boards, options, tables of a batch ----------------------------------------------------------------------
def _mlp() -> bytes:
    return (FIXTURES / "graphs" / "mlp.json").read_bytes()


def _board(rng: random.Random) -> Case:
    document = DeviceSpec.preset(rng.choice(("n150", "p150"))).to_json()
    done = _mutated(document, rng)
    arguments = ["optimize", "./model.json", "-o", "DIR", "--policy", rng.choice(POLICIES), "--board", "FILE"]
    return Case(f"board: {done}", payload_of("board.json", arguments, encoded(document, rng), model_json=_mlp()))


OPTION_TEXTS = {
    "--override-output-layout": "fc1=8x4:l1:block_sharded:tile:bf16,relu=dram:interleaved:row_major:f32",
    "--override-conv2d-config": "conv=shard_layout#height_sharded:act_block_h_override#64:weights_dtype#bf16:"
    "enable_act_double_buffer#true:slice#dram_height\\:4:activation#none",
    "--insert-memreconfig": "relu=0:1,fc1=0",
    "--input-shapes": "x:1,1,256,512",
    "--dim": "batch=1",
    "--tensor-l1-usage-cap": "0.95",
    "--l1-small-bytes": "32768",
    "--max-legal-layouts": "64",
    "--least-pcc": "0.99",
    "--time-limit": "2",
    "--seed": "7",
    "--max-nodes": "1000",
    "--max-model-bytes": "100000000",
    "--activations-dtype": "bf16",
    "--optimization-level": "2",
    "--board": "n150",
}
"""A value of every option that holds a number or a name."""


def _options(rng: random.Random) -> Case:
    given = rng.choice(("mlp", "conv2d_relu", "attention"))
    chosen = rng.sample(sorted(OPTION_TEXTS), rng.choice((1, 1, 2)))
    texts = {flag: rng.choice(TEXT_MUTATORS)(OPTION_TEXTS[flag], rng) for flag in chosen}
    texts = {flag: str(rng.choice(EXTREMES)) if rng.random() < 0.2 else text for flag, text in texts.items()}
    arguments = ["optimize", "FILE", "-o", "DIR", *(f"{flag}={text}" for flag, text in texts.items())]
    arguments += ["--policy=dram"] if rng.random() < 0.5 else ["--time-limit=5"]
    content = (FIXTURES / "graphs" / f"{given}.json").read_bytes()
    return Case(f"options {texts}", payload_of("model.json", arguments, content))


def _batch(rng: random.Random) -> Case:
    records: Any = [
        {"name": "mlp", "model": "mlp.json", "ok": True, "predicted_time_ns": 9000, "status": "feasible",
         "seconds": 0.5, "dram_read_bytes_total": 1000, "board": "n150"},
        {"name": "bad", "ok": False, "error": {"code": "bad-graph", "message": "x"}},
    ]  # fmt: skip
    done = _mutated(records, rng)
    arguments = ["batch", "./missing.json", "-o", "DIR", "--jobs", "1", "--against", "."]
    return Case(f"batch: {done}", payload_of("results.json", arguments, encoded(records, rng)))


# -- arrays ------------------------------------------------------------------------------------------------
def _arrays(rng: random.Random) -> Case:
    array = np.ones((1, 128, 256)[rng.choice((0, 1)) :], np.float32)
    suffix = rng.choice(("npz", "safetensors"))
    content = _npz(array, rng) if suffix == "npz" else _safetensors(array, rng)
    if rng.random() < 0.3:
        content = damaged(content, rng)
    arguments = ["optimize", "./model.onnx", "-o", "DIR", "--least-pcc", "0.9", "--policy", "dram", "--calibration"]
    return Case(suffix, payload_of(f"x.{suffix}", [*arguments, "FILE"], content, model_onnx=_small_onnx()))


@functools.cache
def _small_onnx() -> bytes:
    from onnx import TensorProto, helper

    given, returned = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [128, 256]) for v in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [given], [returned])
    data: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    ).SerializeToString()
    return data


def _npz(array: Any, rng: random.Random) -> bytes:
    """Arrays by name, their headers changed where they stand: the sizes stay, the meaning does not."""
    if rng.random() < 0.3:
        array = np.full_like(array, rng.choice((np.nan, np.inf, 1e38, 0)))
    if rng.random() < 0.3:
        array = np.zeros_like(array).astype(rng.choice(("f8", "i8", "f2", "?", "c8", "S3", "m8[s]")))
    file = io.BytesIO()
    write_arrays(file, {rng.choice(("x", "x", "x", "y")): array})
    data = file.getvalue()
    for old, new in rng.choice(
        ((), ((b"128, 256), }", b"99999999,), }"),), ((b"(128", b"(-12"),), ((b"<f4", b"|O4"),))
    ):
        data = data.replace(old, new)
    return data


def _safetensors(array: Any, rng: random.Random) -> bytes:
    header: Any = {"x": {"dtype": "F32", "shape": list(array.shape), "data_offsets": [0, array.nbytes]}}
    _mutated(header, rng, 0)
    text = encoded(header, rng)
    return len(text).to_bytes(8, "little") + text + array.tobytes()


_KINDS: tuple[Callable[[random.Random], Case], ...] = (
    *(_result,) * 8, *(_graph,) * 3, *(_query,) * 4, _time, _board, *(_options,) * 2, _batch, _arrays,
)  # fmt: skip
