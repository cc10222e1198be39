"""Requests that once had another answer than a documented one, and a few random ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzzing.harness import judge, make_case
from fuzzing.http_server import HttpTarget

FOUND = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "fuzz" / "http").iterdir())


@pytest.fixture(scope="module")
def target() -> Iterator[HttpTarget]:
    made = HttpTarget()
    yield made
    made.close()


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
@pytest.mark.slow
def test_found_requests_have_a_documented_answer(target: HttpTarget, path: Path) -> None:
    assert target.run(path.read_bytes())


@pytest.mark.slow
def test_random_requests_have_a_documented_answer(target: HttpTarget) -> None:
    kinds = (
        "odd_header",
        "odd_target",
        "odd_query",
        "odd_options",
        "odd_document",
        "odd_form",
        "bad_chunks",
        "several",
    )
    cases = [case for seed in range(60) if (case := make_case(target, seed)).name in kinds]
    assert len({case.name for case in cases}) >= 6
    assert [finding for case in cases if (finding := judge(target, case.payload)[1])] == []


@pytest.mark.slow
def test_cases_are_made_from_their_seed(target: HttpTarget) -> None:
    assert [make_case(target, seed) for seed in range(50)] == [make_case(target, seed) for seed in range(50)]
