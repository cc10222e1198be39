"""A numpy interpreter of the TTNN vocabulary in float32, written from the ops' definitions.

It shares nothing with the importers but the op names and attributes, so that it can witness that an
import keeps the meaning of a model. An op that it lacks is computed by `optimizer.values.reference`, which shares
nothing with them either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.vocabulary import opdef
from optimizer.values.reference import computed

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    """libm for small arrays and for float64, whose users want its digits; large ones a rational fit (1e-7)."""
    if x.size <= 4096 or x.dtype == np.float64:
        return _erf(x).astype(x.dtype)
    # W. J. Cody style series through scipy-free numpy: use the complementary continued product in float64
    z = np.abs(x.astype(np.float64))
    t = 1.0 / (1.0 + 0.5 * z)
    poly = t * np.exp(
        -z * z
        - 1.26551223
        + t
        * (
            1.00002368
            + t
            * (
                0.37409196
                + t
                * (
                    0.09678418
                    + t
                    * (
                        -0.18628806
                        + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))
                    )
                )
            )
        )
    )
    return np.where(x >= 0, 1.0 - poly, poly - 1.0).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -80, 80)))


def gelu(x: Array) -> Array:
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, 50))) / beta)


UNARY: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "neg": np.negative,
    "abs": np.abs,
    "log": np.log,
    "reciprocal": lambda x: 1.0 / x,
    "square": np.square,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "erf": erf,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sign": np.sign,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "logical_not": lambda x: x == 0,
    "gtz": lambda x: x > 0,
    "ltz": lambda x: x < 0,
    "eqz": lambda x: x == 0,
    "nez": lambda x: x != 0,
    "bitwise_not": np.invert,
    "identity": lambda x: x,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "expm1": np.expm1,
    "exp2": np.exp2,
    "cbrt": np.cbrt,
    "erfc": lambda x: 1 - erf(x),
    "frac": lambda x: x - np.trunc(x),
    "isposinf": np.isposinf,
    "isneginf": np.isneginf,
}

BINARY: dict[str, Callable[[Array, Any], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "logical_and": lambda a, b: (a != 0) & (np.asarray(b) != 0),
    "logical_or": lambda a, b: (a != 0) | (np.asarray(b) != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (np.asarray(b) != 0),
    "squared_difference": lambda a, b: np.square(a - b),
    "fmod": np.fmod,
    "remainder": np.mod,
    "prelu": lambda a, b: np.where(a >= 0, a, a * b),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift,
    "logical_right_shift": np.right_shift,
}

PARAMETRIC: dict[str, Callable[[Array, Attrs], Array]] = {
    "leaky_relu": lambda x, a: np.where(x >= 0, x, x * a["negative_slope"]),
    "elu": lambda x, a: np.where(x > 0, x, a["alpha"] * np.expm1(np.minimum(x, 0))),
    "celu": lambda x, a: np.where(x > 0, x, a["alpha"] * np.expm1(np.minimum(x, 0) / a["alpha"])),
    "softplus": lambda x, a: softplus(x, a["beta"], a["threshold"]),
    "clamp": lambda x, a: np.clip(x, a["min"], a["max"]),
    "pow_scalar": lambda x, a: np.power(x, a["exponent"]),
    "rsub": lambda x, a: a["scalar"] - x,
    "rdiv": lambda x, a: a["scalar"] / x,
    "threshold": lambda x, a: np.where(x > a["threshold"], x, a["value"]),
}


def numpy_dtype(dtype: DType) -> Any:
    return {DType.I32: np.int64, DType.U32: np.int64, DType.U16: np.int64, DType.U8: np.int64}.get(dtype, np.float32)


def run(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Evaluate a graph; `feeds` holds inputs and parameters. Values are freed after their last use."""
    store: dict[str, Array] = {}
    last: dict[str, int] = {}
    ops = list(graph.ops())
    for index, op in enumerate(ops):
        for v in op.inputs:
            last[v] = index
    for v in graph.outputs:
        last[v] = len(ops)

    def read(value_id: str) -> Array:
        if value_id in store:
            return store[value_id]
        value = graph.value(value_id)
        kind = numpy_dtype(value.dtype)
        if value.kind is ValueKind.CONSTANT:
            return np.asarray(value.data, dtype=kind).reshape(value.shape)
        return np.asarray(feeds[value_id]).astype(kind).reshape(value.shape)

    for index, op in enumerate(ops):
        results = evaluate(op, [read(v) for v in op.inputs])
        for value_id, result in zip(op.outputs, results, strict=True):
            value = graph.value(value_id)
            assert result.shape == value.shape, (op, result.shape, value.shape)
            store[value_id] = result.astype(numpy_dtype(value.dtype), copy=False)
        for v in op.inputs:
            if last.get(v) == index:
                store.pop(v, None)
    return [read(v) for v in graph.outputs]


