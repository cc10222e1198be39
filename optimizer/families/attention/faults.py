"""What rotary embeddings compute wrongly."""

from __future__ import annotations

from optimizer.layouts.tiling import TILE
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.fault_rules import Rules


def _rotary(query: OpQuery) -> str | None:
    """Positions that are no whole tiles: the result has as many rows as its tiles, [1, 2, 64, 64] for [1, 2, 50, 64].

    Whatever reads it next takes the added rows for positions (mock device and simulator alike, ttnn 0.81.1).
    """
    rows = query.inputs[0].shape[-2:-1]
    if rows and rows[0] % TILE:
        return f"gives the {rows[0]} rows of every head as {-(-rows[0] // TILE) * TILE}: positions must be whole tiles"
    return None


FAULTS: Rules = {"ttnn.rotary_embedding": _rotary}
