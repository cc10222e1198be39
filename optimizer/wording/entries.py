"""Layouts, configs and other entries of a `graph.json` as one line of text."""

from __future__ import annotations

from typing import Any

TELLING_FIELDS = (
    "shard_layout",
    "act_block_h_override",
    "in0_block_w",
    "per_core_M",
    "per_core_N",
    "block_h",
    "block_w",
)
"""What tells configs of one kind apart, for a table that has no room for all fields."""


def layout_text(layout: dict[str, Any]) -> str:
    """`l1 block_sharded 8x8 [32, 64] tile`, as everywhere else."""
    text = f"{layout['buffer_type']} {layout['memory_layout']}"
    if layout.get("grid_yx"):
        rows, cols = layout["grid_yx"]
        text += f" {rows}x{cols} {layout['shard_shape']}"
    return f"{text} {layout['tensor_layout']}"


def config_text(config: dict[str, Any] | None, chosen: dict[str, Any] | None) -> str:
    """An op config in a few words: what differs from the chosen one, or, of another kind, what tells it apart."""
    if config is None:
        return "-" if chosen is None else "none"
    if chosen is not None and config.get("kind") == chosen.get("kind"):
        return flat({k: v for k, v in config.items() if v != chosen.get(k)}) or "as chosen"
    telling = {k: config[k] for k in TELLING_FIELDS if config.get(k) is not None}
    return ", ".join([str(config.get("kind")), *([flat(telling)] if telling else [])])


def flat(value: Any) -> str:
    """Any entry in one line; null fields of objects are left out."""
    if isinstance(value, dict):
        if _is_layout(value):
            return layout_text(value)
        return ", ".join(f"{k}={flat(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "; ".join(flat(v) for v in value)
    return "-" if value is None else str(value)


def _is_layout(value: dict[str, Any]) -> bool:
    """Whether an entry of a reason, which no schema describes, is a whole layout."""
    grid = value.get("grid_yx")
    whole = {"buffer_type", "memory_layout", "tensor_layout"} <= set(value)
    return whole and (grid is None or (isinstance(grid, list) and len(grid) == 2 and "shard_shape" in value))
