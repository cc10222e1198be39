"""Layouts, configs and other entries of a `graph.json` as one line of text."""

from __future__ import annotations

from typing import Any

from optimizer.wording.entries import config_text, flat, layout_text

__all__ = ["RESULT_HELP", "config_text", "flat", "layout_text", "value_text"]

RESULT_HELP = "a graph.json, or the folder that holds it"


def value_text(value: dict[str, Any]) -> str:
    layout = value["layout"]
    text = f"{value['value']}: {value['dtype']} {value['shape']}"
    return text if layout is None else f"{text} in {layout_text(layout)}"
