"""TTNN-dialect ops as ops of our vocabulary: one rule per op.

A rule reads one op of a plan and says which op of ours does the same, on which operands and with which attributes
and config. `translate` raises UnsupportedOpError, naming the op, for what the vocabulary lacks.
Source: tt-mlir's TTNN dialect (`TTNNOps.td`); the attributes are those that its printer writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from optimizer.errors import GraphError, UnsupportedOpError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.ir.vocabulary import BINARY, REDUCTIONS, UNARY
from optimizer.layouts.op_config import OpConfig
from tt_mlir import configs
from tt_mlir.document import PlanFunction, PlanOp, PlanTensor, finite


@dataclass(frozen=True)
class Translation:
    """The op of ours that does what an op of a plan does."""

    op: str
    """Vocabulary name."""
    operands: tuple[str, ...]
    """Ids of the plan's tensors."""
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    config: OpConfig | None = None
    stand_ins: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Operand -> shape of a tensor of the caller's, or of a weight, that stands for it (pages of a cache as one)."""


@dataclass(frozen=True)
class Site:
    """One op of a plan being read."""

    function: PlanFunction
    op: PlanOp
    notes: list[str]
    """Takes what is not taken over as the plan states it."""

    @property
    def name(self) -> str:
        """Mnemonic: `matmul` of `ttnn.matmul`."""
        return self.op.op.removeprefix("ttnn.")

    @property
    def place(self) -> str:
        return f"{self.op.op} {self.op.outputs[0] if self.op.outputs else ''} ({self.op.loc})"

    @property
    def operands(self) -> tuple[str, ...]:
        """Ids of the tensors that it reads; devices left out."""
        return tuple(v for v in self.op.inputs if self.function.tensors[v].dtype is not None)

    @property
    def result(self) -> PlanTensor:
        return self.function.tensors[self.op.outputs[0]]

    def tensor(self, index: int) -> PlanTensor:
        return self.function.tensors[self.operands[index]]

    def attr(self, *names: str, default: Any = None) -> Any:
        """The first attribute that is there: spellings changed over time."""
        for name in names:
            if self.op.attrs.get(name) is not None:
                return self.op.attrs[name]
        return default

    def need(self, *names: str) -> Any:
        value = self.attr(*names)
        if value is None:
            raise GraphError(f"attribute '{names[0]}' is missing", node=self.place)
        return value

    def segments(self, count: int) -> list[str | None]:
        """Operands by position, None for optional ones that are left out."""
        sizes = self.op.attrs.get("operandSegmentSizes")
        given = list(self.operands)
        if not sizes:
            return [*given, *[None] * (count - len(given))]
        found: list[str | None] = []
        for size in sizes:
            found += [given.pop(0)] if size else [None]
        return [*found, *[None] * (count - len(found))]


Rule = Callable[[Site], Translation]


def translate(function: PlanFunction, op: PlanOp, notes: list[str]) -> Translation:
    """The op of ours for an op of a plan; UnsupportedOpError or GraphError names it.

    What is not taken over as it stands is added to `notes`.
    """
    site = Site(function, op, notes)
    rule = _RULES.get(op.op)
    if rule is None:
        raise UnsupportedOpError("the vocabulary has no such op", node=site.place)
    try:
        return rule(site)
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise GraphError(f"operands or attributes do not fit: {error!r}", node=site.place) from error


def _all(values: Any) -> tuple[int, ...]:
    """Whole numbers of a list, of one number, or of text like `1x2x3` or `#ttnn.shape<1x2x3>`."""
    if isinstance(values, str):
        values = re.findall(r"-?\d+", values)
    return tuple(int(v) for v in values) if isinstance(values, list | tuple) else (int(values),)


def _pair(values: Any) -> tuple[int, ...]:
    found = _all(values)
    return found * 2 if len(found) == 1 else found


