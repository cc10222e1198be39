"""Results that the writer takes while the rest of the block is computed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cpp_calls import calls
from one_core import run
from sample_kernels import ROWS

from optimizer.errors import GraphError, VerificationError
from optimizer.kernels.tensix.buffers import local_buffers
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import TileCase, case_program, compile_case, read_cases
from optimizer.kernels.tensix.source.rules import check_source
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.witness.whole_tensors import witness
from tests.kernels.tensix.dst.test_relief import TREE, planned


def case(block: tuple[int, int]) -> TileCase:
    """Eight tiles to a section."""
    ops = [{"name": "v", "op": "exp", "args": ["a"]}]
    record: dict[str, Any] = {"id": "x", "inputs": ["a"], "outputs": ["o"], "ops": ops, "yield": ["v"]}
    return read_cases({"cases": [{**record, "block": list(block)}]})[0]


def texts(block: tuple[int, int], options: KernelOptions) -> dict[str, str]:
    return {k.kind: k.text for k in compile_case(case(block), options).kernels}


@pytest.mark.parametrize(("block", "pushes"), [((4, 4), [8]), ((3, 3), [8, 1]), ((5, 7), [8, 3]), ((2, 4), [8])])
def test_each_section_pushes_what_it_packs(block: tuple[int, int], pushes: list[int]) -> None:
    made = texts(block, KernelOptions())
    assert [int(n) for n in re.findall(r"cb_push_back\(cb_1, (\d+)\)", made["compute"])] == pushes
    assert calls(made["compute"])["cb_reserve_back"] == 1


def test_the_writer_waits_for_a_tile_before_it_takes_it() -> None:
    made = texts((4, 4), KernelOptions())
    wait, write = (
        made["writer"].index(word) for word in ("cb_wait_front(cb_1, (r_1 * 4 + c_1) + 1)", "noc_async_write")
    )
    assert wait < write
    assert "cb_pop_front(cb_1, 16)" in made["writer"]


def test_a_block_of_one_section_is_pushed_and_waited_for_whole() -> None:
    assert texts((2, 4), KernelOptions()) == texts((2, 4), KernelOptions(push="block"))


def test_blocks_are_pushed_whole_on_request() -> None:
    made = texts((4, 4), KernelOptions(push="block"))
    assert "cb_push_back(cb_1, 16)" in made["compute"]
    assert "cb_wait_front(cb_1, 16)" in made["writer"]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_the_thread_itself_waits_for_is_pushed_whole(name: str) -> None:
    stages: dict[str, Op] = {}
    lower(ROWS[name](), KernelOptions(), stages.__setitem__)
    program = stages["push-sections"]
    (compute,) = (op for op in program.body.ops if op.name == "ttl.compute_thread")
    parts = {op.operands[0].name for op in walk(compute) if op.name == "ttl.cb_push_part"}
    assert not parts & local_buffers(compute)
    assert text_of(parse(text_of(program))) == text_of(program)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("unroll", [False, True])
def test_parts_as_cpp(unroll: bool) -> None:
    found = witness(case_program(case((5, 7))), KernelOptions(unroll=unroll))
    assert (found.interpreter, found.executed) == (0, 0)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_stages_that_take_turns_push_parts_too() -> None:
    own = 2 * 5 * 15 * 4096
    options = KernelOptions(l1_bytes=own + (planned(TREE).l1_tiles - 1) * 4096)
    assert witness(case_program(TREE), options).executed == 0


def test_the_interpreter_refuses_a_part_that_is_not_packed() -> None:
    program = case_program(case((4, 4)))
    stages: dict[str, Op] = {}
    lower(program, KernelOptions(), stages.__setitem__)
    early = parse(text_of(stages["insert-inits"]).replace("{tiles = 8}\n    }", "{tiles = 9}\n    }", 1))
    cb = next(op.result for op in early.body.ops if op.name == "ttl.bind_cb")
    with pytest.raises(VerificationError, match="pushes 9 tiles so far, 8 were packed"):
        run(early, {cb.name: np.ones((128, 128), np.float32)})


def test_a_given_program_says_nothing_of_parts() -> None:
    text = text_of(case_program(case((4, 4)))).replace("ttl.cb_push(%o_cb)", "ttl.cb_push(%o_cb) {parts = true}", 1)
    with pytest.raises(GraphError, match="attribute 'parts' is what a pass sets"):
        check_source(parse(text))
