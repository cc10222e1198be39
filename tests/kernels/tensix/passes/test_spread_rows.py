"""Row broadcasts into a DST of 32 bits, which `unary_bcast<BroadcastType::ROW>` writes to the wrong rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from one_core import compile_program, execute, run
from sample_kernels import one_block

from optimizer.errors import VerificationError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import pipeline, ttl
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op, attributes
from optimizer.kernels.tensix.passes.broadcasts import spread_rows
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.witness.whole_tensors import witness

OLD = "unary_bcast<BroadcastType::ROW>"


def of_width(program: Op, wide: bool) -> Op:
    return Op(program.name, (), (), attributes({**dict(program.attrs), "fp32_dest_acc_en": wide}), program.regions)


def linear_add(wide: bool = True) -> Op:
    """x @ w + bias + c"""
    program = one_block(
        "linear_add",
        [(2, 3), (3, 2), (1, 2), (2, 2)],
        [(2, 2)],
        lambda x, w, b, c: ttl.block_op("add_bcast_row", x @ w, b) + c,
    )
    return of_width(program, wide)


def divided_twice(wide: bool = True) -> Op:
    """x / row / another row: one tile of zeros for both."""

    def body(x: ttl.Block, *rows: ttl.Block) -> ttl.Block:
        for row in rows:
            x = ttl.block_op("div", x, ttl.block_op("bcast_row", row))
        return x

    return of_width(one_block("divided", [(1, 2)] * 3, [(1, 2)], body), wide)


@pytest.mark.parametrize("build", [linear_add, divided_twice])
def test_rows_go_through_the_fpu(build: Callable[[], Op]) -> None:
    text = compile_program(build())[0].text
    assert OLD not in text
    assert text.count("fill_tile(") == 1
    assert "add_tiles_bcast_rows(" in text


@pytest.mark.parametrize("build", [linear_add, divided_twice])
@pytest.mark.parametrize("fuse", [True, False])
def test_what_they_compute_stays(build: Callable[[], Op], fuse: bool) -> None:
    found = witness(build(), KernelOptions(fuse=fuse))
    assert found.agrees


def test_a_narrow_dst_takes_rows_as_they_are() -> None:
    assert OLD in compile_program(linear_add(wide=False))[0].text


def test_rows_of_f32_are_unpacked_straight_to_dst() -> None:
    program = one_block("wide", [(1, 2), (1, 2)], [(1, 2)], _maximum_with_row, DType.F32)
    assert OLD in compile_program(program)[0].text


def _maximum_with_row(x: ttl.Block, row: ttl.Block) -> ttl.Block:
    return ttl.block_op("max", x, ttl.block_op("bcast_row", row))


def as_before(monkeypatch: pytest.MonkeyPatch) -> Op:
    """`linear_add` with the broadcast that was emitted once."""
    monkeypatch.setattr(pipeline, "spread_rows", lambda program: program)
    return linear_add()


def test_the_interpreter_refuses_the_old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: dict[str, Op] = {}
    program = as_before(monkeypatch)
    lower(program, KernelOptions(), stages.__setitem__)
    shapes = {"x": (64, 96), "w": (96, 64), "b": (32, 64), "c": (64, 64)}
    binds = [op.result.name for op in program.body.ops if op.name == "ttl.bind_cb"]
    given = {cb: np.ones(shape, np.float32) for cb, shape in zip(binds, shapes.values(), strict=False)}
    with pytest.raises(VerificationError, match=r"writes 16 bits .* to a DST of 32 bits"):
        run(stages["insert-inits"], given)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_the_executor_refuses_the_old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = lower(as_before(monkeypatch), KernelOptions())
    kernels = emit_program(lowered)
    assert any(OLD in kernel.text for kernel in kernels)
    with pytest.raises(VerificationError, match="unary_bcast: buffer 2 holds Float16_b, of which it writes 16 bits"):
        execute(lowered, kernels, {})


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_the_executor_runs_the_new_one() -> None:
    lowered = lower(linear_add(), KernelOptions())
    assert execute(lowered, emit_program(lowered), {}).sections > 0


def test_a_narrow_program_stays_as_it_is() -> None:
    program = linear_add(wide=False)
    assert spread_rows(program) is program
