"""JSON graphs: random ones over the whole vocabulary, and mutations of them that keep or break the schema."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing.harness import Case
from optimizer.device import DeviceSpec
from optimizer.errors import TimeLimitError
from optimizer.export.annotated_json import dumps
from optimizer.export.ttnn_py import render, ttnn_program
from optimizer.importers import load
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.options import Options
from optimizer.pipeline import optimize

Document = dict[str, Any]
Mutator = Callable[[Document, random.Random], None]

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "graphs"
DTYPES = ("f32", "bf16", "bfp8_b", "bfp4_b", "u32", "i32", "u16", "u8")
POLICIES = ("dram", "dfsharding", "global")
SIZES = (1, 2, 3, 8, 31, 32, 33, 64, 96, 128, 256, 512)
ODD_SCALARS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**53 + 1, 10**30, -(2**63), 0.5, -0.0, 1e308, 1e-320,
    "", "bf16", "relu", "tile", "x\ny", "\ud800", "\u2028#include", "'" * 5, {}, [], [[]], [None], ["a"], [1, 2, 3, 4],
    [0, 0], [-1, -1], [1e9, 1], [[0, 0], [0, 1]], {"a": 1},
)  # fmt: skip
ATTRS: dict[str, Callable[[random.Random], Any]] = {
    "shape": lambda rng: _shape(rng),
    "dims": lambda rng: rng.sample(range(n := rng.randint(1, 4)), n),
    "dim": lambda rng: rng.randint(-5, 4),
    "dim0": lambda rng: rng.randint(-4, 3),
    "dim1": lambda rng: rng.randint(-4, 3),
    "begins": lambda rng: [rng.choice((0, 0, 1, 32)) for _ in range(rng.randint(1, 4))],
    "ends": lambda rng: [rng.choice(SIZES) for _ in range(rng.randint(1, 4))],
    "sizes": lambda rng: [rng.choice(SIZES) for _ in range(rng.randint(1, 4))],
    "padding": lambda rng: [[rng.choice((0, 0, 1, 32)), rng.choice((0, 1, 31))] for _ in range(rng.randint(1, 4))],
    "repeats": lambda rng: [rng.randint(1, 3) for _ in range(rng.randint(1, 4))],
    "num_heads": lambda rng: rng.choice((1, 2, 4, 8)),
    "num_kv_heads": lambda rng: rng.choice((None, 1, 2)),
    "num_groups": lambda rng: rng.choice((1, 2, 8, 32)),
    "k": lambda rng: rng.choice((1, 8, 32, 50)),
    "dtype": lambda rng: rng.choice(DTYPES),
    "layout": lambda rng: rng.choice(("tile", "row_major")),
    "activation": lambda rng: rng.choice((None, "relu", "gelu", "silu")),
    "activations": lambda rng: rng.choice(([], ["relu"], ["gelu", "relu"])),
    "math_fidelity": lambda rng: rng.choice((None, "lofi", "hifi2", "hifi4")),
    "scalar": lambda rng: rng.choice((None, 0.0, 2, -1.5)),
    "scale_factor": lambda rng: rng.choice((2, [2, 2], [1, 3])),
    "mode": lambda rng: rng.choice(("nearest", "bilinear")),
    "end": lambda rng: rng.choice((1, 32, 100, 1000)),
    "cur_pos": lambda rng: rng.choice(([0], [31], [0, 31])),
}


class JsonTarget:
    """A JSON graph with options, imported, laid out and written, as the library and the service do it."""

    name = "json"
    seconds = 30.0
    memory_bytes = 2 << 30

    def case(self, rng: random.Random) -> Case:
        name, graph = rng.choice(SOURCES)(rng)
        document: Document = {"graph": graph, "options": _options(rng)}
        names = [name]
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            mutator = rng.choice(_MUTATORS)
            # What an earlier mutator broke may leave this one nothing to work on.
            with contextlib.suppress(AttributeError, KeyError, TypeError, IndexError):
                mutator(document, rng)
                names.append(mutator.__name__.strip("_"))
        return Case(" + ".join(names), json.dumps(document).encode())

    def run(self, payload: bytes) -> str:
        from api.tasks.models import unwrapped

        source, options = unwrapped(payload)
        chosen = Options.from_mapping(options)
        model = load(source)
        try:
            result = optimize(model, DeviceSpec.load(chosen.board), chosen)
        except TimeLimitError:
            if chosen.time_limit is None:
                raise
            return "out of the time that it was given"
        program = render(ttnn_program(result))
        compile(program, "program", "exec")
        return f"ok: {json.loads(dumps(result).encode())['summary']['status']}"


# -- sources ---------------------------------------------------------------------------------------
def _options(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"policy": rng.choice(POLICIES)}
    if rng.random() < 0.3:
        options["board"] = rng.choice(("n150", "p150", "p100"))
    for name in ("allow_host_ops", "row_major_enabled", "in_place_ops", "weights_in_l1", "fuse_kernels"):
        if rng.random() < 0.3:
            options[name] = rng.random() < 0.5
    if rng.random() < 0.2:
        options["activations_dtype"] = rng.choice((None, "f32", "bf16", "bfp8_b"))
    return options


def _fixture(rng: random.Random) -> tuple[str, Document]:
    path = rng.choice(sorted(FIXTURES.glob("*.json")))
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    return path.stem, document


def _single(rng: random.Random) -> tuple[str, Document]:
    """One op of the vocabulary on random operands."""
    document = _empty()
    name = rng.choice(op_names())
    _append(document, name, rng, _operands(document, name, rng))
    return name, document


def _network(rng: random.Random) -> tuple[str, Document]:
    """Several ops, most of which read what came before."""
    document = _empty()
    shape = [rng.choice(SIZES), rng.choice(SIZES)]
    _value(document, "x", shape, "bf16", "input")
    document["model"]["inputs"] = ["x"]
    for _ in range(rng.randint(2, 12)):
        name = rng.choice(("relu", "exp", "add", "multiply", "matmul", "softmax", "layer_norm", "concat", "reshape"))
        known = [v for v in document["values"] if document["values"][v].get("shape") == shape] or ["x"]
        inputs, attrs = [rng.choice(known)], {}
        if name in ("add", "multiply", "concat"):
            inputs.append(rng.choice(known))
        if name == "matmul":
            weight = _value(document, f"w{len(document['values'])}", [shape[1], shape[1]], "bf16", "parameter")
            inputs.append(weight)
        attrs = {"dim": 0} if name == "concat" else {"shape": list(shape)} if name == "reshape" else {}
        out = [2 * shape[0], shape[1]] if name == "concat" else shape
        _op(document, f"ttnn.{name}", inputs, attrs, out)
    return "network", document


def _empty() -> Document:
    return {"model": {"name": "fuzz", "inputs": [], "outputs": []}, "values": {}, "ops": []}


def _shape(rng: random.Random) -> list[int]:
    return [rng.choice(SIZES) for _ in range(rng.choice((1, 2, 2, 3, 4, 4)))]


def _value(document: Document, name: str, shape: list[int], dtype: str, kind: str) -> str:
    document["values"][name] = {"shape": shape, "dtype": dtype, "kind": kind}
    return name


def _operands(document: Document, name: str, rng: random.Random) -> list[str]:
    row, shape = opdef(name), _shape(rng)
    count = rng.randint(row.min_inputs, min(row.max_inputs, row.min_inputs + 2))
    names = []
    for k in range(count):
        kind = "input" if k == 0 or rng.random() < 0.4 else "parameter"
        own = shape if rng.random() < 0.7 else _shape(rng)
        names.append(_value(document, f"v{k}", list(own), rng.choice(("bf16", "bf16", *DTYPES)), kind))
        if kind == "input":
            document["model"]["inputs"].append(names[-1])
    return names


def _append(document: Document, name: str, rng: random.Random, inputs: list[str]) -> None:
    row, attrs = opdef(name), {}
    for attr in row.attrs:
        if attr in ATTRS:
            attrs[attr] = ATTRS[attr](rng)
    if "kernel_size" in row.attrs:
        attrs |= _window(document, row.attrs, rng, inputs)
    results = row.num_outputs or len(attrs.get("sizes", ())) or rng.choice((1, 2, 3))
    _op(document, name, inputs, attrs, None, results)


def _window(document: Document, known: Any, rng: random.Random, inputs: list[str]) -> dict[str, Any]:
    """Attributes of a convolution or pool, and operands that mostly fit them."""
    batch, height, width = rng.choice((1, 2)), rng.choice((1, 7, 14, 32)), rng.choice((1, 7, 14, 32))
    channels, out, kernel = rng.choice((1, 3, 16, 32, 64)), rng.choice((1, 8, 32, 64)), rng.choice((1, 2, 3, 5))
    groups = rng.choice((1, 1, 1, channels, 2))
    document["values"][inputs[0]]["shape"] = [1, 1, batch * height * width, channels]
    if len(inputs) > 1:
        document["values"][inputs[1]] |= {"shape": [out, max(1, channels // groups), kernel, kernel]}
        document["values"][inputs[1]]["kind"] = "parameter"
    if len(inputs) > 2:
        document["values"][inputs[2]] |= {"shape": [1, 1, 1, out], "kind": "parameter"}
    document["model"]["inputs"] = [v for v in inputs if document["values"][v]["kind"] == "input"]
    full = {
        "batch_size": batch, "input_height": height, "input_width": width, "kernel_size": [kernel, kernel],
        "stride": [rng.choice((1, 1, 2)), rng.choice((1, 1, 2))], "padding": [rng.choice((0, 1))] * 4,
        "dilation": [rng.choice((1, 1, 2))] * 2, "in_channels": channels, "out_channels": out, "groups": groups,
        "channels": channels,
    }  # fmt: skip
    return {k: v for k, v in full.items() if k in known}


def _op(
    document: Document, name: str, inputs: list[str], attrs: dict[str, Any], shape: list[int] | None, results: int = 1
) -> None:
    number = len(document["ops"])
    outputs = [f"t{number}_{k}" for k in range(results)]
    document["ops"].append({"id": f"op{number}", "op": name, "inputs": inputs, "outputs": outputs, "attrs": attrs})
    for v in outputs:
        document["values"][v] = {"kind": "activation", **({} if shape is None else {"shape": list(shape)})}
    document["model"]["outputs"] = outputs


SOURCES = (_fixture, _single, _single, _single, _network)


# -- mutators: the schema is kept ------------------------------------------------------------------
def _some_value(document: Document, rng: random.Random) -> Document:
    values = document["graph"].get("values")
    found = [v for v in values.values() if isinstance(v, dict)] if isinstance(values, dict) else []
    return rng.choice(found) if found else {}


def _some_op(document: Document, rng: random.Random) -> Document:
    ops = document["graph"].get("ops")
    found = [op for op in ops if isinstance(op, dict)] if isinstance(ops, list) else []
    return rng.choice(found) if found else {}


def _retype(document: Document, rng: random.Random) -> None:
    _some_value(document, rng)["dtype"] = rng.choice(DTYPES)


def _retype_result(document: Document, rng: random.Random) -> None:
    for name in _some_op(document, rng).get("outputs", ()):
        document["graph"]["values"].setdefault(name, {})["dtype"] = rng.choice(DTYPES)


def _resize(document: Document, rng: random.Random) -> None:
    shape = _some_value(document, rng).get("shape")
    if isinstance(shape, list) and shape:
        shape[rng.randrange(len(shape))] = rng.choice((*SIZES, 0, -1, 10**6, 10**10, 2**63))


def _rerank(document: Document, rng: random.Random) -> None:
    _some_value(document, rng)["shape"] = [rng.choice(SIZES) for _ in range(rng.choice((0, 1, 3, 5, 6, 8, 9)))]


def _rekind(document: Document, rng: random.Random) -> None:
    _some_value(document, rng)["kind"] = rng.choice(("input", "parameter", "constant", "activation"))


def _give_data(document: Document, rng: random.Random) -> None:
    value = _some_value(document, rng)
    value["kind"] = "constant"
    value["shape"] = [rng.choice((1, 2, 32))]
    count = value["shape"][0] if rng.random() < 0.8 else rng.randint(0, 5)
    value["data"] = [rng.choice((0, 1, -1, 0.5, 1e30, True, 2**40)) for _ in range(count)]


def _set_attr(document: Document, rng: random.Random) -> None:
    op = _some_op(document, rng)
    known = list(opdef(str(op.get("op"))).attrs) or ["dim"]
    attrs = op.setdefault("attrs", {})
    if isinstance(attrs, dict):
        name = rng.choice(known)
        attrs[name] = ATTRS[name](rng) if name in ATTRS and rng.random() < 0.6 else rng.choice(ODD_SCALARS)


def _drop_operand(document: Document, rng: random.Random) -> None:
    op = _some_op(document, rng)
    if op.get("inputs"):
        op["inputs"].pop(rng.randrange(len(op["inputs"])))


def _repeat_operand(document: Document, rng: random.Random) -> None:
    op = _some_op(document, rng)
    if op.get("inputs"):
        op["inputs"].append(rng.choice(op["inputs"]))


def _rewire(document: Document, rng: random.Random) -> None:
    op, values = _some_op(document, rng), document["graph"].get("values")
    if op.get("inputs") and isinstance(values, dict) and values:
        op["inputs"][rng.randrange(len(op["inputs"]))] = rng.choice(list(values))


def _rename_op(document: Document, rng: random.Random) -> None:
    _some_op(document, rng)["op"] = rng.choice((*op_names(), "ttnn.nothing", "host.thing", "", "a'b\n"))


def _copy_op(document: Document, rng: random.Random) -> None:
    op = copy.deepcopy(_some_op(document, rng))
    if "id" in op:
        op["id"] += "_again"
        op["outputs"] = [f"{v}_again" for v in op.get("outputs", ())]
        document["graph"]["ops"].append(op)
        document["graph"]["model"]["outputs"] += op["outputs"]


def _set_role(document: Document, rng: random.Random) -> None:
    _some_op(document, rng)["role"] = rng.choice(("compute", "reshard", "spill", "load", "layout", "view", "host"))


def _change_outputs(document: Document, rng: random.Random) -> None:
    values = list(document["graph"].get("values") or ["x"])
    document["graph"]["model"]["outputs"] = [rng.choice(values) for _ in range(rng.choice((0, 1, 2)))]


def _set_option(document: Document, rng: random.Random) -> None:
    names = list(Options().to_json())
    document["options"][rng.choice(names)] = rng.choice((*ODD_SCALARS, "op0=dram", "op0=l1:block_sharded", "op0=0"))


# -- mutators: the schema is broken ----------------------------------------------------------------
def _break_anywhere(document: Document, rng: random.Random) -> None:
    """Something else, or nothing, in the place of any node of the document."""
    places: list[tuple[Any, Any]] = []
    stack: list[Any] = [document["graph"]]
    while stack:
        node = stack.pop()
        children = node.items() if isinstance(node, dict) else enumerate(node)
        for key, child in children:
            places.append((node, key))
            if isinstance(child, dict | list):
                stack.append(child)
    if not places:
        return
    node, key = rng.choice(places)
    if rng.random() < 0.25:
        del node[key]
    else:
        node[key] = copy.deepcopy(rng.choice(ODD_SCALARS))


def _add_field(document: Document, rng: random.Random) -> None:
    place = rng.choice((document["graph"], _some_op(document, rng), _some_value(document, rng)))
    place[rng.choice(("layout", "config", "junk", "data", "name", "origin", "chain"))] = rng.choice(ODD_SCALARS)


_MUTATORS: tuple[Mutator, ...] = (
    _retype, _retype_result, _resize, _rerank, _rekind, _give_data, _set_attr, _set_attr, _set_attr, _drop_operand,
    _repeat_operand, _rewire, _rename_op, _copy_op, _set_role, _change_outputs, _set_option, _break_anywhere,
    _add_field,
)  # fmt: skip
