"""The page's text: its template with style, script and data in it. Whatever comes from a model is data."""

from __future__ import annotations

import html
import json
from pathlib import Path
from string import Template
from typing import Any

from optimizer.export.report.assets import file_text, script, security_policy, style
from optimizer.export.report.record import record
from optimizer.process.files import written
from optimizer.process.identifiers import printable
from optimizer.process.version import __version__
from optimizer.result import OptimizedGraph

FILE_NAME = "report.html"
_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""What could end the element that the data are in, and how JSON spells it otherwise."""


def render(result: OptimizedGraph) -> str:
    """The page of a result, which need not be fresh. FormatError where values have no layouts."""
    shown = record(result)
    return Template(file_text("template.html")).substitute(
        policy=html.escape(security_policy()),
        version=html.escape(__version__),
        title=html.escape(printable(f"{shown['title']} on {shown['board']}")),
        without_script=html.escape(_plain(shown)),
        style=style(),
        data=data_text(shown),
        script=script(),
    )


def data_text(shown: dict[str, Any]) -> str:
    """JSON in ASCII that is safe in a script element."""
    text = json.dumps(shown, separators=(",", ":"), allow_nan=False)
    for character, spelled in _MARKUP.items():
        text = text.replace(character, spelled)
    return text


def _plain(shown: dict[str, Any]) -> str:
    """The figures, for a reader without scripts."""
    compared = [f"{c['name']}: {c['after']} ({c['before']} all in DRAM, {c['change']})" for c in shown["compared"]]
    lines = [shown["plan"] or "", *compared, *(f"{name.strip()}: {text}" for name, text in shown["figures"])]
    return "\n".join(printable(line, 1000) for line in lines)


def write(result: OptimizedGraph, folder: Path) -> Path:
    return written(folder / FILE_NAME, render(result))
