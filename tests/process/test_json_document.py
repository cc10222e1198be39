"""JSON is read strictly, and what is wrong is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.errors import FormatError, LimitError
from optimizer.process.json_document import MAX_NAME, Node, read, read_text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe{}", "no text"),
        (b"{", "not JSON"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b"[Infinity]", "Infinity is no JSON number"),
        (b'{"a": 1, "a": 2}', 'an object has "a" twice'),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "not JSON"),
    ],
)
def test_files_that_are_no_json(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said):
        read(path)


def test_files_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizer.process.json_document.MAX_BYTES", 3)
    (tmp_path / "x").write_bytes(b"abcd")
    with pytest.raises(LimitError):
        read_text(tmp_path / "x")


NODE = Node({"n": 3, "b": True, "f": 1.0, "s": "x", "l": [1, "\ud800"], "big": 1e300, "z": None}, "")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda f: f["b"].integer(0, 9), "b: a whole number is due, not true"),
        (lambda f: f["f"].integer(0, 9), "f: a whole number is due, not 1.0"),
        (lambda f: f["n"].integer(4, 9), "n: a number from 4 to 9 is due, not 3"),
        (lambda f: f["n"].boolean(), "n: true or false is due, not 3"),
        (lambda f: f["n"].text(), "n: a string is due, not 3"),
        (lambda f: f["s"].items(), 'l?s: a list is due, not "x"'),
        (lambda f: f["l"].items()[1].text(), r"l\[1\]: a string with half of a surrogate pair"),
        (lambda f: f["b"].number(), "b: a number is due, not true"),
        (lambda f: f["big"].number(), "big: 1e.300 is beyond float32"),
        (lambda f: f["z"].fields(()), "z: an object is due, not null"),
    ],
)
def test_values_of_another_type_are_refused_with_their_place(ask: object, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        ask(NODE.any_fields())  # type: ignore[operator]


def test_fields_that_are_missing_or_unknown() -> None:
    with pytest.raises(FormatError, match='a: unknown field "x"'):
        Node({"x": 1}, "a").fields(("y",))
    with pytest.raises(FormatError, match="field 'y' is missing"):
        Node({"x": 1}, "a").any_fields(("y",))


def test_lists_and_strings_have_limits() -> None:
    with pytest.raises(LimitError):
        Node([1, 2, 3], "a").items(2)
    with pytest.raises(LimitError):
        Node("x" * (MAX_NAME + 1), "a").text()
