"""Promises about the repository itself."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from optimizer.cli.parser import build_parser, parse

ALLOWED_HOSTS = ("localhost", "127.0.0.1", "0.0.0.0", "www.apache.org", "example")


def tracked_files(root: Path) -> list[Path]:
    done = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [root / line for line in done.stdout.splitlines() if (root / line).is_file()]


def text_of(path: Path) -> str:
    """A tracked file's text; empty for binary files."""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8")


def test_no_lock_file_is_tracked(project_root: Path) -> None:
    names = {path.name for path in tracked_files(project_root)}
    assert names.isdisjoint({"uv.lock", "poetry.lock", "package-lock.json"})


def test_plumbing_names_no_host(project_root: Path) -> None:
    """Registries are whatever the machine is set up with."""
    plumbing = ["pyproject.toml", "constraints.txt", "Makefile", "Dockerfile", ".ci/run"]
    for name in plumbing:
        for host in re.findall(r"[a-z]+://([^/\s\"']+)", (project_root / name).read_text(encoding="utf-8")):
            assert host.partition(":")[0] in ALLOWED_HOSTS, f"{name} names {host}"


def test_no_machine_paths_are_tracked(project_root: Path) -> None:
    pattern = re.compile(r"(?<![\w.])/(?:root|home/\w+|tmp/w)/")
    found = [
        str(path.relative_to(project_root))
        for path in tracked_files(project_root)
        if path.name != "test_repository.py" and pattern.search(text_of(path))
    ]
    assert found == []


def test_every_requirement_is_pinned(project_root: Path) -> None:
    project = tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))
    lines = (project_root / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {line.partition("==")[0] for line in lines if "==" in line}
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    assert {re.split(r"[<=;\[ ]", name)[0] for name in wanted} - pinned == set()
    assert len(pinned) == len(lines)


def test_no_module_outgrows_its_idea(project_root: Path) -> None:
    long = {
        str(path.relative_to(project_root)): lines
        for path in tracked_files(project_root)
        if path.suffix == ".py" and path.parts[len(project_root.parts)] in ("optimizer", "api")
        if (lines := len(text_of(path).splitlines())) > 500
    }
    assert long == {}


def test_the_image_copies_what_exists_and_runs_a_command_that_exists(project_root: Path) -> None:
    """The steps themselves are carried out by `make check-long`."""
    lines = (project_root / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copies = [line.split() for line in lines if line.startswith("COPY ") and "--from" not in line]
    sources = [name for _, *names, _ in copies for name in names]
    assert [name for name in sources if not (project_root / name).exists()] == []
    admitted = (project_root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in sources} <= set(admitted)
    command = json.loads(lines[-1].removeprefix("CMD "))
    assert command[0] == "ttopt"
    assert parse(build_parser(), command[1:]).host == "0.0.0.0"
