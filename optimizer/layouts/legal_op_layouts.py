"""LegalOpLayoutAnalysis: which layouts of its result's pool an op may produce, at most so many."""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.errors import OptionError
from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import PageLayout, TensorLayout
from optimizer.layouts.nearest import nearest, why_none
from optimizer.layouts.overrides import LayoutOverride


@dataclass(frozen=True)
class LegalOpLayoutAnalysis:
    """Interleaved layouts of an op's first result plus its sharded ones, most cores first."""

    max_legal_layouts: int
    """Sharded layouts kept per op."""
    sharding: bool = True
    """Whether sharded layouts are considered at all (optimization level 2)."""

    def apply(
        self,
        graph: Graph,
        op: Op,
        pages: dict[str, PageLayout],
        pools: LegalTensorLayoutAnalysis,
        override: LayoutOverride | None = None,
    ) -> tuple[TensorLayout, ...]:
        """Candidate layouts of the op's first result; an override that leaves none is an OptionError.

        An override asks for layouts that are otherwise not considered, below optimization level 2 and of ops that
        are never links of a chain; whether the op gives them is the OpModel's to say.
        """
        value = graph.value(op.outputs[0])
        page = pages[value.id]
        pool = pools.pool(value.shape, value.dtype, page)
        if opdef(op.op).opaque:  # computed on the host, and sent back to DRAM
            return tuple(layout for layout in pool.interleaved if layout.is_dram)
        asked = override is not None and override.places
        shards = len(op.outputs) == 1 and (asked or (self.sharding and opdef(op.op).shardable))
        sharded = pool.sharded if shards else ()
        if override is None:
            return pool.interleaved + sharded[: self.max_legal_layouts]
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
        return kept[: self.max_legal_layouts + 2]
