"""Calls that change only where a tensor is, or its page layout."""

from __future__ import annotations

from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.ttnn_calls.text import Site, Writer, layout_text


def _to_layout(site: Site) -> str:
    layout = layout_text(PageLayout(site.need("layout")))
    return site.call(layout, dtype=site.dtype, memory_config=site.memory)


def _interleaved_to_sharded(site: Site) -> str:
    extra = [] if site.dtype is None else [site.dtype]
    return site.call(site.needed_memory, *extra, memory_config=None)


def _moved(site: Site) -> str:
    return site.call(site.needed_memory, memory_config=None)


def _typed(site: Site) -> str:
    return site.call(dtype=site.dtype)


CALLS: dict[str, Writer] = {
    "ttnn.to_layout": _to_layout,
    "ttnn.to_memory_config": lambda site: site.call(site.needed_memory, memory_config=None, dtype=site.dtype),
    "ttnn.interleaved_to_sharded": _interleaved_to_sharded,
    "ttnn.sharded_to_interleaved": _moved,
    "ttnn.reshard": _moved,
    "ttnn.to_device": lambda site: site.call(site.device),
    "ttnn.from_device": lambda site: site.call(memory_config=None),
    "ttnn.tilize": _typed,
    "ttnn.tilize_with_zero_padding": _typed,
    "ttnn.untilize": lambda site: site.call(),
    "ttnn.clone": _typed,
}
"""Query op -> writer of its call."""
