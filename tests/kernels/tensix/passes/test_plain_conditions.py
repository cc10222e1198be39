"""`where` takes its second branch for a condition that is -0, as the SFPU by itself does not."""

from __future__ import annotations

import numpy as np
import pytest
from one_core import run

from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.types import TILE


def program(*ops: tuple[str, str, list[str]]) -> Op:
    nodes = [{"name": name, "op": op, "args": args} for name, op, args in ops]
    inputs = sorted({a for _, _, args in ops for a in args} - {name for name, _, _ in ops})
    case = {"id": "c", "inputs": inputs, "outputs": ["o"], "ops": nodes, "yield": [ops[-1][0]]}
    return case_program(read_cases({"cases": [case]})[0])


def stages_of(given: Op) -> dict[str, Op]:
    stages: dict[str, Op] = {}
    lower(given, KernelOptions(), stages.__setitem__)
    return stages


def count(given: Op) -> int:
    return sum(op.name == "ttl.nez" for op in walk(stages_of(given)["plain-conditions"]))


def test_a_zero_with_a_sign_is_no_condition_that_holds() -> None:
    stages = stages_of(program(("n", "neg", ["a"]), ("y", "where", ["n", "a", "b"])))
    a = np.zeros((TILE, TILE), np.float32)
    (a[:, 1], b) = (2.0, np.full((TILE, TILE), 3.0, np.float32))
    names = [op.result.name for op in walk(stages["initial"]) if op.name == "ttl.bind_cb"]
    made = run(stages["insert-inits"], dict(zip(names, (a, b), strict=False)), "wormhole_b0")
    np.testing.assert_array_equal(made[names[-1]], np.where(a != 0, a, b))


@pytest.mark.parametrize(
    ("ops", "added"),
    [
        ([("y", "where", ["c", "a", "b"])], 1),
        ([("n", "neg", ["a"]), ("y", "where", ["n", "a", "b"]), ("z", "where", ["n", "b", "y"])], 1),
        ([("g", "gtz", ["a"]), ("y", "where", ["g", "a", "b"])], 0),
    ],
)
def test_a_sign_is_taken_once_where_there_may_be_one(ops: list[tuple[str, str, list[str]]], added: int) -> None:
    assert count(program(*ops)) == added
