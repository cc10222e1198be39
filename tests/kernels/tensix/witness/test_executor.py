"""The executor fails on kernels that a Tensix core would get wrong: every error class, by a mutation of right ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from one_core import execute
from one_core import run as interpret
from sample_kernels import kernel_around

from optimizer.errors import VerificationError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.executor.execute import Execution, has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import Array
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.ttl import Block, block_op

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

RECORD = {
    "id": "mixed",
    "inputs": ["a", "b", "c"],
    "outputs": ["o", "p"],
    "ops": [
        {"name": "u", "op": "max", "args": ["a", "b"]},
        {"name": "v", "op": "abs", "args": ["u"]},
        {"name": "w", "op": "exp", "args": ["u"]},
        {"name": "x", "op": "mul", "args": ["w", "c"]},
    ],
    "yield": ["v", "x"],
    "block": [2, 2],
    "dtype": "bf16",
    "capacity": 8,
}
PROGRAM = case_program(read_cases({"cases": [RECORD]})[0])


def run(old: str = "", new: str = "", kind: str = "compute") -> Execution:
    """The kernels with one text replaced in one thread, on ascending numbers."""
    lowered = lower(PROGRAM, KernelOptions())
    kernels: list[KernelSource] = []
    for kernel in emit_program(lowered):
        if old and kernel.kind == kind:
            assert old in kernel.text, f"the {kind} kernel has no '{old}'"
            kernel = replace(kernel, text=kernel.text.replace(old, new, 1))
        kernels.append(kernel)
    values = {
        f"{n}_t": np.linspace(0.1, k, 64 * 64, dtype=np.float32).reshape(64, 64)
        for n, k in zip("abc", (2, 1, 3), strict=True)
    }
    return execute(lowered, kernels, values)


def test_the_right_kernels_run() -> None:
    found = run()
    assert (found.tensors["o_t"] > 0).all()
    assert found.sections >= 1


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("cb_wait_front(cb_0, 4);", "", "compute", "waited for"),
        ("cb_reserve_back(cb_3, 4);", "", "compute", "reserved"),
        ("cb_pop_front(cb_1, 4);", "", "compute", "circular buffer 1 is not drained"),
        ("cb_push_back(cb_4, 4);", "", "compute", "deadlock|stopped|reserved and not pushed"),
        ("exp_tile_init();", "", "compute", "exp_tile needs exp_tile_init"),
        ("exp_tile_init();", "abs_tile_init();", "compute", "exp_tile needs exp_tile_init|is not declared"),
        ("tile_regs_wait();", "", "compute", "tile_regs_commit"),
        ("tile_regs_commit();", "", "compute", "tile_regs_wait after tile_regs_acquire"),
        ("copy_tile(cb_1, ", "copy_tile(cb_1, 4 + ", "compute", "of buffer 1"),
        ("abs_tile(", "abs_tile(8 + ", "compute", "slot 8 of 8|slot 1[0-9] of 8|slot 9 of 8"),
        ("noc_async_read_barrier();", "", "reader", "is not written"),
        ("noc_async_write_barrier();", "", "writer", "is still being written"),
        ("cb_push_back(cb_2, 4);", "", "reader", "deadlock|reserved and not pushed|stopped"),
    ],
)
@pytest.mark.slow
def test_mutations_are_caught(old: str, new: str, kind: str, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        run(old, new, kind)


def test_swapped_copy_dest_values_are_caught() -> None:
    """The other way round, the copy reads a slot that holds nothing or something else."""
    lowered = lower(PROGRAM, KernelOptions())
    text = next(k.text for k in emit_program(lowered) if k.kind == "compute")
    line = next(row.strip() for row in text.splitlines() if "copy_dest_values<" in row)
    source, target = line[line.index("(") + 1 : line.rindex(")")].split(", ")
    right, wrong, refused = run().tensors, {}, ""
    try:
        wrong = run(line, line.replace(f"({source}, {target})", f"({target}, {source})")).tensors
    except VerificationError as error:
        refused = str(error)
    assert "holds nothing" in refused or any((right[name] != wrong[name]).any() for name in ("o_t", "p_t"))


def test_a_divisor_is_handed_over_as_its_reciprocal() -> None:
    """`div_unary_tile` multiplies; given the divisor itself, it would give products."""
    record = {**RECORD, "ops": [{"name": "q", "op": "div_scalar", "args": ["a"], "attrs": {"value": 0.8}}]}
    record |= {"inputs": ["a"], "outputs": ["o"], "yield": ["q"]}
    lowered = lower(case_program(read_cases({"cases": [record]})[0]), KernelOptions())
    kernels = list(emit_program(lowered))
    assert any(", 0x3fa00000u)" in kernel.text for kernel in kernels)  # 1.25
    values = {"a_t": np.full((64, 64), 2.0, np.float32)}
    right = execute(lowered, kernels, values).tensors["o_t"]
    old = [replace(k, text=k.text.replace("0x3fa00000u", "0x3f4ccccdu")) for k in kernels]  # 0.8
    wrong = execute(lowered, old, values).tensors["o_t"]
    assert (right[0, 0], wrong[0, 0]) == (2.5, np.float32(1.6015625))


# -- what the units of a core are set to ------------------------------------------------------------------
def kernel_of(body: Callable[..., Block], dtypes: Sequence[DType], wide: bool = False) -> Op:
    """A kernel of one-tile blocks with an operand of each of these element types, and a result of the first."""
    tensors = [ttl.Tensor((1, 1), dtype) for dtype in dtypes]
    return kernel_around("one", tensors, tensors[:1], body, fp32_dest_acc_en=wide)


def executed(program: Op, values: Sequence[float], old: str = "", new: str = "", chip: str | None = None) -> Array:
    """The result of operands that hold one number each, of the kernel with one text of its compute thread replaced."""
    lowered = lower(program)
    kernels = list(emit_program(lowered))
    compute = next(k for k, kernel in enumerate(kernels) if kernel.kind == "compute")
    assert old in kernels[compute].text
    kernels[compute] = replace(kernels[compute], text=kernels[compute].text.replace(old, new))
    names = [v.name for v in program.body.args]
    given = {n: np.full((32, 32), value, np.float32) for n, value in zip(names, values, strict=False)}
    return execute(lowered, kernels, given, chip=chip).tensors[names[-1]]


def reduced(kind: str) -> Callable[[Block, Block], Block]:
    return lambda x, scaler: block_op(f"reduce_{kind}", x, scaler)


def test_row_sums_have_their_scaler_in_source_a() -> None:
    """`reduce.h`: reconfig_data_format(scaler, operand). The startup sets both, the other way round."""
    program = kernel_of(reduced("sum_row"), (DType.BFP8_B, DType.BF16))
    startup = "compute_kernel_hw_startup<SrcOrder::Reverse>("
    assert executed(program, (1.0, 0.5))[0, 0] == 16.0
    with pytest.raises(VerificationError, match="reduce_tile: buffer 1 holds Float16_b, the unpacker is set to"):
        executed(program, (1.0, 0.5), startup, "compute_kernel_hw_startup(")


def test_column_sums_have_their_operand_in_source_a() -> None:
    program = kernel_of(reduced("sum_col"), (DType.BFP8_B, DType.BF16))
    assert executed(program, (1.0, 0.5))[0, 0] == 16.0
    with pytest.raises(VerificationError, match="the unpacker is set to"):
        executed(program, (1.0, 0.5), "hw_startup(cb_0, cb_1,", "hw_startup<SrcOrder::Reverse>(cb_0, cb_1,")


def test_matmuls_have_their_second_operand_in_source_a() -> None:
    program = kernel_of(lambda a, b: a @ b, (DType.BFP8_B, DType.BF16))
    assert executed(program, (1.0, 0.5))[0, 0] == 16.0
    with pytest.raises(VerificationError, match="matmul_tiles: buffer 1 holds Float16_b"):
        executed(program, (1.0, 0.5), "<SrcOrder::Reverse>", "")


@pytest.mark.parametrize("chip", [None, "wormhole_b0"])
def test_a_sum_of_a_whole_tile_is_scaled_twice(chip: str | None) -> None:
    program = kernel_of(reduced("sum_scalar"), (DType.BF16, DType.BF16))
    assert executed(program, (1.0, 0.5), chip=chip)[0, 0] == 256.0


def test_a_maximum_that_is_scaled_is_refused() -> None:
    program = kernel_of(reduced("max_row"), (DType.BF16, DType.BF16))
    assert executed(program, (3.0, 1.0))[0, 0] == 3.0
    with pytest.raises(VerificationError, match="scales a maximum by other than 1"):
        executed(program, (3.0, 0.5))


def test_sums_of_the_vector_unit_are_cut_off_unless_the_call_rounds() -> None:
    """1 + 3/512 lies between 1 and 1 + 1/128, nearer to the latter."""
    program = kernel_of(lambda a, b: block_op("abs", a) + block_op("abs", b), (DType.BF16, DType.BF16))
    values = (1.0, 3 / 512)
    assert executed(program, values, chip="wormhole_b0")[0, 0] == 1 + 1 / 128
    cut_off = executed(program, values, "<ckernel::DstRoundingMode::NearestEven>", "", "wormhole_b0")
    assert cut_off[0, 0] == 1.0


@pytest.mark.parametrize(("chip", "signs"), [("wormhole_b0", (False, False)), ("blackhole", (True, False))])
def test_a_sum_of_negative_zeros_has_a_sign_on_blackhole_and_a_product_nowhere(
    chip: str, signs: tuple[bool, bool]
) -> None:
    found = []
    for body, second in ((lambda a, b: a + b, -0.0), (lambda a, b: a * b, 1.0)):
        program = kernel_of(body, (DType.F32, DType.F32), wide=True)
        stages: dict[str, Op] = {}
        lower(program, observe=stages.__setitem__)
        names = [op.result.name for op in program.body.ops if op.name == "ttl.bind_cb"]
        tiles = {n: np.full((32, 32), v, np.float32) for n, v in zip(names, (-0.0, second), strict=False)}
        interpreted = interpret(stages["insert-inits"], tiles, chip=chip)[names[-1]]
        found.append(executed(program, (-0.0, second), chip=chip))
        assert np.signbit(interpreted).tolist() == np.signbit(found[-1]).tolist()
    assert tuple(bool(np.signbit(tile).all()) for tile in found) == signs


def test_the_fpu_reads_no_buffer_that_goes_to_dst_past_it() -> None:
    """Float32 that only the vector unit reads does; a product takes all of its digits then, and 19 bits otherwise."""
    digits = 1 + 2.0**-20
    program = kernel_of(lambda a, b: a * b, (DType.F32, DType.F32), wide=True)
    assert executed(program, (digits, 1.0), chip="wormhole_b0")[0, 0] == digits
    lowered = lower(program)
    straight = [op for op in lowered.body.ops if op.name == "ttl.bind_cb" and op.attr("unpack_to_dst", False)]
    assert len(straight) == 2
    product = lower(kernel_of(lambda a, b: a @ b, (DType.F32, DType.F32), wide=True))
    assert not any(op.has_attr("unpack_to_dst") for op in product.body.ops)
    wrong = product.with_body(
        tuple(op.with_attrs(unpack_to_dst=True) if op.name == "ttl.bind_cb" else op for op in product.body.ops)
    )
    with pytest.raises(VerificationError, match="matmul_tiles: buffer 0 is unpacked to DST past the FPU"):
        execute(wrong, emit_program(wrong), {})
