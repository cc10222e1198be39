"""Everything that the page shows, as one JSON document."""

from __future__ import annotations

from typing import Any

from optimizer.export.report.drawing.columns import NODE_WIDTH
from optimizer.export.report.drawing.network import Network, NodeKind, network
from optimizer.export.report.drawing.picture import picture
from optimizer.export.report.entries import Entries, checked
from optimizer.export.report.figures import header, moved, notices, times
from optimizer.result import OptimizedGraph
from optimizer.result.l1_contents import Contents, Taken, contents

SIZES = {
    NodeKind.OP: (NODE_WIDTH, 32),
    NodeKind.COPY: (136, 18),
    NodeKind.INPUT: (136, 18),
    NodeKind.OUTPUT: (136, 18),
}
"""Width and height of the nodes."""
PARTS = ("weight", "tensor", "result", "circular_buffers", "temporaries")
"""Kinds of items that make up the bands of the chart, from below."""
OP_ITSELF = ("circular_buffers", "temporaries")
"""Kinds of items that are no values."""


def record(result: OptimizedGraph) -> dict[str, Any]:
    """The page's data, which depend on the result only. FormatError where values have no layouts."""
    checked(result)
    entries = Entries(result)
    drawn = _drawn(network(result), entries)
    memory = _memory(result, entries)
    return {
        **header(result),
        "times": times(result),
        "moved": moved(result),
        "notices": notices(result),
        "ops": entries.ops,
        "values": entries.values(),
        "layouts": entries.layouts(),
        "shared": entries.shared(),
        "memory": memory,
        "graph": drawn,
    }


def _drawn(found: Network, entries: Entries) -> dict[str, Any]:
    """`nodes`: [kind, position of the op or number of the value, x, y, width, height]; `edges`: [from, to, whether a
    chain goes on along it, [x, y, ...]]."""
    shown = picture([SIZES[node.kind] for node in found.nodes], found.edges)
    nodes = [
        [node.kind.value, entries.number(node.value) if node.position is None else node.position,
         box.x, box.y, box.width, box.height]
        for node, box in zip(found.nodes, shown.boxes, strict=True)
    ]  # fmt: skip
    edges = [
        [*edge, int(edge in found.links), [at for point in path for at in point]]
        for edge, path in zip(found.edges, shown.paths, strict=True)
    ]
    return {"width": shown.width, "height": shown.height, "nodes": nodes, "edges": edges}


# -- L1 over the schedule ----------------------------------------------------------------------------------
def _memory(result: OptimizedGraph, entries: Entries) -> dict[str, Any]:
    """`{limit_bytes, bank_bytes, steps: [[position, bytes of every part...]], held: [[value, first, last, bytes]]}`.

    The figures are those that the result states; an op that states none is no step. `first` and `last` are steps; a
    value in another's buffer has that one's number behind.
    """
    stated = {op: record.predicted for op, record in result.records.items() if record.predicted is not None}
    found = list(contents(result, {op: Taken(p.peak_l1_bytes, p.cb_bytes) for op, p in stated.items()}))
    options, device = result.options, result.device
    return {
        "limit_bytes": device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap),
        "bank_bytes": device.l1_bank_bytes(options.l1_small_bytes),
        "steps": [[at.position, *_parts(at)] for at in found],
        "held": _held(found, entries),
    }


def _parts(at: Contents) -> list[int]:
    return [sum(item.bytes for item in at.items if item.kind == part) for part in PARTS]


def _held(found: list[Contents], entries: Entries) -> list[list[int]]:
    """One record per value and run of steps in which it is there."""
    spans: dict[str, list[int]] = {}
    done: list[list[int]] = []
    for step, at in enumerate(found):
        for item in at.items:
            if item.kind in OP_ITSELF:
                continue
            span = spans.get(item.value)
            if span is None or span[2] < step - 1:
                alias = [entries.number(item.alias_of)] if item.alias_of else []
                spans[item.value] = [entries.number(item.value), step, step, item.size_bytes, *alias]
                done.append(spans[item.value])
            else:
                span[2] = step
    return done
