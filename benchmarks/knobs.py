"""What each kernel knob is worth: every model solved with all of them, and again without each that the plan uses.

    python benchmarks/knobs.py [MODEL...] [--board n150] [-o FILE]

Prints per model the predicted time with all knobs, and per knob how many ops of the plan use it and by how much the
plan of the policy `global` is slower without it. A knob that no op of a plan uses could not make it faster. `-o`
appends one JSON line per model; what it holds is not solved again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from optimizer import Options, load, optimize
from optimizer.cli.tables import table
from optimizer.ir.graph import Op
from optimizer.layouts.legal_op_configs import LegalConfigs, LegalOpConfigAnalysis, OpCandidate
from optimizer.layouts.op_config import (
    Conv2dConfig,
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    OpConfig,
    SDPAProgramConfig,
)
from optimizer.sharding.whole_graph.global_options import OptionTable
from optimizer.sharding.whole_graph.option_fronts import Layouts, OpOption

ROOT = Path(__file__).resolve().parents[1]
WIDEST_PLAIN_BLOCK = 8
_MATMULS = (MatmulMultiCoreReuseMultiCast1DProgramConfig, MatmulMultiCoreReuseMultiCastProgramConfig)

KNOBS: Mapping[str, Callable[[OpConfig], bool]] = {
    "attention chunks": lambda c: isinstance(c, SDPAProgramConfig),
    "conv: activations doubled": lambda c: isinstance(c, Conv2dConfig) and c.enable_act_double_buffer,
    "conv: weights doubled": lambda c: isinstance(c, Conv2dConfig) and c.enable_weights_double_buffer,
    "matmul: in0 blocks above 8": lambda c: isinstance(c, _MATMULS) and c.in0_block_w > WIDEST_PLAIN_BLOCK,
    "matmul: output blocks": lambda c: (
        isinstance(c, _MATMULS) and (c.out_block_h is not None or c.out_block_w is not None)
    ),
    "matmul: weights over the DRAM banks": lambda c: isinstance(
        c, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig
    ),
}
"""Name -> whether a config uses it."""


@contextmanager
def without(uses: Callable[[OpConfig], bool]) -> Iterator[None]:
    """No op is offered a config that uses the knob."""
    whole = LegalOpConfigAnalysis.apply

    def kept(candidates: tuple[OpCandidate, ...]) -> tuple[OpCandidate, ...]:
        return tuple(c for c in candidates if c.config is None or not uses(c.config))

    def apply(self: LegalOpConfigAnalysis, *args: Any, **named: Any) -> LegalConfigs:
        legal = whole(self, *args, **named)
        fields = ("sharded", "programmed", "tuned")
        return replace(legal, **{name: kept(getattr(legal, name)) for name in fields})

    asked = OptionTable._ask

    def ask(self: OptionTable, op: Op, operands: Layouts, candidate: OpCandidate) -> OpOption | None:
        refused = candidate.config is not None and uses(candidate.config)
        return None if refused else asked(self, op, operands, candidate)

    with mock.patch.object(LegalOpConfigAnalysis, "apply", apply), mock.patch.object(OptionTable, "_ask", ask):
        yield


def solved(model: Path, board: str) -> tuple[int, list[OpConfig]]:
    """Predicted time in ns, and the configs of the plan's ops."""
    result = optimize(load(str(model)), board, Options())
    return result.summary.predicted_time_ns, [r.config for r in result.records.values() if r.config is not None]


def measured(model: Path, board: str) -> dict[str, Any]:
    best, configs = solved(model, board)
    knobs = {}
    for name, uses in KNOBS.items():
        count = sum(map(uses, configs))
        if count:
            with without(uses):
                knobs[name] = {"ops": count, "slower": solved(model, board)[0] / best - 1}
    return {"model": model.stem, "board": board, "time_ns": best, "knobs": knobs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="default: fixtures/onnx")
    parser.add_argument("--board", default="n150")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="JSON lines; what is there is kept")
    options = parser.parse_args()
    models = options.models or sorted((ROOT / "fixtures" / "onnx").glob("*.onnx"))
    known = {}
    if options.output is not None and options.output.exists():
        records = map(json.loads, options.output.read_text("utf-8").splitlines())
        known = {(r["model"], r["board"]): r for r in records}
    rows = []
    for model in models:
        record = known.get((model.stem, options.board))
        if record is None:
            record = measured(model, options.board)
            if options.output is not None:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
        rows.append([record["model"], f"{record['time_ns'] / 1000:,.1f}", *(_shown(record, name) for name in KNOBS)])
        print(rows[-1], file=sys.stderr, flush=True)
    print(table(["model", "us", *KNOBS], rows))
    return 0


def _shown(record: Mapping[str, Any], name: str) -> str:
    found = record["knobs"].get(name)
    return "-" if found is None else f"{100 * found['slower']:.1f} % ({found['ops']} ops)"


if __name__ == "__main__":
    sys.exit(main())
