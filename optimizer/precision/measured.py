"""The measured table of errors, `noise.json`: written by `benchmarks/op_noise.py`.

`sums`: sums in registers of 16 bits beside the same in 32 bits, by fidelity and tiles along K: `alone` in a row;
`reloaded` and `added` in eight blocks of so many tiles that the packer adds, the last one on top of what is reloaded,
or like the others. `packing`: what the packer makes of normally distributed numbers of 32 and of 16 bits. `ops`: ops of
bf16 before their result is stored, by compute config and by how many elements they add up, where they have these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

from optimizer.precision.storing import Noise

FILE = Path(__file__).with_name("noise.json")
BLOCKS = 8
"""Blocks of the sums that the packer adds."""
Points = tuple[tuple[int, Noise], ...]
"""By tiles or elements, ascending."""


@cache
def _table() -> Mapping[str, Any]:
    table: dict[str, Any] = json.loads(FILE.read_text())
    return table


@cache
def _by_key(name: str, keys: tuple[str, ...], along: str) -> Mapping[tuple[Any, ...], Points]:
    found: dict[tuple[Any, ...], list[tuple[int, Noise]]] = {}
    for row in _table()[name]:
        point = (row.get(along, 0), Noise(row["gain"], row["variance"]))
        found.setdefault(tuple(row.get(key) for key in keys), []).append(point)
    return {key: tuple(points) for key, points in found.items()}


def sums_of_16_bits(fidelity: str, way: str, tiles: int) -> Noise:
    """`way`: `alone`, `reloaded` or `added`."""
    return _between(_by_key("sums", ("fidelity", "way"), "tiles")[fidelity, way], tiles)


def packed(dtype: str, wide: bool, way: str) -> Noise | None:
    """Of numbers of 32 bits, or of 16: the `result` of a computation, a `cast`, or block floats that were `turned`, so
    that others share their exponents. None for element types that the packer rounds as the host does."""
    points = _by_key("packing", ("dtype", "wide", "way"), "").get((dtype, wide, way))
    return points[0][1] if points else None


_LIKE = {
    "batch_norm": "layer_norm",
    "std": "sum",
    "var": "sum",
    "upsample": "avg_pool2d",
    "grid_sample": "avg_pool2d",
    "scaled_dot_product_attention_decode": "scaled_dot_product_attention",
}
"""Ops that are not measured, and those whose kernels do the same to numbers."""


def op_noise(op: str, fidelity: str, wide: bool, approximate: bool, depth: int) -> Noise | None:
    """Of an op, its result not stored yet; None where nothing of it is to be seen, or nothing is known."""
    table, op = _by_key("ops", ("op", "fidelity", "wide", "approx"), "depth"), _LIKE.get(op, op)
    hasty = table.get((op, fidelity, wide, True)) if approximate else None
    points = hasty or table.get((op, fidelity, wide, None)) or table.get((op, None, None, None))
    return _between(points, depth) if points else None


def _between(points: Points, at: int) -> Noise:
    """Linear in the logarithm between the points, as the nearest beyond them."""
    if at <= points[0][0]:
        return points[0][1]
    for (low, first), (high, second) in pairwise(points):
        if at <= high:
            share = log2(at / low) / log2(high / low)
            gain, variance = first.gain, first.variance
            return Noise(gain + (second.gain - gain) * share, variance + (second.variance - variance) * share)
    return points[-1][1]
