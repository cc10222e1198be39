"""Text tables and units for people."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from optimizer.cli.terminal import one_line, with_shown_names
from optimizer.wording.units import bytes_text, counted, percent_text, time_text

__all__ = ["as_json", "bytes_text", "counted", "pairs", "percent_text", "print_record", "table", "time_text"]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A text table: columns padded, numbers (all but the first column's) to the right."""
    cells = [[one_line(str(c)) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
    numeric = [i > 0 and all(_is_number(row[i]) for row in cells) for i in range(len(header))]
    lines = [_line(header, widths, numeric), "  ".join("-" * w for w in widths)]
    lines += [_line(row, widths, numeric) for row in cells]
    return "\n".join(lines)


def pairs(rows: Iterable[tuple[str, object]]) -> str:
    """Lines of `name  value`, values aligned."""
    listed = [(one_line(name), one_line(str(value))) for name, value in rows]
    width = max((len(name) for name, _ in listed), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}".rstrip() for name, value in listed)


def print_record(record: Any, form: str, as_text: Callable[[Any], str]) -> None:
    """A record on stdout, as JSON or as the text that `as_text` makes of it: every name in it is one line there."""
    print(as_json(record) if form == "json" else as_text(with_shown_names(record)))


def as_json(record: Any) -> str:
    """An indented document; NaN and infinity, which JSON lacks, become null."""
    return json.dumps(_finite(record), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(row, widths, numeric, strict=True)]
    return "  ".join(padded).rstrip()


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text in ("-", "")
