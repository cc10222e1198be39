"""Which values an integer input or weight may take: below the size of what it chooses from."""

from __future__ import annotations

from collections.abc import Iterable

from optimizer.ir.graph import Graph
from optimizer.ir.vocabulary import opdef


def index_bounds(graph: Graph, value_ids: Iterable[str] | None = None) -> dict[str, int]:
    """Integer value -> the least number of rows of all tables that it indexes; those that index none are left out.

    Of these values, by default the inputs.
    """
    looked_at = dict.fromkeys(graph.inputs if value_ids is None else value_ids)
    found = {v: _bound(graph, v) for v in looked_at if not graph.value(v).dtype.is_float}
    return {value_id: bound for value_id, bound in found.items() if bound is not None}


def _bound(graph: Graph, start: str) -> int | None:
    sizes: list[int] = []
    seen, stack = {start}, [start]
    while stack:
        value_id = stack.pop()
        for op in graph.consumers(value_id):
            row = opdef(op.op)
            if row.looks_up is not None and op.inputs[row.looks_up[0]] == value_id:
                along = int(row.attr(op, "dim")) if "dim" in row.attrs else -2  # type: ignore[arg-type]
                sizes.append(graph.value(op.inputs[row.looks_up[1]]).shape[along])
            elif row.moves_elements:
                stack += [v for v in op.outputs if v not in seen]
                seen.update(op.outputs)
    return min(sizes, default=None)
