"""The example of the design document on multi-tile lowering, from Python to C++, stage by stage."""

from __future__ import annotations

import re

import numpy as np
import pytest
from one_core import compile_program, execute

from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.index_expr import IndexMap
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.ttl import Program, copy, make_circular_buffer_like


@ttl.kernel(grid=(1, 1))
def add_multitile_kernel(lhs: ttl.Tensor, rhs: ttl.Tensor, out: ttl.Tensor) -> tuple[Op, ...]:
    """As written; reader and writer, which the document leaves out, with `with`."""
    lhs_cb = make_circular_buffer_like(lhs, shape=(2, 2), buffer_factor=2)
    rhs_cb = make_circular_buffer_like(rhs, shape=(2, 2), buffer_factor=2)
    out_cb = make_circular_buffer_like(out, shape=(2, 2), buffer_factor=2)

    @ttl.compute()
    def add_compute() -> None:
        l = lhs_cb.wait()  # noqa: E741 - the document's name
        r = rhs_cb.wait()
        o = out_cb.reserve()
        result = l + r
        o.store(result)
        lhs_cb.pop()
        rhs_cb.pop()
        out_cb.push()

    @ttl.datamovement()
    def dm_read() -> None:
        with lhs_cb.reserve() as left, rhs_cb.reserve() as right:
            moves = copy(lhs[0:2, 0:2], left), copy(rhs[0:2, 0:2], right)
            for move in moves:
                move.wait()

    @ttl.datamovement()
    def dm_write() -> None:
        with out_cb.wait() as block:
            copy(block, out[0:2, 0:2]).wait()

    return Program(add_compute, dm_read, dm_write)(lhs, rhs, out)


def program() -> Op:
    return add_multitile_kernel(*(ttl.Tensor((2, 2)) for _ in range(3)))


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_the_kernel_adds() -> None:
    rng = np.random.default_rng(1)
    lhs, rhs = (rng.integers(-60, 60, (64, 64)).astype(np.float32) for _ in range(2))
    lowered = lower(program())
    run = execute(lowered, emit_program(lowered), {"0": lhs, "1": rhs})
    np.testing.assert_array_equal(run.tensors["2"], lhs + rhs)


def test_every_stage_is_the_documents() -> None:
    stages: dict[str, Op] = {}
    lower(program(), KernelOptions(), stages.__setitem__)
    compute = {
        name: next(op for op in stage.body.ops if op.name == "ttl.compute_thread") for name, stage in stages.items()
    }
    names = {name: [op.name for op in walk(thread)] for name, thread in compute.items()}
    # 1: block ops on 2x2 tiles
    assert "ttl.add" in names["initial"]
    # 2: a region with an element-wise tile op
    (region,) = [op for op in walk(compute["convert-to-compute"]) if op.name == "ttl.compute"]
    assert region.maps == (IndexMap.identity(2),) * 2
    assert region.strings("iterator_types") == ("parallel", "parallel")
    assert [op.name for op in region.body.ops] == ["ttl.tile_add", "ttl.yield"]
    # 3: slots; the FPU reads circular buffers, so that a tile takes one slot where the document's takes two
    (placed,) = [op for op in walk(compute["assign-dst"]) if op.name == "ttl.compute"]
    assert (placed.integer("footprint"), placed.integer("unroll")) == (0, 4)
    # 4 and 5: synchronisation around the loops, the packs after all tiles
    order = [n for n in names["lower-to-loops"] if n.startswith(("ttl.tile_regs", "dst.", "ttl.for"))]
    assert order == [
        "ttl.tile_regs_acquire", "ttl.for", "dst.add", "ttl.tile_regs_commit", "ttl.tile_regs_wait", "dst.pack_block",
        "ttl.tile_regs_release",
    ]  # fmt: skip
    # 6: calls of the kernel API
    assert "ttkernel.add_tiles" in names["convert-to-ttkernel"]


def test_the_compute_kernel_reserves_and_pushes_a_block_at_once_and_pops_its_inputs() -> None:
    """The document's C++ reserves and pushes 4 tiles per tile and pops nothing: it would wait forever."""
    (text,) = [kernel.text for kernel in compile_program(program()) if kernel.kind == "compute"]
    calls = re.findall(r"^    (\w+)\(", text, re.MULTILINE)
    assert calls == [
        "compute_kernel_hw_startup", "cb_wait_front", "cb_wait_front", "cb_reserve_back", "tile_regs_acquire",
        "add_init", "tile_regs_commit", "tile_regs_wait", "pack_block", "tile_regs_release", "cb_pop_front",
        "cb_pop_front", "cb_push_back",
    ]  # fmt: skip