def _padding(values: Any) -> tuple[int, int, int, int]:
    """(top, bottom, left, right) of four or of (height, width)."""
    found = _all(values)
    if len(found) == 2:
        return (found[0], found[0], found[1], found[1])
    top, bottom, left, right = found
    return (top, bottom, left, right)


def _present(operands: list[str | None]) -> tuple[str, ...]:
    return tuple(v for v in operands if v is not None)


def _without(site: Site, *names: str) -> None:
    """Refuse attributes that change what the op computes."""
    for name in names:
        if site.op.attrs.get(name):
            raise UnsupportedOpError(f"attribute {name} = {site.op.attrs[name]}", node=site.place)


# -- elementwise -------------------------------------------------------------------------------------------
def _same_name(site: Site) -> Translation:
    """Operands alone: the op is called the same."""
    return Translation(site.op.op, site.operands)


def _scalar(name: str, **attrs: tuple[str, ...]) -> Rule:
    """A unary op with numbers: our attribute -> the dialect's spellings."""

    def rule(site: Site) -> Translation:
        found = {ours: finite(float(site.need(*theirs))) for ours, theirs in attrs.items()}
        return Translation(name, site.operands, found)

    return rule


def _clamp(site: Site) -> Translation:
    """An infinite bound is none."""
    bounds = {name: float(site.need(name)) for name in ("min", "max")}
    return Translation("ttnn.clamp", site.operands, {n: v if isfinite(v) else None for n, v in bounds.items()})


def _binary(site: Site) -> Translation:
    attrs: dict[str, Attr] = {}
    for name in ("activations", "input_tensor_a_activations", "input_tensor_b_activations"):
        found = configs.activation_names(site.attr(name), site.place)
        if found:
            attrs[name] = found
    return Translation(f"ttnn.{_BINARY_NAMES.get(site.name, site.name)}", site.operands, attrs)


_BINARY_NAMES = {"pow_tensor": "pow", "logical_left_shift": "bitwise_left_shift"}


def _typecast(site: Site) -> Translation:
    dtype = site.result.dtype
    assert dtype is not None, "no tensor results"
    return Translation("ttnn.typecast", site.operands, {"dtype": dtype.value})


def _same(site: Site) -> Translation:
    return Translation("ttnn.identity", site.operands[:1])


# -- products ----------------------------------------------------------------------------------------------
def _matmul(site: Site) -> Translation:
    config = configs.matmul_config(site.attr("matmul_program_config", "program_config"), site.place, site.notes)
    activation = configs.activation_name(site.attr("activation"), site.place)
    activation = activation or getattr(config, "fused_activation", None)
    attrs: dict[str, Attr] = {
        "transpose_a": bool(site.attr("transpose_a", default=False)),
        "transpose_b": bool(site.attr("transpose_b", default=False)),
        "activation": activation,
        **configs.compute_attrs(site.attr("compute_config")),
    }
    return Translation(f"ttnn.{site.name}", site.operands, attrs, config)


def _window(site: Site) -> dict[str, Attr]:
    return {
        "batch_size": int(site.need("batch_size")),
        "input_height": int(site.need("input_height")),
        "input_width": int(site.need("input_width")),
        "kernel_size": _pair(site.need("kernel_size")),
        "stride": _pair(site.attr("stride", default=[1, 1])),
        "padding": _padding(site.attr("padding", default=[0, 0])),
        "dilation": _pair(site.attr("dilation", default=[1, 1])),
    }


def _conv(site: Site) -> Translation:
    record = site.attr("conv2d_config", "conv_config") or {}
    slices = site.attr("conv2d_slice_config", "conv_transpose2d_slice_config", "slice_config")
    config = configs.conv_config(record, slices, site.place, site.notes)
    extras = {name: bool(record[name]) for name in configs.CONV_EXTRAS if record.get(name) is not None}
    attrs: dict[str, Attr] = {
        **_window(site),
        "in_channels": int(site.need("in_channels")),
        "out_channels": int(site.need("out_channels")),
        "groups": int(site.attr("groups", default=1)),
        "activation": config.activation,
        **extras,
        **configs.compute_attrs(site.attr("compute_config")),
    }
    if site.name == "conv_transpose2d":
        attrs["output_padding"] = _pair(site.attr("output_padding", default=[0, 0]))
    return Translation(f"ttnn.{site.name}", site.operands, attrs, config)


