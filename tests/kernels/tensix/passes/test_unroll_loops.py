"""Loops over tiles written as straight lines: as the design document prints them, and computing the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cpp_calls import calls
from one_core import compile_program
from sample_kernels import ROWS

from optimizer.errors import LimitError
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import case_program, compile_case, read_cases
from optimizer.kernels.tensix.witness.whole_tensors import witness

CASES = {c.id: c for c in read_cases(json.loads(Path("fixtures/kernels/tile_cases.json").read_text(encoding="utf-8")))}
EXAMPLE_8 = [
    f"{call};"
    for k in range(4)
    for call in (
        *(f"copy_tile(cb_{n}, {k}, {n})" for n in range(3)),
        "mul_binary_tile(0, 1, 3)",
        "abs_tile(3)",
        f"add_binary_tile(3, 2, {4 + k})",
    )
]
"""Its generated code, iteration after iteration, slots as numbers."""


def test_the_documents_example_8_comes_out_as_it_is_printed() -> None:
    """But for the inits and roundings, which it leaves out, and for the packs: four in one call."""
    made = compile_case(CASES["s_ex8_chain_2x2"], KernelOptions(allocator="seed", unroll=True))
    text = next(k.text for k in made.kernels if k.kind == "compute")
    section = text.split("tile_regs_acquire();")[1].split("tile_regs_commit();")[0]
    lines = (re.sub("<.*>", "", line.strip()) for line in section.splitlines())
    assert [line for line in lines if line and "_init(" not in line] == EXAMPLE_8
    assert "pack_block(4, cb_3, 4);" in text


@pytest.mark.parametrize("name", ["s3_add_mul_exp_8x8", "s_ex5_two_unary", "s_ex2_binary_2x2"])
def test_straight_lines_call_what_loops_call(name: str) -> None:
    """Inits aside: one may hold from a tile to the next."""
    texts = [
        next(k.text for k in compile_case(CASES[name], KernelOptions(unroll=unroll)).kernels if k.kind == "compute")
        for unroll in (False, True)
    ]
    looped, straight = ({k: n for k, n in calls(text).items() if not k.endswith("_init")} for text in texts)
    assert "for (" not in texts[1]
    assert straight == looped


@pytest.mark.parametrize("name", sorted(ROWS))
def test_sums_unroll_too(name: str) -> None:
    lowered = lower(ROWS[name](), KernelOptions(unroll=True))
    compute = next(op for op in lowered.body.ops if op.name == "ttl.compute_thread")
    assert not any(op.name == "ttl.for" for op in walk(compute))
    assert witness(ROWS[name](), KernelOptions(unroll=True), execute_cpp=False).agrees


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_straight_lines_as_cpp() -> None:
    assert witness(case_program(CASES["s_ex8_chain_2x2"]), KernelOptions(allocator="seed", unroll=True)).executed == 0


def test_too_many_lines_are_refused() -> None:
    block = {"id": "x", "inputs": ["a"], "outputs": ["o"], "ops": [{"name": "v", "op": "exp", "args": ["a"]}]}
    case = read_cases({"cases": [{**block, "yield": ["v"], "block": [50, 40], "l1_bytes": 1 << 24}]})[0]
    with pytest.raises(LimitError, match="unroll to more than 4096 ops; smaller blocks, or loops, take fewer"):
        compile_program(case_program(case), KernelOptions(unroll=True))
