"""Fused kernels with values on Tenstorrent's functional simulator, against the ops one by one in float64.

    TTOPT_SIMULATOR=.../libttsim.so python benchmarks/kernel_values.py [CASE...] [--models MODEL...] [--record VERSION]

Runs every case of `tests/fusion/simulated_kernels.py` whose name contains one of the words given (all by default), or
every kernel of the models as planned, each by itself, on the board whose chip the simulator is; of a folder with a
`graph.json`, the kernels of that plan. A case that the simulator cannot run ends with its reason, the next one gets a
new process; if it has several results, they are run one by one then. Prints a line per output and range of operands,
and what it amounts to: kernels and kinds that are right, wrong, not run, and the simulator's words for the last. `times
bound` is the largest error in units of the error bound.
`--record` writes the kinds of kernels all of whose outputs are right to `optimizer/fusion/judged_kinds.json`,
with the simulator's version as given (the library does not tell); a run of some cases adds to what the same versions
judged before. Exits 1 if an output is wrong or has nothing to be judged by; what the simulator lacks is no failure.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from optimizer.cli.tables import table
from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.export.reader import read_result
from optimizer.fusion.binding import fused_kernels
from optimizer.opmodel.ttmetal import environment, location, simulator
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.result import OptimizedGraph

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "importers"), str(ROOT / "tests" / "export")]
from simulated_kernels import (  # noqa: E402 - the cases are the tests'
    Verdict,
    alone_alike,
    cases,
    faults,
    judge,
    kinds,
    pieces,
)

BOARDS = {"wormhole_b0": "n150", "blackhole": "p150"}
RECORD = ROOT / "optimizer" / "fusion" / "judged_kinds.json"
_OWN_WORDS = re.compile(r"^.*\[\d+\] ERROR: ", re.DOTALL)
"""What stands before the simulator's own words."""
COLUMNS = ("kernel", "output", "pcc", "relative error", "ratio", "times bound", "verdict")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="words of names")
    parser.add_argument("--models", nargs="*", type=Path, default=[])
    parser.add_argument("--policy", default="global")
    parser.add_argument("--record", metavar="VERSION", help="of the simulator")
    args = parser.parse_args()
    try:
        arch = simulator.architecture(simulator.library_path())
    except environment.EnvironmentProblem as problem:
        parser.error(str(problem))
    board = BOARDS[arch]
    done: list[_Kernel] = []
    with _Runner(board, environment.cache_folder() / "kernel-values") as runner:
        for name, build in _chosen(args.cases, args.models, board, args.policy):
            done.append(runner.run(name, build()))
            if done[-1].reason:
                done += [runner.run(piece, build()) for piece, build in pieces(name).items()]
    print(table(COLUMNS, [row for kernel in done for row in kernel.rows()]), "", *_summary(done), sep="\n")
    if args.record:
        right = {kind for kernel in done if kernel.word == "right" for kind in kernel.kinds}
        _record(arch, args.record, right, part=bool(args.cases or args.models))
    return 1 if any(kernel.word == "WRONG" for kernel in done) else 0


def _chosen(
    words: list[str], models: list[Path], board: str, policy: str
) -> Iterator[tuple[str, Callable[[], OptimizedGraph]]]:
    """Cases by name, then the kernels of models."""
    if words or not models:
        for name, build in cases().items():
            if not words or any(word in name for word in words):
                yield name, build
    for model in models:
        planned = model.is_dir() or model.suffix == ".json"
        options = Options(board=board, policy=policy, fuse_kernels=True)
        result = read_result(model) if planned else optimize_file(model, options)
        alone = dict(alone_alike(result))
        for name in (kernel.name for kernel in fused_kernels(result) if kernel.name not in alone):
            print(f"{model.stem}: {name}: left out, another kernel by itself", file=sys.stderr)
        for name, small in alone.items():
            yield f"{model.stem}: {name}", lambda small=small: small