def _pool(site: Site) -> Translation:
    attrs: dict[str, Attr] = {
        **_window(site),
        "channels": int(site.need("channels")),
        "ceil_mode": bool(site.attr("ceil_mode", default=False)),
    }
    if site.name == "avg_pool2d":
        attrs["count_include_pad"] = bool(site.attr("count_include_pad", default=True))
    scheme = re.search(r"(height|width|block)_sharded", str(site.attr("applied_shard_scheme")))
    if scheme is not None:
        attrs["applied_shard_scheme"] = scheme.group()
    return Translation(f"ttnn.{site.name}", site.operands, attrs)


def _upsample(site: Site) -> Translation:
    attrs: dict[str, Attr] = {"scale_factor": _pair(site.need("scale_factor"))}
    attrs["mode"] = str(site.attr("mode", default="nearest")).strip('"')
    return Translation("ttnn.upsample", site.operands, attrs)


# -- norms and reductions ----------------------------------------------------------------------------------
def _softmax(site: Site) -> Translation:
    attrs: dict[str, Attr] = {
        "dim": int(site.need("dimension", "dim")),
        "numeric_stable": bool(site.attr("numericStable", "numeric_stable", default=False)),
        **configs.compute_attrs(site.attr("compute_config")),
    }
    return Translation("ttnn.softmax", site.operands, attrs)


def _norm(site: Site) -> Translation:
    x, weight, bias = site.segments(3)[:3]
    if bias is not None and (weight is None or site.name == "rms_norm"):
        raise UnsupportedOpError("a bias without a scale, or of an RMS norm", node=site.place)
    attrs: dict[str, Attr] = {
        "epsilon": float(site.attr("epsilon", default=1e-12)),
        **configs.compute_attrs(site.attr("compute_config")),
    }
    config = configs.norm_config(site.attr("program_config"))
    return Translation(f"ttnn.{site.name}", _present([x, weight, bias]), attrs, config)


def _group_norm(site: Site) -> Translation:
    """The input mask is made from the shape alone; whoever runs a group norm makes it."""
    x, _, weight, bias = site.segments(4)[:4]
    attrs: dict[str, Attr] = {
        "num_groups": int(site.need("num_groups")),
        "epsilon": float(site.attr("epsilon", default=1e-12)),
    }
    return Translation("ttnn.group_norm", _present([x, weight, bias]), attrs)


def _batch_norm(site: Site) -> Translation:
    x, mean, variance, weight, bias = site.segments(5)[:5]
    if site.op.attrs.get("training"):
        raise UnsupportedOpError("batch norm in training", node=site.place)
    attrs: dict[str, Attr] = {"epsilon": float(site.attr("epsilon", default=1e-5))}
    return Translation("ttnn.batch_norm", _present([x, mean, variance, weight, bias]), attrs)


def _reduce(site: Site) -> Translation:
    dims = site.attr("dim_arg", "dim")
    rank = len(site.tensor(0).shape)
    found = None if dims is None else tuple(d % rank for d in _all(dims))
    dim: Attr = found if found is None or len(found) > 1 else found[0]
    keep = bool(site.attr("keep_dim", "keepdim", default=True))
    compute = configs.compute_attrs(site.attr("compute_config"))
    return Translation(f"ttnn.{site.name}", site.operands, {"dim": dim, "keepdim": keep, **compute})


def _argmax(site: Site) -> Translation:
    dim = site.attr("dim")
    keep = bool(site.attr("keep_dim", "keepdim", default=False))
    return Translation("ttnn.argmax", site.operands, {"dim": None if dim is None else int(dim), "keepdim": keep})


