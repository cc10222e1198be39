"""Weights brought, once, into the form that their ops take on every run."""

from __future__ import annotations

from dataclasses import replace

from optimizer.device import DeviceSpec
from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import MemoryConfig, PageLayout, TensorLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel.analytical.windows.conv_weights import read_from
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.ttnn_calls.conv_pool import (
    conv_config_text,
    conv_geometry,
    prepared_ahead,
    slice_config_text,
)
from optimizer.opmodel.ttnn_calls.text import (
    Site,
    call,
    dtype_text,
    integer_tuple,
    layout_text,
    literal,
    memory_config_text,
)


def prepared_text(
    op: Op, query: OpQuery, index: int, operand: str, board: DeviceSpec, l1_small_bytes: int
) -> str | None:
    """The call that prepares operand `index` of an op, a weight in variable `operand`; None: it is taken as it is."""
    if opdef(op.op).config is ConfigFamily.CONV2D and index in (1, 2) and query.inputs[index].layout.is_host:
        return _conv_operand(query, index, operand, read_from(query, board, l1_small_bytes))
    if op.op == "ttnn.group_norm" and index in (1, 2):
        return _group_norm_operand(query, index, operand)
    return None


def _conv_operand(query: OpQuery, index: int, operand: str, memory: MemoryConfig) -> str | None:
    """`ttnn.prepare_conv_weights` or `ttnn.prepare_conv_bias`, which give what the conv would make at every call.

    `memory`: where the conv reads its input when it computes.
    """
    if not prepared_ahead(query, index):
        return None
    config = query.config if isinstance(query.config, Conv2dConfig) else Conv2dConfig()
    if config.weights_dtype is None:  # which preparing cannot do without; a conv takes the type its weights have
        query = replace(query, config=replace(config, weights_dtype=query.inputs[1].dtype.value))
    if memory != query.inputs[0].layout.memory:  # spread already
        assert isinstance(query.config, Conv2dConfig)
        query = replace(query, config=replace(query.config, reshard_if_not_optimal=False))
    site = Site(query, tuple("x" for _ in query.inputs), "device")
    x = query.inputs[0]
    transposed = query.op == "ttnn.conv_transpose2d"
    kind = "weights" if index == 1 else "bias"
    named: dict[str, str | None] = {
        "weight_tensor" if index == 1 else "bias_tensor": operand,
        "input_memory_config": memory_config_text(memory),
        "input_layout": layout_text(x.layout.page_layout),
    }
    if index == 1:
        named["weights_format"] = '"IOHW"' if transposed else '"OIHW"'
        named["has_bias"] = literal(len(query.inputs) > 2)
    named.update(conv_geometry(site))
    if transposed and index == 1:
        named["output_padding"] = integer_tuple(site.attr("output_padding", (0, 0)))
    named["device"] = "device"
    named["input_dtype"] = dtype_text(x.dtype)
    named["output_dtype"] = site.dtype
    named["conv_config"] = conv_config_text(site)
    named["compute_config"] = site.compute
    named["dram_slice_config" if transposed else "slice_config"] = slice_config_text(site)
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


def moved_text(name: str, source: TensorLayout, target: TensorLayout) -> str:
    """An expression that brings a tensor from one placement and page layout into another; the name when equal."""
    if source == target:
        return name
    text = name
    if source.page_layout is not target.page_layout:
        text = f"ttnn.to_layout({text}, {layout_text(target.page_layout)})"
    if source.is_host and target.is_host:
        return text
    if source.is_host:
        return call("ttnn.to_device", text, "device", memory_config=memory_config_text(target.memory))
    if target.is_host:
        return call("ttnn.from_device", text)
    if source.memory != target.memory:
        text = call("ttnn.to_memory_config", text, memory_config_text(target.memory))
    return text
