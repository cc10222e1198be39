"""LegalOpLayoutAnalysis: which layouts of its result's pool an op may produce, at most so many."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.errors import OptionError
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import PageLayout, TensorLayout
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
        """Candidate layouts of the op's first result; an override that leaves none is an OptionError."""
        value = graph.value(op.outputs[0])
        page = pages[value.id]
        if override is not None and override.page_layout not in (None, page):
            raise OptionError(f"{op.op} produces {page.value} here, the override wants another layout", node=op.id)
        pool = pools.pool(value.shape, page)
        sharded = pool.sharded if self.sharding and opdef(op.op).shardable and len(op.outputs) == 1 else ()
        if override is None:
            return pool.interleaved + sharded[: self.max_legal_layouts]
        kept = tuple(layout for layout in pool.interleaved + sharded if override.allows(layout))
        if not kept:
            shown = [layout.describe() for layout in (*pool.interleaved, *sharded[:6])]
            raise OptionError("no legal layout is left by override-output-layout", node=op.id, alternatives=shown)
        return kept[: self.max_legal_layouts + 2]