@dataclass(frozen=True)
class _Kernel:
    """What came of one."""

    name: str
    verdicts: list[Verdict]
    reason: str
    """Why there are none."""
    kinds: frozenset[str]

    @property
    def word(self) -> str:
        return "not run" if self.reason else "WRONG" if faults(self.verdicts) else "right"

    def rows(self) -> list[tuple[str, ...]]:
        if self.reason:
            return [(self.name, "", "", "", "", "", self.reason)]
        return [_row(self.name, v) for v in self.verdicts]


class _Runner:
    """One simulator for case after case; a new one after a case that ended it."""

    def __init__(self, board: str, folder: Path) -> None:
        self._device, self._folder = DeviceSpec.preset(board), folder
        self._open = ExitStack()
        self._session: ExecutionSession | None = None

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def run(self, name: str, result: OptimizedGraph) -> _Kernel:
        started = time.perf_counter()
        verdicts, reason = self._judge(result)
        kernel = _Kernel(name, verdicts, reason, frozenset(kinds(result)))
        said = "; ".join([kernel.word, *([reason] if reason else faults(verdicts))])
        print(f"{name}: {said}, {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        return kernel

    def _judge(self, result: OptimizedGraph) -> tuple[list[Verdict], str]:
        """The verdicts, or why there are none."""
        if self._session is None or not self._session.alive:
            self._open.close()
            opened = open_execution(self._device, result.options.l1_small_bytes, "sim")
            self._session = self._open.enter_context(opened)
        try:
            return judge(result, self._session, self._folder), ""
        except ExecutionError as error:
            self._open.close()
            self._session = None
            return [], _OWN_WORDS.sub("", str(error))[-160:]


def _row(name: str, v: Verdict) -> tuple[str, ...]:
    a = v.agreement
    figures = (f"{a.pcc:.6f}", f"{a.relative_error:.1e}", f"{a.ratio:.4f}", f"{v.times_bound:.2f}")
    return (name, v.output, *figures, "right" if v.right else "WRONG")


def _summary(done: Sequence[_Kernel]) -> Iterator[str]:
    """Kernels, kinds and figures of all; the simulator's words by how often it ended with them."""
    words = ("right", "WRONG", "not run")
    by_word = {word: [kernel for kernel in done if kernel.word == word] for word in words}
    yield "kernels: " + ", ".join(f"{len(by_word[word])} {word}" for word in words)
    seen: set[str] = set()
    for word in words:
        found = {kind for kernel in by_word[word] for kind in kernel.kinds} - seen
        seen |= found
        yield f"kinds {word}: {len(found)}" + ("" if word == "right" or not found else ": " + "; ".join(sorted(found)))
    judged = [(kernel.name, v) for kernel in done for v in kernel.verdicts if v.elements]
    if judged:
        yield f"elements judged: {sum(v.elements for _, v in judged):,}"
        yield "PCC lowest: " + _shown(min(judged, key=lambda found: found[1].agreement.pcc))
        yield "ratio furthest from 1: " + _shown(max(judged, key=lambda found: abs(found[1].agreement.ratio - 1)))
        yield "error largest in bounds: " + _shown(max(judged, key=lambda found: found[1].times_bound))
    for reason, count in Counter(kernel.reason for kernel in by_word["not run"]).most_common():
        yield f"{count} ended: {reason}"


def _shown(found: tuple[str, Verdict]) -> str:
    name, v = found
    return ", ".join(f"{column} {cell}" for column, cell in zip(COLUMNS, _row(name, v), strict=True))


def _record(arch: str, version: str, right: set[str], part: bool) -> None:
    """Kinds of this architecture, with those of earlier runs by the same versions if this was a part of the cases."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    by = f"ttnn {location.find('sim').version}, ttsim {version}"
    earlier = known.get(arch, {})
    kept = set(earlier["kinds"]) if part and earlier.get("by") == by else set()
    known[arch] = {"by": by, "kinds": sorted(right | kept)}
    RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
