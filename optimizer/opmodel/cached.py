"""`CachedOpModel`: any backend behind a bounded memory, with counts and times per stage.

A query compares by content, so it is the key; the wrapper holds the most recently used answers and says,
for the `timings` of a result, how often and for how long each stage asked the backend itself.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import OptionError
from optimizer.opmodel.base import LaunchTimes, OpConstraints, OpCost, OpModel, OpQuery
from optimizer.opmodel.spans import Span, spans_of

DEFAULT_ENTRIES = 500_000
Corrector = Callable[[OpQuery], OpConstraints | None]
"""What is known better of a query; None: nothing."""


@dataclass(slots=True)
class StageStatistics:
    """Questions of one stage: how many, how many went to the backend, and the seconds spent there."""

    calls: int = 0
    misses: int = 0
    seconds: float = 0.0

    @property
    def hits(self) -> int:
        return self.calls - self.misses

    def to_json(self) -> dict[str, Any]:
        return {"calls": self.calls, "hits": self.hits, "misses": self.misses, "seconds": round(self.seconds, 6)}


@dataclass
class Answers:
    """The most recently used answers of one backend for one board and `l1_small_bytes`."""

    max_entries: int = DEFAULT_ENTRIES
    """Of each kind."""
    constraints: OrderedDict[OpQuery, OpConstraints] = field(default_factory=OrderedDict)
    costs: OrderedDict[OpQuery, OpCost] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if self.max_entries <= 0:
            raise OptionError(f"'max_entries' must be positive, got {self.max_entries}")

    def __len__(self) -> int:
        return len(self.constraints) + len(self.costs)


class CachedOpModel:
    """An OpModel that remembers the answers of another one. Not for several threads at once."""

    def __init__(self, backend: OpModel, answers: Answers | None = None) -> None:
        """`answers` are those that models before it got of an equal backend; what is asked now joins them."""
        self.backend = backend
        self.name: str = backend.name
        self.device: DeviceSpec = backend.device
        self.l1_small_bytes: int = backend.l1_small_bytes
        self.launch: LaunchTimes | None = backend.launch
        self.spans: Mapping[str, Span] = spans_of(backend)
        self._answers = Answers() if answers is None else answers
        self._constraints, self._costs = self._answers.constraints, self._answers.costs
        self._corrections: dict[OpQuery, OpConstraints] = {}
        self._correctors: list[Corrector] = []
        self._stages: dict[str, StageStatistics] = {}
        self._current = self._stage("other")
        self.poll: Callable[[], None] = lambda: None
        """Asked before every answer of the backend; it may end the run."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the questions asked inside the `with` block under `name`; stages nest."""
        outer = self._current
        self._current = self._stage(name)
        try:
            yield
        finally:
            self._current = outer

    @property
    def statistics(self) -> dict[str, StageStatistics]:
        """Stage -> statistics, in order of name, stages that asked nothing left out."""
        return {k: v for k, v in sorted(self._stages.items()) if v.calls}

    def statistics_json(self) -> dict[str, Any]:
        """The statistics as the `timings` section of a result holds them."""
        return {name: stage.to_json() for name, stage in self.statistics.items()}

    def __len__(self) -> int:
        """Answers held."""
        return len(self._answers)

    @property
    def is_corrected(self) -> bool:
        """Whether some answers are others than the backend's."""
        return bool(self._corrections or self._correctors)

    def correct(self, query: OpQuery, answer: OpConstraints) -> None:
        """From now on answer this query so, whatever the backend says (a better-informed backend said it)."""
        self._corrections[query] = answer

    def correct_by(self, corrector: Corrector) -> None:
        """From now on answer as `corrector` says wherever it says something; the one given last goes first."""
        self._correctors.insert(0, corrector)

    def constraints(self, query: OpQuery) -> OpConstraints:
        stage = self._current
        stage.calls += 1
        corrected = self._corrections.get(query)
        if corrected is not None:
            return corrected
        for corrector in self._correctors:
            corrected = corrector(query)
            if corrected is not None:
                return corrected
        found = self._constraints.get(query)
        if found is not None:
            self._constraints.move_to_end(query)
            return found
        return self._asked(self._constraints, self.backend.constraints, query)

    def cost(self, query: OpQuery) -> OpCost:
        stage = self._current
        stage.calls += 1
        found = self._costs.get(query)
        if found is not None:
            self._costs.move_to_end(query)
            return found
        return self._asked(self._costs, self.backend.cost, query)

    def _asked[T](self, kept: OrderedDict[OpQuery, T], ask: Callable[[OpQuery], T], query: OpQuery) -> T:
        """The backend's answer, which is kept from now on."""
        self.poll()
        start = time.perf_counter()
        answer = ask(query)
        self._current.seconds += time.perf_counter() - start
        self._current.misses += 1
        kept[query] = answer
        if len(kept) > self._answers.max_entries:
            kept.popitem(last=False)
        return answer

    def runtime_ns(self, query: OpQuery) -> int:
        return self.cost(query).time_ns

    def _stage(self, name: str) -> StageStatistics:
        return self._stages.setdefault(name, StageStatistics())
