"""Expressions are evaluated where they are stored; buffers that a compute thread fills for itself hand blocks on."""

from __future__ import annotations

import pytest
from one_core import compile_program

from optimizer.errors import GraphError
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.text import parse
from optimizer.kernels.tensix.witness.whole_tensors import witness

SOURCE = """
ttl.program @p {grid = [1, 1]} {
  ^(%x: tensor<1x2xbf16>, %y: tensor<1x2xbf16>):
  %in = ttl.bind_cb {index = 0} : cb<1x2xbf16, 2>
  %own = ttl.bind_cb {index = 1} : cb<1x2xbf16, 1>
  %out = ttl.bind_cb {index = 2} : cb<1x2xbf16, 2>
  ttl.compute_thread @math {
BODY
  }
  ttl.datamovement_thread @read {processor = "reader"} {
    %room = ttl.cb_reserve(%in) : block<1x2xbf16>
    %zero = ttl.constant {value = 0} : index
    %brought = ttl.copy_in(%x, %zero, %zero, %room) : transfer
    ttl.transfer_wait(%brought)
    ttl.cb_push(%in)
  }
  ttl.datamovement_thread @write {processor = "writer"} {
    %ready = ttl.cb_wait(%out) : block<1x2xbf16>
    %none = ttl.constant {value = 0} : index
    %taken = ttl.copy_out(%ready, %y, %none, %none) : transfer
    ttl.transfer_wait(%taken)
    ttl.cb_pop(%out)
  }
}
"""
WAIT, POP = "%a = ttl.cb_wait(%in) : block", "ttl.cb_pop(%in)"
EXP, ABS = "%e = ttl.exp(%a) : block", "%f = ttl.abs(%e) : block"
ROOM, PUSH = "%r = ttl.cb_reserve(%out) : block", "ttl.cb_push(%out)"
OWN = ("%o = ttl.cb_reserve(%own) : block", "ttl.store(%e, %o)", "ttl.cb_push(%own)", "%w = ttl.cb_wait(%own) : block")
LOOP = ("ttl.for {lower = 0, upper = 2, step = 1} {", "^(%i: index):")
BODIES = {
    "the room is reserved last": (WAIT, EXP, ROOM, "ttl.store(%e, %r)", PUSH, POP),
    "a chain": (WAIT, EXP, ABS, ROOM, "ttl.store(%f, %r)", POP, PUSH),
    "the operand is freed before": (WAIT, EXP, POP, ROOM, "ttl.store(%e, %r)", PUSH),
    "stored twice": (WAIT, EXP, *OWN[:3], ROOM, "ttl.store(%e, %r)", PUSH, OWN[3], "ttl.cb_pop(%own)", POP),
    "through a buffer of its own": (
        *(WAIT, OWN[0], EXP, *OWN[1:], "%g = ttl.abs(%w) : block", ROOM, "ttl.store(%g, %r)"),
        *("ttl.cb_pop(%own)", POP, PUSH),
    ),
    "twice through it": (
        *(WAIT, EXP, *OWN, "%g = ttl.abs(%w) : block", ROOM, "ttl.store(%g, %r)", "ttl.cb_pop(%own)"),
        *("%q = ttl.cb_reserve(%own) : block", "ttl.store(%e, %q)", "ttl.cb_push(%own)"),
        *("%v = ttl.cb_wait(%own) : block", "ttl.cb_pop(%own)", POP, PUSH),
    ),
}


def program(body: tuple[str, ...]) -> Op:
    lines = "\n".join(f"    {line}{'<1x2xbf16>' if line.endswith('block') else ''}" for line in body)
    return parse(SOURCE.replace("BODY", lines))


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_what_is_stored_is_what_was_said(name: str, fuse: bool) -> None:
    found = witness(program(BODIES[name]), KernelOptions(fuse=fuse), execute_cpp=False)
    assert (found.elements, found.interpreter, found.beyond) == (2048, 0, 0)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("name", ["the operand is freed before", "through a buffer of its own"])
def test_the_emitted_cpp_stores_it_too(name: str) -> None:
    assert witness(program(BODIES[name]), KernelOptions()).executed == 0


def order(name: str) -> list[str]:
    """Ops of the compute thread after the pass."""
    stages: dict[str, Op] = {}
    lower(program(BODIES[name]), KernelOptions(), stages.__setitem__)
    (thread,) = (op for op in stages["sink-to-stores"].body.ops if op.name == "ttl.compute_thread")
    return [op.name.removeprefix("ttl.") for op in thread.body.ops]


def test_an_expression_moves_down_to_its_store() -> None:
    wanted = ["cb_wait", "cb_reserve", "compute", "store", "cb_push", "cb_pop"]
    assert order("the room is reserved last") == wanted


def test_a_value_whose_operand_is_gone_is_copied_to_its_store() -> None:
    wanted = ["cb_wait", "compute", "cb_pop", "cb_reserve", "compute", "store", "cb_push"]
    assert order("the operand is freed before") == wanted


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ((WAIT, OWN[3], "ttl.cb_pop(%own)", OWN[0], EXP, *OWN[1:3], POP), "waits for %own, which it pushes later"),
        (
            (WAIT, EXP, *OWN[:3], OWN[0].replace("%o ", "%p "), "ttl.store(%e, %p)", *OWN[2:], "ttl.cb_pop(%own)", POP),
            r"reserves %own while all its blocks \(1\) are pushed and not popped",
        ),
        (
            (WAIT, EXP, *LOOP, ROOM, "ttl.store(%e, %r)", PUSH, "}", POP),
            r"ttl.for #2 / ttl.store #1: reads %e, which is computed outside of the loop",
        ),
        ((WAIT, EXP, ROOM, "ttl.store(%e, %r)", PUSH, "%b = ttl.cb_wait(%out) : block", "ttl.cb_pop(%out)", POP),
         "@math and @write both pop %out; a circular buffer has one of each"),
    ],
)  # fmt: skip
def test_threads_that_would_wait_forever_or_take_each_others_blocks_are_refused(
    body: tuple[str, ...], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        compile_program(program(body))