def evaluate(op: Op, x: list[Array]) -> list[Array]:
    """Results of one op."""
    name = op.op.removeprefix("ttnn.")
    attrs: Attrs = opdef(op.op).full_attrs(op)
    with np.errstate(all="ignore"):
        if name in UNARY:
            return [UNARY[name](x[0])]
        if name in PARAMETRIC:
            return [PARAMETRIC[name](x[0], attrs)]
        if name in BINARY:
            operands = list(x) if len(x) > 1 else [x[0], attrs["scalar"]]
            for k, side in enumerate("ab"[: len(x)]):
                for activation in attrs.get(f"input_tensor_{side}_activations", ()):
                    operands[k] = UNARY[activation](operands[k])
            out = BINARY[name](*operands)
            for activation in attrs["activations"]:
                out = UNARY[activation](out)
            return [out]
        if name not in _OPS:
            return [one.value for one in computed(op.op, attrs, x)]
        result = _OPS[name](x, attrs)
    return result if isinstance(result, list) else [result]


def _activate(out: Array, attrs: Attrs) -> Array:
    return UNARY[attrs["activation"]](out) if attrs.get("activation") else out


def _matmul(x: list[Array], a: Attrs) -> Array:
    left = np.swapaxes(x[0], -1, -2) if a["transpose_a"] else x[0]
    right = np.swapaxes(x[1], -1, -2) if a["transpose_b"] else x[1]
    out = left @ right
    return _activate(out + x[2] if len(x) > 2 else out, a)


def _image(x: Array, a: Attrs) -> Array:
    """[1, 1, N*H*W, C] to [N, H, W, C]."""
    return x.reshape(a["batch_size"], a["input_height"], a["input_width"], x.shape[-1])


