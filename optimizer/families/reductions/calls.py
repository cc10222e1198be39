"""Calls of reductions, sorting, running sums, softmax and norms."""

from __future__ import annotations

from dataclasses import replace

from optimizer.errors import OpModelError
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR, PageLayout
from optimizer.layouts.op_config import LayerNormShardedMultiCoreProgramConfig
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.ttnn_calls.text import Site, Writer, call, integers, layout_text, literal, program_config_text


def _dim(site: Site) -> str:
    dim = site.attr("dim")
    return integers(dim) if isinstance(dim, tuple) else literal(None if dim is None else int(dim))


def _prod(site: Site) -> str:
    """`ttnn.prod` takes one dim or all: several are reduced one after the other, the last one first."""
    keep, dim = site.stated_flag("keepdim"), site.attr("dim")
    if not isinstance(dim, tuple):
        return site.call(dim=_dim(site), keepdim=keep, memory_config=site.memory)
    rank = len(site.query.inputs[0].shape)
    text = site.operand(0)
    for axis in sorted({int(d) % rank for d in dim}, reverse=True):
        text = call("ttnn.prod", text, dim=literal(axis), keepdim=keep, memory_config=site.memory)
    return text


def _argmax(site: Site) -> str:
    dim = site.attr("dim")
    if isinstance(dim, tuple):
        if len(dim) != 1:
            raise OpModelError("ttnn.argmax takes one dim, or None for all")
        dim = dim[0]
    one = literal(None if dim is None else int(dim))
    return site.call(dim=one, keepdim=site.flag("keepdim"), memory_config=site.memory)


def _softmax(site: Site) -> str:
    return site.call(
        dim=site.integer("dim"),
        memory_config=site.memory,
        compute_kernel_config=site.compute,
        numeric_stable=site.stated_flag("numeric_stable"),
    )


def _epsilon(site: Site) -> str:
    return literal(float(site.attr("epsilon")))


def _layer_norm(site: Site) -> str:
    named = dict(zip(("weight", "bias", "residual_input_tensor"), site.operands[1:], strict=False))
    return site.call(
        epsilon=_epsilon(site),
        **named,
        memory_config=site.memory,
        program_config=program_config_text(site, LayerNormShardedMultiCoreProgramConfig),
        compute_kernel_config=site.compute,
    )


def _group_norm(site: Site) -> str:
    groups = int(site.need("num_groups"))
    names = ["weight", "bias"]
    if len(site.operands) > 1 and is_mask(site, groups):
        names.insert(0, "input_mask")
    layout = site.attr("output_layout")
    blocks = site.attr("num_out_blocks")
    return site.call(
        num_groups=literal(groups),
        epsilon=_epsilon(site),
        **dict(zip(names, site.operands[1:], strict=False)),
        memory_config=site.memory,
        core_grid=site.core_grid,
        inplace=site.flag("inplace"),
        output_layout=None if layout is None else layout_text(PageLayout(layout)),
        num_out_blocks=None if blocks is None else literal(int(blocks)),
        compute_kernel_config=site.compute,
    )


def is_mask(site: Site, groups: int) -> bool:
    """Whether operand 1 is an input mask [1, groups, 32, n*32] and not the weight."""
    shape = site.query.inputs[1].shape
    return len(shape) == 4 and shape[:3] == (1, groups, 32)


def prepared_inputs(query: OpQuery) -> tuple[TensorSpec, ...]:
    """The operands of a group norm as its program passes them: scale and shift in row-major rows of one tile's width.

    A graph has them as [C]; the emitted program reshapes them once, to [1, 1, C / 32, 32].
    """
    channels = query.inputs[0].shape[-1]
    rows = (1, 1, channels // TILE, TILE)
    return tuple(
        replace(spec, shape=rows, layout=DRAM_ROW_MAJOR) if index and spec.shape == (channels,) else spec
        for index, spec in enumerate(query.inputs)
    )


def _batch_norm(site: Site) -> str:
    return site.call(
        running_mean=site.operand(1),
        running_var=site.operand(2),
        weight=site.optional(3),
        bias=site.optional(4),
        training="False",
        eps=_epsilon(site),
        memory_config=site.memory,
        compute_kernel_config=site.compute,
    )


PREPARED = {"ttnn.group_norm": prepared_inputs}
CALLS: dict[str, Writer] = {
    **dict.fromkeys(
        (f"ttnn.{name}" for name in REDUCTIONS),
        lambda site: site.call(
            dim=_dim(site),
            keepdim=site.flag("keepdim"),
            memory_config=site.memory,
            compute_kernel_config=site.compute,
        ),
    ),
    "ttnn.prod": _prod,
    "ttnn.argmax": _argmax,
    "ttnn.topk": lambda site: site.call(
        site.integer("k"), dim=site.integer("dim"), largest=site.stated_flag("largest"), memory_config=site.memory
    ),
    "ttnn.sort": lambda site: site.call(
        dim=site.integer("dim"), descending=site.stated_flag("descending"), memory_config=site.memory
    ),
    "ttnn.cumsum": lambda site: site.call(
        site.integer("dim"),
        reverse_order="True" if site.attr("reverse_order") else None,
        memory_config=site.memory,
    ),
    "ttnn.softmax": _softmax,
    "ttnn.attention_softmax": lambda site: site.call(
        function="ttnn.transformer.attention_softmax",
        head_size=site.integer("head_size"),
        attention_mask=site.optional(1) or "None",
        memory_config=site.memory,
    ),
    "ttnn.layer_norm": _layer_norm,
    "ttnn.rms_norm": _layer_norm,
    "ttnn.group_norm": _group_norm,
    "ttnn.batch_norm": _batch_norm,
}
