"""Calls that make a tensor from nothing."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.ir.shape_rules import steps
from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.ttnn_calls.text import Site, Writer, call, dtype_text, integer_tuple, layout_text, literal


def _made(site: Site, *positional: str, function: str, **named: str | None) -> str:
    """A call with the `dtype=` argument, else attribute `dtype`."""
    name = site.attr("dtype")
    dtype = site.dtype if name is None else dtype_text(DType(str(name)))
    return call(function, *positional, dtype=dtype, **named, device=site.device, memory_config=site.memory)


def _filled(site: Site) -> str:
    value = [literal(site.attr("value", 0.0))] if site.query.op == "ttnn.full" else []
    page = site.attr("layout", PageLayout.TILE.value)
    layout = layout_text({"rm": PageLayout.ROW_MAJOR}.get(page) or PageLayout(page))
    return _made(site, integer_tuple(site.need("shape")), *value, function=site.query.op, layout=layout)


def _arange(site: Site) -> str:
    """`ttnn.arange` counts in whole numbers; other steps scale and shift a count."""
    start, end, step = site.attr("start", 0), site.need("end"), site.attr("step", 1)
    if all(float(v).is_integer() for v in (start, end, step)):
        return _made(site, *(literal(int(v)) for v in (start, end, step)), function="ttnn.arange")
    counted = _made(site, "0", literal(steps(start, end, step)), "1", function="ttnn.arange")
    scaled = call("ttnn.multiply", counted, literal(float(step)), memory_config=site.memory)
    return call("ttnn.add", scaled, literal(float(start)), memory_config=site.memory)


CALLS: dict[str, Writer] = {"ttnn.full": _filled, "ttnn.zeros": _filled, "ttnn.ones": _filled, "ttnn.arange": _arange}
"""Query op -> writer of its call."""
