"""`scripts/import_circles.py` on small trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import import_circles


def tree(folder: Path, **files: str) -> Path:
    """`optimizer` and `api` with an empty `__init__.py` each, and the text of further files of `optimizer`."""
    texts = {"api/__init__.py": "", "optimizer/__init__.py": ""}
    texts.update({f"optimizer/{name}.py": text for name, text in files.items()})
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return folder


def test_a_line_of_modules_is_no_circle(tmp_path: Path) -> None:
    root = tree(tmp_path, a="import optimizer.b", b="from optimizer import c", c="import os")
    assert import_circles.circles(import_circles.import_graph(root)) == []


@pytest.mark.parametrize(
    "back",
    [
        "import optimizer.a",
        "from optimizer import a",
        "from optimizer.a import name",
        "from . import a",
        "from .a import name",
        "def late():\n    from optimizer.a import name\n    return name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from optimizer.a import Name",
        "def late():\n    return import_module('optimizer.a')",
        "ROWS = {'best': ('optimizer.a:Best', 'a line')}",
        "PROGRAM = 'from optimizer.a import main\\n'",
        "def late(name):\n    return import_module(f'optimizer.{name}')\nlate('a')",
    ],
)
def test_every_spelling_of_an_import_closes_a_circle(tmp_path: Path, back: str) -> None:
    root = tree(tmp_path, a="import optimizer.b", b="import optimizer.c", c=back)
    assert import_circles.circles(import_circles.import_graph(root)) == [["optimizer.a", "optimizer.b", "optimizer.c"]]


def test_a_package_and_its_module_can_be_a_circle(tmp_path: Path) -> None:
    files = {"room/__init__": "from .parser import parse", "room/parser": "from .. import room"}
    root = tree(tmp_path, **files)
    assert import_circles.circles(import_circles.import_graph(root)) == [["optimizer.room", "optimizer.room.parser"]]


def test_circles_of_two_pairs_are_told_apart(tmp_path: Path) -> None:
    root = tree(tmp_path, a="import optimizer.b", b="import optimizer.a", c="from . import a, d", d="from . import c")
    assert import_circles.circles(import_circles.import_graph(root)) == [
        ["optimizer.a", "optimizer.b"],
        ["optimizer.c", "optimizer.d"],
    ]


def test_the_report_names_the_lines_of_a_circle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path, a="import os\nimport optimizer.b", b="import optimizer.a")
    monkeypatch.setattr("sys.argv", ["import_circles.py", str(root)])
    assert import_circles.main() == 1
    report = capsys.readouterr().err
    assert "optimizer/a.py:2 imports optimizer.b" in report
    assert "optimizer/b.py:1 imports optimizer.a" in report


def test_a_folder_without_the_packages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder optimizer"):
        import_circles.import_graph(tmp_path)


def test_docstrings_and_the_packages_around_a_module_are_no_names_of_modules(tmp_path: Path) -> None:
    files = {
        "room/__init__": "from . import parser",
        "room/parser": '"""Of optimizer.b."""\nFILES = files("optimizer.room")',
    }
    root = tree(tmp_path, **files, b="import optimizer.room.parser")
    assert import_circles.circles(import_circles.import_graph(root)) == []


def test_a_program_is_named_with_its_package(tmp_path: Path) -> None:
    root = tree(
        tmp_path, **{"cli/__init__": "", "cli/__main__": "", "a": 'run([sys.executable, "-m", "optimizer.cli"])'}
    )
    graph = import_circles.import_graph(root)
    assert {*graph.successors("optimizer.a")} == {"optimizer.cli", "optimizer.cli.__main__"}


@pytest.mark.parametrize(
    ("b", "status", "said"),
    [
        ("from_text('optimizer.a:name')", 0, "no circles among 4 modules, but for 1 known names as text"),
        ("import os", 1, "optimizer.b -> optimizer.a closes no circle as text any more"),
        ("from optimizer import a", 1, "optimizer.b -> optimizer.a closes no circle as text any more"),
    ],
    ids=["as text", "mended", "an import is never excused"],
)
def test_a_known_name_is_excused_as_long_as_it_closes_a_circle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, b: str, status: int, said: str
) -> None:
    root = tree(tmp_path, a="import optimizer.b", b=b)
    monkeypatch.setattr("sys.argv", ["import_circles.py", str(root)])
    monkeypatch.setattr(import_circles, "ROOT", root)
    monkeypatch.setattr(import_circles, "KNOWN", {("optimizer.b", "optimizer.a"): "why"})
    assert import_circles.main() == status
    assert said in "".join(capsys.readouterr())
