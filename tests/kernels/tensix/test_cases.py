"""The public tile cases: the design document's tables, and what the default allocator makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import FormatError, UnknownNameError
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.cases import TileCase, case_program, compile_case, read_cases
from optimizer.kernels.tensix.witness.whole_tensors import witness

DOCUMENT = json.loads(Path("fixtures/kernels/tile_cases.json").read_text(encoding="utf-8"))
CASES = [pytest.param(c, r["expect"], id=c.id) for c, r in zip(read_cases(DOCUMENT), DOCUMENT["cases"], strict=True)]


@pytest.mark.parametrize(("case", "expect"), CASES)
def test_the_documents_allocator_gives_its_tables(case: TileCase, expect: dict[str, Any]) -> None:
    """In-place results always merged with their operand, as its Example 8 has it against its own rule."""
    record = compile_case(case, KernelOptions(allocator="seed")).record
    literal = expect["variants"]["seed_literal_merge_all"]
    assert {k: record[k] for k in literal} == literal
    if "dst" in expect["seed"]:
        assert record["dst"] == expect["seed"]["dst"]


@pytest.mark.parametrize(("case", "expect"), CASES)
def test_the_default_allocator_is_as_good_as_the_best_variant(case: TileCase, expect: dict[str, Any]) -> None:
    record = compile_case(case, KernelOptions()).record
    variants = expect["variants"].values()
    assert record["error"] is None
    assert record["footprint"] <= min(v["footprint"] for v in variants)
    assert record["copies"] <= min(v["copies"] for v in variants)
    assert record["unroll"] >= max(v["unroll"] for v in variants)
    assert record["max_dst"] <= case.capacity


@pytest.mark.parametrize("allocator", ["default", "seed"])
@pytest.mark.parametrize(("case", "expect"), CASES)
def test_slots_compute_what_the_case_says(case: TileCase, expect: dict[str, Any], allocator: Any) -> None:
    assert witness(case_program(case), KernelOptions(allocator=allocator), execute_cpp=False).interpreter == 0


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("number", [5, 11])
def test_the_emitted_cpp_computes_what_the_case_says(number: int) -> None:
    found = witness(case_program(read_cases(DOCUMENT)[number]), KernelOptions())
    assert found.executed == 0


TWELVE = [f"i{k}" for k in range(12)]
BODIES = {
    "x sigmoid(x)": (["x"], [("s", "sigmoid", "x"), ("r", "mul", "x s")], (4, 4), "bf16", 8),
    "7x1 maximum": (["a", "b"], [("r", "max", "a b")], (7, 1), "f32", 4),
    "3x3 exp": (["a"], [("r", "exp", "a")], (3, 3), "bf16", 8),
    "chain of 12": (
        TWELVE,
        [(f"v{k}" if k < 11 else "r", "max", f"{f'v{k - 1}' if k > 1 else 'i0'} i{k}") for k in range(1, 12)],
        (2, 2),
        "f32",
        4,
    ),
    "12 values at a time": (
        ["i0"],
        [
            *((f"e{k}", "exp", f"e{k - 1}" if k else "i0") for k in range(12)),
            *((f"m{k}" if k else "r", "max", f"{f'm{k + 1}' if k < 10 else 'e11'} e{k}") for k in range(10, -1, -1)),
        ],
        (2, 2),
        "f32",
        4,
    ),
}


@pytest.mark.parametrize(
    ("name", "unroll", "sections"),
    [
        ("x sigmoid(x)", 8, 2),
        ("7x1 maximum", 2, 4),
        ("3x3 exp", 8, 2),
        ("chain of 12", 2, 2),
        ("12 values at a time", 1, 12),
    ],
)
def test_sections_of_well_known_bodies(name: str, unroll: int, sections: int) -> None:
    """At most; compilers of this field take more or refuse them."""
    inputs, ops, block, dtype, capacity = BODIES[name]
    nodes = [{"name": v, "op": op, "args": args.split()} for v, op, args in ops]
    changes = {"inputs": inputs, "ops": nodes, "yield": ["r"], "block": list(block)}
    case = read_cases(_case(**changes, dtype=dtype, capacity=capacity))[0]
    record = compile_case(case, KernelOptions()).record
    assert record["unroll"] >= unroll
    assert record["sections"] <= sections
    assert witness(case_program(case), KernelOptions(), execute_cpp=False).interpreter == 0


def _case(**changes: Any) -> dict[str, Any]:
    record = {
        "id": "x",
        "inputs": ["a", "b"],
        "outputs": ["o"],
        "ops": [{"name": "v", "op": "add", "args": ["a", "b"]}],
        "yield": ["v"],
        "block": [2, 2],
        "dtype": "bf16",
        "capacity": 8,
    }
    return {"cases": [{**record, **changes}]}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"block": [0, 2]}, FormatError, r"cases\[0\].block\[0\]: a number from 1 to"),
        ({"block": [2]}, FormatError, "rows and columns"),
        ({"capacity": 17}, FormatError, "a number from 1 to 16"),
        ({"capacity": 9, "dtype": "f32"}, FormatError, "a number from 1 to 8"),
        ({"l1_bytes": -1}, FormatError, r"cases\[0\].l1_bytes: a number from 0"),
        ({"l1_byte": 1}, UnknownNameError, r"unknown field 'l1_byte', did you mean 'l1_bytes'"),
        ({"dtype": "f16"}, FormatError, '"bf16" or "f32"'),
        ({"yield": ["w"]}, UnknownNameError, "unknown value in 'yield' 'w'"),
        ({"ops": [{"name": "v", "op": "ad", "args": ["a", "b"]}]}, UnknownNameError, "unknown tile op 'ad'"),
        ({"ops": [{"name": "v", "op": "add", "args": ["a"]}]}, FormatError, "takes 2 operands, got 1"),
        ({"ops": [{"name": "a", "op": "add", "args": ["a", "b"]}]}, FormatError, "'a' is defined twice"),
        ({"ops": [{"name": "v", "op": "clamp", "args": ["a"]}]}, FormatError, "needs 'attrs' with low, high"),
        ({"outputs": ["o", "p"]}, FormatError, "2 outputs, but 1 values are yielded"),
    ],
)
def test_bad_cases_are_refused_by_name(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_cases(_case(**changes))


def test_a_document_may_be_one_case() -> None:
    record = {"inputs": ["x"], "outputs": ["y"], "ops": [{"name": "e", "op": "exp", "args": ["x"]}], "yield": ["e"]}
    (case,) = read_cases(record)
    assert (case.id, case.block, case.capacity) == ("kernel", (1, 1), 8)
    assert read_cases({"cases": [{**record, "id": "kernel"}]}) == (case,)
    with pytest.raises(FormatError, match=r"^ops\[0\]\.args: 'exp' takes 1 operands, got 2"):
        read_cases({**record, "ops": [{"name": "e", "op": "exp", "args": ["x", "x"]}]})


def test_an_op_that_needs_more_slots_than_there_are_is_refused_by_name() -> None:
    ops = [{"name": "v", "op": "where", "args": ["a", "b", "c"]}]
    case = read_cases(_case(inputs=["a", "b", "c"], ops=ops, capacity=2))[0]
    error = compile_case(case, KernelOptions()).record["error"]
    assert "where(%" in error
    assert "alone needs 3 slots of DST, more than the 2 there are" in error
