"""JSON graphs that once ended in our defect, and a few random ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing.harness import judge, make_case, run_cases
from fuzzing.json_graphs import JsonTarget

FOUND = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "fuzz" / "json").iterdir())
REFUSED = {
    "activation_that_is_no_name": "bad-graph",
    "another_element_type_than_the_op_gives": "bad-dtype",
    "comparison_with_nothing": "bad-shape",
    "constant_without_elements": "bad-graph",
    "average_pool_with_dilation": "unsupported-op",
    "surrogate_in_an_option": "bad-format",
    "three_element_types": "infeasible",
    "weights_of_integers": "bad-dtype",
    "gather_along_no_dim": "bad-shape",
    "running_sum_along_no_dim": "bad-shape",
    "elements_beyond_their_type": "bad-dtype",
}


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_found_graphs_are_laid_out_or_refused(path: Path) -> None:
    outcome, finding = judge(JsonTarget(), path.read_bytes())

    assert finding == ""
    assert outcome == f"refused: {REFUSED[path.stem]}" if path.stem in REFUSED else outcome.startswith("ok")


@pytest.mark.slow
def test_a_short_run_finds_nothing() -> None:
    verdicts = list(run_cases(JsonTarget(), range(150)))

    assert [(v.seed, v.name, v.finding) for v in verdicts if v.finding] == []
    assert sum(v.outcome.startswith("ok") for v in verdicts) > 25


def test_cases_are_made_from_their_seed() -> None:
    target = JsonTarget()

    assert [make_case(target, seed) for seed in range(50)] == [make_case(target, seed) for seed in range(50)]
