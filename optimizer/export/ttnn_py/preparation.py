"""Weights brought, once, into the form that their ops take on every run."""

from __future__ import annotations

from dataclasses import replace

from optimizer.device import DeviceSpec
from optimizer.export.facts import moves
from optimizer.families.windows.calls import (
    conv_config_text,
    conv_geometry,
    prepared_ahead,
    slice_config_text,
)
from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import CONVERT, FETCH, RESHAPE, SEND, opdef
from optimizer.layouts.memory_config import MemoryConfig, PageLayout, TensorLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.windows.conv_weights import read_from
from optimizer.opmodel.base import OpQuery
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
    prepared = preparing(op, query, index, board, l1_small_bytes)
    if prepared is not None:
        return _conv_operand(prepared[0], index, operand, prepared[1])
    if in_rows_of_tiles(op, query, index):
        return _group_norm_operand(query, index, operand)
    return None


def preparing(
    op: Op, query: OpQuery, index: int, board: DeviceSpec, l1_small_bytes: int
) -> tuple[OpQuery, MemoryConfig] | None:
    """How operand `index` of a conv, a weight or bias on the host, is prepared: for which call of the conv, and where
    that reads its input when it computes. None of an operand that the op takes as it is."""
    if opdef(op.op).config is not ConfigFamily.CONV2D or index not in (1, 2) or not query.inputs[index].layout.is_host:
        return None
    if not prepared_ahead(query, index):
        return None
    memory = read_from(query, board, l1_small_bytes)
    config = query.config if isinstance(query.config, Conv2dConfig) else Conv2dConfig()
    if config.weights_dtype is None:  # which preparing cannot do without; a conv takes the type its weights have
        query = replace(query, config=replace(config, weights_dtype=query.inputs[1].dtype.value))
    if memory != query.inputs[0].layout.memory:  # spread already
        assert isinstance(query.config, Conv2dConfig)
        query = replace(query, config=replace(query.config, reshard_if_not_optimal=False))
    return query, memory


def _conv_operand(query: OpQuery, index: int, operand: str, memory: MemoryConfig) -> str:
    """`ttnn.prepare_conv_weights` or `ttnn.prepare_conv_bias`, which give what the conv would make at every call."""
    site = Site(query, tuple("x" for _ in query.inputs), "device")
    x = query.inputs[0]
    transposed = "output_padding" in opdef(query.op).attrs
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
        named["output_padding"] = integer_tuple(site.attr("output_padding"))
    named["device"] = "device"
    named["input_dtype"] = dtype_text(x.dtype)
    named["output_dtype"] = site.dtype
    named["conv_config"] = conv_config_text(site)
    named["compute_config"] = site.compute
    named["dram_slice_config" if transposed else "slice_config"] = slice_config_text(site)
    name = f"ttnn.prepare_conv_transpose2d_{kind}" if transposed else f"ttnn.prepare_conv_{kind}"
    return call(name, **named)


def in_rows_of_tiles(op: Op, query: OpQuery, index: int) -> bool:
    """Whether an operand is a group norm's scale or shift that has yet to become rows of one tile's width."""
    if "num_groups" not in opdef(op.op).attrs or index not in (1, 2):
        return False
    spec = query.inputs[index]
    return spec.layout.is_tile or spec.shape != rows_of_tiles(query)


def rows_of_tiles(query: OpQuery) -> tuple[int, ...]:
    """The shape of a group norm's scale or shift: rows of one tile's width."""
    return (1, 1, query.inputs[0].shape[-1] // TILE, TILE)


def _group_norm_operand(query: OpQuery, index: int, operand: str) -> str:
    layout = query.inputs[index].layout
    rows = f"ttnn.to_layout({operand}, {layout_text(PageLayout.ROW_MAJOR)})" if layout.is_tile else operand
    return call(RESHAPE, rows, literal(rows_of_tiles(query)))


def moved_text(name: str, source: TensorLayout, target: TensorLayout) -> str:
    """An expression that brings a tensor from one placement and page layout into another; the name when equal."""
    text = name
    for op, made in moves(source, target):
        if op == CONVERT:
            text = call(op, text, layout_text(made.page_layout))
        elif op == SEND:
            text = call(op, text, "device", memory_config=memory_config_text(made.memory))
        else:
            text = call(op, text, *(() if op == FETCH else (memory_config_text(made.memory),)))
    return text
