"""What is stored straight after a reduction: bit for bit alike in all witnesses, zeros beside its result included."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_core import run
from sample_kernels import one_block

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.ttl import Block
from optimizer.kernels.tensix.witness.reference import beside_results, kept
from optimizer.kernels.tensix.witness.whole_tensors import witness
from tests.samples import examples

SHAPES = {"row": (2, 1), "col": (1, 3), "scalar": (1, 1)}
"""Tiles of what is left of 2 x 3."""


def stored(axis: str, names: tuple[str, ...], kind: str = "sum", dtype: DType = DType.BF16) -> Op:
    """Ops on one operand, one after the other, of a reduction; scalars are 0.5."""

    def body(x: Block, ones: Block) -> Block:
        first = ttl.block_op(f"reduce_{kind}_{axis}", x, ones)
        return reduce(lambda y, name: ttl.block_op(name, y, **dict.fromkeys(TILE_OPS[name].attrs, 0.5)), names, first)

    return one_block("stored", [(2, 3), (1, 1)], [SHAPES[axis]], body, dtype)


def interpreted(program: Op) -> np.ndarray:
    stages: dict[str, Op] = {}
    lower(program, KernelOptions(), stages.__setitem__)
    x, ones, out = (op.result.name for op in program.body.ops if op.name == "ttl.bind_cb")
    return run(stages["insert-inits"], {x: np.ones((64, 96), np.float32), ones: np.ones((32, 32), np.float32)})[out]


def test_the_packer_writes_zeros_beside_sums_of_rows_but_in_column_16() -> None:
    found = interpreted(stored("row", ("add_scalar",)))
    assert np.unique(found[:, 0]) == 96.5
    assert np.unique(found[:, 16]) == 0.5
    assert not np.delete(found, (0, 16), axis=1).any()


@pytest.mark.parametrize(("axis", "elements"), [("row", 64), ("col", 32), ("scalar", 1)])
def test_what_the_packer_keeps(axis: str, elements: int) -> None:
    assert kept(axis).sum() == elements


def test_a_value_of_two_reductions_has_neither_beside() -> None:
    def body(x: Block, ones: Block) -> Block:
        return ttl.block_op("reduce_sum_row", x, ones) + ttl.block_op("reduce_sum_col", x, ones)

    program = one_block("both", [(1, 1)] * 2, [(1, 1)], body)
    out = [op.result.name for op in program.body.ops if op.name == "ttl.bind_cb"][-1]
    assert beside_results(program)[out].sum() == 32 * 32 - 1


def test_what_is_read_along_the_axis_is_whole() -> None:
    program = one_block(
        "spread", [(1, 1)] * 2, [(1, 1)], lambda x, o: ttl.block_op("bcast_col", ttl.block_op("reduce_sum_row", x, o))
    )
    out = [op.result.name for op in program.body.ops if op.name == "ttl.bind_cb"][-1]
    assert out not in beside_results(program)


DIRECT = {"rsqrt": ("add_scalar", "rsqrt"), "recip": ("recip",), "neg": ("neg",), "plus": ("add_scalar",)}


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("form", DIRECT)
def test_forms_stored_direct_are_alike_bit_for_bit(form: str) -> None:
    found = witness(stored("row", DIRECT[form]), KernelOptions())
    assert (found.interpreter, found.executed, found.beyond) == (0, 0, 0)


UNARY = [name for name, op in TILE_OPS.items() if op.arity == 1 and op.elementwise]


@settings(max_examples=examples(100))
@given(
    st.sampled_from(sorted(SHAPES)),
    st.lists(st.sampled_from([n for n in UNARY if n not in ("copy", "copy_dst", "typecast")]), max_size=3),
    st.sampled_from(["sum", "max"]),
    st.sampled_from([DType.BF16, DType.F32]),
    st.booleans(),
)
@pytest.mark.slow
def test_whatever_is_stored_direct_is_what_it_means(
    axis: str, names: list[str], kind: str, dtype: DType, fuse: bool
) -> None:
    found = witness(stored(axis, tuple(names), kind, dtype), KernelOptions(fuse=fuse), execute_cpp=False)
    assert (found.interpreter, found.beyond) == (0, 0)
