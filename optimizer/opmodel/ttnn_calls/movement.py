"""Calls of ops that move data without computing."""

from __future__ import annotations

from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.ttnn_calls.text import Site, call, integer_tuple, integers, layout_text, literal


def _reshape(site: Site) -> str:
    return call("ttnn.reshape", site.operand(0), integer_tuple(site.need("shape")), memory_config=site.memory)


def _permute(site: Site) -> str:
    return call("ttnn.permute", site.operand(0), integer_tuple(site.need("dims")), memory_config=site.memory)


def _transpose(site: Site) -> str:
    dims = [literal(int(site.need(name))) for name in ("dim0", "dim1")]
    return call("ttnn.transpose", site.operand(0), *dims, memory_config=site.memory)


def _concat(site: Site) -> str:
    dim = literal(int(site.need("dim")))
    return call("ttnn.concat", f"[{', '.join(site.operands)}]", dim=dim, memory_config=site.memory)


def _slice(site: Site) -> str:
    begins, ends = site.need("begins"), site.need("ends")
    steps = site.attr("steps") or (1,) * len(begins)
    window = [integers(v) for v in (begins, ends, steps)]
    return call("ttnn.slice", site.operand(0), *window, memory_config=site.memory)


def _split(site: Site) -> str:
    """By one size where all parts but the last have it, as TTNN's own callers do, else by all sizes."""
    sizes = [int(s) for s in site.need("sizes")]
    even = all(size == sizes[0] for size in sizes[:-1]) and sizes[-1] <= sizes[0]
    size = literal(int(site.attr("size", sizes[0]))) if even else literal(sizes)
    return call("ttnn.split", site.operand(0), size, literal(int(site.need("dim"))), memory_config=site.memory)


def _pad(site: Site) -> str:
    padding = literal([(int(before), int(after)) for before, after in site.need("padding")])
    return call("ttnn.pad", site.operand(0), padding, literal(site.attr("value", 0.0)), memory_config=site.memory)


def _fill_padding(site: Site) -> str:
    """Works on its operand's buffer, whatever memory config it is given."""
    return call("ttnn.fill_implicit_tile_padding", site.operand(0), literal(float(site.need("value"))))


def _repeat(site: Site) -> str:
    return call("ttnn.repeat", site.operand(0), integer_tuple(site.need("repeats")), memory_config=site.memory)


def _repeat_interleave(site: Site) -> str:
    count, dim = literal(int(site.need("repeats"))), literal(int(site.need("dim")))
    return call("ttnn.repeat_interleave", site.operand(0), count, dim, memory_config=site.memory)


def _unsqueeze(site: Site) -> str:
    """`ttnn.unsqueeze` takes no memory config."""
    return call("ttnn.unsqueeze", site.operand(0), literal(int(site.need("dim"))))


def _embedding(site: Site) -> str:
    layout = layout_text(PageLayout(site.attr("layout", PageLayout.TILE.value)))
    return call("ttnn.embedding", site.operand(0), site.operand(1), layout=layout, memory_config=site.memory)


def _gather(site: Site) -> str:
    dim = literal(int(site.attr("dim", -1)))
    return call("ttnn.gather", site.operand(0), dim, site.operand(1), memory_config=site.memory)


def _scatter(site: Site) -> str:
    dim = literal(int(site.need("dim")))
    index, source = site.operand(1), site.operand(2)
    return call(site.query.op, site.operand(0), dim, index, source, memory_config=site.memory)


CALLS = {
    "ttnn.reshape": _reshape,
    "ttnn.permute": _permute,
    "ttnn.transpose": _transpose,
    "ttnn.concat": _concat,
    "ttnn.slice": _slice,
    "ttnn.split": _split,
    "ttnn.pad": _pad,
    "ttnn.fill_implicit_tile_padding": _fill_padding,
    "ttnn.repeat": _repeat,
    "ttnn.repeat_interleave": _repeat_interleave,
    "ttnn.unsqueeze": _unsqueeze,
    "ttnn.embedding": _embedding,
    "ttnn.gather": _gather,
    "ttnn.scatter": _scatter,
    "ttnn.scatter_add": _scatter,
}
"""Query op -> writer of its call."""
