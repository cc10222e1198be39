"""Rules for ops of the dialect that compute: element-wise, products, convolutions, norms, reductions.

Source: tt-mlir's TTNN dialect (`TTNNOps.td`); the attributes are those that its printer writes.
"""

from __future__ import annotations

import re
from math import isfinite

from optimizer.errors import UnsupportedOpError
from optimizer.families.elementwise.rows import BINARY, UNARY
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.ir.graph import Attr
from tt_mlir import configs
from tt_mlir.document import finite
from tt_mlir.site import Rule, Site, Translation, padding, pair, present, whole_numbers


# -- elementwise -------------------------------------------------------------------------------------------
def same_name(site: Site) -> Translation:
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
        "kernel_size": pair(site.need("kernel_size")),
        "stride": pair(site.attr("stride", default=[1, 1])),
        "padding": padding(site.attr("padding", default=[0, 0])),
        "dilation": pair(site.attr("dilation", default=[1, 1])),
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
        attrs["output_padding"] = pair(site.attr("output_padding", default=[0, 0]))
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
    attrs: dict[str, Attr] = {"scale_factor": pair(site.need("scale_factor"))}
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
    return Translation(f"ttnn.{site.name}", present([x, weight, bias]), attrs, config)


def _group_norm(site: Site) -> Translation:
    """The input mask is made from the shape alone; whoever runs a group norm makes it."""
    x, _, weight, bias = site.segments(4)[:4]
    attrs: dict[str, Attr] = {
        "num_groups": int(site.need("num_groups")),
        "epsilon": float(site.attr("epsilon", default=1e-12)),
    }
    return Translation("ttnn.group_norm", present([x, weight, bias]), attrs)


def _batch_norm(site: Site) -> Translation:
    x, mean, variance, weight, bias = site.segments(5)[:5]
    if site.op.attrs.get("training"):
        raise UnsupportedOpError("batch norm in training", node=site.place)
    attrs: dict[str, Attr] = {"epsilon": float(site.attr("epsilon", default=1e-5))}
    return Translation("ttnn.batch_norm", present([x, mean, variance, weight, bias]), attrs)


def _reduce(site: Site) -> Translation:
    dims = site.attr("dim_arg", "dim")
    rank = len(site.tensor(0).shape)
    found = None if dims is None else tuple(d % rank for d in whole_numbers(dims))
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


COMPUTE_RULES: dict[str, Rule] = {
    **{f"ttnn.{name}": same_name for name in UNARY},
    **{f"ttnn.{name}": _binary for name in (*BINARY, *_BINARY_NAMES)},
    **{f"ttnn.{name}": _reduce for name in REDUCTIONS},
    "ttnn.leaky_relu": _scalar("ttnn.leaky_relu", negative_slope=("parameter", "negative_slope")),
    "ttnn.elu": _scalar("ttnn.elu", alpha=("parameter", "alpha")),
    "ttnn.pow_scalar": _scalar("ttnn.pow_scalar", exponent=("rhs", "exponent")),
    "ttnn.clamp_scalar": _clamp,
    "ttnn.where": same_name,
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
    "ttnn.global_avg_pool2d": same_name,
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
}
"""Op of the dialect -> its rule."""
