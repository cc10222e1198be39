"""CSV that a spreadsheet opens as data, and that other readers read as before."""

from __future__ import annotations

import csv
import io

import pytest

from optimizer.process.csv_text import csv_text


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("=HYPERLINK(\"http://x\",\"y\")", "'=HYPERLINK(\"http://x\",\"y\")"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("-inf", "'-inf"),
        ("-12", "-12"),
        ("+1.5e3", "+1.5e3"),
        (-12, "-12"),
        ("conv=1", "conv=1"),
        (None, ""),
    ],
)  # fmt: skip
def test_a_formula_is_a_text(cell: object, shown: str) -> None:
    text = csv_text(("name", "more"), [{"name": cell}])
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["name", "more"], [shown, ""]]


def test_columns_of_the_users_are_guarded_too() -> None:
    assert csv_text(("=a", "b"), [{"=a": 1}]) == "'=a,b\n1,\n"
