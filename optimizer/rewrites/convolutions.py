"""Convolutions in parts, where that may be faster than at once: `importers.passes.convolution_parts` and `_ways`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from optimizer.importers.passes.convolution_parts import SplitGroups, ZeroBias
from optimizer.importers.passes.convolution_ways import UnfoldConvolution, Way
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import CONV2D, opdef
from optimizer.rewrites.way import Site

MOST_SLICES = 16
"""Slices that the windows of one convolution are put together from."""
PARTS = (2, 3, 4)
"""Convolutions of parts of the groups that one is tried as, besides one for each group."""
MOST_GROUPS = 16
"""Groups up to which each is tried as a convolution of its own."""


def in_parts(graph: Graph, op: Op) -> Iterator[Site]:
    """Groups in parts; long steps as one product of windows."""
    if op.op == CONV2D:
        for way in _ways(op, opdef(op.op).full_attrs(op)):
            yield Site(way, (op.id,))


def _ways(op: Op, attrs: dict[str, Any]) -> Iterator[Way]:
    groups = attrs["groups"]
    if groups == attrs["in_channels"] == attrs["out_channels"] and attrs["input_height"] == 1 and len(op.inputs) == 2:
        yield ZeroBias(op.id)
    elif groups > 1:
        yield from (SplitGroups(op.id, parts) for parts in PARTS if parts < groups)
        if groups <= MOST_GROUPS and groups not in PARTS:
            yield SplitGroups(op.id, groups)
    elif max(attrs["stride"]) > 1:
        yield UnfoldConvolution(op.id, MOST_SLICES)
