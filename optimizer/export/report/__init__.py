"""`report.html`: a finished plan as one page that needs nothing else (`--emit report`, docs/report.md)."""

from __future__ import annotations

from optimizer.export.report.rendering import FILE_NAME, render, write

__all__ = ["FILE_NAME", "render", "write"]
