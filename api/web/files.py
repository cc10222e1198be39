"""Which files the web page is made of, and under what policy a browser shows them.

Reports are shown in a frame without an origin of its own (`sandbox="allow-scripts"`, a `blob:` address), which inherits
the page's policy: so the policy names the report's one script and style by their hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from optimizer.export.report.assets import SHARED, file_text, script_source, style_source

PAGE = "index.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True)
class WebFile:
    content: bytes
    media_type: str


@cache
def web_files() -> dict[str, WebFile]:
    """Name -> file. `index.html` is what `/` answers, the others are under `/web/`."""
    own = {path.name: path.read_text(encoding="utf-8") for path in (resources.files("api.web") / "page").iterdir()}
    texts = {name: file_text(name) for name in SHARED} | own
    return {name: WebFile(text.encode(), MEDIA_TYPES[name[name.rindex(".") :]]) for name, text in sorted(texts.items())}


def security_policy() -> str:
    """The page's Content-Security-Policy: everything from its own origin, and the report's script and style."""
    return (
        f"default-src 'none'; script-src 'self' {script_source()}; style-src 'self' {style_source()}; "
        "connect-src 'self'; img-src 'self' data:; frame-src blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
