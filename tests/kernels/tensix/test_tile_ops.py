"""The table of tile ops: every call exists in the kernel API, every op is executed alike by both witnesses."""

from __future__ import annotations

import numpy as np
import pytest
from one_core import execute, run
from sample_kernels import one_block

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.executor.header import WHOLE_TILE, by_element, signature, signatures
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.tile_forms import Form, Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS, TileOp
from optimizer.kernels.tensix.ttl import Block, block_op
from optimizer.kernels.tensix.witness.whole_tensors import differing

FORMS = [pytest.param(op, form, id=f"{op.name}-{n}") for op in TILE_OPS.values() for n, form in enumerate(op.forms)]


@pytest.mark.parametrize(("op", "form"), FORMS)
def test_calls_have_a_signature_that_takes_their_arguments(op: TileOp, form: Form) -> None:
    for call in (form.init, form.call):
        found = signature(call)
        required = [arg for arg in found.args if "=" not in arg]
        assert len(required) <= len(call.args) <= len(found.args)
        assert len(call.template) <= len(found.template_names)


@pytest.mark.parametrize(("op", "form"), FORMS)
def test_forms_place_every_operand_and_name_what_they_overwrite(op: TileOp, form: Form) -> None:
    assert len(form.places) == op.arity
    assert form.in_place is None or form.places[form.in_place] is Place.DST
    assert not (form.accumulates and Place.DST in form.places), "what adds to its slot reads circular buffers only"


def test_every_op_has_a_meaning_in_cpp_of_its_own() -> None:
    special = {name for name, op in TILE_OPS.items() if op.accumulates}
    assert set(TILE_OPS) == set(by_element()) | set(WHOLE_TILE) | special


def test_the_excerpt_of_the_api_holds_only_what_is_called() -> None:
    called = {c.function for op in TILE_OPS.values() for f in op.forms for c in (f.init, f.call)}
    common = {"pack_tile", "pack_block", "reduce_uninit", "compute_kernel_hw_startup"}
    common |= {"reconfig_data_format", "pack_reconfig_data_format", "matmul_block_init", "matmul_block"}
    assert called <= set(signatures()) <= called | common


# -- both witnesses, bit for bit -------------------------------------------------------------------------
EXTREMES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-40, -1e-40, 1e38, -1e38, 88.8, -104.0],
    np.float32,
)
BY_ELEMENT = sorted(set(by_element()) - {"copy", "copy_dst", "fill", "typecast"})
PER_KERNEL = 28
"""Ops whose results have a circular buffer each, beside three operands, of 32."""


def operands(extremes: Array) -> dict[str, Array]:
    """Tiles of numbers of many sizes; `a` and `b` begin with every pair of extremes."""
    generator = np.random.default_rng(0)
    shape = (32, 32)
    made = {n: (generator.normal(size=shape) * 2.0 ** generator.integers(-6, 7, shape)) for n in "abc"}
    tiles = {n: values.astype(np.float32) for n, values in made.items()}
    for n, pairs in zip("ab", np.meshgrid(extremes, extremes), strict=True):
        tiles[n].reshape(-1)[: pairs.size] = pairs.reshape(-1)
    return tiles


def differences(program: Op, tensors: dict[str, Array], chip: str | None) -> dict[str, int]:
    """Elements in which the C++ differs from the interpreter, by output."""
    stages: dict[str, Op] = {}
    lowered = lower(program, KernelOptions(), stages.__setitem__)
    executed = execute(lowered, emit_program(lowered), tensors, chip=chip).tensors
    names = [v.name for v in program.body.args]
    buffers = dict(zip(names, (op.result.name for op in program.body.ops if op.name == "ttl.bind_cb"), strict=True))
    given = {buffers[t]: values for t, values in tensors.items()}
    made = run(stages["insert-inits"], given, chip=chip)
    return {t: differing(made[cb], executed[t]) for t, cb in buffers.items() if cb in made}


FINITE = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e30, -1e30, 1e-30, -1e-30, 3.0, -7.0], np.float32)
"""What the units of a chip are modelled for."""
CHIPS = [pytest.param(None, id="ideal"), "wormhole_b0", "blackhole"]


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("chip", CHIPS[:2])
@pytest.mark.parametrize("first", range(0, len(BY_ELEMENT), PER_KERNEL))
@pytest.mark.slow
def test_ops_by_element_agree_bit_for_bit(first: int, chip: str | None) -> None:
    names = BY_ELEMENT[first : first + PER_KERNEL]
    ops = []
    for name in names:
        numbers = {attr: 0.7 + 0.1 * k for k, attr in enumerate(TILE_OPS[name].attrs)}
        ops.append({"name": f"v_{name}", "op": name, "args": list("abc"[: TILE_OPS[name].arity]), "attrs": numbers})
    results = {"outputs": [f"o_{name}" for name in names], "yield": [f"v_{name}" for name in names]}
    record = {"id": "ops", "inputs": ["a", "b", "c"], "ops": ops, "block": [1, 1], "dtype": "f32", "capacity": 4}
    given = {f"{n}_t": x for n, x in operands(EXTREMES if chip is None else FINITE).items()}
    found = differences(case_program(read_cases({"cases": [record | results]})[0]), given, chip)
    assert found == {f"o_{name}_t": 0 for name in names}


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", [DType.BF16, DType.F32])
@pytest.mark.slow
def test_ops_of_whole_tiles_agree_bit_for_bit(dtype: DType, chip: str | None) -> None:
    names = sorted({n for n, op in TILE_OPS.items() if op.accumulates} | set(WHOLE_TILE))

    def body(a: Block, b: Block, scaler: Block, ones: Block) -> tuple[Block, ...]:
        second = {n: ones if "_max_" in n else scaler if n.startswith("reduce_") else b for n in names}
        return tuple(block_op(name, *(a, second[name])[: TILE_OPS[name].arity]) for name in names)

    program = one_block("tiles", [(1, 1)] * 4, [(1, 1)] * len(names), body, dtype)
    generator = np.random.default_rng(1)
    a, b = (rounded(generator.normal(size=(32, 32)).astype(np.float32), dtype) for _ in range(2))
    scalers = (np.full((32, 32), number, np.float32) for number in (0.375, 1.0))
    given = dict(zip((v.name for v in program.body.args), (a, b, *scalers), strict=False))
    found = differences(program, given, chip)
    assert len(found) == len(names)
    assert set(found.values()) == {0}
