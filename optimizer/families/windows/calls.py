"""Calls of convolutions, pooling and upsampling."""

from __future__ import annotations

from typing import Any

from optimizer.errors import OpModelError
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorMemoryLayout
from optimizer.layouts.op_config import CONV2D_SWITCHES, Conv2dConfig
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.ttnn_calls.text import (
    Site,
    Writer,
    activation_text,
    call,
    dtype_text,
    integer_tuple,
    integers,
    layout_text,
    literal,
    memory_layout_text,
)

_DEFAULT = Conv2dConfig()
_EXTRA_FLAGS = (
    "config_tensors_in_dram",
    "full_inner_dim",
    "enable_kernel_stride_folding",
    "enable_activation_reuse",
    "force_split_reader",
    "override_output_sharding_config",
)
"""Fields of `ttnn.Conv2dConfig` that rows may carry as attributes."""


def conv_config_text(site: Site) -> str | None:
    """A `ttnn.Conv2dConfig` with the fields that differ from TTNN's defaults; None when there is nothing to say."""
    config = site.query.config
    if config is not None and not isinstance(config, Conv2dConfig):
        raise OpModelError(f"a convolution takes no {config.kind} config")
    config = config or _DEFAULT
    fields: dict[str, str | None] = {}
    if config.weights_dtype is not None:
        fields["weights_dtype"] = dtype_text(DType(config.weights_dtype))
    activation = config.activation or site.attr("activation")
    if activation:
        fields["activation"] = activation_text(activation)
    for name in CONV2D_SWITCHES:
        value = getattr(config, name)
        if value != getattr(_DEFAULT, name):
            fields[name] = literal(value)
    if config.shard_layout is not None:
        fields["shard_layout"] = memory_layout_text(TensorMemoryLayout(config.shard_layout))
    if config.output_layout != _DEFAULT.output_layout:
        fields["output_layout"] = layout_text(PageLayout(config.output_layout))
    fields.update({name: site.flag(name) for name in _EXTRA_FLAGS if name in site.attrs})
    return call("ttnn.Conv2dConfig", **fields) if fields else None


def slice_config_text(site: Site) -> str | None:
    """The `slice_config=` argument: None leaves slicing to TTNN."""
    config = site.query.config
    wanted = config.slice if isinstance(config, Conv2dConfig) else _DEFAULT.slice
    if wanted == "auto":
        return None
    if wanted == "l1":
        return "ttnn.Conv2dL1FullSliceConfig"
    kinds = {"dram_height": "ttnn.Conv2dDRAMSliceHeight", "dram_width": "ttnn.Conv2dDRAMSliceWidth"}
    kind, _, count = wanted.partition(":")
    if kind not in kinds or not count.isascii() or not count.isdigit():
        raise OpModelError(f"{wanted!r} is no slicing of a convolution", alternatives=("auto", "l1", *kinds))
    return call("ttnn.Conv2dSliceConfig", slice_type=kinds[kind], num_slices=literal(int(count)))


def padding_text(padding: Any, pair: str = "({}, {})") -> str:
    """(top, bottom, left, right), or (height, width) where both sides are equal."""
    top, bottom, left, right = (int(p) for p in padding)
    if (top, left) == (bottom, right):
        return pair.format(top, left)
    four = pair.replace("{}, {}", "{}, {}, {}, {}")
    return four.format(top, bottom, left, right)


def conv_geometry(site: Site) -> dict[str, str]:
    """Keywords that say what is convolved: the same for a convolution and for preparing its weights."""
    return {
        "in_channels": site.integer("in_channels"),
        "out_channels": site.integer("out_channels"),
        "batch_size": site.integer("batch_size"),
        "input_height": site.integer("input_height"),
        "input_width": site.integer("input_width"),
        "kernel_size": integer_tuple(site.need("kernel_size")),
        "stride": integer_tuple(site.attr("stride")),
        "padding": padding_text(site.attr("padding")),
        "dilation": integer_tuple(site.attr("dilation")),
        "groups": site.integer("groups"),
    }