def _windows(image: Array, a: Attrs, fill: float) -> Array:
    """[N, OH, OW, KH, KW, C] windows of a padded image."""
    (kh, kw), (sh, sw), (dh, dw) = a["kernel_size"], a["stride"], a["dilation"]
    top, bottom, left, right = a["padding"]
    h, w = image.shape[1] + top + bottom, image.shape[2] + left + right
    if a.get("ceil_mode"):
        oh, ow = -(-(h - dh * (kh - 1) - 1) // sh) + 1, -(-(w - dw * (kw - 1) - 1) // sw) + 1
        oh -= (oh - 1) * sh >= image.shape[1] + top
        ow -= (ow - 1) * sw >= image.shape[2] + left
    else:
        oh, ow = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    more_h = max(0, (oh - 1) * sh + dh * (kh - 1) + 1 - h)
    more_w = max(0, (ow - 1) * sw + dw * (kw - 1) + 1 - w)
    padded = np.pad(image, ((0, 0), (top, bottom + more_h), (left, right + more_w), (0, 0)), constant_values=fill)
    n, c = image.shape[0], image.shape[3]
    s = padded.strides
    shape = (n, oh, ow, kh, kw, c)
    strides = (s[0], s[1] * sh, s[2] * sw, s[1] * dh, s[2] * dw, s[3])
    return np.lib.stride_tricks.as_strided(padded, shape, strides)


def _conv2d(x: list[Array], a: Attrs) -> Array:
    windows = _windows(_image(x[0], a), a, 0.0)
    n, oh, ow, kh, kw, cin = windows.shape
    cout, groups = a["out_channels"], a["groups"]
    per_in, per_out = cin // groups, cout // groups
    out = np.empty((n * oh * ow, cout), dtype=np.float32)
    if groups == cin == cout:  # depthwise
        out = np.einsum("nhwklc,ckl->nhwc", windows, x[1][:, 0]).reshape(-1, cout)
    else:
        for g in range(groups):
            part = windows[..., g * per_in : (g + 1) * per_in].reshape(n * oh * ow, kh * kw * per_in)
            weight = x[1][g * per_out : (g + 1) * per_out].transpose(2, 3, 1, 0).reshape(-1, per_out)
            out[:, g * per_out : (g + 1) * per_out] = part @ weight
    if len(x) > 2:
        out = out + x[2].reshape(-1)
    return _activate(out.reshape(1, 1, n * oh * ow, cout), a)


def _conv_transpose2d(x: list[Array], a: Attrs) -> Array:
    image = _image(x[0], a)
    n, h, w, cin = image.shape
    (kh, kw), (sh, sw), (dh, dw) = a["kernel_size"], a["stride"], a["dilation"]
    top, bottom, left, right = a["padding"]
    eh, ew = a["output_padding"]
    groups, cout = a["groups"], a["out_channels"]
    full_h, full_w = (h - 1) * sh + dh * (kh - 1) + 1 + eh, (w - 1) * sw + dw * (kw - 1) + 1 + ew
    out = np.zeros((n, full_h, full_w, cout), dtype=np.float32)
    per_in, per_out = cin // groups, cout // groups
    for g in range(groups):
        part = image[..., g * per_in : (g + 1) * per_in]
        for i in range(kh):
            for j in range(kw):
                weight = x[1][g * per_in : (g + 1) * per_in, :, i, j]
                target = out[:, i * dh : i * dh + (h - 1) * sh + 1 : sh, j * dw : j * dw + (w - 1) * sw + 1 : sw]
                target[..., g * per_out : (g + 1) * per_out] += part @ weight
    out = out[:, top : full_h - bottom, left : full_w - right]
    if len(x) > 2:
        out = out + x[2].reshape(-1)
    return _activate(out.reshape(1, 1, -1, cout), a)


def _max_pool2d(x: list[Array], a: Attrs) -> Array:
    windows = _windows(_image(x[0], a), a, -np.inf)
    return windows.max(axis=(3, 4)).reshape(1, 1, -1, a["channels"])


def _avg_pool2d(x: list[Array], a: Attrs) -> Array:
    image = _image(x[0], a)
    total = _windows(image, a, 0.0).sum(axis=(3, 4))
    top, bottom, left, right = a["padding"]
    ones = np.ones_like(image[..., :1])
    if a["count_include_pad"]:
        ones = np.pad(ones, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=1)
        count = _windows(ones, {**a, "padding": (0, 0, 0, 0), "ceil_mode": False}, 0.0)
        if count.shape[1:3] != total.shape[1:3]:
            h = (total.shape[1] - 1) * a["stride"][0] + a["kernel_size"][0] - ones.shape[1]
            w = (total.shape[2] - 1) * a["stride"][1] + a["kernel_size"][1] - ones.shape[2]
            ones = np.pad(ones, ((0, 0), (0, max(0, h)), (0, max(0, w)), (0, 0)))
            count = _windows(ones, {**a, "padding": (0, 0, 0, 0), "ceil_mode": False}, 0.0)
    else:
        count = _windows(ones, a, 0.0)
    return (total / count.sum(axis=(3, 4))).reshape(1, 1, -1, a["channels"])


def _upsample(x: list[Array], a: Attrs) -> Array:
    sh, sw = a["scale_factor"]
    if a["mode"] == "nearest":
        return x[0].repeat(sh, axis=1).repeat(sw, axis=2)
    out = x[0]
    for axis, scale in ((1, sh), (2, sw)):
        size = out.shape[axis]
        position = np.clip((np.arange(size * scale) + 0.5) / scale - 0.5, 0, size - 1)
        low = np.floor(position).astype(int)
        high = np.minimum(low + 1, size - 1)
        weight = (position - low).reshape([-1 if i == axis else 1 for i in range(4)])
        out = out.take(low, axis) * (1 - weight) + out.take(high, axis) * weight
    return out


def _softmax(x: list[Array], a: Attrs) -> Array:
    e = np.exp(x[0] - x[0].max(axis=a["dim"], keepdims=True))
    return e / e.sum(axis=a["dim"], keepdims=True)


def _layer_norm(x: list[Array], a: Attrs) -> Array:
    centred = x[0] - x[0].mean(axis=-1, keepdims=True)
    out = centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + a["epsilon"])
    out = out * x[1].reshape(-1) if len(x) > 1 else out
    return out + x[2].reshape(-1) if len(x) > 2 else out


