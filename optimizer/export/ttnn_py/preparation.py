"""Weights brought, once, into the form that their ops take on every run."""

from __future__ import annotations

from dataclasses import replace

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.ttnn_calls.conv_pool import conv_config_text, conv_geometry, slice_config_text
from optimizer.opmodel.ttnn_calls.text import (
    Site,
    call,
    dtype_text,
    integer_tuple,
    layout_text,
    literal,
    memory_config_text,
)

_CONVS = ("ttnn.conv2d", "ttnn.conv_transpose2d")


def prepared_text(op: Op, query: OpQuery, index: int, operand: str, device: str = "device") -> str | None:
    """The call that prepares operand `index` of an op, a weight in variable `operand`; None: it is taken as it is."""
    if op.op in _CONVS and index in (1, 2) and query.inputs[index].layout.is_host:
        return _conv_operand(query, index, operand, device)
    if op.op == "ttnn.group_norm" and index in (1, 2):
        return _group_norm_operand(query, index, operand)
    return None


def _can_prepare(query: OpQuery, index: int) -> bool:
    """Whether TTNN prepares a conv's weight (1) or bias (2) ahead exactly as the conv would at every call.

    Where it does not, in tt-metal 0.81, the operand stays on the host and the conv prepares it itself (measured on
    mock devices by comparing with what `return_weights_and_bias` gives):
      - weights in a block format: their bias, and the weights of a conv that slices its DRAM input by itself
        ("Only TILE layout is supported for BFLOAT8_B");
      - transposed convs of DRAM inputs: the weights come out larger;
      - convs that are matmuls (1x1, stride 1, no padding) of block shards that do not divide the channels into equal
        whole tiles: the weights come out padded otherwise.
    """
    x = query.inputs[0]
    config = query.config if isinstance(query.config, Conv2dConfig) else Conv2dConfig()
    blocked = query.inputs[1].dtype.is_block_float or (config.weights_dtype or "").startswith("bfp")
    if blocked and (index == 2 or (config.slice == "auto" and x.layout.is_dram)):
        return False
    if query.op == "ttnn.conv_transpose2d":
        return not x.layout.is_dram
    attrs = query.attr
    pointwise = attrs["kernel_size"] == (1, 1) and attrs.get("stride", (1, 1)) == (1, 1)
    spec = x.layout.shard_spec
    if spec is None or not pointwise or any(attrs.get("padding", ())):  # type: ignore[arg-type]
        return True
    block = x.layout.memory_layout is TensorMemoryLayout.BLOCK_SHARDED
    return not block or x.shape[-1] % (TILE * spec.grid_yx[1]) == 0


def _conv_operand(query: OpQuery, index: int, operand: str, device: str) -> str | None:
    """`ttnn.prepare_conv_weights` or `ttnn.prepare_conv_bias`, which give what the conv would make at every call."""
    if not _can_prepare(query, index):
        return None
    config = query.config if isinstance(query.config, Conv2dConfig) else Conv2dConfig()
    if config.weights_dtype is None:  # which preparing cannot do without; a conv takes the type its weights have
        query = replace(query, config=replace(config, weights_dtype=query.inputs[1].dtype.value))
    site = Site(query, tuple("x" for _ in query.inputs), device)
    x = query.inputs[0]
    transposed = query.op == "ttnn.conv_transpose2d"
    kind = "weights" if index == 1 else "bias"
    named: dict[str, str | None] = {
        "weight_tensor" if index == 1 else "bias_tensor": operand,
        "input_memory_config": memory_config_text(x.layout.memory),
        "input_layout": layout_text(x.layout.page_layout),
    }
    if index == 1:
        named["weights_format"] = '"IOHW"' if transposed else '"OIHW"'
        named["has_bias"] = literal(len(query.inputs) > 2)
    named.update(conv_geometry(site))
    if transposed and index == 1:
        named["output_padding"] = integer_tuple(site.attr("output_padding", (0, 0)))
    named["device"] = device
    named["input_dtype"] = dtype_text(x.dtype)
    named["output_dtype"] = site.dtype
    named["conv_config"] = conv_config_text(site)
    named["compute_config"] = site.compute
    if not transposed:
        named["slice_config"] = slice_config_text(site)
    name = f"ttnn.prepare_conv_transpose2d_{kind}" if transposed else f"ttnn.prepare_conv_{kind}"
    return call(name, **named)


def _group_norm_operand(query: OpQuery, index: int, operand: str) -> str | None:
    """Scale and shift as rows of one tile's width, row-major: [1, 1, C/32, 32]."""
    spec = query.inputs[index]
    channels = query.inputs[0].shape[-1]
    if spec.shape == (1, 1, channels // 32, 32) and not spec.layout.is_tile:
        return None
    rows = operand if not spec.layout.is_tile else f"ttnn.to_layout({operand}, {layout_text(PageLayout.ROW_MAJOR)})"
    return call("ttnn.reshape", rows, literal((1, 1, channels // 32, 32)))


def moved_text(name: str, source: TensorLayout, target: TensorLayout, device: str = "device") -> str:
    """An expression that brings a tensor from one placement and page layout into another; the name when equal."""
    if source == target:
        return name
    text = name
    if source.page_layout is not target.page_layout:
        text = f"ttnn.to_layout({text}, {layout_text(target.page_layout)})"
    if source.is_host and target.is_host:
        return text
    if source.is_host:
        return call("ttnn.to_device", text, device, memory_config=memory_config_text(target.memory))
    if target.is_host:
        return call("ttnn.from_device", text)
    if source.memory != target.memory:
        text = call("ttnn.to_memory_config", text, memory_config_text(target.memory))
    return text
