"""What layouts, kernel knobs, fidelities and element types are worth, one on top of the other.

    python benchmarks/ablation.py [MODEL...] [--board n150] [--least-pcc 0.99] [-o FILE]

Prints per model the predicted time of the best plan with layouts alone (every knob of `benchmarks/knobs.py` left out),
with all knobs, and within the error budget with fidelities alone, with element types alone and with both. Weights and
inputs are random, seed 0, where the models' files hold none. `-o` appends one JSON line per model; what it holds is not
solved again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

from knobs import KNOBS, without

from optimizer import Options
from optimizer.cli.tables import table
from optimizer.pipeline import optimize_file
from optimizer.sharding.whole_graph import precision_options

ROOT = Path(__file__).resolve().parents[1]
_OWN_COMPUTES = precision_options.PrecisionOptions._computes


@contextmanager
def no_knobs() -> Iterator[None]:
    """Layouts alone are offered."""
    with without(lambda config: any(uses(config) for uses in KNOBS.values())):
        yield


@contextmanager
def no_types() -> Iterator[None]:
    """Every tensor keeps its element type."""
    with ExitStack() as stack:
        for name in ("STORED", "WEIGHTS"):
            stack.enter_context(mock.patch.object(precision_options, name, (None,)))
        yield


@contextmanager
def no_fidelities() -> Iterator[None]:
    """Every op keeps the compute config of its rule."""

    def computes(self: Any, *args: Any) -> Any:
        return islice(_OWN_COMPUTES(self, *args), 1)

    with mock.patch.object(precision_options.PrecisionOptions, "_computes", computes):
        yield


@contextmanager
def everything() -> Iterator[None]:
    """All options."""
    yield


STEPS: Mapping[str, tuple[Callable[[], Any], bool]] = {
    "layouts": (no_knobs, False),
    "+ knobs": (everything, False),
    "+ fidelity": (no_types, True),
    "+ types": (no_fidelities, True),
    "+ both": (everything, True),
}
"""Name -> what is left out, and whether there is an error budget."""


def measured(model: Path, board: str, least_pcc: float) -> dict[str, Any]:
    times = {}
    for name, (left_out, budget) in STEPS.items():
        with left_out():
            options = Options(board=board, least_pcc=least_pcc if budget else None)
            times[name] = optimize_file(model, options).summary.predicted_time_ns
    return {"model": model.stem, "board": board, "least_pcc": least_pcc, "times_ns": times}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="default: fixtures/onnx")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--least-pcc", type=float, default=0.99)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="JSON lines; what is there is kept")
    options = parser.parse_args()
    known = {}
    if options.output is not None and options.output.exists():
        records = map(json.loads, options.output.read_text("utf-8").splitlines())
        known = {(r["model"], r["board"], r["least_pcc"]): r for r in records}
    rows = []
    for model in options.models or sorted((ROOT / "fixtures" / "onnx").glob("*.onnx")):
        record = known.get((model.stem, options.board, options.least_pcc))
        if record is None:
            record = measured(model, options.board, options.least_pcc)
            if options.output is not None:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
        times = [record["times_ns"][name] for name in STEPS]
        rows.append([record["model"], *(f"{ns / 1000:,.1f}" for ns in times), f"{times[0] / times[-1]:.2f}"])
        print(rows[-1], file=sys.stderr, flush=True)
    print(table(["model", *(f"{name} us" for name in STEPS), "times as fast"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
