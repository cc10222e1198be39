"""What several tests ask, answered once: results by any worker of a run, imports and OpModels per process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from optimizer.device import DeviceSpec
from optimizer.importers import load
from optimizer.importers.model import ImportedModel
from optimizer.ir.graph import Graph
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.cached import Answers, CachedOpModel
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.result import OptimizedGraph
from tests.samples import SOLVED_BEFORE

_SOLVED: dict[bytes, bytes] = {}
"""Question -> answer, both pickled, so that what a test does to its copy reaches no other."""


@cache
def imported(path: Path) -> ImportedModel:
    """A model's file as `load` reads it, the same object for all tests: none may change it."""
    return load(path)


REMEMBERED = 60_000
"""Answers of one board; about 2 KB each."""


@cache
def remembering(device: DeviceSpec, l1_small_bytes: int) -> CachedOpModel:
    """The analytical OpModel of a board with its latest answers, which depend on the query only."""
    return CachedOpModel(AnalyticalOpModel(device, l1_small_bytes), Answers(REMEMBERED))


def planned(model: ImportedModel | Graph, device: DeviceSpec, options: Options) -> OptimizedGraph:
    """What `optimizer.pipeline.optimize` gives, solved for the first test that asks; a copy that its caller may break.

    Not for tests that watch a solve (progress, limits of time, two solves compared) or that patch what it reads.
    """
    question = pickle.dumps((model, device, repr(options)))
    return _solved(question, lambda: optimize(model, device, options))


def planned_file(source: Path | bytes, options: Options, name: str | None = None) -> OptimizedGraph:
    """The same of `optimize_file`, for a model in one file."""
    content = source if isinstance(source, bytes) else (source, source.read_bytes())
    question = pickle.dumps((content, repr(options), name))
    return _solved(question, lambda: optimize_file(source, options, name=name))


def _solved(question: bytes, solve: Callable[[], OptimizedGraph]) -> OptimizedGraph:
    """The answer of this process, else of another one, else a new one that the others are told."""
    if question not in _SOLVED:
        told = Path(os.environ[SOLVED_BEFORE]) / sha256(question).hexdigest()
        if told.exists():
            _SOLVED[question] = told.read_bytes()
        else:
            _SOLVED[question] = pickle.dumps(solve())
            written = told.with_suffix(f".{os.getpid()}")
            written.write_bytes(_SOLVED[question])
            written.rename(told)
    answer: OptimizedGraph = pickle.loads(_SOLVED[question])
    return answer
