"""Calls of ops that make a tensor from nothing, move data, or change only where it is or its page layout."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.ir.shape_rules import steps
from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.ttnn_calls.text import (
    Site,
    Writer,
    call,
    dtype_text,
    integer_tuple,
    integers,
    layout_text,
    literal,
)


def _made(site: Site, *positional: str, function: str, **named: str | None) -> str:
    """A call with the `dtype=` argument, else attribute `dtype`."""
    name = site.attrs.get("dtype")
    dtype = site.dtype if name is None else dtype_text(DType(str(name)))
    return call(function, *positional, dtype=dtype, **named, device=site.device, memory_config=site.memory)


def _filled(site: Site) -> str:
    value = [literal(site.attr("value"))] if site.query.op == "ttnn.full" else []
    page = site.attr("layout") or PageLayout.TILE.value
    layout = layout_text({"rm": PageLayout.ROW_MAJOR}.get(page) or PageLayout(page))
    return _made(site, integer_tuple(site.need("shape")), *value, function=site.query.op, layout=layout)


def _arange(site: Site) -> str:
    """`ttnn.arange` counts in whole numbers; other steps scale and shift a count."""
    start, end, step = site.attr("start"), site.need("end"), site.attr("step")
    if all(float(v).is_integer() for v in (start, end, step)):
        return _made(site, *(literal(int(v)) for v in (start, end, step)), function="ttnn.arange")
    counted = _made(site, "0", literal(steps(start, end, step)), "1", function="ttnn.arange")
    scaled = call("ttnn.multiply", counted, literal(float(step)), memory_config=site.memory)
    return call("ttnn.add", scaled, literal(float(start)), memory_config=site.memory)


def _slice(site: Site) -> str:
    begins, ends = site.need("begins"), site.need("ends")
    return site.call(*(integers(v) for v in (begins, ends, site.attr("steps") or (1,) * len(begins))))


def _split(site: Site) -> str:
    """By one size where all parts but the last have it, as TTNN's own callers do, else by all sizes."""
    sizes = [int(s) for s in site.need("sizes")]
    even = all(size == sizes[0] for size in sizes[:-1]) and sizes[-1] <= sizes[0]
    return site.call(literal(int(site.attr("size") or sizes[0])) if even else literal(sizes), site.integer("dim"))


def _scatter(site: Site) -> str:
    return site.call(site.integer("dim"), site.operand(1), site.operand(2))


def _moved(site: Site) -> str:
    return site.call(site.needed_memory, memory_config=None)


def _typed(site: Site) -> str:
    return site.call(dtype=site.dtype)


CALLS: dict[str, Writer] = {
    "ttnn.full": _filled,
    "ttnn.zeros": _filled,
    "ttnn.ones": _filled,
    "ttnn.arange": _arange,
    "ttnn.reshape": lambda site: site.call(integer_tuple(site.need("shape"))),
    "ttnn.permute": lambda site: site.call(integer_tuple(site.need("dims"))),
    "ttnn.transpose": lambda site: site.call(site.integer("dim0"), site.integer("dim1")),
    "ttnn.concat": lambda site: call(
        "ttnn.concat", f"[{', '.join(site.operands)}]", dim=site.integer("dim"), memory_config=site.memory
    ),
    "ttnn.slice": _slice,
    "ttnn.split": _split,
    "ttnn.pad": lambda site: site.call(
        literal([(int(before), int(after)) for before, after in site.need("padding")]), literal(site.attr("value"))
    ),
    # works on its operand's buffer, whatever memory config it is given
    "ttnn.fill_implicit_tile_padding": lambda site: site.call(literal(float(site.need("value"))), memory_config=None),
    "ttnn.repeat": lambda site: site.call(integer_tuple(site.need("repeats"))),
    "ttnn.repeat_interleave": lambda site: site.call(site.integer("repeats"), site.integer("dim")),
    "ttnn.unsqueeze": lambda site: site.call(site.integer("dim"), memory_config=None),  # takes none
    "ttnn.embedding": lambda site: site.call(
        site.operand(1), layout=layout_text(PageLayout(site.attr("layout") or "tile")), memory_config=site.memory
    ),
    "ttnn.gather": lambda site: site.call(site.integer("dim"), site.operand(1)),
    "ttnn.scatter": _scatter,
    "ttnn.scatter_add": _scatter,
    "ttnn.to_layout": lambda site: site.call(
        layout_text(PageLayout(site.need("layout"))), dtype=site.dtype, memory_config=site.memory
    ),
    "ttnn.to_memory_config": lambda site: site.call(site.needed_memory, memory_config=None, dtype=site.dtype),
    "ttnn.interleaved_to_sharded": lambda site: site.call(
        site.needed_memory, *([] if site.dtype is None else [site.dtype]), memory_config=None
    ),
    "ttnn.sharded_to_interleaved": _moved,
    "ttnn.reshard": _moved,
    "ttnn.to_device": lambda site: site.call(site.device),
    "ttnn.from_device": lambda site: site.call(memory_config=None),
    "ttnn.tilize": _typed,
    "ttnn.tilize_with_zero_padding": _typed,
    "ttnn.untilize": lambda site: site.call(),
    "ttnn.clone": _typed,
}
