"""`scripts/quick_tests.py` and `scripts/file_graph.py` on small trees: which tests a change selects, in which order."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import file_graph, quick_tests
from scripts.quick_tests import Candidate
from tests import costs

PYPROJECT = '[tool.pytest.ini_options]\npythonpath = ["tests/room"]\n'
CONFTEST = """
import pytest
from optimizer import board, report
def pytest_configure(config): board.check()
@pytest.fixture
def page(golden): return report.render()
@pytest.fixture
def golden(): return ROOT / "tests" / "golden"
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "optimizer/__init__.py": "",
    "optimizer/leaf.py": "",
    "optimizer/solver.py": "from optimizer import leaf",
    "optimizer/registry.py": 'ROWS = {"best": "optimizer.solver:Best"}',
    "optimizer/typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from optimizer import leaf",
    "optimizer/board.py": 'text = files("optimizer") / "boards" / f"{name}.json"',
    "optimizer/boards/n150.json": "{}",
    "optimizer/report.py": "",
    "optimizer/page.js": "",
    "optimizer/families/__init__.py": "",
    "optimizer/families/sums/calls.py": "",
    "optimizer/families/sums/faults.py": "",
    "optimizer/spelling.py": 'from optimizer import families\nfamilies.table("CALLS")',
    "optimizer/cli/__init__.py": "",
    "optimizer/cli/__main__.py": "from optimizer import registry",
    "scripts/measure.py": "",
    "docs/plans.md": "`scripts/measure.py` and `optimizer/leaf.py`",
    "fixtures/graphs/mlp.json": "{}",
    "tests/conftest.py": CONFTEST,
    "tests/golden/room/plan.txt": "",
    "tests/room/shared.py": "from optimizer import solver",
    "tests/room/test_leaf.py": "import optimizer.leaf",
    "tests/room/test_solver.py": "from optimizer.solver import Best",
    "tests/room/test_shared.py": "from shared import case",
    "tests/room/test_registry.py": "from optimizer import registry",
    "tests/room/test_typed.py": "from optimizer import typed",
    "tests/room/test_command.py": 'run([sys.executable, "-m", "optimizer.cli", "boards"])',
    "tests/room/test_page.py": "def test_page(page): pass",
    "tests/room/test_plan.py": 'def test_plan(golden): golden(f"room/{name}.txt")',
    "tests/room/test_graphs.py": 'GRAPHS = Path(__file__).parents[2] / "fixtures" / "graphs"',
    "tests/room/test_script.py": 'run(ROOT / "scripts" / "measure.py")',
    "tests/room/test_docs.py": 'PAGES = (ROOT / "docs").glob("*.md")',
    "tests/room/test_spelling.py": "from optimizer import spelling",
    "tests/room/test_alone.py": '"""Of `optimizer.leaf`, but only in a docstring."""',
}
Select = Callable[..., dict[str, int]]


