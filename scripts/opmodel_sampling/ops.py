"""Samplers of element-wise, norm, reduction, data-movement and layout ops; `BUILDERS` maps op name to sampler."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from opmodel_sampling import shapes
from opmodel_sampling.places import DTYPES, Sharder, input_place, interleaved, pick, request, tensor

# fmt: off
UNARY = [
    "relu", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "neg", "abs", "log", "reciprocal", "square",
    "sin", "cos", "erf", "softplus", "mish", "relu6", "hardswish", "hardsigmoid", "floor", "ceil", "sign",
]
# fmt: on
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "pow"]
COMPARISONS = ["eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or"]
REDUCTIONS = ["sum", "mean", "max", "min"]

Builder = Callable[[Sharder, str], dict[str, Any]]


def row(
    attrs: dict[str, Any], inputs: list[dict[str, Any]], request_mem: Any = None, request_dtype: str | None = None
) -> dict[str, Any]:
    return {"attrs": attrs, "inputs": inputs, "request_mem": request_mem, "request_dtype": request_dtype}


def first_input(
    sharder: Sharder,
    shape: tuple[int, ...],
    row_major: float = 0.08,
    dtypes: tuple[tuple[str, int], ...] = DTYPES,
    sharded: float = 0.44,
) -> dict[str, Any]:
    rng = sharder.rng
    layout = "rm" if rng.random() < row_major else "tile"
    dtype = pick(rng, dtypes)
    if layout == "rm" and dtype == "bfp8_b":
        dtype = "bf16"
    return tensor(shape, dtype, layout, input_place(sharder, shape, layout, dtype, sharded))


def asked(sharder: Sharder, shape: tuple[int, ...], like: dict[str, Any], **extra: Any) -> Any:
    return request(sharder, shape, like["layout"], like["dtype"], like, **extra)


def unary(sharder: Sharder, family: str) -> dict[str, Any]:
    shape = shapes.activation(sharder.rng, family)
    x = first_input(sharder, shape)
    return row({}, [x], asked(sharder, shape, x))


def _with(attrs: dict[str, Any]) -> Builder:
    def build(sharder: Sharder, family: str) -> dict[str, Any]:
        return {**unary(sharder, family), "attrs": attrs}

    return build


def pow_scalar(sharder: Sharder, family: str) -> dict[str, Any]:
    return {**unary(sharder, family), "attrs": {"exp": sharder.rng.choice((2.0, 3.0, 0.5))}}


def broadcast(rng: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A second operand's shape: mostly equal, else a broadcast, seldom one that does not broadcast."""
    draw = rng.random()
    if draw < 0.70:
        return shape
    if draw < 0.80:
        return (*(1 for _ in shape[:-1]), shape[-1])
    if draw < 0.87:
        return tuple(1 for _ in shape)
    if draw < 0.92:
        return (*shape[:-1], 1)
    if draw < 0.96:
        return shape[1:] if len(shape) > 1 else shape
    if rng.random() < 0.5:
        return tuple(rng.choice((1, size)) for size in shape)
    axis = rng.randrange(len(shape))
    return tuple(size * 2 if index == axis else size for index, size in enumerate(shape))


def binary(sharder: Sharder, family: str, activations: bool = True) -> dict[str, Any]:
    rng = sharder.rng
    shape = shapes.activation(rng, family)
    x = first_input(sharder, shape)
    attrs: dict[str, Any] = {}
    inputs = [x]
    if rng.random() < 0.11:
        attrs["scalar"] = 1.5
    else:
        inputs.append(_second(sharder, x, broadcast(rng, shape)))
    if activations and rng.random() < 0.1:
        attrs["activations"] = [rng.choice(("RELU", "GELU", "SILU"))]
    dtype = pick(rng, ((None, 62), ("f32", 13), ("bf16", 13), ("bfp8_b", 12)))
    return row(attrs, inputs, asked(sharder, shape, x), dtype)


