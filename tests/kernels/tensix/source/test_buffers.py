"""What circular buffers may take of L1, and what is said when they take more."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import LimitError
from optimizer.kernels.tensix.buffers import check_l1
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import case_program, compile_case, read_cases

TILE = 2048
OWN = 2 * 2 * 12 * TILE
"""Of an input and an output, two blocks of 3x4 tiles each."""


def case(**changes: Any) -> Any:
    ops = [{"name": "e", "op": "exp", "args": ["a"]}, {"name": "f", "op": "abs", "args": ["e"]}]
    record = {"id": "c", "inputs": ["a"], "outputs": ["o"], "ops": ops, "yield": ["f"], "block": [3, 4], **changes}
    return read_cases(record)[0]


@pytest.mark.parametrize(("board", "blocks"), [("n150", 170), ("p150", 178)])
def test_the_default_is_that_of_an_empty_core_of_the_board(board: str, blocks: int) -> None:
    options = KernelOptions(board=DeviceSpec.preset(board))
    assert blocks == options.board.cb_limit_bytes // (4 * TILE)
    assert compile_case(case(block=[1, blocks]), options).record["error"] is None
    error = compile_case(case(block=[1, blocks + 1]), options).record["error"]
    assert f"are free: %a_cb (cb<1x{blocks + 1}xbf16, 2>) {(blocks + 1) * 2 * TILE:,}, %o_cb" in error


def test_the_case_says_how_much_there_is() -> None:
    assert compile_case(case(l1_bytes=OWN), KernelOptions()).record["error"] is None
    assert f"{OWN - 1:,} are free" in compile_case(case(l1_bytes=OWN - 1), KernelOptions()).record["error"]


def test_what_is_chosen_goes_before_what_the_case_says() -> None:
    with pytest.raises(LimitError, match="98,304 bytes of each core's L1, 0 are free") as error:
        check_l1(case_program(case(l1_bytes=OWN)), 0)
    assert error.value.limit == 0


def test_buffers_between_computes_count() -> None:
    assert compile_case(case(l1_bytes=OWN + 12 * TILE), KernelOptions(fuse=False)).record["error"] is None
    with pytest.raises(LimitError, match=r"are free: .*%cb_0 \(cb<3x4xbf16, 1>\) 24,576"):
        lower(case_program(case(l1_bytes=OWN)), KernelOptions(fuse=False))
