"""Which layouts of its result's pool an op may produce (tt-mlir `LegalOpLayoutAnalysis`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optimizer.errors import OptionError
from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import PageLayout, TensorLayout
from optimizer.layouts.nearest import nearest, why_none
from optimizer.layouts.overrides import LayoutOverride


def legal_op_layouts(
    graph: Graph,
    op: Op,
    pages: Mapping[str, PageLayout],
    pools: LegalTensorLayoutAnalysis,
    most: int,
    sharding: bool = True,
    override: LayoutOverride | None = None,
) -> tuple[TensorLayout, ...]:
    """Interleaved layouts of an op's first result and, with `sharding`, so many sharded ones, most cores first.

    An override asks for layouts that are otherwise not considered, without `sharding` and of ops that are never links
    of a chain; whether the op gives them is the OpModel's to say. One that leaves none is an OptionError.
    """
    value = graph.value(op.outputs[0])
    page = pages[value.id]
    pool = pools.pool(value.shape, value.dtype, page)
    if opdef(op.op).opaque:  # computed on the host, and sent back to DRAM
        return tuple(layout for layout in pool.interleaved if layout.is_dram)
    asked = override is not None and override.places
    shards = len(op.outputs) == 1 and (asked or (sharding and opdef(op.op).shardable))
    sharded = pool.sharded if shards else ()
    if override is None:
        return pool.interleaved + sharded[:most]
    if override.page_layout not in (None, page):
        message = f"override-output-layout: {op.op} gives {page.value} pages here, not {override.page_layout}"
        raise OptionError(message, node=op.id, alternatives=[page.value])
    wanted = replace(override, grid_yx=None) if opdef(op.op).config is ConfigFamily.CONV2D else override
    kept = tuple(layout for layout in pool.interleaved + sharded if wanted.allows(layout))
    if not kept and shards:  # the OpModel says what the op lacks in L1, and what it accepts instead
        kept = tuple(layout for layout in pool.too_large if wanted.allows(layout))
    if not kept:
        rule = why_none(op, value, override, pools, page)
        message = f"override-output-layout: no layout is {override.describe()}: {rule}"
        raise OptionError(message, node=op.id, alternatives=nearest(override, pool.interleaved + sharded))
    return kept[: most + 2]