def prepared_ahead(query: OpQuery, index: int) -> bool:
    """Whether TTNN prepares a conv's weight (1) or bias (2) ahead exactly as the conv would at every call.

    Where it does not, in tt-metal 0.81, the operand stays on the host and the conv prepares it itself (measured on
    mock devices by comparing with what `return_weights_and_bias` gives):
      - weights in a block format: their bias, and the weights of a conv that slices its DRAM input by itself
        ("Only TILE layout is supported for BFLOAT8_B");
      - transposed convs of DRAM inputs: the weights come out larger; and with weights in a block format and a bias both
        stay, as the bias cannot follow the weights ("Device Operations expect device tensors as inputs").
    """
    x, transposed = query.inputs[0], query.op == "ttnn.conv_transpose2d"
    config = query.config if isinstance(query.config, Conv2dConfig) else _DEFAULT
    blocked = query.inputs[1].dtype.is_block_float or (config.weights_dtype or "").startswith("bfp")
    follows = index == 2 or (transposed and len(query.inputs) > 2)
    if blocked and (follows or (config.slice == "auto" and x.layout.is_dram)):
        return False
    return not (transposed and x.layout.is_dram)


def _conv(site: Site) -> str:
    keywords: dict[str, str | None] = dict(conv_geometry(site))
    if site.query.op == "ttnn.conv_transpose2d":
        keywords["output_padding"] = integer_tuple(site.attr("output_padding"))
        keywords["dram_slice_config"] = slice_config_text(site)
    else:
        keywords["slice_config"] = slice_config_text(site)
    return call(
        site.query.op,
        input_tensor=site.operand(0),
        weight_tensor=site.operand(1),
        bias_tensor=site.optional(2) or "None",
        device=site.device,
        **keywords,
        dtype=site.dtype,
        conv_config=conv_config_text(site),
        compute_config=site.compute,
        memory_config=site.memory,
    )


def _pool(site: Site) -> str:
    scheme = site.attr("applied_shard_scheme")
    keywords: dict[str, str | None] = {
        "batch_size": site.integer("batch_size"),
        "input_h": site.integer("input_height"),
        "input_w": site.integer("input_width"),
        "channels": site.integer("channels"),
        "kernel_size": integers(site.need("kernel_size")),
        "stride": integers(site.attr("stride")),
        "padding": padding_text(site.attr("padding"), "[{}, {}]"),
    }
    dilation = [int(d) for d in site.attr("dilation")]
    if site.query.op == "ttnn.max_pool2d":
        keywords["dilation"] = literal(dilation)
    elif dilation != [1, 1]:
        raise OpModelError("ttnn.avg_pool2d has no dilation")
    keywords["ceil_mode"] = site.flag("ceil_mode")
    if site.query.op == "ttnn.avg_pool2d" and not site.attr("count_include_pad"):
        keywords["count_include_pad"] = "False"
    pooled = call(
        site.query.op,
        input_tensor=site.operand(0),
        **keywords,
        memory_config=site.memory,
        applied_shard_scheme=None if scheme is None else memory_layout_text(TensorMemoryLayout(scheme)),
        compute_kernel_config=site.compute,
    )
    source, asked = site.query.inputs[0].layout, site.query.output
    if not source.is_dram or asked is None or asked.buffer_type is not BufferType.DRAM:
        return pooled
    # A pool that runs slice by slice from DRAM to DRAM gives [N, H, W, C]; behind others this changes nothing.
    flat = literal((1, 1, -1, int(site.need("channels"))))
    return call("ttnn.reshape", pooled, flat)


def _upsample(site: Site) -> str:
    high, wide = site.need("scale_factor")
    scale = literal(high) if (high, type(high)) == (wide, type(wide)) else literal([high, wide])
    mode = literal(str(site.attr("mode")))
    return site.call(scale, mode=mode, memory_config=site.memory, compute_kernel_config=site.compute)


CALLS: dict[str, Writer] = {
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.global_avg_pool2d": lambda site: site.call(),
    "ttnn.upsample": _upsample,
    # between the four pixels around a point; beyond the image there are zeros
    "ttnn.grid_sample": lambda site: site.call(
        site.operand(1),
        align_corners=site.flag("align_corners"),
        memory_config=site.memory,
        compute_kernel_config=site.compute,
    ),
}
"""Query op -> writer of its call."""
