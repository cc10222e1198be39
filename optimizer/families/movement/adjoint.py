"""Ops that move elements: which element of which operand each result is, is found by moving their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optimizer.values.adjoint.kinds import Call, Gradients, Maps, Rule, Transposed, nothing, one_result
from optimizer.values.reference import computed
from optimizer.values.reference.kinds import Array

_FIRST = 2.0**40
"""Number of the first element: what an op fills in is smaller, and float64 holds 2^53 numbers from here."""


def moved(call: Call) -> Transposed:
    """The rule of an op whose results hold elements of its operands, by the reference on the elements' numbers."""
    numbered, offsets = [], {}
    count = 0
    for k, x in enumerate(call.operands):
        if k in call.wanted:
            offsets[k] = count
            numbered.append(_FIRST + np.arange(count, count + x.size, dtype=np.float64).reshape(x.shape))
            count += x.size
        else:
            numbered.append(np.broadcast_to(np.float64(0), x.shape) if x.dtype.kind == "f" else x)
    sources = [r.value.ravel() - _FIRST for r in computed(call.op, call.attrs, numbered)]
    held = [(source >= 0) & (source < count) for source in sources]
    places = [source[mine].astype(np.int64) for source, mine in zip(sources, held, strict=True)]

    def transposed(gradients: Gradients) -> Mapping[int, Array]:
        total = np.zeros(count)
        for gradient, place, mine in zip(gradients, places, held, strict=True):
            if gradient is not None:
                total += np.bincount(place, gradient.ravel()[mine], count)
        return {
            k: total[start : start + call.operands[k].size].reshape(call.operands[k].shape).astype(
                call.operands[k].dtype
            )
            for k, start in offsets.items()
        }  # fmt: skip

    return transposed


def in_order(call: Call) -> Maps:
    """Of an op that leaves the order of the elements."""
    return {0: lambda gradient: gradient.reshape(call.operands[0].shape)}


def _scatter_add(call: Call) -> Maps:
    x, index, source = call.operands
    axis = int(call.attrs["dim"]) % x.ndim
    place: list[Any] = list(np.indices(index.shape))
    place[axis] = index.astype(np.int64)
    assert source.shape == index.shape
    return {0: lambda gradient: gradient, 2: lambda gradient: gradient[tuple(place)]}


_MOVED = (
    "permute", "transpose", "concat", "slice", "split", "pad", "repeat", "repeat_interleave", "embedding", "gather",
    "scatter",
)  # fmt: skip
_IN_ORDER = ("reshape", "fill_implicit_tile_padding", "to_layout", "to_memory_config", "to_device", "from_device")
_MADE = ("full", "zeros", "ones", "arange")

ADJOINTS: Mapping[str, Rule] = {
    **{f"ttnn.{name}": moved for name in _MOVED},
    **{f"ttnn.{name}": one_result(in_order) for name in _IN_ORDER},
    **{f"ttnn.{name}": nothing for name in _MADE},
    "ttnn.scatter_add": one_result(_scatter_add),
}