def _second(sharder: Sharder, x: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    rng = sharder.rng
    dtype = x["dtype"] if rng.random() < 0.5 else pick(rng, (("bf16", 56), ("f32", 22), ("bfp8_b", 22)))
    if x["layout"] == "rm" and dtype == "bfp8_b":
        dtype = "bf16"
    if list(shape) == x["shape"] and rng.random() < 0.6:
        return {**x, "dtype": dtype}
    return tensor(shape, dtype, x["layout"], input_place(sharder, shape, x["layout"], dtype))


def comparison(sharder: Sharder, family: str) -> dict[str, Any]:
    """A binary op of two tensors that takes no fused activation (pow of tensors too)."""
    return binary(sharder, family, activations=False)


def where(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape = shapes.activation(rng, family)
    x = first_input(sharder, shape, row_major=0.0, dtypes=(("bf16", 92), ("f32", 6), ("bfp8_b", 2)))
    if rng.random() < 0.29:
        return row({"x": 1.0, "y": 0.0}, [x], asked(sharder, shape, x))
    other = broadcast(rng, shape)
    second = tensor(other, x["dtype"], "tile", input_place(sharder, other, "tile", x["dtype"], sharded=0.2))
    return row({}, [x, second, dict(x)], asked(sharder, shape, x))


def typecast(sharder: Sharder, family: str) -> dict[str, Any]:
    built = unary(sharder, family)
    return {**built, "request_dtype": sharder.rng.choice(("bf16", "u32", "f32", "bfp8_b", "i32"))}


def clone(sharder: Sharder, family: str) -> dict[str, Any]:
    return {**unary(sharder, family), "request_dtype": pick(sharder.rng, ((None, 45), ("bf16", 32), ("f32", 23)))}


def softmax(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape = shapes.activation(rng, family)
    x = first_input(sharder, shape, row_major=0.0)
    attrs: dict[str, Any] = {
        "dim": rng.choice((-1, -1, -1, -1, -1, 0, 1, -2)) if len(shape) > 2 else rng.choice((-1, 0))
    }
    if rng.random() < 0.12:
        attrs["compute"] = {"fid": "HiFi4", "fp32": True}
    if rng.random() < 0.31:
        attrs["numeric_stable"] = rng.random() < 0.7
    return row(attrs, [x], asked(sharder, shape, x))


def attention_softmax(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    batch, count, _, seq, _ = shapes.heads(rng, family)
    shape = (batch, count, seq, seq)
    x = first_input(sharder, shape, row_major=0.0)
    mask = tensor((batch, 1, 1, seq), x["dtype"], "tile", interleaved("dram"))
    return row({"head_size": 64}, [x, mask], asked(sharder, shape, x))


def layer_norm(sharder: Sharder, family: str) -> dict[str, Any]:
    built = _norm(sharder, family)
    inputs, rng = built["inputs"], sharder.rng
    if len(inputs) > 1 and rng.random() < 0.77:
        inputs.append({**inputs[1], **interleaved("dram" if rng.random() < 0.7 else "l1")})
        if rng.random() < 0.18:
            shape = tuple(inputs[0]["shape"])
            same = rng.random() < 0.5
            inputs.append(dict(inputs[0]) if same else first_input(sharder, shape, 0.0, (("bf16", 9), ("f32", 1))))
    return built


def rms_norm(sharder: Sharder, family: str) -> dict[str, Any]:
    return _norm(sharder, family)


def _norm(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape = shapes.activation(rng, family)
    x = first_input(sharder, shape, 0.0, (("bf16", 80), ("f32", 9), ("bfp8_b", 11)))
    inputs, attrs = [x], {}
    if rng.random() < 0.62:
        place = interleaved("dram" if rng.random() < 0.72 else "l1")
        dtype = "f32" if rng.random() < 0.24 else "bf16"
        if rng.random() < 0.16 and shape[-1] >= 32:
            inputs.append(tensor((1, 1, shape[-1] // 32, 32), dtype, "rm", place))
        else:
            inputs.append(tensor((*(1 for _ in shape[:-1]), shape[-1]), dtype, "tile", place))
    spec = x.get("shard_shape")
    if spec and x["memory_layout"] != "height" and rng.random() < 0.55:
        attrs["program_config"] = _norm_config(rng, x)
    if rng.random() < 0.08:
        attrs["compute"] = {"fid": "HiFi4", "fp32": rng.random() < 0.6}
    return row(attrs, inputs, asked(sharder, shape, x))


def _norm_config(rng: Random, x: dict[str, Any]) -> dict[str, Any]:
    height, width = (math.ceil(size / 32) for size in x["shard_shape"])
    if rng.random() < 0.1:
        width += 1
    grid = [max(r[2] for r in x["grid"]) + 1, max(r[3] for r in x["grid"]) + 1]
    subblock = rng.choice([n for n in (1, 2, 3, 4) if width % n == 0 or rng.random() < 0.1])
    return {"grid": grid, "subblock_w": subblock, "block_h": height, "block_w": width, "inplace": False}


def batch_norm(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    side, channels = rng.choice((7, 14, 28, 56)), rng.choice((64, 256, 512))
    shape = (rng.choice((1, 2, 8)), channels, side, side)
    x = first_input(sharder, shape, row_major=0.0)
    stats = [tensor((1, channels, 1, 1), "bf16", "tile", interleaved("dram"))] * (4 if rng.random() < 0.57 else 2)
    return row({}, [x, *stats], asked(sharder, shape, x))


def group_norm(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape = rng.choice(shapes.GROUP_NORM)
    x = first_input(sharder, shape, 0.5, (("bf16", 96), ("f32", 3), ("bfp8_b", 1)), sharded=0.58)
    attrs: dict[str, Any] = {"groups": rng.choice((32, 32, 16, 8)), "inplace": rng.random() < 0.4}
    if rng.random() < 0.86:
        attrs["core_grid"] = rng.choice(([8, 8], [1, 1], [4, 4], [4, 8], [8, 4], [2, 8]))
    if rng.random() < 0.3:
        attrs["output_layout"] = "rm" if rng.random() < 0.6 else "tile"
    if rng.random() < 0.16:
        attrs["num_out_blocks"] = rng.choice((1, 2, 4))
    return row(attrs, [x], asked(sharder, shape, x))


def reduction(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape = shapes.activation(rng, family)
    x = first_input(sharder, shape, row_major=0.0)
    rank = len(shape)
    dims = [-1, -1, -1, None, *range(rank)] + ([-2, [-2, -1]] if rank > 1 else [])
    dim, keep = rng.choice(dims), rng.random() < 0.8
    axes = range(rank) if dim is None else [axis % rank for axis in (dim if isinstance(dim, list) else [dim])]
    out = tuple(1 if index in axes else size for index, size in enumerate(shape))
    return row({"dim": dim, "keepdim": keep}, [x], asked(sharder, out if rng.random() < 0.5 else shape, x))


def argmax(sharder: Sharder, family: str) -> dict[str, Any]:
    shape = shapes.activation(sharder.rng, family)
    x = first_input(sharder, shape, 0.5, (("bf16", 1),))
    return row(
        {"dim": -1},
        [x],
        asked(sharder, shape, x, weights=(("none", 57), ("dram", 11), ("l1", 6), ("bare", 14), ("spec", 12))),
    )


def cumsum(sharder: Sharder, family: str) -> dict[str, Any]:
    shape = shapes.activation(sharder.rng, family)
    x = first_input(sharder, shape, row_major=0.0)
    return row({"dim": -1}, [x], asked(sharder, shape, x))


def topk(sharder: Sharder, family: str) -> dict[str, Any]:
    shape = shapes.activation(sharder.rng, family)
    x = first_input(sharder, shape, row_major=0.0)
    weights = (("none", 75), ("l1", 9), ("bare", 16))
    return row({"k": sharder.rng.choice((1, 8, 32, 64))}, [x], asked(sharder, shape, x, weights=weights))


def embedding(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    ids, table = rng.choice(shapes.IDS), rng.choice(shapes.TABLES)
    layout = rng.choice(("rm", "tile"))
    draw = rng.random()
    place = sharder.place("height", ids, "rm", "u32") if draw < 0.04 else interleaved("dram" if draw < 0.7 else "l1")
    first = tensor(ids, "u32", "rm" if rng.random() < 0.83 else "tile", place)
    dtype = "bf16" if rng.random() < 0.68 else "f32"
    stored = "rm" if rng.random() < 0.75 else "tile"
    weight = tensor(table, dtype, stored, interleaved("dram" if rng.random() < 0.62 else "l1"))
    weights = (("none", 41), ("dram", 15), ("l1", 10), ("spec", 21), ("bare", 13))
    return row({"layout": layout}, [first, weight], request(sharder, (*ids, table[1]), layout, "bf16", first, weights))


def to_layout(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape = shapes.activation(rng, family)
    x = first_input(sharder, shape, 0.25, (("bf16", 93), ("f32", 5), ("bfp8_b", 2)), sharded=0.38)
    layout = rng.choice(("tile", "rm"))
    dtype = pick(rng, ((None, 72), ("f32", 16), ("bf16", 12)))
    return row({"layout": layout}, [x], request(sharder, shape, layout, x["dtype"], x), dtype)


def tilize(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape = shapes.activation(rng, family)
    x = first_input(sharder, shape, 1.0, (("bf16", 70), ("f32", 30)), sharded=0.52)
    dtype = "bfp8_b" if rng.random() < 0.34 else None
    return row({}, [x], request(sharder, shape, "tile", x["dtype"], x), dtype)


def tilize_with_zero_padding(sharder: Sharder, family: str) -> dict[str, Any]:
    shape = shapes.activation(sharder.rng, family)
    x = first_input(sharder, shape, 1.0, (("bf16", 1),), sharded=0.52)
    return row({}, [x], request(sharder, shape, "tile", x["dtype"], x))


def untilize(sharder: Sharder, family: str) -> dict[str, Any]:
    shape = shapes.activation(sharder.rng, family)
    x = first_input(sharder, shape, 0.0, (("bf16", 91), ("f32", 3), ("bfp8_b", 6)))
    return row({}, [x], request(sharder, shape, "rm", x["dtype"], x))


def _moved(sharded: float, weights: tuple[tuple[str, int], ...], dtypes: tuple[tuple[str | None, int], ...]) -> Builder:
    def build(sharder: Sharder, family: str) -> dict[str, Any]:
        shape = shapes.activation(sharder.rng, family)
        x = first_input(sharder, shape, 0.29, (("bf16", 85), ("f32", 6), ("bfp8_b", 9)), sharded=sharded)
        wanted = asked(sharder, shape, x, weights=weights)
        return row({}, [x], wanted, pick(sharder.rng, dtypes))

    return build


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(COMPARISONS, comparison),
    **dict.fromkeys(REDUCTIONS, reduction),
    "clamp": _with({"min": 0.0, "max": 6.0}),
    "leaky_relu": _with({"args": [0.1]}),
    "elu": _with({"kwargs": {"alpha": 1.0}}),
    "pow": comparison,
    "pow_scalar": pow_scalar,
    "where": where,
    "typecast": typecast,
    "clone": clone,
    "softmax": softmax,
    "attention_softmax": attention_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "argmax": argmax,
    "cumsum": cumsum,
    "topk": topk,
    "embedding": embedding,
    "to_layout": to_layout,
    "tilize": tilize,
    "tilize_with_zero_padding": tilize_with_zero_padding,
    "untilize": untilize,
    "to_memory_config": _moved(
        0.42, (("dram", 19), ("l1", 19), ("same", 14), ("spec", 48)), ((None, 85), ("bf16", 10), ("bfp8_b", 5))
    ),
    "interleaved_to_sharded": _moved(0.2, (("spec", 96), ("l1", 4)), ((None, 78), ("bfp8_b", 12), ("bf16", 10))),
    "sharded_to_interleaved": _moved(0.97, (("dram", 50), ("l1", 50)), ((None, 1),)),
    "reshard": _moved(0.86, (("spec", 70), ("same", 28), ("l1", 2)), ((None, 1),)),
}
