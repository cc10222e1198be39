"""Blocks that a thread uses when they are not there, each made from a kernel that is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_core import compile_program

from optimizer.errors import GraphError
from optimizer.kernels.tensix.source.text import parse

DENSE = Path("fixtures/kernels/dense.ttl").read_text(encoding="utf-8")
X_MOVE = "    %x_move = ttl.copy_in(%x, %zero, %zero, %x_room)\n"
X_WAIT = "    ttl.transfer_wait %x_move\n"
X_PUSH = "    ttl.cb_push %x_room\n"
POP_A = "    ttl.cb_pop %a\n"
BIAS = "ttl.block_bcast %r {axis = 0}\n      %sum = ttl.block_add %product, %row"
BIAS_OF_ONE_SIZE = "ttl.block_abs %r\n      %sum = ttl.block_add %product, %row"
REGION = "    ttl.compute_region"


def moved(line: str, before: str) -> str:
    """The kernel with a line moved up or down."""
    return DENSE.replace(line, "").replace(before, line + before, 1)


WRONG = {
    "read after its pop": (moved(POP_A, REGION), r"compute_region #5: uses %a after its ttl.cb_pop"),
    "stored after its push": (
        moved("    ttl.cb_push %room\n", REGION),
        r"cb_push #4: pushes %room, into which nothing",
    ),
    "copied after its pop": (
        moved("    ttl.cb_pop %block\n", "    %away ="),
        r"copy_out #3: uses %block after its ttl.cb_pop",
    ),
    "pushed while it comes": (
        moved(X_PUSH, X_WAIT),
        r"cb_push #3: ends %x_room before ttl.transfer_wait of %x_move",
    ),
    "popped while it goes": (
        moved("    ttl.cb_pop %block\n", "    ttl.transfer_wait %away\n"),
        r"cb_pop #3: ends %block before ttl.transfer_wait of %away",
    ),
    "never waited for": (DENSE.replace(X_WAIT, ""), r"before ttl.transfer_wait of %x_move"),
    "pushed empty": (DENSE.replace(X_MOVE + X_WAIT, ""), r"pushes %x_room, into which nothing is stored or copied"),
    "two rooms at once": (
        DENSE.replace(X_PUSH, "    %more = ttl.cb_reserve %x_cb\n" + X_PUSH + "    ttl.cb_push %more\n"),
        r"gives the block %x_room of %x_cb again: ttl.cb_push of that comes first",
    ),
    "two blocks at once": (
        DENSE.replace(POP_A, "    %more = ttl.cb_wait %x_cb\n" + POP_A + "    ttl.cb_pop %more\n"),
        r"gives the block %a of %x_cb again: ttl.cb_pop of that comes first",
    ),
    "written where it is read": (
        DENSE.replace("ttl.copy_out(%block, %y, %origin, %origin)", "ttl.copy_in(%y, %origin, %origin, %block)"),
        r"writes %block, which is waited for",
    ),
    "read where it is written": (
        DENSE.replace(X_MOVE, "    %x_move = ttl.copy_out(%x_room, %x, %zero, %zero)\n"),
        r"reads %x_room, which is reserved",
    ),
    "computed with before it is pushed": (
        DENSE.replace("ins(%a, %b, %c) outs", "ins(%a, %b, %room) outs").replace(BIAS, BIAS_OF_ONE_SIZE),
        r"reads %room, which is reserved",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_block_is_used_while_it_is_there(name: str) -> None:
    text, message = WRONG[name]
    assert text != DENSE
    with pytest.raises(GraphError, match=message):
        compile_program(parse(text))


def test_an_expression_may_be_stored_after_what_it_reads_is_popped() -> None:
    """It was made before, which is when it reads."""
    text = Path("fixtures/kernels/add_2x2.ttl").read_text(encoding="utf-8")
    store = "    ttl.store(%9, %8)\n"
    assert store in text
    later = text.replace(store, "").replace("    ttl.cb_push(%5)\n", store + "    ttl.cb_push(%5)\n")
    assert any(kernel.kind == "compute" for kernel in compile_program(parse(later)))
