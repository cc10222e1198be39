"""The witness of regions is strict: it sees kernels that are wrong by little or in few elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import region_witness
from placed_graphs import HEIGHT, placed, shards
from region_witness import SIGNED, interpret_region, run_region, shrunk

from optimizer.fusion.finding import find_regions
from optimizer.fusion.lowering import program_of
from optimizer.fusion.regions import Region, Scheme
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op, Value, attributes, rewrite, substitute
from optimizer.kernels.tensix.rounding import rounded
from optimizer.kernels.tensix.witness.error_bound import bounds
from optimizer.layouts.tiling import TILE

BF16, F32 = DType.BF16, DType.F32
SHAPE = (1, 1, 4 * TILE, 2 * TILE)
HOME = shards(SHAPE, (4, 1), HEIGHT)


def only(b: GraphBuilder, *outputs: str) -> Region:
    (region,) = find_regions(placed(b.finish(*outputs), {"x": HOME}))
    return region


def scaled() -> Region:
    """(x - y) * 0.125"""
    b = GraphBuilder("scaled")
    return only(b, b.op("ttnn.multiply", b.op("ttnn.subtract", b.input("x", SHAPE), b.input("y", SHAPE)), scalar=0.125))


def dense() -> Region:
    """relu(a @ w + bias) * 0.5 + x"""
    b = GraphBuilder("dense")
    x, a = b.input("x", SHAPE), b.input("a", (1, 1, SHAPE[2], 3 * TILE))
    m = b.op("ttnn.linear", a, b.parameter("w", (3 * TILE, 64)), b.parameter("bias", (64,)), activation="relu")
    return only(b, b.op("ttnn.add", b.op("ttnn.multiply", m, scalar=0.5), x))


def normed() -> Region:
    """layer_norm(x + y)"""
    b = GraphBuilder("normed")
    v = b.op("ttnn.add", b.input("x", SHAPE), b.input("y", SHAPE))
    return only(b, b.op("ttnn.layer_norm", v, b.parameter("scale", (64,)), b.parameter("shift", (64,)), epsilon=0.5))


def region_of(name: str, dtype: DType) -> Region:
    """In float32 too, where roundings are small: regions of graphs have bf16 only."""
    region = REGIONS[name]()
    inputs, outputs = (tuple(replace(o, dtype=dtype) for o in each) for each in (region.inputs, region.outputs))
    return replace(region, dtype=dtype, inputs=inputs, outputs=outputs)


REGIONS = {"scaled": scaled, "dense": dense, "normed": normed}


# -- wrong kernels -------------------------------------------------------------------------------------------
def swapped(program: Op) -> Op:
    """Differences the other way round."""
    return _changed(program, "ttl.sub", lambda op: replace(op, operands=op.operands[::-1]))


def larger(program: Op) -> Op:
    """Factors of one percent more."""
    return _changed(
        program,
        "ttl.mul_scalar",
        lambda op: replace(op, attrs=attributes({"value": float(str(op.attr("value"))) * 1.01})),
    )


def dropped(name: str) -> Callable[[Op], Op]:
    """Without an op: its operand takes the place of the result."""

    def change(program: Op) -> Op:
        known: dict[str, Value] = {}

        def without(op: Op) -> tuple[Op, ...]:
            op = substitute(op, known)
            if op.name == name:
                known[op.result.name] = op.operands[0]
                return ()
            return (op,)

        found = rewrite(program, without)[0]
        assert known
        return found

    return change


def _changed(program: Op, name: str, how: Callable[[Op], Op]) -> Op:
    seen = []

    def change(op: Op) -> tuple[Op, ...]:
        seen.append(op.name)
        return (how(op) if op.name == name else op,)

    found = rewrite(program, change)[0]
    assert name in seen
    return found


WRONG = [
    ("scaled", "swapped", swapped, BF16, 0.9),
    ("scaled", "1 % more", larger, BF16, 0.25),
    ("scaled", "1 % more", larger, F32, 0.99),
    ("scaled", "no factor", dropped("ttl.mul_scalar"), BF16, 0.9),
    ("dense", "1 % more", larger, F32, 0.4),
    ("dense", "no relu", dropped("ttl.relu"), BF16, 0.1),
    ("dense", "no bias", dropped("ttl.add_bcast_row"), BF16, 0.5),
    ("dense", "no residual", dropped("ttl.add"), BF16, 0.9),
    ("normed", "1 % more", larger, F32, 0.9),
    ("normed", "no epsilon", dropped("ttl.add_scalar"), BF16, 0.9),
    ("normed", "no shift", dropped("ttl.add_bcast_row"), BF16, 0.9),
]


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in REGIONS for d in (BF16, F32)])
def test_right_kernels_are_right_and_the_bound_is_near(name: str, dtype: DType) -> None:
    run = interpret_region(region_of(name, dtype), between=SIGNED)
    assert (run.mismatches, run.unlimited) == (0, 0)
    assert run.sharpness < (0.02 if dtype is BF16 else 1e-6)


@pytest.mark.parametrize(
    ("name", "wrong", "mutation", "dtype", "share"), WRONG, ids=[f"{w[0]} {w[1]} {w[3].value}" for w in WRONG]
)
def test_wrong_kernels_are_seen(
    name: str, wrong: str, mutation: Callable[[Op], Op], dtype: DType, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = region_of(name, dtype)
    monkeypatch.setattr(region_witness, "program_of", lambda r: mutation(program_of(r)))
    run = interpret_region(region, between=SIGNED)
    assert run.mismatches > share * run.elements


@pytest.mark.parametrize("dtype", [BF16, F32])
def test_a_bias_that_is_one_off_is_seen(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads the bias of the next column; what it should be is computed with its own."""
    region, blocks = region_of("dense", dtype), region_witness._given_blocks

    def shifted(*args: object) -> object:
        made = blocks(*args)
        bias = next(k for k, o in enumerate(region.inputs) if o.value == "bias")
        return {**made, f"x{bias}_cb": [np.roll(block, 1, axis=1) for block in made[f"x{bias}_cb"]]}

    monkeypatch.setattr(region_witness, "_given_blocks", shifted)
    run = interpret_region(region, between=SIGNED)
    assert run.mismatches > 0.4 * run.elements


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("bits", [0, 1])
def test_one_bit_in_the_cpp_is_seen(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the core wrote, one element one unit further: far within what roundings allow."""
    region, executed = region_of("normed", F32), region_witness.executed

    def changed(*args: object, **named: object) -> object:
        run = executed(*args, **named)
        run.tensors["y0"].view(np.uint32)[3, 5] += bits
        return run

    monkeypatch.setattr(region_witness, "executed", changed)
    assert run_region(region, (0, 0)).mismatches == bits


def test_pieces_of_a_product_that_cancel_are_within_the_bound() -> None:
    """Added up in L1 each of them has been rounded, to units far larger than those of the sum."""
    shape = (1, 1, 32 * TILE, 16 * TILE)
    b = GraphBuilder("pieces")
    m = b.op("ttnn.linear", b.input("a", (*shape[:-1], 4 * TILE)), b.input("w", (4 * TILE, shape[-1])))
    v = b.op("ttnn.add", m, b.input("x", shape))
    home = shards(shape, (8, 8))
    (region,) = find_regions(placed(b.finish(v), {m: home, v: home, "x": home}))
    small = shrunk(region, (2, 2), region.home.shard).fed(Scheme(True, 2))
    given, _ = region_witness._values(small, 0, SIGNED)
    a, w = given["a"], given["w"]
    half = a.shape[1] // 2
    a[:, :half] *= 64
    a[:, half:], w[half:] = -a[:, :half], rounded(w[:half] * 1.03, BF16)
    (near,) = bounds(program_of(small), region_witness._given_blocks(small, (0, 0), given))["y0_cb"]
    (made,) = region_witness._interpreted(small, (0, 0), given)
    assert near.allows(made).all()
    assert np.abs(made - near.value).max() > np.abs(near.value).max() / 16