@pytest.fixture
def select(tmp_path: Path) -> Select:
    """The tests that changes of these files select, by the name after `test_`, with their steps."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    graph = file_graph.file_graph(tmp_path, [*FILES, "optimizer/gone.py"])

    def selected(*changed: str) -> dict[str, int]:
        found = quick_tests.tests_of(graph, changed, lambda _path: 1.0)
        return {Path(test.path).stem.removeprefix("test_"): test.steps for test in found}

    return selected


ALL = {path.rpartition("/")[2][5:-3] for path in FILES if file_graph.is_test(path)}


def test_imports_names_as_text_and_shared_modules_lead_to_a_leaf_in_so_many_steps(select: Select) -> None:
    assert select("optimizer/leaf.py") == {"leaf": 1, "solver": 2, "shared": 3, "registry": 3, "command": 4}
    assert select("optimizer/gone.py") == {}


def test_who_asks_families_for_an_aspect_depends_on_its_modules(select: Select) -> None:
    assert select("optimizer/families/sums/calls.py") == {"spelling": 2}
    assert select("optimizer/families/sums/faults.py") == {}


def test_a_process_depends_on_the_program_that_it_runs(select: Select) -> None:
    assert select("optimizer/cli/__main__.py") == {"command": 1}


def test_a_changed_test_comes_first(select: Select) -> None:
    assert select("tests/room/test_alone.py") == {"alone": 0}


def test_a_package_counts_with_its_modules(select: Select) -> None:
    assert select("optimizer/__init__.py")["leaf"] == 2


def test_hooks_take_part_in_every_test_and_fixtures_where_they_are_asked_for(select: Select) -> None:
    assert set(select("optimizer/board.py")) == ALL
    assert select("optimizer/report.py") == {"page": 2}
    assert set(select("tests/conftest.py")) == ALL


def test_data_leads_to_what_names_it_or_its_folder(select: Select) -> None:
    assert set(select("optimizer/boards/n150.json")) == ALL
    assert select("tests/golden/room/plan.txt")["plan"] == 1
    assert select("fixtures/graphs/mlp.json") == {"graphs": 2}
    assert select("fixtures/graphs/new.json") == {"graphs": 2}


def test_data_that_nothing_names_belongs_to_the_modules_beside_it(select: Select) -> None:
    assert set(select("optimizer/page.js")) == ALL


def test_scripts_and_pages_lead_to_the_tests_that_run_and_read_them(select: Select) -> None:
    assert select("scripts/measure.py") == {"script": 1, "docs": 3}
    assert select("docs/plans.md") == {"docs": 2}


def test_a_page_does_not_depend_on_the_code_that_it_names(select: Select) -> None:
    assert "docs" not in select("optimizer/leaf.py")


@pytest.mark.parametrize(
    ("seconds", "limit", "chosen", "left"),
    [
        ((5, 5, 5), 12, "ab", "c"),
        ((5, 9, 5), 12, "ac", "b"),
        ((50, 1, 1), 12, "a", "bc"),
        ((), 12, "", ""),
    ],
    ids=["until full", "what still fits", "the first in any case", "none"],
)
def test_the_limit(seconds: tuple[float, ...], limit: float, chosen: str, left: str) -> None:
    tests = [Candidate(steps, cost, "abc"[steps]) for steps, cost in enumerate(seconds)]
    found = quick_tests.within(tests, limit)
    assert ["".join(test.path for test in part) for part in found] == [chosen, left]


def test_equally_near_tests_come_by_room_then_by_seconds(tmp_path: Path) -> None:
    seconds = {"tests/room/test_dear.py": 9.0, "tests/room/test_cheap.py": 5.0, "tests/test_other.py": 1.0}
    files = ("optimizer/room/leaf.py", *seconds)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("from optimizer.room import leaf", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    graph = file_graph.file_graph(tmp_path, files)
    found = quick_tests.tests_of(graph, ["optimizer/room/leaf.py"], seconds.__getitem__)
    assert [(test.steps, test.path) for test in found] == [
        (1, "tests/room/test_cheap.py"), (1, "tests/room/test_dear.py"), (1, "tests/test_other.py"),
    ]  # fmt: skip


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    files = {"pyproject.toml": PYPROJECT, "optimizer/leaf.py": "", "tests/test_a.py": "import optimizer.leaf"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert file_graph.file_graph(tmp_path, files).has_edge("tests/test_a.py", "optimizer/leaf.py")
    (tmp_path / "tests/test_a.py").write_text("import optimizer", encoding="utf-8")
    assert not file_graph.file_graph(tmp_path, files).has_edge("tests/test_a.py", "optimizer/leaf.py")


def test_changed_are_edited_staged_untracked_and_deleted_files(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("edited", "staged", "deleted", "same"):
        (tmp_path / name).write_text("before", encoding="utf-8")
    git("add", ".")
    git("commit", "-m", "all")
    for name in ("edited", "staged", "new"):
        (tmp_path / name).write_text("after it", encoding="utf-8")
    git("add", "staged")
    (tmp_path / "deleted").unlink()
    assert quick_tests.changed_files(tmp_path, "HEAD") == ["deleted", "edited", "new", "staged"]


def test_costs_are_known_by_folder_word_and_fixture() -> None:
    def of_test(path: str, text: str, *fixtures: str) -> list[str]:
        return [cost.name for cost in costs.of_test(path, text, fixtures)]

    assert of_test("tests/test_a.py", "import json") == []
    assert of_test("tests/test_a.py", "import subprocess\nfrom tests.plans import planned") == ["solves", "process"]
    assert of_test("tests/browser/test_a.py", "") == ["browser"]
    assert of_test("tests/test_a.py", "def test_a(needs_ttnn)") == []
    assert of_test("tests/test_a.py", "def test_a(needs_ttnn)", "needs_ttnn") == ["ttnn"]
    assert [cost.name for cost in costs.of_file("tests/test_a.py", "def test_a(needs_ttnn)")] == ["ttnn"]
    assert costs.estimated_seconds("tests/test_a.py", "import json") == costs.PURE_SECONDS


def test_seconds_fall_at_once_and_rise_by_half() -> None:
    assert costs.taken_together({"a": 4.0, "b": 4.0, "c": 4.0}, {"a": 1.0, "b": 8.0, "d": 2.0}) == {
        "a": 1.0, "b": 6.0, "c": 4.0, "d": 2.0,
    }  # fmt: skip


def test_every_test_of_this_run_is_marked(request: pytest.FixtureRequest) -> None:
    marked = {marker.name for marker in request.node.iter_markers()}
    assert marked & costs.markers().keys() == {"solves", "process"}


@pytest.mark.parametrize("cost", costs.COSTS, ids=lambda cost: cost.name)
def test_every_row_of_the_table_finds_tests(cost: costs.Cost, project_root: Path) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((project_root / "tests").rglob("test_*.py")))
    assert all((project_root / folder).is_dir() for folder in cost.folders)
    assert [word for word in (*cost.words, *cost.fixtures) if not costs.has_word(text, (word,))] == []
