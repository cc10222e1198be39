"""Fused kernels with values on Tenstorrent's functional simulator, against the ops one by one in float64.

    TTOPT_SIMULATOR=.../libttsim.so python benchmarks/kernel_values.py [CASE...] [--models MODEL...] [--record VERSION]

Runs every case of `tests/export/simulated_kernels.py` whose name contains one of the words given (all by default), then
every kernel of the models as planned, each by itself, on the board whose chip the simulator is. A case that the
simulator cannot run ends with its reason, the next one gets a new process. Prints a line per output and range of
operands; `times bound` is the largest error in units of the error bound. `--record` writes the kinds of kernels all of
whose outputs are right to `optimizer/export/kernels/judged_kinds.json`, with the simulator's version as given (the
library does not tell); a run of some cases adds to what the same versions judged before. Exits 1 if an output is wrong;
what the simulator lacks is no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from optimizer.cli.tables import table
from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.opmodel.ttmetal import environment, location, simulator
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.result import OptimizedGraph

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "importers"), str(ROOT / "tests" / "export")]
from simulated_kernels import Verdict, alone_alike, cases, judge, kinds  # noqa: E402 - the cases are the tests'

BOARDS = {"wormhole_b0": "n150", "blackhole": "p150"}
RECORD = ROOT / "optimizer" / "export" / "kernels" / "judged_kinds.json"
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
    rows: list[tuple[str, ...]] = []
    right: set[str] = set()
    with _Runner(board, environment.cache_folder() / "kernel-values") as runner:
        for name, build in _chosen(args.cases, args.models, board, args.policy):
            started = time.perf_counter()
            result = build()
            verdicts, reason = runner.run(result)
            good = not reason and all(v.right for v in verdicts)
            if good:
                right |= kinds(result)
            rows += [_row(name, v) for v in verdicts]
            if reason:
                rows.append((name, "", "", "", "", "", reason))
            word = "right" if good else reason or "WRONG"
            print(f"{name}: {word}, {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    print(table(COLUMNS, rows))
    if args.record:
        _record(arch, args.record, right, part=bool(args.cases or args.models))
    return 1 if any(row[-1] == "WRONG" for row in rows) else 0


def _chosen(
    words: list[str], models: list[Path], board: str, policy: str
) -> Iterator[tuple[str, Callable[[], OptimizedGraph]]]:
    """Cases by name, then the kernels of models."""
    if words or not models:
        for name, build in cases().items():
            if not words or any(word in name for word in words):
                yield name, build
    for model in models:
        result = optimize_file(model, Options(board=board, policy=policy, fuse_kernels=True))
        for name, small in alone_alike(result):
            yield f"{model.stem}: {name}", lambda small=small: small


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

    def run(self, result: OptimizedGraph) -> tuple[list[Verdict], str]:
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
            return [], str(error)[-160:]


def _row(name: str, v: Verdict) -> tuple[str, ...]:
    a = v.agreement
    figures = (f"{a.pcc:.6f}", f"{a.relative_error:.1e}", f"{a.ratio:.4f}", f"{v.times_bound:.2f}")
    return (name, v.output, *figures, "right" if v.right else "WRONG")


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
