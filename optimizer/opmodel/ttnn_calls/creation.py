"""Calls that make a tensor from nothing."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.ir.shape_rules import steps
from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.ttnn_calls.text import Site, call, dtype_text, integer_tuple, layout_text, literal


def _dtype(site: Site) -> str | None:
    """The `dtype=` argument, else attribute `dtype`."""
    name = site.attr("dtype")
    return site.dtype if name is None else dtype_text(DType(str(name)))


def _page(site: Site, default: PageLayout) -> str:
    name = site.attr("layout", default.value)
    return layout_text({"rm": PageLayout.ROW_MAJOR}.get(name) or PageLayout(name))


def _filled(site: Site) -> str:
    shape = integer_tuple(site.need("shape"))
    value = [literal(site.attr("value", 0.0))] if site.query.op == "ttnn.full" else []
    layout = _page(site, PageLayout.TILE)
    return call(
        site.query.op, shape, *value, dtype=_dtype(site), layout=layout, device=site.device, memory_config=site.memory
    )


def _arange(site: Site) -> str:
    """`ttnn.arange` counts in whole numbers; other steps scale and shift a count."""
    start, end, step = site.attr("start", 0), site.need("end"), site.attr("step", 1)
    if all(float(v).is_integer() for v in (start, end, step)):
        ends = [literal(int(v)) for v in (start, end, step)]
        return call("ttnn.arange", *ends, dtype=_dtype(site), device=site.device, memory_config=site.memory)
    counted = call(
        "ttnn.arange",
        "0",
        literal(steps(start, end, step)),
        "1",
        dtype=_dtype(site),
        device=site.device,
        memory_config=site.memory,
    )
    scaled = call("ttnn.multiply", counted, literal(float(step)), memory_config=site.memory)
    return call("ttnn.add", scaled, literal(float(start)), memory_config=site.memory)


CALLS = {"ttnn.full": _filled, "ttnn.zeros": _filled, "ttnn.ones": _filled, "ttnn.arange": _arange}
"""Query op -> writer of its call."""
