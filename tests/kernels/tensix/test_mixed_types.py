"""Kernels whose circular buffers hold different element types: reconfiguration, typecasts, block formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_core import compile_program, execute
from sample_kernels import kernel_around

from optimizer.errors import GraphError, InfeasibleError, VerificationError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode
from optimizer.kernels.tensix.dst.plan import plan_body
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.emitted import read_short
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import BLOCK_BITS, rounded
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.ttl import Block
from optimizer.kernels.tensix.witness.whole_tensors import witness
from tests.samples import examples

BF16, F32, BFP8, BFP4 = DType.BF16, DType.F32, DType.BFP8_B, DType.BFP4_B
executed = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


def mixed(
    inputs: list[tuple[tuple[int, int], DType]],
    output: tuple[tuple[int, int], DType],
    body: Callable[..., Block],
    wide: bool = False,
) -> Op:
    """One block of each input, of its own element type, to one block of the output."""
    tensors = [ttl.Tensor(shape, dtype) for shape, dtype in (*inputs, output)]
    return kernel_around("mixed", tensors[:-1], tensors[-1:], body, fp32_dest_acc_en=wide)


def _dense(x: Block, w: Block, b: Block) -> Block:
    return ttl.block_op("relu", ttl.block_op("add_bcast_row", x @ w, b))


def _bcast(name: str) -> Callable[[Block, Block], Block]:
    return lambda a, b: ttl.block_op(name, a, b)


S = (2, 3)
KERNELS: dict[str, Callable[[], Op]] = {
    "bf16 + f32": lambda: mixed([(S, BF16), (S, F32)], (S, F32), lambda a, b: a + b, wide=True),
    "bf16 + f32 to bf16": lambda: mixed([(S, BF16), (S, F32)], (S, BF16), lambda a, b: a * b + a, wide=True),
    "bfp8_b * bf16": lambda: mixed([(S, BFP8), (S, BF16)], (S, BF16), lambda a, b: a * b),
    "bf16 to bfp8_b": lambda: mixed([(S, BF16), (S, BF16)], (S, BFP8), lambda a, b: a - b),
    "bfp4_b and bfp8_b": lambda: mixed([(S, BFP4), (S, BFP8)], (S, BF16), lambda a, b: ttl.block_op("max", a, b)),
    "weights in bfp8_b": lambda: mixed(
        [((2, 3), BF16), ((3, 4), BFP8), ((1, 4), BF16)], ((2, 4), BF16), _dense, wide=True
    ),
    "f32 + f32 row": lambda: mixed([(S, F32), ((1, 3), F32)], (S, F32), _bcast("add_bcast_row"), wide=True),
    "bf16 - f32 column": lambda: mixed([(S, BF16), ((2, 1), F32)], (S, F32), _bcast("sub_bcast_col"), wide=True),
    "exp(f32) + bf16 row": lambda: mixed(
        [(S, F32), ((1, 3), BF16)],
        (S, F32),
        lambda a, b: ttl.block_op("add_bcast_row", ttl.block_op("exp", a), b),
        wide=True,
    ),
    "bf16 * bf16 scalar + f32": lambda: mixed(
        [(S, BF16), ((1, 1), BF16), (S, F32)],
        (S, F32),
        lambda a, b, c: ttl.block_op("mul_bcast_scalar", a, b) + c,
        wide=True,
    ),
    "typecast to f32": lambda: mixed([(S, BF16)], (S, F32), lambda a: ttl.typecast(ttl.block_op("exp", a), F32), True),
    "typecast to bf16": lambda: mixed(
        [(S, F32), (S, F32)], (S, F32), lambda a, b: ttl.typecast(ttl.typecast(a + b, BF16), F32), wide=True
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_slots_compute_what_the_kernel_says(name: str) -> None:
    assert witness(KERNELS[name](), KernelOptions(), execute_cpp=False).interpreter == 0


@pytest.mark.parametrize("name", KERNELS)
def test_unfused_ops_agree(name: str) -> None:
    assert witness(KERNELS[name](), KernelOptions(fuse=False), execute_cpp=False).agrees


MIXED_CPP = (
    "bf16 + f32 to bf16", "bfp8_b * bf16", "weights in bfp8_b", "typecast to bf16", "exp(f32) + bf16 row",
    "bf16 * bf16 scalar + f32",
)  # fmt: skip


@executed
@pytest.mark.parametrize("name", MIXED_CPP)
def test_the_emitted_cpp_computes_what_the_kernel_says(name: str) -> None:
    assert witness(KERNELS[name](), KernelOptions()).agrees


def test_a_typecast_rounds_within_dst() -> None:
    """Without it the f32 result would keep bits that bf16 has not."""
    program = KERNELS["typecast to bf16"]()
    text = compile_program(program)[0].text
    formats = "static_cast<uint32_t>(DataFormat::Float32), static_cast<uint32_t>(DataFormat::Float16_b)"
    assert f"typecast_tile_init<{formats}>();" in text
    assert f"typecast_tile<{formats}>(" in text


def test_units_are_set_to_the_next_element_type() -> None:
    text = compile_program(KERNELS["bf16 + f32 to bf16"]())[0].text
    assert "reconfig_data_format(cb_1, cb_1);" in text
    assert '#include "api/compute/reconfig_data_format.h"' in text


def test_matmuls_take_their_operands_the_other_way_round() -> None:
    text = compile_program(KERNELS["weights in bfp8_b"]())[0].text
    assert "reconfig_data_format(cb_1, cb_0);" in text


def test_equal_element_types_need_no_reconfiguration() -> None:
    program = mixed([(S, BF16), (S, BF16)], (S, BF16), lambda a, b: ttl.block_op("exp", a) * b)
    assert "reconfig" not in compile_program(program)[0].text


@pytest.mark.parametrize("name", ["f32 + f32 row", "bf16 - f32 column"])
@pytest.mark.parametrize("fuse", [True, False])
def test_the_fpu_broadcasts_no_f32(name: str, fuse: bool) -> None:
    """It would read it at 19 bits."""
    text = compile_program(KERNELS[name](), KernelOptions(fuse=fuse))[0].text
    assert "_tiles_bcast" not in text
    assert "unary_bcast<BroadcastType::" in text


def test_a_row_of_bf16_comes_to_f32_as_a_sum_with_zeros_of_bf16() -> None:
    """The FPU reads the row and a tile of zeros, both of 16 bits; the f32 operand stays in DST."""
    text = compile_program(KERNELS["exp(f32) + bf16 row"]())[0].text
    assert "add_tiles_bcast_rows(cb_3, cb_1" in text
    assert "cb_3 = 3;  // 1 block of 1x1 tiles, bf16" in text
    assert "add_binary_tile<ckernel::DstRoundingMode::NearestEven>(" in text


def short(program: Op) -> tuple[str, ...]:
    stages: dict[str, Op] = {}
    lower(program, KernelOptions(), stages.__setitem__)
    return read_short(stages["insert-inits"])


def test_what_the_fpu_reads_at_19_bits_is_told() -> None:
    """Matrices are multiplied and rows reduced by nothing else."""
    bodies: dict[str, Callable[..., Block]] = {
        "product": lambda a, b: ttl.block_op("exp", a @ b),
        "row": lambda a, b: ttl.block_op("reduce_sum_row", a * a, b),
        "product and sum": lambda a, b: a @ b + a,
        "sum": lambda a, b: a + b,
    }
    found = {
        (name, dtype): short(mixed([((1, 1), dtype)] * 2, ((1, 1), dtype), body, wide=True))
        for name, body in bodies.items()
        for dtype in (BF16, F32)
    }
    assert {name: told for (name, dtype), told in found.items() if dtype is F32} == {
        "product": ("matmul",), "row": ("reduce_sum_row",), "product and sum": ("matmul", "copy"), "sum": (),
    }  # fmt: skip
    assert {told for (_, dtype), told in found.items() if dtype is BF16} == {()}


def test_the_fpu_broadcasts_bf16_beside_f32() -> None:
    text = compile_program(KERNELS["bf16 * bf16 scalar + f32"]())[0].text
    assert "mul_tiles_bcast_scalar(cb_0, cb_1" in text
    assert "add_binary_tile<ckernel::DstRoundingMode::NearestEven>(" in text


def test_a_body_that_would_round_f32_is_refused() -> None:
    dag = TileDag(2, (TileNode("add_bcast_row", (0, 1)),), (2,), "f32", ("bf16", "f32"))
    with pytest.raises(
        InfeasibleError, match=r"add_bcast_row.* takes bf16, bfp4_b, bfp8_b, .* round its operands: bf16, f32"
    ):
        plan_body(dag, 4, 4)


# -- what the executor refuses --------------------------------------------------------------------------
def _mutated(program: Op, old: str, new: str) -> None:
    lowered = lower(program, KernelOptions())
    kernels = emit_program(lowered)
    assert old in kernels[0].text
    kernels = (replace(kernels[0], text=kernels[0].text.replace(old, new, 1)), *kernels[1:])
    execute(lowered, kernels, {})


@executed
@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("bfp8_b * bf16", "compute_kernel_hw_startup(cb_0, cb_1,", "compute_kernel_hw_startup(cb_1, cb_1,", "unpacker"),
        ("bf16 + f32 to bf16", "reconfig_data_format(cb_1, cb_1);", "", "unpacker is set to Float16_b"),
        ("bf16 to bfp8_b", "(cb_0, cb_1, cb_2)", "(cb_0, cb_1, cb_1)", "packer is set to Float16_b"),
        ("typecast to bf16", "typecast_tile_init<static_cast<uint32_t>(DataFormat::Float32)",
         "typecast_tile_init<static_cast<uint32_t>(DataFormat::Float16_b)", "typecast_tile needs typecast_tile_init"),
    ],
)  # fmt: skip
def test_wrong_formats_are_caught(name: str, old: str, new: str, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        _mutated(KERNELS[name](), old, new)


@executed
def test_copies_have_the_format_of_dst() -> None:
    record: dict[str, Any] = {"id": "copied", "inputs": ["a", "b"], "outputs": ["o", "p"], "yield": ["v", "w"]}
    record["ops"] = [
        {"name": "u", "op": "max", "args": ["a", "b"]},
        {"name": "v", "op": "abs", "args": ["u"]},
        {"name": "w", "op": "exp", "args": ["u"]},
    ]
    program = case_program(read_cases({"cases": [record | {"dtype": "f32", "block": [1, 1]}]})[0])
    assert "copy_dest_values<DataFormat::Float32>(" in compile_program(program)[1].text
    lowered = lower(program, KernelOptions())
    kernels = [replace(k, text=k.text.replace("Format::Float32>", "Format::Float16_b>")) for k in emit_program(lowered)]
    with pytest.raises(VerificationError, match="copy_dest_values: its data format is not that of DST"):
        execute(lowered, kernels, {})


# -- typing rules ------------------------------------------------------------------------------------------
def test_a_result_has_the_widest_type_of_its_operands() -> None:
    with pytest.raises(GraphError, match="mixes element types: bf16, f32 -> bf16"):
        mixed([(S, BF16), (S, F32)], (S, BF16), lambda a, b: ttl.block_op("add", a, b, result_dtype=BF16))


def test_a_typecast_says_what_its_types_are() -> None:
    with pytest.raises(GraphError, match=r"attribute .source. is 0\.0, bf16 is 5"):
        mixed([(S, BF16)], (S, F32), lambda a: ttl.block_op("typecast", a, result_dtype=F32, source=0.0, target=0.0))


# -- block formats -------------------------------------------------------------------------------------------
@settings(max_examples=examples(50))
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=16, max_size=16), st.sampled_from(sorted(BLOCK_BITS)))
def test_block_formats_share_the_largest_exponent(numbers: list[float], dtype: DType) -> None:
    values = np.array([numbers], np.float32)
    made = rounded(values, dtype)
    largest = float(np.abs(values).max())
    step = 2.0 ** (np.frexp(np.float32(largest))[1] - BLOCK_BITS[dtype])
    assert (np.abs(made - values) <= step).all()
    assert (np.rint(made / step) == made / step).all()
    assert (rounded(made, dtype) == made).all()


def test_block_formats_round_to_even_and_stay_below_the_next_exponent() -> None:
    values = np.zeros((1, 32), np.float32)
    values[0, :4] = 1.0, 2.5 / 64, 3.5 / 64, 1.999
    values[0, 16:18] = 2.5 / 64, 3.5 / 64
    made = rounded(values, BFP8)[0]
    assert made[:4].tolist() == [1.0, 2 / 64, 4 / 64, 127 / 64]
    assert made[16:18].tolist() == [2.5 / 64, 3.5 / 64]