def _rms_norm(x: list[Array], a: Attrs) -> Array:
    out = x[0] / np.sqrt(np.square(x[0]).mean(axis=-1, keepdims=True) + a["epsilon"])
    return out * x[1].reshape(-1) if len(x) > 1 else out


def _group_norm(x: list[Array], a: Attrs) -> Array:
    n, _, hw, c = x[0].shape
    grouped = x[0].reshape(n, hw, a["num_groups"], c // a["num_groups"])
    centred = grouped - grouped.mean(axis=(1, 3), keepdims=True)
    out = centred / np.sqrt(np.square(centred).mean(axis=(1, 3), keepdims=True) + a["epsilon"])
    out = out.reshape(x[0].shape)
    out = out * x[1].reshape(-1) if len(x) > 1 else out
    return out + x[2].reshape(-1) if len(x) > 2 else out


def _reduce(fn: Callable[..., Array]) -> Callable[[list[Array], Attrs], Array]:
    def run_it(x: list[Array], a: Attrs) -> Array:
        dim = a["dim"] if a["dim"] is None or isinstance(a["dim"], tuple) else (a["dim"],)
        return fn(x[0], axis=dim, keepdims=a["keepdim"])

    return run_it


def _argmax(x: list[Array], a: Attrs) -> Array:
    out = np.argmax(x[0], axis=a["dim"], keepdims=a["keepdim"])
    return np.asarray(out)


def _topk(x: list[Array], a: Attrs) -> list[Array]:
    order = np.argsort(-x[0] if a["largest"] else x[0], axis=a["dim"], kind="stable")
    chosen = order.take(np.arange(a["k"]), axis=a["dim"])
    return [np.take_along_axis(x[0], chosen, axis=a["dim"]), chosen]


def _cumsum(x: list[Array], a: Attrs) -> Array:
    order = slice(None, None, -1) if a["reverse_order"] else slice(None)
    turn = tuple(order if i == a["dim"] % x[0].ndim else slice(None) for i in range(x[0].ndim))
    return np.cumsum(x[0][turn], axis=a["dim"])[turn]


def _scatter(x: list[Array], a: Attrs, add: bool = False) -> Array:
    out = x[0].copy()
    place = list(np.indices(x[1].shape))
    place[a["dim"]] = x[1]
    if add:
        np.add.at(out, tuple(place), x[2])
    else:
        out[tuple(place)] = x[2]
    return out


def _where(x: list[Array], a: Attrs) -> Array:
    rest = x[1:]
    first = a["x"] if a["x"] is not None else rest.pop(0)
    second = a["y"] if a["y"] is not None else rest.pop(0)
    return np.where(x[0] != 0, first, second)


def _slice(x: list[Array], a: Attrs) -> Array:
    steps = a["steps"] or (1,) * x[0].ndim
    return x[0][tuple(slice(b, e, s) for b, e, s in zip(a["begins"], a["ends"], steps, strict=True))]


def _typecast(x: list[Array], a: Attrs) -> Array:
    target = numpy_dtype(DType(a["dtype"]))
    return np.trunc(x[0]).astype(target) if target is np.int64 else x[0].astype(target)


def _sdpa(x: list[Array], a: Attrs) -> Array:
    q, k, v = x[:3]
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat(times, axis=1), v.repeat(times, axis=1)
    scale = a["scale"] if a["scale"] is not None else q.shape[-1] ** -0.5
    scores = (q * scale) @ np.swapaxes(k, -1, -2)
    if len(x) > 3:
        scores = scores + x[3]
    if a["is_causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return _softmax([scores], {"dim": -1}) @ v


def _split_heads(x: list[Array], a: Attrs) -> list[Array]:
    b, s, width = x[0].shape
    heads = a["num_heads"]
    kv = heads if a["num_kv_heads"] is None else a["num_kv_heads"]
    d = width // (heads + 2 * kv)
    q, k, v = np.split(x[0], [heads * d, (heads + kv) * d], axis=2)
    out = [t.reshape(b, s, n, d).transpose(0, 2, 1, 3) for t, n in ((q, heads), (k, kv), (v, kv))]
    if a["transpose_key"]:
        out[1] = np.swapaxes(out[1], -1, -2)
    return out if kv else out[:1]


def _concatenate_heads(x: list[Array], a: Attrs) -> Array:
    b, h, s, d = x[0].shape
    return x[0].transpose(0, 2, 1, 3).reshape(b, s, h * d)


def _rotary(x: list[Array], a: Attrs) -> Array:
    s, d = x[0].shape[-2:]
    cos, sin = (t.reshape(t.shape[-2:])[:s] for t in x[1:])
    turned = np.concatenate([-x[0][..., d // 2 :], x[0][..., : d // 2]], axis=-1)
    return x[0] * cos + turned * sin


# ruff: noqa: ARG005
_OPS: dict[str, Callable[[list[Array], Attrs], Array | list[Array]]] = {
    "matmul": _matmul,
    "linear": _matmul,
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
    "upsample": _upsample,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "sum": _reduce(np.sum),
    "mean": _reduce(np.mean),
    "max": _reduce(np.max),
    "min": _reduce(np.min),
    "prod": _reduce(np.prod),
    "argmax": _argmax,
    "topk": _topk,
    "cumsum": _cumsum,
    "tril": lambda x, a: np.tril(x[0], a["diagonal"]),
    "triu": lambda x, a: np.triu(x[0], a["diagonal"]),
    "where": _where,
    "addcmul": lambda x, a: x[0] + a["value"] * x[1] * x[2],
    "addcdiv": lambda x, a: x[0] + a["value"] * x[1] / x[2],
    "mac": lambda x, a: x[0] * x[1] + x[2],
    "lerp": lambda x, a: x[0] + x[2] * (x[1] - x[0]),
    "typecast": _typecast,
    "reshape": lambda x, a: x[0].reshape(a["shape"]),
    "permute": lambda x, a: x[0].transpose(a["dims"]),
    "transpose": lambda x, a: np.swapaxes(x[0], a["dim0"], a["dim1"]),
    "concat": lambda x, a: np.concatenate(x, axis=a["dim"]),
    "slice": _slice,
    "split": lambda x, a: list(np.split(x[0], np.cumsum(a["sizes"])[:-1], axis=a["dim"])),
    "pad": lambda x, a: np.pad(x[0], a["padding"], constant_values=a["value"]),
    "fill_implicit_tile_padding": lambda x, a: x[0],
    "repeat": lambda x, a: np.tile(x[0], a["repeats"]),
    "repeat_interleave": lambda x, a: np.repeat(x[0], a["repeats"], axis=a["dim"]),
    "embedding": lambda x, a: x[1][x[0]],
    "gather": lambda x, a: np.take_along_axis(x[0], x[1], axis=a["dim"]),
    "scatter": _scatter,
    "scatter_add": lambda x, a: _scatter(x, a, add=True),
    "full": lambda x, a: np.full(a["shape"], a["value"]),
    "zeros": lambda x, a: np.zeros(a["shape"]),
    "arange": lambda x, a: np.arange(a["start"], a["end"], a["step"]),
    "scaled_dot_product_attention": _sdpa,
    "split_query_key_value_and_split_heads": _split_heads,
    "nlp_create_qkv_heads": lambda x, a: _split_heads([x[0][:, 0]], a),
    "concatenate_heads": _concatenate_heads,
    "nlp_concat_heads": lambda x, a: _concatenate_heads(x, a)[:, None],
    "rotary_embedding": _rotary,
}
