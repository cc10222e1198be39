"""`scripts/import_circles.py` on small trees."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    path = Path(__file__).resolve().parents[2] / "scripts" / "import_circles.py"
    spec = importlib.util.spec_from_file_location("import_circles", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tree(folder: Path, **files: str) -> Path:
    """`optimizer` and `api` with an empty `__init__.py` each, and the text of further files of `optimizer`."""
    texts = {"api/__init__.py": "", "optimizer/__init__.py": ""}
    texts.update({f"optimizer/{name}.py": text for name, text in files.items()})
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return folder


def test_a_line_of_modules_is_no_circle(script: ModuleType, tmp_path: Path) -> None:
    root = tree(tmp_path, a="import optimizer.b", b="from optimizer import c", c="import os")
    assert script.circles(script.import_graph(root)) == []


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
    ],
)
def test_every_spelling_of_an_import_closes_a_circle(script: ModuleType, tmp_path: Path, back: str) -> None:
    root = tree(tmp_path, a="import optimizer.b", b="import optimizer.c", c=back)
    assert script.circles(script.import_graph(root)) == [["optimizer.a", "optimizer.b", "optimizer.c"]]


def test_a_package_and_its_module_can_be_a_circle(script: ModuleType, tmp_path: Path) -> None:
    files = {"room/__init__": "from .parser import parse", "room/parser": "from .. import room"}
    root = tree(tmp_path, **files)
    assert script.circles(script.import_graph(root)) == [["optimizer.room", "optimizer.room.parser"]]


def test_circles_of_two_pairs_are_told_apart(script: ModuleType, tmp_path: Path) -> None:
    root = tree(tmp_path, a="import optimizer.b", b="import optimizer.a", c="from . import a, d", d="from . import c")
    assert script.circles(script.import_graph(root)) == [["optimizer.a", "optimizer.b"], ["optimizer.c", "optimizer.d"]]


def test_the_report_names_the_lines_of_a_circle(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path, a="import os\nimport optimizer.b", b="import optimizer.a")
    monkeypatch.setattr("sys.argv", ["import_circles.py", str(root)])
    assert script.main() == 1
    report = capsys.readouterr().err
    assert "optimizer/a.py:2 imports optimizer.b" in report
    assert "optimizer/b.py:1 imports optimizer.a" in report


def test_a_folder_without_the_packages_is_refused(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder optimizer"):
        script.import_graph(tmp_path)
