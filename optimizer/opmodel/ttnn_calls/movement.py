"""Calls of ops that move data without computing."""

from __future__ import annotations

from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.ttnn_calls.text import Site, Writer, call, integer_tuple, integers, layout_text, literal


def _slice(site: Site) -> str:
    begins, ends = site.need("begins"), site.need("ends")
    return site.call(*(integers(v) for v in (begins, ends, site.attr("steps") or (1,) * len(begins))))


def _split(site: Site) -> str:
    """By one size where all parts but the last have it, as TTNN's own callers do, else by all sizes."""
    sizes = [int(s) for s in site.need("sizes")]
    even = all(size == sizes[0] for size in sizes[:-1]) and sizes[-1] <= sizes[0]
    return site.call(site.integer("size", sizes[0]) if even else literal(sizes), site.integer("dim"))


def _pad(site: Site) -> str:
    padding = [(int(before), int(after)) for before, after in site.need("padding")]
    return site.call(literal(padding), literal(site.attr("value", 0.0)))


def _scatter(site: Site) -> str:
    return site.call(site.integer("dim"), site.operand(1), site.operand(2))


CALLS: dict[str, Writer] = {
    "ttnn.reshape": lambda site: site.call(integer_tuple(site.need("shape"))),
    "ttnn.permute": lambda site: site.call(integer_tuple(site.need("dims"))),
    "ttnn.transpose": lambda site: site.call(site.integer("dim0"), site.integer("dim1")),
    "ttnn.concat": lambda site: call(
        "ttnn.concat", f"[{', '.join(site.operands)}]", dim=site.integer("dim"), memory_config=site.memory
    ),
    "ttnn.slice": _slice,
    "ttnn.split": _split,
    "ttnn.pad": _pad,
    # works on its operand's buffer, whatever memory config it is given
    "ttnn.fill_implicit_tile_padding": lambda site: site.call(literal(float(site.need("value"))), memory_config=None),
    "ttnn.repeat": lambda site: site.call(integer_tuple(site.need("repeats"))),
    "ttnn.repeat_interleave": lambda site: site.call(site.integer("repeats"), site.integer("dim")),
    "ttnn.unsqueeze": lambda site: site.call(site.integer("dim"), memory_config=None),  # takes none
    "ttnn.embedding": lambda site: site.call(
        site.operand(1), layout=layout_text(PageLayout(site.attr("layout", "tile"))), memory_config=site.memory
    ),
    "ttnn.gather": lambda site: site.call(site.integer("dim", -1), site.operand(1)),
    "ttnn.scatter": _scatter,
    "ttnn.scatter_add": _scatter,
}
"""Query op -> writer of its call."""
