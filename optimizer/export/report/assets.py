"""The files that the page is made of: modules and style sheets as they are, and put together for a page of one file."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources

MODULES = (
    "units.js", "dom.js", "choice.js", "plan.js", "header.js", "summary.js", "canvas.js", "graph.js", "memory.js",
    "table.js", "panel.js", "search.js", "report.js",
)  # fmt: skip
"""Every module after those it imports from."""
STYLES = ("base.css", "report.css")
SHARED = ("base.css", "dom.js", "units.js")
"""What the service's page is made of too."""
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:function|class|const) (\w+))", re.MULTILINE)


def file_text(name: str) -> str:
    """A file of the page."""
    return (resources.files("optimizer.export.report") / "page" / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """All modules as one script without imports: each is a function of its own that returns what it exports."""
    return '"use strict";\n' + "".join(map(_as_function, MODULES))


def _as_function(name: str) -> str:
    text = file_text(name)
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = in_\2;", text))
    return f"const in_{name.removesuffix('.js')} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


@cache
def style() -> str:
    return "\n".join(file_text(name).strip() for name in STYLES) + "\n"


def source_hash(text: str) -> str:
    """How a Content-Security-Policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def script_source() -> str:
    """The report's script in a `script-src`. A page that shows reports in frames has to allow it."""
    return source_hash(script())


def style_source() -> str:
    """The report's style in a `style-src`."""
    return source_hash(style())


def security_policy() -> str:
    """Nothing is loaded, and nothing runs but the report's own script."""
    return (
        f"default-src 'none'; script-src {script_source()}; style-src {style_source()}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
