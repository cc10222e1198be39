"""Every kind of corrupted plan is seen by what the list says; random mutations of plans end in an answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from fuzzing.harness import judge, make_case
from fuzzing.plan_corruptions import KINDS, SAMPLES, PlanTarget, Seen, plan
from fuzzing.plans.kinds import Corruption

from optimizer.answers.checking import check_record
from optimizer.errors import InputError
from optimizer.export.reader import read_result
from tests.samples import sampled

SEED = 1
FUZZED = 60
"""Seeds of mutations that are run here; `make fuzz` runs more."""


def accepted(document: dict[str, Any], folder: Path, model: bytes | None = None) -> bool:
    path = folder / "graph.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        record = check_record(read_result(path), model=model)
    except InputError:
        return False
    return bool(record["ok"])


def corrupted(kind: Corruption) -> dict[str, dict[str, Any]]:
    """Sample -> its plan with this corruption, for those that have something of the kind."""
    found = {name: kind.corrupted(plan(name), random.Random(SEED)) for name in SAMPLES}
    return {name: document for name, document in found.items() if document is not None}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.slow
def test_good_plans_are_accepted(sample: str, tmp_path: Path) -> None:
    assert accepted(plan(sample), tmp_path)
    assert accepted(plan(sample), tmp_path, SAMPLES[sample].model())


@pytest.mark.parametrize("name", sampled(KINDS, kept=list(KINDS)[::4]))
def test_a_corruption_is_seen_as_listed(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    documents = corrupted(kind)
    assert documents, "no sample has anything of this kind"

    alone = {sample: accepted(document, tmp_path) for sample, document in documents.items()}

    if kind.seen is Seen.CHECK:
        assert not any(alone.values()), alone
        return
    assert any(alone.values()), "the check sees this: the list is behind"
    told = {s: accepted(d, tmp_path, SAMPLES[s].model()) for s, d in documents.items() if alone[s]}
    assert any(told.values()) is (kind.seen is Seen.NEVER), told


def test_the_list_is_long_enough() -> None:
    assert len(KINDS) >= 83
    assert {kind.seen for kind in KINDS.values()} == set(Seen)
    assert all(bool(kind.why) is (kind.seen is not Seen.CHECK) for kind in KINDS.values())


def test_without_its_digest_put_right_no_change_of_the_graph_is_accepted(tmp_path: Path) -> None:
    document = plan("block")
    document["values"]["mask"]["data"][0] += 1
    assert not accepted(document, tmp_path)


@pytest.mark.parametrize("seed", sampled(range(FUZZED), kept=range(FUZZED // 4)))
def test_mutated_plans_end_in_an_answer(seed: int) -> None:
    target = PlanTarget()
    case = make_case(target, seed)
    assert judge(target, case.payload)[1] == "", case.name
