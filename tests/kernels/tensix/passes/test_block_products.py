"""Products of tiles become `matmul_block` where a section's tiles are rows and columns of its block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from one_core import execute_grid

from fixtures.kernels.matmul_multicast import matmul
from optimizer.errors import VerificationError
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.types import TensorType
from optimizer.kernels.tensix.witness.whole_tensors import witness

executed = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


def product(rows: int, columns: int, depth: int, wide: bool = False) -> Op:
    """Blocks of so many tiles on one core, two along the depth."""
    shapes = ((rows, 2 * depth), (2 * depth, columns), (rows, columns))
    return matmul((1, 1), (rows, columns, depth), wide)(*map(ttl.Tensor, shapes))


def compute(program: Op) -> str:
    return next(kernel.text for kernel in emit_program(lower(program)) if kernel.kind == "compute")


@pytest.mark.parametrize(
    ("size", "wide", "init"),
    [
        ((2, 4, 3), False, "matmul_block_init(cb_0, cb_1, 0, 4, 2, 3);"),
        ((1, 4, 2), True, "matmul_block_init(cb_0, cb_1, 0, 4, 1, 2);"),
        ((4, 1, 2), True, "matmul_block_init(cb_0, cb_1, 0, 1, 4, 2);"),
        ((2, 4, 2), True, "matmul_block_init(cb_0, cb_1, 0, 4, 1, 2);"),
    ],
    ids=["a section", "a row", "a column", "a section per row"],
)
def test_a_rectangle_of_products_is_one_call(size: tuple[int, int, int], wide: bool, init: str) -> None:
    text = compute(product(*size, wide))
    assert init in text
    assert "matmul_tiles" not in text


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (1, 1), (1, 5)], ids=["across rows", "single", "other sizes"])
def test_what_is_no_rectangle_stays_single_tiles(rows: int, columns: int) -> None:
    """Sections of four tiles; of five in a row the last one has an init of another shape."""
    text = compute(product(rows, columns, 1, wide=True))
    assert "matmul_tiles(" in text
    assert "matmul_block" not in text


@executed
@pytest.mark.parametrize("size", [(2, 4, 3), (4, 1, 2)])
@pytest.mark.slow
def test_blocks_are_the_interpreters_products_bit_for_bit(size: tuple[int, int, int]) -> None:
    found = witness(product(*size, wide=True), KernelOptions(), arguments={"k_blocks": 2})
    assert (found.beyond, found.executed) == (0, 0)


@executed
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("matmul_block_init(cb_0, cb_1, 0, 4, 2, 3);", "matmul_block_init(cb_0, cb_1, 0, 2, 4, 3);"),
        ("matmul_block_init(cb_0, cb_1, 0, 4, 2, 3);", "matmul_init(cb_0, cb_1, 0);"),
    ],
)
@pytest.mark.slow
def test_an_init_of_another_shape_is_caught(old: str, new: str) -> None:
    lowered = lower(product(2, 4, 3))
    kernels = [replace(kernel, text=kernel.text.replace(old, new)) for kernel in emit_program(lowered)]
    assert any(new in kernel.text for kernel in kernels)
    given = {v.name: np.ones([n * 32 for n in v.typed(TensorType).shape], np.float32) for v in lowered.body.args}
    with pytest.raises(VerificationError, match="matmul_block"):
        execute_grid(lowered, kernels, given, {"k_blocks": 2})
