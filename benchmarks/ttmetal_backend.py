"""How sturdy and how fast the ttmetal backend is.

    python benchmarks/ttmetal_backend.py [kill] [memory] [speed] [--rows ROWS.jsonl[.gz]] [--board n150]

* `kill`: 2,000 queries, during which the child is killed ten times (SIGKILL); every query is answered, and as in an
  undisturbed run.
* `memory`: 10,000 queries; resident memory of the child after the first fifth and at the end.
* `speed`: queries per second: analytical and fresh; ttmetal, one warm child; kept answers, from the file and from
  memory.

Queries are those of the rows, varied in their leading dimension until there are enough. Exits 1 when a target is
missed. Without ttnn it says so and exits 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from optimizer.cli.opmodel import read_jsonl
from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError
from optimizer.opmodel import registry
from optimizer.opmodel.answer_cache import AnswerCache
from optimizer.opmodel.base import OpConstraints, OpQuery
from optimizer.opmodel.rows import query_from_row
from optimizer.opmodel.ttmetal import location
from optimizer.opmodel.ttmetal.model import TTMetalOpModel
from optimizer.opmodel.ttmetal.pool import shared_pool

ROWS = Path(__file__).resolve().parent.parent / "fixtures/opmodel/sample.jsonl"
L1_SMALL_BYTES = 32768
KILLED_QUERIES, KILLS = 2_000, 10
MEMORY_QUERIES, MEMORY_GROWTH = 10_000, 0.05
SPEED_QUERIES = 1_500
MIN_ANALYTICAL, MIN_WARM, MIN_KEPT = 10_000, 300, 20_000
SLOW_SECONDS = 0.05
"""Queries that take the child longer have host work of their own (weights of convolutions, mapping tables)."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="kill, memory, speed (default: all)")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--board", default="n150")
    args = parser.parse_args()
    parts: dict[str, Callable[[Bench], bool]] = {"kill": kill, "memory": memory, "speed": speed}
    if set(args.parts) - set(parts):
        parser.error(f"parts are {', '.join(parts)}")
    try:
        place = location.find()
    except OpModelError as error:
        print(f"skipped: {error}")
        return 0
    print(f"{place.describe()}, board {args.board}, rows of {args.rows.name}")
    bench = Bench(args.rows, args.board)
    met = [parts[name](bench) for name in args.parts or parts]
    return 0 if all(met) else 1


class Bench:
    """Queries to ask: those of the rows that a child answers quickly, and variations of them."""

    def __init__(self, rows: Path, board: str) -> None:
        self.device = DeviceSpec.preset(board)
        model = self.model()
        found = [query_from_row(row) for row in read_jsonl(rows) if row["board"] == board]
        self.basis = [query for query in found if _seconds(model, query) < SLOW_SECONDS]
        print(f"{len(found)} queries of the board, {len(self.basis)} of them answered within {SLOW_SECONDS} s")

    def model(self, cache: AnswerCache | None = None) -> TTMetalOpModel:
        """A model that knows nothing yet; without a cache it asks every time."""
        os.environ["TTOPT_ANSWER_CACHE"] = "off"
        return TTMetalOpModel(self.device, L1_SMALL_BYTES, cache)

    def queries(self, count: int) -> list[OpQuery]:
        """Distinct queries: the rows' own, then the same with more in the leading dimension of every operand."""
        found: dict[OpQuery, None] = {}
        for more in range(1, 100):
            for query in self.basis:
                found[_scaled(query, more)] = None
                if len(found) == count:
                    return list(found)
        raise SystemExit(f"{len(found)} distinct queries only, {count} are needed")


def _seconds(model: TTMetalOpModel, query: OpQuery) -> float:
    """Time of the second answer, when the kernels are there."""
    taken = 0.0
    for _ in range(2):
        model._known.clear()
        start = time.perf_counter()
        model.constraints(query)
        taken = time.perf_counter() - start
    return taken


def _scaled(query: OpQuery, more: int) -> OpQuery:
    inputs = tuple(replace(t, shape=(t.shape[0] * more, *t.shape[1:])) if t.shape else t for t in query.inputs)
    return replace(query, inputs=inputs)


