"""Tables as CSV that a spreadsheet opens as data: a text that it would take for a formula begins with an apostrophe.

After OWASP's page on CSV injection, which names the characters. A number stays a number, its sign with it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n")
_BOTH = "\r\n"
"""Cells with either of a line's ends are quoted only if the writer ends lines so."""


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]], line_end: str = "\n") -> str:
    """A header and a line per row; a column that a row lacks is empty."""
    return "".join(csv_lines(columns, rows, line_end))


def csv_lines(columns: Sequence[str], rows: Iterable[Mapping[str, object]], line_end: str = "\n") -> Iterator[str]:
    """The same, a line at a time."""
    yield _line(columns, line_end)
    for row in rows:
        yield _line([row.get(column, "") for column in columns], line_end)


def _line(cells: Iterable[object], line_end: str) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=_BOTH).writerow([_data(cell) for cell in cells])
    return text.getvalue().removesuffix(_BOTH) + line_end


def _data(cell: object) -> object:
    is_formula = isinstance(cell, str) and cell.startswith(FORMULA_BEGINNINGS) and not _is_number(cell)
    return f"'{cell}" if is_formula else cell


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
