"""Records against the C++ that is written: what is told of a kernel is what its text does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cpp_calls import calls
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lowering import records

from optimizer.kernels.tensix.dst.plan import plan_body
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.cases import TileCase, case_program, compile_case, read_cases
from optimizer.kernels.tensix.witness.whole_tensors import witness
from tests.samples import examples

DOCUMENT = json.loads(Path("fixtures/kernels/tile_cases.json").read_text(encoding="utf-8"))
CASES = [pytest.param(case, id=case.id) for case in read_cases(DOCUMENT)]


def body(name: str, inputs: str, results: str, *ops: str, block: tuple[int, int] = (2, 2)) -> TileCase:
    """A case with ops as `name = op a b`."""
    nodes: list[dict[str, Any]] = []
    for op in ops:
        made, _, (kind, *args) = (part.strip() if n < 2 else part.split() for n, part in enumerate(op.partition("=")))
        nodes.append({"name": made, "op": kind, "args": args})
    record = {"id": name, "inputs": inputs.split(), "outputs": [f"o{k}" for k, _ in enumerate(results.split())]}
    return read_cases({"cases": [{**record, "ops": nodes, "yield": results.split(), "block": list(block)}]})[0]


SIBLINGS = [
    (body("two of one input", "x", "a b", "a = exp x", "b = abs x"), 1),
    (body("four of two inputs", "x y", "a b c d", "a = add x y", "b = sub x y", "c = mul x y", "d = max x y"), 2),
    (body("equal ones", "x", "a b", "a = exp x", "b = exp x", block=(4, 2)), 1),
    (body("four of their own", "w x y z", "a b c d", "a = exp w", "b = exp x", "c = abs y", "d = sqrt z"), 2),
    (body("four that fill DST alone", "w x", "a b", "a = exp w", "b = exp x", block=(4, 4)), 2),
]


@pytest.mark.parametrize("allocator", ["default", "seed"])
@pytest.mark.parametrize("case", CASES)
def test_sections_told_are_the_acquires_that_run(case: TileCase, allocator: Any) -> None:
    made = compile_case(case, KernelOptions(allocator=allocator))
    ran = calls(next(k.text for k in made.kernels if k.kind == "compute"))
    assert made.record["sections"] == ran["tile_regs_acquire"] == ran["tile_regs_release"]


@pytest.mark.parametrize(("case", "computes"), SIBLINGS, ids=[case.id for case, _ in SIBLINGS])
def test_siblings_share_sections_where_that_costs_no_more(case: TileCase, computes: int) -> None:
    made = compile_case(case, KernelOptions())
    ran = calls(next(k.text for k in made.kernels if k.kind == "compute"))
    assert made.record["computes"] == computes
    assert made.record["sections"] == ran["tile_regs_acquire"]
    assert witness(case_program(case), KernelOptions(), execute_cpp=False).interpreter == 0


@settings(max_examples=examples(40))
@given(records(), st.sampled_from(["default", "seed"]))
def test_random_records_are_what_runs(record: dict[str, Any], allocator: Any) -> None:
    """Sections, inits and tiles packed; a refusal tells nothing."""
    case = read_cases({"cases": [record]})[0]
    made = compile_case(case, KernelOptions(allocator=allocator))
    if made.record["error"] is not None:
        return
    ran = calls(next(k.text for k in made.kernels if k.kind == "compute"))
    assert made.record["sections"] == ran["tile_regs_acquire"]
    assert made.record["inits"] == sum(n for name, n in ran.items() if name.endswith("_init"))


@settings(max_examples=examples(40))
@given(records())
def test_plans_price_what_is_emitted(record: dict[str, Any]) -> None:
    """Where a body is emitted as one compute: the plan's sections and inits, which its cost is made of.

    Conditions of `where` may get an op that the case does not have (pass `plain-conditions`).
    """
    case = read_cases({"cases": [record]})[0]
    made = compile_case(case, KernelOptions()).record
    plan = plan_body(case.dag, case.block[0] * case.block[1], case.capacity, case.l1_bytes)
    if made["computes"] == 1 and all(op["op"] != "where" for op in record["ops"]):
        assert (made["sections"], made["inits"]) == (plan.sections, plan.inits)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_the_executed_core_counts_the_same() -> None:
    case = SIBLINGS[3][0]
    run = witness(case_program(case), KernelOptions()).execution
    record = compile_case(case, KernelOptions()).record
    assert run is not None
    assert (run.sections, run.inits, run.max_dst) == (record["sections"], record["inits"], record["max_dst"])
