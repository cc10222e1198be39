"""Calls of reductions, sorting and running sums."""

from __future__ import annotations

from optimizer.errors import OpModelError
from optimizer.ir.vocabulary import REDUCTIONS
from optimizer.opmodel.ttnn_calls.text import Site, call, integers, literal


def _dim(site: Site) -> str:
    dim = site.attr("dim")
    return integers(dim) if isinstance(dim, tuple) else literal(None if dim is None else int(dim))


def _reduce(site: Site) -> str:
    keep = literal(bool(site.attr("keepdim", True)))
    return call(
        site.query.op,
        site.operand(0),
        dim=_dim(site),
        keepdim=keep,
        memory_config=site.memory,
        compute_kernel_config=site.compute,
    )


def _prod(site: Site) -> str:
    """`ttnn.prod` takes one dim or all: several are reduced one after the other, the last one first."""
    keep = literal(bool(site.attr("keepdim"))) if "keepdim" in site.attrs else None
    dim = site.attr("dim")
    if not isinstance(dim, tuple):
        return call("ttnn.prod", site.operand(0), dim=_dim(site), keepdim=keep, memory_config=site.memory)
    rank = len(site.query.inputs[0].shape)
    text = site.operand(0)
    for axis in sorted({int(d) % rank for d in dim}, reverse=True):
        text = call("ttnn.prod", text, dim=literal(axis), keepdim=keep, memory_config=site.memory)
    return text


def _argmax(site: Site) -> str:
    keep = literal(bool(site.attr("keepdim", False)))
    dim = site.attr("dim")
    if isinstance(dim, tuple):
        if len(dim) != 1:
            raise OpModelError("ttnn.argmax takes one dim, or None for all")
        dim = dim[0]
    one = literal(None if dim is None else int(dim))
    return call("ttnn.argmax", site.operand(0), dim=one, keepdim=keep, memory_config=site.memory)


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
