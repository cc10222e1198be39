"""Everything that the page shows, as one JSON document."""

from __future__ import annotations

from typing import Any

from optimizer.export.report.drawing.columns import NODE_WIDTH
from optimizer.export.report.drawing.network import Network, NodeKind, network
from optimizer.export.report.drawing.picture import picture
from optimizer.export.report.entries import Entries, checked
from optimizer.export.report.figures import header, moved, notices, times
from optimizer.export.report.memory import memory_record
from optimizer.result import OptimizedGraph

SIZES = {
    NodeKind.OP: (NODE_WIDTH, 32),
    NodeKind.COPY: (136, 18),
    NodeKind.INPUT: (136, 18),
    NodeKind.OUTPUT: (136, 18),
}
"""Width and height of the nodes."""


def record(result: OptimizedGraph) -> dict[str, Any]:
    """The page's data, which depend on the result only. FormatError where values have no layouts."""
    checked(result)
    entries = Entries(result)
    drawn = _drawn(network(result), entries)
    memory = memory_record(result, entries)
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
