"""Layouts, configs and other entries of a `graph.json` as one line of text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.wording.entries import config_text, flat, layout_text
from optimizer.wording.plan import Document

__all__ = ["RESULT_HELP", "config_text", "flat", "layout_text", "read_document", "value_text"]

RESULT_HELP = "a graph.json, or the folder that holds it"


def read_document(path: Path) -> Document:
    """A decoded and schema-checked `graph.json`, by its path or its folder's."""
    from optimizer.export.stored import read_annotated

    return read_annotated(path)


def value_text(value: dict[str, Any]) -> str:
    layout = value["layout"]
    text = f"{value['value']}: {value['dtype']} {value['shape']}"
    return text if layout is None else f"{text} in {layout_text(layout)}"