# -- kill ----------------------------------------------------------------------------------------------------
def kill(bench: Bench) -> bool:
    """Answers with and without ten kills."""
    queries = bench.queries(KILLED_QUERIES)
    start = time.perf_counter()
    undisturbed = bench.model().constraints_many(queries)
    seconds = time.perf_counter() - start
    killer = _Killer(bench, KILLS, seconds / (KILLS + 2))
    killer.start()
    start = time.perf_counter()
    disturbed = bench.model().constraints_many(queries)
    killed = killer.finish()
    same = disturbed == undisturbed
    print(
        f"kill: {len(disturbed)} of {len(queries)} answered after {killed} kills, {_told(disturbed)}; "
        f"{'the same' if same else 'NOT the same'} as undisturbed; {time.perf_counter() - start:.1f} s, "
        f"undisturbed {seconds:.1f} s"
    )
    return same and killed == KILLS and len(disturbed) == len(queries)


def _told(answers: list[OpConstraints]) -> str:
    return f"{sum(a.valid for a in answers)} accepted, {sum(a.kind == 'abort' for a in answers)} aborts"


class _Killer(threading.Thread):
    """Kills the pool's child now and then."""

    def __init__(self, bench: Bench, times: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.pool = shared_pool(bench.model()._key(), 60)
        self.times, self.pause, self.done = times, pause, 0
        self.over = threading.Event()

    def run(self) -> None:
        last = -1
        while self.done < self.times and not self.over.wait(self.pause):
            for pid in self.pool.pids():
                if pid != last:
                    os.kill(pid, signal.SIGKILL)
                    self.done, last = self.done + 1, pid

    def finish(self) -> int:
        self.over.set()
        self.join()
        return self.done


# -- memory --------------------------------------------------------------------------------------------------
def memory(bench: Bench) -> bool:
    """Resident memory of one child over many queries. Queries that end the child are left out."""
    model = bench.model()
    basis = bench.queries(KILLED_QUERIES)
    quiet = [q for q, a in zip(basis, model.constraints_many(basis), strict=True) if a.kind not in ("abort", "timeout")]
    pool = shared_pool(model._key(), 60)
    pool.close()
    sizes: list[int] = []
    step, asked = MEMORY_QUERIES // 20, 0
    start = time.perf_counter()
    while asked < MEMORY_QUERIES:
        part = [quiet[(asked + i) % len(quiet)] for i in range(step)]
        model._known.clear()
        model.constraints_many(part)
        asked += step
        sizes.append(psutil.Process(pool.pids()[0]).memory_info().rss)
    early, late = max(sizes[:4]), statistics.median(sizes[-4:])
    growth = late / early - 1
    print(
        f"memory: {asked} queries in {time.perf_counter() - start:.0f} s; {early / 2**20:.0f} MiB after a fifth, "
        f"{late / 2**20:.0f} MiB at the end ({growth:+.1%})"
    )
    return growth <= MEMORY_GROWTH


# -- speed ---------------------------------------------------------------------------------------------------
def speed(bench: Bench) -> bool:
    """Queries per second of every way to an answer."""
    queries = bench.queries(SPEED_QUERIES)
    analytical = registry.create("analytical", bench.device, L1_SMALL_BYTES)
    for query in queries[:200]:
        analytical.constraints(query)
    fresh = _rate(queries[200:], lambda: [analytical.constraints(query) for query in queries[200:]])
    quiet = [q for q, a in zip(queries, bench.model().constraints_many(queries), strict=True) if a.kind != "abort"]
    warm = _rate(quiet, lambda: bench.model().constraints_many(quiet))
    with tempfile.TemporaryDirectory() as folder:
        cache = AnswerCache(Path(folder) / "answers.sqlite3")
        bench.model(cache).constraints_many(quiet)
        cache.flush()
        rates = []
        for _ in range(3):
            model = bench.model(cache)
            rates.append(_rate(quiet, lambda model=model: [model.constraints(q) for q in quiet]))
        held = _rate(quiet, lambda: [model.constraints(q) for q in quiet])
        cache.close()
    kept = max(rates)
    print(
        f"speed, queries/s: analytical fresh {fresh:,.0f}; ttmetal, one warm child {warm:,.0f}; "
        f"kept in the file {kept:,.0f}, in memory {held:,.0f}"
    )
    return fresh >= MIN_ANALYTICAL and warm >= MIN_WARM and min(kept, held) >= MIN_KEPT


def _rate(queries: list[OpQuery], ask: Callable[[], object]) -> float:
    start = time.perf_counter()
    ask()
    return len(queries) / (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
