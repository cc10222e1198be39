"""Running error bounds: nothing within the operands' errors gets out of them, and wrong kernels do."""

from __future__ import annotations

import numpy as np
import pytest
from one_core import run
from sample_kernels import ROWS

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.executor.header import by_element
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import TILE, CircularBufferType
from optimizer.kernels.tensix.witness.error_bound import Bounded, bounds, half_unit, step

ERRORS = (0.0, 2.0**-9, 0.3)
"""None, of a rounding, and wide enough for turning points, jumps and poles to lie within."""
SHAPE = (TILE, TILE)


def operands(count: int, seed: int) -> list[Bounded]:
    generator = np.random.default_rng(seed)
    return [
        Bounded(
            generator.normal(scale=2.0, size=SHAPE), generator.choice(ERRORS, SHAPE) * generator.uniform(0, 1, SHAPE)
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", sorted(set(TILE_OPS) - {"fill", "typecast"}))
def test_every_value_within_the_operands_errors_is_within_the_results(name: str) -> None:
    op = TILE_OPS[name]
    attrs = {attr: 0.7 + k for k, attr in enumerate(op.attrs)}
    given = operands(op.arity + op.accumulates, seed=1)
    found = step(op, given, attrs, DType.F32)
    generator = np.random.default_rng(2)
    limited = np.isfinite(found.error) & ~np.isnan(found.value)
    for _ in range(50):
        inside = [x.value + x.error * generator.uniform(-1, 1, SHAPE) for x in given]
        with np.errstate(all="ignore"):
            made = np.asarray(op.meaning(*inside, **attrs), np.float64)
        assert (np.abs(made - found.value)[limited] <= found.error[limited]).all()
    assert limited.mean() > (0.25 if name in by_element() else 0.99)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F32, DType.BFP8_B, DType.BFP4_B])
def test_roundings_are_within_half_a_unit(dtype: DType) -> None:
    values = (np.random.default_rng(0).normal(size=SHAPE) * np.geomspace(1e-4, 1e4, TILE)).astype(np.float64)
    narrow = rounded(values.astype(np.float32), dtype)
    share = np.abs(narrow - values) / half_unit(np.abs(values), dtype)
    assert 0.4 < share.max() <= 1.0 + 1e-6


def given(program: Op) -> dict[str, Array]:
    """Of every circular buffer that a data movement thread fills; one of a single tile holds the scaler 1."""
    generator = np.random.default_rng(3)
    filled = {op.operands[0].name for op in program.body.ops[-2].body.ops if op.name == "ttl.cb_reserve"}
    binds = [op.result for op in program.body.ops if op.name == "ttl.bind_cb"]
    made = {}
    for v in binds:
        assert isinstance(v.type, CircularBufferType)
        if v.name in filled:
            shape = (v.type.shape[0] * TILE, v.type.shape[1] * TILE)
            values = np.ones(shape) if v.type.shape == (1, 1) else generator.uniform(0.25, 1.5, shape)
            made[v.name] = rounded(values.astype(np.float32), v.type.dtype)
    return made


@pytest.mark.parametrize("name", sorted(ROWS))
@pytest.mark.parametrize("fuse", [True, False])
def test_kernels_of_rows_use_what_the_bound_allows(name: str, fuse: bool) -> None:
    """And it allows little: a few roundings of bf16, whose unit is 1/256; of exponents, what their size makes of it."""
    program = ROWS[name]()
    blocks = given(program)
    stages: dict[str, Op] = {}
    lower(program, KernelOptions(fuse=fuse), stages.__setitem__)
    made = run(stages["insert-inits"], blocks)
    for cb, (near,) in bounds(program, {n: (x,) for n, x in blocks.items()}).items():
        assert near.allows(made[cb]).all()
        assert np.median(near.error / np.abs(near.value)) < (0.12 if name == "attention_scores" else 0.04)
