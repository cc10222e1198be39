"""Bodies with more values than DST slots: which way out is taken, and that what comes out still computes the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from optimizer.errors import InfeasibleError
from optimizer.kernels.tensix.dst.plan import BodyPlan, Relief, plan_body
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import TileCase, case_program, compile_case, read_cases
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.witness.whole_tensors import witness

F32_TILE = 4096


def case(
    inputs: str, results: str, capacity: int, *ops: str, block: tuple[int, int] = (2, 2), dtype: str = "f32"
) -> TileCase:
    """Ops as `name = op a b`."""
    nodes: list[dict[str, Any]] = []
    for op in ops:
        name, _, (kind, *args) = (part.strip() if n < 2 else part.split() for n, part in enumerate(op.partition("=")))
        nodes.append({"name": name, "op": kind, "args": args})
    record = {"id": "body", "inputs": inputs.split(), "outputs": [f"o_{r}" for r in results.split()], "ops": nodes}
    record |= {"yield": results.split(), "block": list(block), "dtype": dtype, "capacity": capacity}
    return read_cases({"cases": [record]})[0]


def planned(body: TileCase, l1_tiles: int | None = None) -> BodyPlan:
    limit = None if l1_tiles is None else l1_tiles * F32_TILE
    return plan_body(body.dag, body.block[0] * body.block[1], body.capacity, limit)


TREE = case(
    *("a b c d", "r", 3),
    *("p = max a b", "q = max c d", "s = max a c", "t = max b d", "u = max p q", "v = max s t", "r = max u v"),
    block=(5, 3),
)
"""Needs four slots in every order: two results while a third is made of two loads."""
BODIES = {
    Relief.NONE: case("a b", "r", 2, "p = max a b", "r = abs p"),
    Relief.REORDER: case("a", "r q", 2, "p = min a a", "q = abs p", "r = min a p"),
    Relief.RECOMPUTE: case(*("a b", "r", 2, "p = add a b", "q = max p a", "s = min a q", "r = max p s"), dtype="bf16"),
    Relief.SPLIT: TREE,
}


@pytest.mark.parametrize("relief", BODIES)
def test_the_way_out(relief: Relief) -> None:
    body = BODIES[relief]
    assert planned(body).relief is relief
    assert compile_case(body, KernelOptions()).record["relief"] == relief.value
    assert witness(case_program(body), KernelOptions(), execute_cpp=False).interpreter == 0


def test_what_is_recomputed_runs_once_per_reader() -> None:
    (stage,) = planned(BODIES[Relief.RECOMPUTE]).stages
    assert sum(node.op == "add" for node in stage.dag.nodes) == 2


def test_a_costly_value_is_handed_on_instead_of_computed_again() -> None:
    """Thirty ops on inputs alone would run twice each; one round trip is cheaper."""
    chain = [f"p{k} = exp {f'p{k - 1}' if k else 'a'}" for k in range(30)]
    body = case("a", "r", 2, *chain, "q = max p29 a", "s = min a q", "r = max p29 s")
    assert planned(body).relief is Relief.SPLIT


def test_a_split_goes_block_by_block() -> None:
    plan = planned(TREE)
    assert not plan.interleaved
    assert plan.l1_tiles % plan.tiles == 0
    assert plan.sections == plan.tiles * len(plan.stages) // plan.unroll


def test_with_less_l1_the_stages_take_turns() -> None:
    """A split would hold whole blocks; spilled tiles take a section's each."""
    split = planned(TREE)
    plan = planned(TREE, split.l1_tiles - 1)
    assert plan.relief is Relief.SPILL
    assert plan.l1_tiles < split.l1_tiles
    assert plan.cost > split.cost


def _spilling() -> tuple[TileCase, KernelOptions]:
    own = sum(2 * TREE.block[0] * TREE.block[1] * F32_TILE for _ in (*TREE.inputs, *TREE.outputs))
    return TREE, KernelOptions(l1_bytes=own + (planned(TREE).l1_tiles - 1) * F32_TILE)


def test_spilled_tiles_are_restored_in_the_same_section() -> None:
    body, options = _spilling()
    stages: dict[str, Any] = {}
    lower(case_program(body), options, stages.__setitem__)
    names = [op.name for op in walk(stages["assign-dst"])]
    assert names.count("ttl.compute") == 1
    assert "ttl.spill_tile_to_l1" in names
    assert "ttl.restore_tile_from_l1" in names
    for program in stages.values():
        assert text_of(parse(text_of(program))) == text_of(program)
    assert witness(case_program(body), options, execute_cpp=False).interpreter == 0


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("block", [(5, 3), (7, 1)])
def test_spills_as_cpp(block: tuple[int, int]) -> None:
    body, _ = _spilling()
    body = replace(body, block=block)
    own = 2 * 5 * block[0] * block[1] * F32_TILE
    options = KernelOptions(l1_bytes=own + (planned(body).l1_tiles - 1) * F32_TILE)
    found = witness(case_program(body), options)
    assert (found.interpreter, found.executed) == (0, 0)


def test_without_l1_for_any_way_out_the_values_and_the_limits_are_named() -> None:
    with pytest.raises(InfeasibleError, match=r"more than the 3 slots of DST, and handing on .* bytes of L1") as error:
        planned(TREE, 0)
    assert error.value.limit == 0


def test_what_is_only_expected_to_be_free_is_no_limit() -> None:
    plan = plan_body(TREE.dag, 15, TREE.capacity, l1_bytes=0, l1_is_limit=False)
    assert plan.relief is Relief.SPILL


def test_the_error_names_the_block_that_is_computed() -> None:
    own = 2 * 5 * 15 * F32_TILE
    with pytest.raises(InfeasibleError, match=r"^%r: .*%\w+"):
        lower(case_program(TREE), KernelOptions(l1_bytes=own))


def test_an_op_that_fits_in_no_way_is_named_with_its_operands() -> None:
    body = case("a b c", "r", 2, "p = where a b c", "r = abs p")
    with pytest.raises(
        InfeasibleError, match=r"where\(%t_0, %b, %c\) alone needs 3 slots of DST, more than the 2"
    ) as error:
        lower(case_program(body), KernelOptions())
    assert error.value.limit == 2
