"""The pages say what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from api import problems
from api.settings import PREFIX, Settings
from optimizer.cli import main
from optimizer.cli.parser import build_parser, command_parsers
from optimizer.errors import TtoptError
from optimizer.result import Role

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/amdgpu-assembly.md",
    "docs/architecture.md",
    "docs/extending.md",
    "docs/formats.md",
    "docs/onnx-coverage.md",
    "docs/register-allocation.md",
    "docs/report.md",
    "docs/solver.md",
)


def text(root: Path, page: str) -> str:
    return (root / page).read_text(encoding="utf-8")


def kinds(error: type[TtoptError]) -> set[type[TtoptError]]:
    return {error}.union(*(kinds(child) for child in error.__subclasses__()))


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_the_pages_exist(project_root: Path, page: str) -> None:
    named = set(
        re.findall(r"`((?:optimizer|tests|scripts|docs|fixtures|benchmarks)/[\w./-]+)`", text(project_root, page))
    )
    assert [path for path in sorted(named) if not (project_root / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_in_the_pages_exist(project_root: Path, page: str) -> None:
    words = set(re.findall(r"(?:`|^)ttopt ([a-z]+)", text(project_root, page), re.MULTILINE))
    assert words <= set(command_parsers(build_parser()))
    targets = set(re.findall(r"(?:`|^)make ([a-z-]+)", text(project_root, page), re.MULTILINE))
    known = set(re.findall(r"^([a-z-]+):.*## ", text(project_root, "Makefile"), re.MULTILINE))
    assert targets <= known


def test_every_setting_role_and_problem_is_described(project_root: Path) -> None:
    page = "".join(text(project_root, f"docs/{name}.md") for name in ("formats", "service", "batch"))
    ours = {e for e in kinds(TtoptError) if e.__module__.startswith(("optimizer.", "api."))}
    codes = {e.code for e in ours} - {"error", "bad-input", "bad-usage"}
    assert problems.BusyError.code in codes
    words = [*(PREFIX + name.upper() for name in Settings.model_fields), *Role, *codes]
    assert [word for word in words if f"`{word}`" not in page] == []


def test_the_example_graph_is_accepted(project_root: Path, tmp_path: Path) -> None:
    example = re.search(r"```json\n(.*?)```", text(project_root, "docs/formats.md"), re.DOTALL)
    assert example is not None
    (tmp_path / "pair.json").write_text(json.dumps(json.loads(example[1])), encoding="utf-8")
    assert main(["optimize", str(tmp_path / "pair.json")]) == 0
