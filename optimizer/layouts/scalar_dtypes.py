"""ScalarDataTypeAnalysis: the element types that occur in a graph, user overrides included."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.layouts.overrides import LayoutOverride


@dataclass(frozen=True)
class ScalarDataTypeAnalysis:
    """Collects the scalar types for which layouts are generated."""

    name: str = "scalar-dtypes"

    def apply(self, graph: Graph, overrides: dict[str, LayoutOverride]) -> tuple[DType, ...]:
        """Element types of all values and of all overrides, sorted by name."""
        found = {value.dtype for value in graph.values.values()}
        found.update(o.dtype for o in overrides.values() if o.dtype is not None)
        return tuple(sorted(found, key=lambda d: d.value))
