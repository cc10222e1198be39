"""The ONNX fuzz target: its cases are the same on every run, and those that once went wrong are refused or laid out."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from fuzzing.harness import judge, make_case, run_cases
from fuzzing.onnx_models import OnnxTarget
from fuzzing.onnx_mutations import MUTATORS
from fuzzing.onnx_seeds import seeds

FOUND = Path(__file__).resolve().parents[2] / "fixtures" / "fuzz" / "onnx"


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.onnx")), ids=lambda path: path.stem)
def test_found_case(path: Path) -> None:
    _, finding = judge(OnnxTarget(), path.read_bytes())

    assert not finding


@pytest.mark.filterwarnings("ignore:This process")  # multi-threaded libraries are loaded when the workers are forked
def test_short_run() -> None:
    verdicts = list(run_cases(OnnxTarget(), range(60)))

    assert [f"seed {v.seed} ({v.name}): {v.finding}" for v in verdicts if v.finding] == []
    assert len({v.outcome for v in verdicts}) >= 4


def test_a_case_is_made_from_its_seed_alone() -> None:
    assert [make_case(OnnxTarget(), s) for s in range(20)] == [make_case(OnnxTarget(), s) for s in range(20)]


@pytest.mark.parametrize("mutator", [m for m, _ in MUTATORS], ids=lambda m: m.__name__)
def test_every_mutator_changes_some_model(mutator: object) -> None:
    changed = 0
    for number, (_, seed) in enumerate(sorted(seeds().items())[:40]):
        model = onnx.ModelProto()
        model.CopyFrom(seed)
        mutator(model, random.Random(number))  # type: ignore[operator]
        changed += model.SerializeToString(deterministic=True) != seed.SerializeToString(deterministic=True)

    assert changed
