"""Calls that change only where a tensor is, or its page layout."""

from __future__ import annotations

from typing import Any

from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.ttnn_calls.text import Site, call, layout_text


def _to_layout(site: Site) -> str:
    layout = layout_text(PageLayout(site.need("layout")))
    return call("ttnn.to_layout", site.operand(0), layout, dtype=site.dtype, memory_config=site.memory)


def _to_memory_config(site: Site) -> str:
    return call("ttnn.to_memory_config", site.operand(0), site.needed_memory, dtype=site.dtype)


def _interleaved_to_sharded(site: Site) -> str:
    extra = [] if site.dtype is None else [site.dtype]
    return call("ttnn.interleaved_to_sharded", site.operand(0), site.needed_memory, *extra)


def _moved(site: Site) -> str:
    return call(site.query.op, site.operand(0), site.needed_memory)


def _to_device(site: Site) -> str:
    return call("ttnn.to_device", site.operand(0), site.device, memory_config=site.memory)


def _from_device(site: Site) -> str:
    return call("ttnn.from_device", site.operand(0))


def _keyword(dtype: bool) -> Any:
    def write(site: Site) -> str:
        wanted = site.dtype if dtype else None
        return call(site.query.op, site.operand(0), memory_config=site.memory, dtype=wanted)

    return write


CALLS = {
    "ttnn.to_layout": _to_layout,
    "ttnn.to_memory_config": _to_memory_config,
    "ttnn.interleaved_to_sharded": _interleaved_to_sharded,
    "ttnn.sharded_to_interleaved": _moved,
    "ttnn.reshard": _moved,
    "ttnn.to_device": _to_device,
    "ttnn.from_device": _from_device,
    "ttnn.tilize": _keyword(dtype=True),
    "ttnn.tilize_with_zero_padding": _keyword(dtype=True),
    "ttnn.untilize": _keyword(dtype=False),
    "ttnn.clone": _keyword(dtype=True),
}
"""Query op -> writer of its call."""
