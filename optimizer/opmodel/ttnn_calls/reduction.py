"""Calls of reductions, sorting and running sums."""

from __future__ import annotations

from optimizer.errors import OpModelError
from optimizer.ir.vocabulary import REDUCTIONS
from optimizer.opmodel.ttnn_calls.text import Site, Writer, call, integers, literal


def _dim(site: Site) -> str:
    dim = site.attr("dim")
    return integers(dim) if isinstance(dim, tuple) else literal(None if dim is None else int(dim))


def _reduce(site: Site) -> str:
    keep = site.flag("keepdim", True)
    return site.call(dim=_dim(site), keepdim=keep, memory_config=site.memory, compute_kernel_config=site.compute)


def _prod(site: Site) -> str:
    """`ttnn.prod` takes one dim or all: several are reduced one after the other, the last one first."""
    keep, dim = site.stated_flag("keepdim"), site.attr("dim")
    if not isinstance(dim, tuple):
        return site.call(dim=_dim(site), keepdim=keep, memory_config=site.memory)
    rank = len(site.query.inputs[0].shape)
    text = site.operand(0)
    for axis in sorted({int(d) % rank for d in dim}, reverse=True):
        text = call("ttnn.prod", text, dim=literal(axis), keepdim=keep, memory_config=site.memory)
    return text


def _argmax(site: Site) -> str:
    dim = site.attr("dim")
    if isinstance(dim, tuple):
        if len(dim) != 1:
            raise OpModelError("ttnn.argmax takes one dim, or None for all")
        dim = dim[0]
    one = literal(None if dim is None else int(dim))
    return site.call(dim=one, keepdim=site.flag("keepdim"), memory_config=site.memory)


def _topk(site: Site) -> str:
    dim, largest = site.integer("dim", -1), site.stated_flag("largest")
    return site.call(site.integer("k"), dim=dim, largest=largest, memory_config=site.memory)


def _sort(site: Site) -> str:
    dim, descending = site.integer("dim", -1), site.stated_flag("descending")
    return site.call(dim=dim, descending=descending, memory_config=site.memory)


def _cumsum(site: Site) -> str:
    backwards = "True" if site.attr("reverse_order", False) else None
    return site.call(site.integer("dim", -1), reverse_order=backwards, memory_config=site.memory)


CALLS: dict[str, Writer] = {
    **{f"ttnn.{name}": _reduce for name in REDUCTIONS},
    "ttnn.prod": _prod,
    "ttnn.argmax": _argmax,
    "ttnn.topk": _topk,
    "ttnn.sort": _sort,
    "ttnn.cumsum": _cumsum,
}
"""Query op -> writer of its call."""
