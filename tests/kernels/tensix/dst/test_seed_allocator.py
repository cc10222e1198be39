"""`--allocator seed` computes what the body says, whoever reads a value that an op overwrites."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.cases import case_program, compile_case, read_cases
from optimizer.kernels.tensix.witness.whole_tensors import Witnessed, witness
from tests.samples import examples

SEED = KernelOptions(allocator="seed")
ARITY = {"neg": 1, "exp": 1, "abs": 1, "add": 2, "mul": 2, "max": 2, "where": 3}


def record(results: str, *ops: str, inputs: str = "a b") -> dict[str, Any]:
    """Ops as `name = op a b`."""
    nodes = []
    for op in ops:
        name, _, (kind, *args) = (part.strip() if n < 2 else part.split() for n, part in enumerate(op.partition("=")))
        nodes.append({"name": name, "op": kind, "args": args})
    outputs = [f"o{k}" for k, _ in enumerate(results.split())]
    return {"inputs": inputs.split(), "outputs": outputs, "ops": nodes, "yield": results.split(), "block": [2, 2]}


def ran(body: dict[str, Any], execute_cpp: bool = False) -> Witnessed:
    return witness(case_program(read_cases(body)[0]), SEED, execute_cpp=execute_cpp)


BODIES = {
    "an argument that is overwritten and read": record("m", "n = neg a", "m = mul n a"),
    "an argument that is read and overwritten": record("m", "s = add a b", "n = neg a", "m = mul n s"),
    "an argument that is overwritten twice": record("s", "n = neg a", "e = exp a", "s = add n e"),
    "a result that is overwritten": record("x n", "x = mul a b", "n = neg x"),
    "a result that is overwritten twice": record("x e", "x = mul a b", "n = neg x", "e = exp n"),
    "an argument is a result": record("a n", "n = neg a"),
    "an argument is the only result": record("a"),
    "one result twice": record("n n", "n = neg a"),
    "an argument copied": record("c n", "c = copy a", "n = neg c"),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_is_read_later_is_not_overwritten(name: str) -> None:
    assert ran(BODIES[name]).interpreter == 0


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_the_emitted_cpp_keeps_the_argument_too() -> None:
    found = ran(BODIES["an argument that is overwritten and read"], execute_cpp=True)
    assert (found.interpreter, found.executed) == (0, 0)


def test_only_the_last_reader_overwrites_the_argument_itself() -> None:
    (case,) = read_cases(BODIES["an argument that is overwritten twice"])
    slots = compile_case(case, SEED).record["dst"]
    assert slots["e"] == slots["a"]
    assert slots["n"] == slots["a_copy_0"] != slots["a"]


def error_of(body: dict[str, Any]) -> str:
    return str(compile_case(read_cases(body)[0], SEED).record["error"])


def test_what_finds_no_slot_is_named() -> None:
    body = record("s", "s = add a b", "s2 = add s c", inputs="a b c")
    refused = {**body, "yield": ["s2"], "capacity": 2}
    assert error_of(refused) == (
        "%s2: insufficient DST registers: %c is live with 2 others, of 2 slots (one of: --allocator default)"
    )


def test_outputs_that_find_no_slot_are_told_what_is_left_of_them() -> None:
    body = {**record("n e s", "p = mul a b", "n = neg p", "e = exp p", "s = max n e"), "capacity": 4}
    assert error_of(body).startswith(
        "%n, %e, %s: insufficient DST registers for outputs, which have 2 of them: %s is live with 2 others, of 4 slots"
    )


def test_an_op_that_reads_circular_buffers_is_named() -> None:
    assert error_of(record("t", "t = transpose a", inputs="a")).startswith(
        "%t: %t = transpose has no form for operands in DST"
    )


def test_values_that_are_computed_alike_have_slots_of_their_own() -> None:
    slots = compile_case(read_cases(record("p q", "p = mul a b", "q = mul a b"))[0], SEED).record["dst"]
    assert (slots["p"], slots["q"]) == (2, 3)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    names = ["a", "b"]
    ops = []
    for k in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(sorted(ARITY)))
        args = [draw(st.sampled_from(names)) for _ in range(ARITY[kind])]
        ops.append(f"v{k} = {kind} {' '.join(args)}")
        names.append(f"v{k}")
    results = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    dtype, capacity = draw(st.sampled_from([("bf16", 16), ("f32", 8)]))
    return {**record(" ".join(results), *ops), "capacity": capacity, "dtype": dtype}


@settings(max_examples=examples(100))
@given(bodies())
@pytest.mark.slow
def test_random_bodies_compute_what_numpy_does(body: dict[str, Any]) -> None:
    """Sixteen slots are enough for all of them, eight for most."""
    error = compile_case(read_cases(body)[0], SEED).record["error"]
    assert error is None or ("insufficient DST registers" in error and body["capacity"] == 8)
    assume(error is None)
    assert ran(body).interpreter == 0