def _topk(site: Site) -> Translation:
    attrs: dict[str, Attr] = {
        "k": int(site.need("k")),
        "dim": int(site.attr("dim", default=-1)),
        "largest": bool(site.attr("largest", default=True)),
    }
    return Translation("ttnn.topk", site.operands, attrs)


def _sort(site: Site) -> Translation:
    attrs: dict[str, Attr] = {
        "dim": int(site.attr("dim", default=-1)),
        "descending": bool(site.attr("descending", default=False)),
    }
    return Translation("ttnn.sort", site.operands, attrs)


def _cumsum(site: Site) -> Translation:
    return Translation("ttnn.cumsum", site.operands, {"dim": int(site.need("dim"))})


# -- data movement -----------------------------------------------------------------------------------------
def _reshape(site: Site) -> Translation:
    return Translation("ttnn.reshape", site.operands, {"shape": site.result.shape})


def _permute(site: Site) -> Translation:
    return Translation("ttnn.permute", site.operands, {"dims": _all(site.need("permutation", "dims"))})


def _transpose(site: Site) -> Translation:
    attrs: dict[str, Attr] = {"dim0": int(site.need("dim0")), "dim1": int(site.need("dim1"))}
    return Translation("ttnn.transpose", site.operands, attrs)


def _concat(site: Site) -> Translation:
    return Translation("ttnn.concat", site.operands, {"dim": int(site.need("dim"))})


def _slice(site: Site) -> Translation:
    shape = site.tensor(0).shape
    begins = [b + s if b < 0 else b for b, s in zip(_all(site.need("begins")), shape, strict=True)]
    ends = [min(e + s if e < 0 else e, s) for e, s in zip(_all(site.need("ends")), shape, strict=True)]
    steps = _all(site.attr("step", "steps", default=[1] * len(shape)))
    attrs: dict[str, Attr] = {"begins": tuple(begins), "ends": tuple(ends)}
    if any(step != 1 for step in steps):
        attrs["steps"] = steps
    return Translation("ttnn.slice", site.operands[:1], attrs)


def _slice_dynamic(site: Site) -> Translation:
    """Where it begins is computed on every run: a slice of the same size from the start stands for it."""
    site.notes.append(f"{site.place}: priced as the first {list(site.result.shape)} elements")
    attrs: dict[str, Attr] = {"begins": (0,) * len(site.result.shape), "ends": site.result.shape}
    return Translation("ttnn.slice", site.operands[:1], attrs)


def _pad(site: Site) -> Translation:
    flat = _all(site.need("padding"))
    pairs = tuple((flat[i], flat[i + 1]) for i in range(0, len(flat), 2))
    value = finite(float(site.attr("value", default=0.0)))
    return Translation("ttnn.pad", site.operands, {"padding": pairs, "value": value})


def _repeat(site: Site) -> Translation:
    repeats = _all(site.need("repeat_dims", "repeats", "shape"))
    missing = len(site.tensor(0).shape) - len(repeats)
    return Translation("ttnn.repeat", site.operands, {"repeats": (1,) * missing + repeats})


def _repeat_interleave(site: Site) -> Translation:
    rank = len(site.tensor(0).shape)
    attrs: dict[str, Attr] = {"repeats": int(site.need("repeats")), "dim": int(site.need("dim")) % rank}
    return Translation("ttnn.repeat_interleave", site.operands, attrs)


def _embedding(site: Site) -> Translation:
    return Translation("ttnn.embedding", site.operands[:2])


def _rows_gather(site: Site) -> Translation:
    """Whole rows of one table by one list of numbers, [1, rows, size] by [1, 1, n]: an embedding."""
    _without(site, "column", "fill_out_of_bounds")
    table, ids = site.operands
    pages, *rows = site.function.tensors[table].shape
    unsplit = len(rows) == 2 and pages == 1 and _all(site.attr("windows", default=[1])) == (1,)
    if not unsplit or _all(site.attr("sizes", default=rows[0])) != (rows[0],):
        raise UnsupportedOpError("a gather of anything but the rows of one table", node=site.place)
    wanted = site.result.shape[:-1]
    if site.function.tensors[ids].shape != wanted:
        ids = _unreshaped(site, ids, wanted)
    return Translation("ttnn.embedding", (ids, table), stand_ins={table: tuple(rows)})


