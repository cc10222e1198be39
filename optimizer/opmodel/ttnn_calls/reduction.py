"""Calls of reductions, sorting and running sums."""

from __future__ import annotations

from optimizer.ir.vocabulary import REDUCTIONS
from optimizer.opmodel.ttnn_calls.text import Site, call, integers, literal


def _dim(site: Site) -> str:
    dim = site.attr("dim")
    return integers(dim) if isinstance(dim, tuple) else literal(None if dim is None else int(dim))


def _reduce(site: Site) -> str:
    keep = literal(bool(site.attr("keepdim", True)))
    return call(site.query.op, site.operand(0), dim=_dim(site), keepdim=keep, memory_config=site.memory)


def _prod(site: Site) -> str:
    keep = literal(bool(site.attr("keepdim"))) if "keepdim" in site.attrs else None
    return call("ttnn.prod", site.operand(0), dim=_dim(site), keepdim=keep, memory_config=site.memory)


def _argmax(site: Site) -> str:
    keep = literal(bool(site.attr("keepdim", False)))
    return call("ttnn.argmax", site.operand(0), dim=_dim(site), keepdim=keep, memory_config=site.memory)


def _topk(site: Site) -> str:
    largest = literal(bool(site.attr("largest"))) if "largest" in site.attrs else None
    k, dim = literal(int(site.need("k"))), literal(int(site.attr("dim", -1)))
    return call("ttnn.topk", site.operand(0), k, dim=dim, largest=largest, memory_config=site.memory)


def _sort(site: Site) -> str:
    descending = literal(bool(site.attr("descending"))) if "descending" in site.attrs else None
    dim = literal(int(site.attr("dim", -1)))
    return call("ttnn.sort", site.operand(0), dim=dim, descending=descending, memory_config=site.memory)


def _cumsum(site: Site) -> str:
    dim = literal(int(site.attr("dim", -1)))
    backwards = "True" if site.attr("reverse_order", False) else None
    return call("ttnn.cumsum", site.operand(0), dim, reverse_order=backwards, memory_config=site.memory)


CALLS = {
    **{f"ttnn.{name}": _reduce for name in REDUCTIONS},
    "ttnn.prod": _prod,
    "ttnn.argmax": _argmax,
    "ttnn.topk": _topk,
    "ttnn.sort": _sort,
    "ttnn.cumsum": _cumsum,
}
"""Query op -> writer of its call."""
