"""Node data of Model Explorer: one figure per op, and how it colours the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from optimizer.export.facts import MOVES, place_of
from optimizer.export.model_explorer.graph import graph_id
from optimizer.ir.graph import Op
from optimizer.result import OptimizedGraph, Role

Value = int | str
_YELLOW_TO_RED = [{"stop": 0, "bgColor": "yellow"}, {"stop": 1, "bgColor": "red"}]
"""As tt-explorer colours times."""
_WHITE_TO_PURPLE = [{"stop": 0, "bgColor": "#f3e5f5"}, {"stop": 1, "bgColor": "#7b1fa2"}]
_PLACES = {
    "dram": "#bdbdbd",
    "host": "#795548",
    "l1 interleaved": "#fff59d",
    "l1 height_sharded": "#a5d6a7",
    "l1 width_sharded": "#80cbc4",
    "l1 block_sharded": "#90caf9",
}
_COPIES = {
    Role.RESHARD: "#ffb74d",
    Role.LOAD: "#81c784",
    Role.SPILL: "#e57373",
    Role.LAYOUT: "#ba68c8",
    Role.TRANSFER: "#8d6e63",
}


@dataclass(frozen=True)
class Overlay:
    """One file of node data."""

    file: str
    name: str
    """As the viewer lists it."""
    value: Callable[[OptimizedGraph, Op], Value | None]
    """Of an op of a run; None: it has none."""
    gradient: list[dict[str, Any]] | None = None
    """Of numbers, from the least to the greatest."""
    colours: Mapping[str, str] | None = None
    """Of words."""

    def record(self, result: OptimizedGraph) -> dict[str, Any]:
        """The file: node data by graph."""
        results: dict[str, dict[str, Value]] = {}
        for op in result.graph.ops():
            value = None if result.graph.is_const_eval(op) else self.value(result, op)
            if value is not None:
                results[op.id] = {"value": value}
                if self.colours is not None:
                    results[op.id]["bgColor"] = self.colours[str(value)]
        data: dict[str, Any] = {"name": self.name, "results": results}
        if self.gradient is not None:
            data["gradient"] = self.gradient
        return {graph_id(result): data}


def _predicted(figure: str) -> Callable[[OptimizedGraph, Op], Value | None]:
    return lambda result, op: getattr(result.records[op.id].predicted, figure, None)


def _place(result: OptimizedGraph, op: Op) -> Value | None:
    return place_of(result.layouts[op.outputs[0]]) if op.outputs else None


def _copy(result: OptimizedGraph, op: Op) -> Value | None:
    role = result.records[op.id].role
    return role.value if role in MOVES else None


OVERLAYS = (
    Overlay("predicted_ns.json", "predicted ns", _predicted("time_ns"), gradient=_YELLOW_TO_RED),
    Overlay(
        "l1_bytes.json", "predicted peak L1 bytes per core", _predicted("peak_l1_bytes"), gradient=_WHITE_TO_PURPLE
    ),
    Overlay("memory_layout.json", "predicted memory layout of the result", _place, colours=_PLACES),
    Overlay("copies.json", "predicted copies", _copy, colours={role.value: colour for role, colour in _COPIES.items()}),
)