def _unreshaped(site: Site, tensor: str, shape: tuple[int, ...]) -> str:
    """The tensor of a shape that another is a reshape of."""
    for op in site.function.ops:
        if op.outputs == (tensor,) and op.op == "ttnn.reshape" and site.function.tensors[op.inputs[0]].shape == shape:
            return op.inputs[0]
    raise UnsupportedOpError(f"indices {tensor} of a shape that their rows do not have", node=site.place)


def _along(name: str) -> Rule:
    """gather, scatter: operands as they are, and the dim."""

    def rule(site: Site) -> Translation:
        return Translation(name, site.operands, {"dim": int(site.need("dim"))})

    return rule


# -- attention ---------------------------------------------------------------------------------------------
def _sdpa(site: Site) -> Translation:
    _without(site, "sliding_window_size")
    q, k, v, mask, sink = site.segments(5)[:5]
    if sink is not None:
        raise UnsupportedOpError("an attention sink", node=site.place)
    scale = site.attr("scale")
    attrs: dict[str, Attr] = {
        "is_causal": bool(site.attr("is_causal", default=mask is None)),
        "scale": None if scale is None else float(scale),
        **configs.compute_attrs(site.attr("compute_config")),
    }
    config = configs.sdpa_config(site.attr("program_config"))
    return Translation("ttnn.scaled_dot_product_attention", _present([q, k, v, mask]), attrs, config)


def _sdpa_decode(site: Site) -> Translation:
    """Positions are numbers to us: a tensor of them stands for the end of the cache, where a step costs most."""
    q, k, v, mask, _, sink = site.segments(6)[:6]
    return _decode(site, q, k, v, mask, sink)


def _paged_sdpa_decode(site: Site) -> Translation:
    """A cache in pages reads as one of as many rows as a user's pages hold."""
    q, k, v, table, mask, _, sink = site.segments(7)[:7]
    assert k is not None, "keys are missing"
    assert table is not None, "the page table is missing"
    _, heads, rows, size = site.function.tensors[k].shape
    users, pages = site.function.tensors[table].shape
    site.notes.append(f"{site.place}: priced as attention to a cache in one piece")
    return _decode(site, q, k, v, mask, sink, (users, heads, rows * pages, size))


def _decode(
    site: Site,
    q: str | None,
    k: str | None,
    v: str | None,
    mask: str | None,
    sink: str | None,
    cache: tuple[int, ...] | None = None,
) -> Translation:
    if sink is not None or site.op.attrs.get("sliding_window_size"):
        raise UnsupportedOpError("an attention sink or a sliding window", node=site.place)
    scale = site.attr("scale")
    assert q is not None, "queries are missing"
    assert k is not None, "keys are missing"
    assert v is not None, "values are missing"
    users = site.function.tensors[q].shape[1]
    length = (cache or site.function.tensors[k].shape)[2]
    attrs: dict[str, Attr] = {
        "cur_pos": (length - 1,) * users,
        "is_causal": bool(site.attr("is_causal", default=True)),
        "scale": None if scale is None else float(scale),
        **configs.compute_attrs(site.attr("compute_config")),
    }
    config = configs.sdpa_config(site.attr("program_config"))
    pages = {} if cache is None else {k: cache, v: cache}
    return Translation("ttnn.scaled_dot_product_attention_decode", _present([q, k, v, mask]), attrs, config, pages)


