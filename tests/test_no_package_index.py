"""The distribution is on no package index: nothing may tell a reader to install it from one."""

from __future__ import annotations

import re
from pathlib import Path

TOLD = re.compile(
    r"(pip|uv|pipx|uvx|poetry|conda)\b[^\n`]*\bttnn-graph-optimizer|pypi\.org/project/ttnn-graph-optimizer"
)
KINDS = {".md", ".py", ".toml", ".yaml", ".yml", ".sh", ".html", ""}


def test_nobody_is_told_to_install_a_name_that_anyone_could_register(project_root: Path) -> None:
    roots = [
        project_root / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "Dockerfile", "pyproject.toml")
    ]
    for folder in ("docs", "optimizer", "api", "scripts", "benchmarks"):
        roots += [path for path in (project_root / folder).rglob("*") if path.is_file() and path.suffix in KINDS]
    told = [
        f"{path}: {line}"
        for path in roots
        for line in path.read_text(encoding="utf-8").splitlines()
        if TOLD.search(line)
    ]
    assert not told
