"""What the tests cost: one table, from which `tests/conftest.py` marks every test and `make quick` estimates a file.

`pytest -m "not ttnn"`, `pytest -m pure tests/export`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PURE = "pure"
PURE_ABOUT = "nothing of the others: plain calls in this process"
PURE_SECONDS = 3.0
SECONDS_KEPT = "ttopt/seconds"
"""Where pytest's cache has the seconds that every file took."""


@dataclass(frozen=True)
class Cost:
    """What makes tests dear, and how to know those tests by their text."""

    name: str
    about: str
    seconds: float
    """Of a whole file without its slow part, where none was measured."""
    folders: tuple[str, ...] = ()
    """All tests below them, from the root."""
    words: tuple[str, ...] = ()
    """Every test of a file that has one of these; regular expressions, as a module named here would be imported."""
    fixtures: tuple[str, ...] = ()
    """The tests that ask for one, themselves or through another fixture."""


COSTS = (
    Cost(
        "solves", "plans graphs, or solves what plans are made of", 15.0,
        words=(
            "optimize", "optimize_file", "optimized", "planned", "planned_file", "program_witness", "mlp_onnx",
            "result_folder", r"optimizer\.(pipeline|sharding|solver)",
        ),
    ),
    Cost(
        "process", "starts other processes: commands, workers, the service, a database", 20.0,
        words=("subprocess", "multiprocessing", r"optimizer\.batch\.worker", r"tests\.api\.clients", "postgres"),
    ),
    Cost(
        "compiler", "runs an assembler or a C++ compiler", 20.0,
        folders=("tests/kernels/amdgpu/witness/",),
        words=("llvm", "real_headers", "region_witness", r"optimizer\.kernels\.tensix\.executor"),
    ),
    Cost(
        "ttnn", "needs ttnn, on the mock or on a simulator", 25.0,
        folders=("tests/opmodel/ttmetal/",),
        fixtures=("needs_ttnn", "needs_simulator"),
    ),
    Cost("browser", "drives Chromium", 25.0, folders=("tests/browser/",)),
)  # fmt: skip


def markers() -> dict[str, str]:
    """What each marker of this table says of a test."""
    return {PURE: PURE_ABOUT, **{cost.name: cost.about for cost in COSTS}}


def of_file(path: str, text: str) -> list[Cost]:
    """The costs of a test file, by its path from the root and its text."""
    return [cost for cost in COSTS if _costs_all(cost, path, text) or has_word(text, cost.fixtures)]


def of_test(path: str, text: str, fixtures: Collection[str]) -> list[Cost]:
    """The costs of one test of a file, which asks for these fixtures."""
    return [cost for cost in COSTS if _costs_all(cost, path, text) or not set(cost.fixtures).isdisjoint(fixtures)]


def estimated_seconds(path: str, text: str) -> float:
    """Of a whole test file without its slow part."""
    return max((cost.seconds for cost in of_file(path, text)), default=PURE_SECONDS)


def taken_together(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The seconds of every file: the new ones where they are less, else the mean, as other programs may have run."""
    later = {path: min(seconds, (before.get(path, seconds) + seconds) / 2) for path, seconds in now.items()}
    return {**before, **{path: round(seconds, 2) for path, seconds in later.items()}}


@cache
def text_of(path: Path) -> str:
    """The text of a file, read once."""
    return path.read_text(encoding="utf-8")


@cache
def _costs_all(cost: Cost, path: str, text: str) -> bool:
    return path.startswith(cost.folders) or has_word(text, cost.words)


def has_word(text: str, words: tuple[str, ...]) -> bool:
    """Whether a text has one of the words, not as a part of another one."""
    return bool(words) and re.search(rf"(?<!\w)({'|'.join(words)})(?!\w)", text) is not None