def _split_heads(site: Site) -> Translation:
    if len(site.operands) != 1:
        raise UnsupportedOpError("keys and values in a tensor of their own", node=site.place)
    kv = site.attr("num_kv_heads")
    attrs: dict[str, Attr] = {
        "num_heads": int(site.need("num_heads", "num_q_heads")),
        "transpose_key": bool(site.attr("transpose_key", "transpose_k_heads", default=False)),
    }
    if kv is not None:
        attrs["num_kv_heads"] = int(kv)
    return Translation(site.op.op, site.operands, attrs)


def _rotary_llama(site: Site) -> Translation:
    """Ours swaps halves by itself; theirs multiplies by a constant matrix that does."""
    site.notes.append(f"{site.place}: priced as ttnn.rotary_embedding")
    return Translation("ttnn.rotary_embedding", site.operands[:3])


def _rotary(site: Site) -> Translation:
    return Translation("ttnn.rotary_embedding", site.operands[:3])


_RULES: dict[str, Rule] = {
    **{f"ttnn.{name}": _same_name for name in UNARY},
    **{f"ttnn.{name}": _binary for name in (*BINARY, *_BINARY_NAMES)},
    **{f"ttnn.{name}": _reduce for name in REDUCTIONS},
    "ttnn.leaky_relu": _scalar("ttnn.leaky_relu", negative_slope=("parameter", "negative_slope")),
    "ttnn.elu": _scalar("ttnn.elu", alpha=("parameter", "alpha")),
    "ttnn.pow_scalar": _scalar("ttnn.pow_scalar", exponent=("rhs", "exponent")),
    "ttnn.clamp_scalar": _clamp,
    "ttnn.where": _same_name,
    "ttnn.typecast": _typecast,
    "ttnn.to_dtype": _typecast,
    "ttnn.assign": _same,
    "ttnn.clone": _same,
    "ttnn.copy": _same,
    "ttnn.matmul": _matmul,
    "ttnn.linear": _matmul,
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.global_avg_pool2d": _same_name,
    "ttnn.upsample": _upsample,
    "ttnn.softmax": _softmax,
    "ttnn.layer_norm": _norm,
    "ttnn.rms_norm": _norm,
    "ttnn.group_norm": _group_norm,
    "ttnn.batch_norm": _batch_norm,
    "ttnn.batch_norm_inference": _batch_norm,
    "ttnn.argmax": _argmax,
    "ttnn.topk": _topk,
    "ttnn.sort": _sort,
    "ttnn.moreh_cumsum": _cumsum,
    "ttnn.cumsum": _cumsum,
    "ttnn.reshape": _reshape,
    "ttnn.permute": _permute,
    "ttnn.transpose": _transpose,
    "ttnn.concat": _concat,
    "ttnn.slice_static": _slice,
    "ttnn.slice": _slice,
    "ttnn.slice_dynamic": _slice_dynamic,
    "ttnn.pad": _pad,
    "ttnn.repeat": _repeat,
    "ttnn.repeat_interleave": _repeat_interleave,
    "ttnn.embedding": _embedding,
    "ttnn.rows_gather": _rows_gather,
    "ttnn.gather": _along("ttnn.gather"),
    "ttnn.scatter": _along("ttnn.scatter"),
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.scaled_dot_product_attention_decode": _sdpa_decode,
    "ttnn.paged_scaled_dot_product_attention_decode": _paged_sdpa_decode,
    "ttnn.split_query_key_value_and_split_heads": _split_heads,
    "ttnn.nlp_create_qkv_heads": _split_heads,
    "ttnn.concatenate_heads": _same_name,
    "ttnn.nlp_concat_heads": _same_name,
    "ttnn.rotary_embedding": _rotary,
    "ttnn.rotary_embedding_llama": _rotary_llama,
}
"""Op of the dialect -> its rule."""


def translated_ops() -> tuple[str, ...]:
    """Names of the ops that have a rule, sorted."""
    return tuple(sorted(_RULES))


def result_dtype(tensor: PlanTensor) -> DType:
    """Element type of a tensor; GraphError for what is none."""
    if tensor.dtype is None:
        raise GraphError("not a tensor", node=tensor.id)
    return tensor.dtype
