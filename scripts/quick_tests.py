"""Runs the tests that a change may break, the nearest first, for about two minutes.

    python -m scripts.quick_tests [--since REV] [--seconds N] [--list]

Changed is what differs between the working tree and a revision, untracked files included. A test file may break where
it reaches a changed file by imports, fixtures, or names of modules and files (`file_graph.py`). Nearest first, in
steps of that graph, of equally near ones those of the same room, then the cheapest, until the limit is full. Seconds
are those of the last times that the file ran, else estimated (`tests/costs.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

import networkx

from scripts.file_graph import file_graph, folder_of, is_test
from tests import costs

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
SHOWN = 12
"""Names in a line of output."""
NO_TESTS = 5
"""pytest's exit code where a file has slow tests only."""


@dataclass(frozen=True)
class Candidate:
    """A test file that reaches a change."""

    steps: int
    seconds: float
    """Of one process."""
    path: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since", metavar="REV", default="HEAD", help="the revision to compare with (default: HEAD)")
    parser.add_argument("--seconds", metavar="N", type=float, default=120.0, help="the limit (default: 120)")
    parser.add_argument("--list", action="store_true", help="say which files would run, and run none")
    args = parser.parse_args()
    changed = changed_files(ROOT, args.since)
    graph = file_graph(ROOT, {*_git(ROOT, "ls-files", "-zco", "--exclude-standard"), *changed})
    kept = ROOT / ".pytest_cache" / "v" / costs.SECONDS_KEPT
    measured = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    found = tests_of(graph, changed, lambda path: measured.get(path) or _estimated(path))
    chosen, left = within(found, args.seconds * WORKERS)
    print(f"changed since {args.since}: {shown(changed)}")
    if unreached := unreached_files(graph, changed):
        print(f"no test reaches {shown(unreached)}")
    print(f"{len(found)} test files reach what changed. RUN: {summary(chosen)}")
    status = 0
    if chosen and not args.list:
        words = ["-n", str(min(WORKERS, len(chosen))), "--dist", "worksteal", *(test.path for test in chosen)]
        status = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False).returncode
    if left:
        limit = sum(test.seconds for test in found) / WORKERS + 1
        print(f"NOT RUN: {summary(left)}")
        print(f"`make quick LIMIT={limit:.0f}` runs them too, `make test` everything")
    return 0 if status == NO_TESTS else status


def changed_files(root: Path, since: str) -> list[str]:
    """Paths that differ between the working tree and a revision, or are in neither; those that are gone included."""
    return sorted({
        *_git(root, "diff", "-z", "--name-only", "--no-renames", since, "--"),
        *_git(root, "ls-files", "-z", "--others", "--exclude-standard"),
    })  # fmt: skip


def tests_of(
    graph: networkx.DiGraph[str], changed: Collection[str], seconds: Callable[[str], float]
) -> list[Candidate]:
    """The test files that reach a change: the nearest first, then those of its rooms, then the cheapest."""
    steps = steps_to(graph, changed)
    rooms = {room(path) for path in changed}
    return sorted(
        (Candidate(steps[path], seconds(path), path) for path in steps if is_test(path)),
        key=lambda test: (test.steps, room(test.path) not in rooms, test.seconds, test.path),
    )


def room(path: str) -> str:
    """The room that a file is of, in the package or in the tests, which mirror it: `importers`, `api`."""
    first, _, rest = path.partition("/")
    return rest.partition("/")[0] if first in ("optimizer", "tests") and "/" in rest else first


def steps_to(graph: networkx.DiGraph[str], changed: Collection[str]) -> dict[str, int]:
    """For every node that reaches a change, the steps to the nearest.

    A package is part of every module below it, and what reads a folder reads its files: both count as changed, a step
    further away.
    """
    waiting = [(0, path) for path in changed]
    for path in changed:
        if path.endswith("/__init__.py"):
            waiting += [(1, node) for node in graph if node.startswith(folder_of(path)) and node.endswith(".py")]
        distance, folder = 1, folder_of(path)
        while folder:
            waiting.append((distance, folder))
            distance, folder = distance + 1, folder_of(folder)
    waiting.sort()
    found: dict[str, int] = {}
    while waiting:
        distance, node = heappop(waiting)
        if node in graph and node not in found:
            found[node] = distance
            for neighbour in graph.predecessors(node):
                heappush(waiting, (distance + 1, neighbour))
    return found


def within(tests: list[Candidate], seconds: float) -> tuple[list[Candidate], list[Candidate]]:
    """Those that run and those that are left out: each in turn if it still fits, and the first in any case."""
    chosen: list[Candidate] = []
    left = []
    for test in tests:
        if chosen and sum(other.seconds for other in chosen) + test.seconds > seconds:
            left.append(test)
        else:
            chosen.append(test)
    return chosen, left


def unreached_files(graph: networkx.DiGraph[str], changed: Collection[str]) -> list[str]:
    """Of the changed files, those that no test file depends on."""
    return [path for path in changed if not any(map(is_test, steps_to(graph, [path])))]


def shown(paths: Collection[str]) -> str:
    """The first of them, and how many more there are."""
    listed = [*paths][:SHOWN]
    return ", ".join(listed) + (f" and {len(paths) - len(listed)} more" if len(paths) > len(listed) else "")


def summary(tests: list[Candidate]) -> str:
    """How many, how long, how far away, and which."""
    seconds = sum(test.seconds for test in tests) / WORKERS
    counts = sorted(Counter(test.steps for test in tests).items())
    by_steps = ", ".join(f"{steps}: {count}" for steps, count in counts)
    paths = shown([test.path for test in tests])
    return f"{len(tests)} files, about {seconds:.0f} s; files by steps from the change {{{by_steps}}}; {paths}"


def _estimated(path: str) -> float:
    file = ROOT / path
    return costs.estimated_seconds(path, file.read_text(encoding="utf-8")) if file.is_file() else 0.0


def _git(root: Path, *words: str) -> list[str]:
    """The paths that a git command lists."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split("\0") if path]


if __name__ == "__main__":
    sys.exit(main())
