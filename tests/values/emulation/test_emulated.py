"""Single ops as a device computes them."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer import families
from optimizer.errors import ExecutionError
from optimizer.ir.compute_config import COMPUTE, ComputeConfig
from optimizer.ir.dtype import DType
from optimizer.ir.vocabulary import op_names
from optimizer.kernels.tensix.rounding import Array, round_bf16
from optimizer.layouts.memory_config import BufferType, PageLayout, interleaved
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.values.emulation.emulated import emulated, result_dtypes
from optimizer.values.emulation.units import Units, converted
from optimizer.values.reference import reference

DRAM = interleaved(BufferType.DRAM, PageLayout.TILE)
BF16, BFP8, F32 = DType.BF16, DType.BFP8_B, DType.F32
X: Array = round_bf16(np.random.default_rng(1).standard_normal((1, 1, 64, 64)).astype(np.float32))


def query(op: str, *dtypes: DType, result: DType | None = None, wide: bool | None = None, **attrs: object) -> OpQuery:
    """An op on tensors of X's shape."""
    if wide is not None:
        attrs[COMPUTE] = ComputeConfig("hifi3", wide).attr
    specs = tuple(TensorSpec(X.shape, dtype, DRAM) for dtype in dtypes)
    return OpQuery(f"ttnn.{op}", specs, tuple(sorted(attrs.items())), output_dtype=result)  # type: ignore[arg-type]


def relative(found: Array, exact: Array) -> float:
    return float(np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean()))


def test_every_op_of_the_vocabulary_has_a_rule() -> None:
    assert set(families.table("EMULATIONS")) == set(op_names())


def test_another_op_is_named() -> None:
    with pytest.raises(ExecutionError, match=r"no emulation of ttnn\.unheard_of"):
        emulated(query("unheard_of", BF16), [X])


def test_element_types_of_results() -> None:
    assert result_dtypes(query("add", BF16, BF16)) == (BF16,)
    assert result_dtypes(query("add", BF16, BF16, result=BFP8)) == (BFP8,)
    assert result_dtypes(query("typecast", BF16, dtype="bfp8_b")) == (BFP8,)


def test_results_are_packed_in_their_element_type() -> None:
    in_blocks = emulated(query("add", BF16, BF16, result=BFP8), [X, X])[0]
    assert np.array_equal(in_blocks, Units("HiFi4", False).packed(2 * X, BFP8))


def test_f32_becomes_bf16_to_the_nearest() -> None:
    x = X + np.float32(1 / 3)
    assert np.array_equal(emulated(query("typecast", F32, dtype="bf16"), [x])[0], round_bf16(x))


def test_casts_to_block_floats_are_rounded_once() -> None:
    x = np.zeros((1, 1, 64, 64), np.float32)
    x[..., ::16], x[..., 1] = 1.0, 0.2578125  # 1/64 is a step: 16.5 of them
    assert emulated(query("typecast", BF16, dtype="bfp8_b"), [x])[0][0, 0, 0, 1] == 17 / 64
    numbers = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32)
    once, twice = (
        emulated(query("typecast", F32, dtype="bfp8_b"), [numbers])[0],
        Units("HiFi4", True).packed(numbers, BFP8),
    )
    assert relative(once, numbers) < relative(twice, numbers)
    assert np.array_equal(emulated(query("typecast", F32, dtype="bfp4_b"), [numbers])[0],
                          Units("HiFi4", True).packed(numbers, DType.BFP4_B))  # fmt: skip


def test_the_host_rounds_where_a_core_cuts_off() -> None:
    numbers = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32)
    by_host, by_core = (
        emulated(query("typecast", BF16, dtype="bfp4_b", on_host=on_host), [numbers])[0] for on_host in (True, False)
    )
    assert np.array_equal(by_host, converted(numbers, DType.BFP4_B))
    assert relative(by_host, numbers) < 0.7 * relative(by_core, numbers)


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "rms_norm"])
def test_sums_of_32_bits_are_more_exact(op: str) -> None:
    attrs: dict[str, object] = {"dim": -1} if op == "softmax" else {"epsilon": 1e-5}
    errors = []
    for wide in (False, True):
        asked = query(op, BF16, wide=wide, **attrs)
        errors.append(relative(emulated(asked, [X])[0], reference(asked, [X])[0].value))
    assert 0.0005 < errors[1] < errors[0] < 0.02


def test_a_position_sees_none_after_it() -> None:
    asked = query("scaled_dot_product_attention", BF16, BF16, BF16, wide=False, is_causal=True)
    other = X.copy()
    other[..., 20:, :] = 3.0
    found, changed = (emulated(asked, [X, x, x])[0] for x in (X, other))
    assert np.array_equal(found[..., :20, :], changed[..., :20, :])
    assert relative(found, reference(asked, [X, X, X])[0].value) < 0.05


@pytest.mark.parametrize("hidden", [-1e30, -3.38e38, -np.inf])
def test_masked_keys_have_no_weight(hidden: float) -> None:
    asked = query("scaled_dot_product_attention", BF16, BF16, BF16, BF16, wide=False)
    mask = np.where(np.arange(64) < 40, np.float32(0), np.float32(hidden))[None, None, None]
    found = emulated(asked, [X, X, X, mask])[0]
    other = X.copy()
    other[..., 40:, :] = 3.0
    assert np.isfinite(found).all()
    assert np.array_equal(found, emulated(asked, [X, other, other, mask])[0])


@pytest.mark.parametrize("wide", [False, True])
def test_a_depthwise_convolution_is_the_one_of_a_group_a_channel(wide: bool) -> None:
    rng = np.random.default_rng(2)
    image = round_bf16(rng.standard_normal((1, 1, 64, 32)).astype(np.float32))
    weight = round_bf16(rng.standard_normal((32, 1, 3, 3)).astype(np.float32) / 3)
    window = {
        "batch_size": 1, "input_height": 8, "input_width": 8, "kernel_size": (3, 3), "stride": (1, 1),
        "padding": (1, 1, 1, 1), "dilation": (1, 1), "in_channels": 32, "out_channels": 32, "groups": 32,
    }  # fmt: skip
    asked = query("conv2d", BF16, BF16, wide=wide, **window)
    found, exact = emulated(asked, [image, weight])[0], reference(asked, [image, weight])[0].value
    assert found.shape == exact.shape
    assert 0.001 < relative(found, exact) < (0.003 if wide else 0.01)


def columns(weight: Array, groups: int) -> Array:
    """What a pointwise convolution of ones with weights in bfp8_b gives: the sum of every output's weights."""
    channels = weight.shape[1] * groups
    window = {
        "batch_size": 1, "input_height": 8, "input_width": 8, "kernel_size": (1, 1), "stride": (1, 1),
        "padding": (0, 0, 0, 0), "dilation": (1, 1), "in_channels": channels, "out_channels": 32, "groups": groups,
    }  # fmt: skip
    asked = query("conv2d", BF16, F32, wide=True, **window)
    config = Conv2dConfig(weights_dtype="bfp8_b")
    image = np.ones((1, 1, 64, channels), np.float32)
    found: Array = emulated(OpQuery(asked.op, asked.inputs, asked.attrs, config), [image, weight])[0]
    return found[0, 0, 0]


def test_weights_of_a_convolution_share_exponents_along_its_outputs() -> None:
    weight = np.ones((32, 16, 1, 1), np.float32)
    weight[::16] = 200.0
    found = columns(weight, groups=1)
    kept = converted(weight[:, 0, 0, 0][None], BFP8)[0]
    assert kept[1] == 0.0  # half of a step of two, to the even one
    assert np.array_equal(found, 16 * kept)


def test_weights_of_groups_share_exponents_within_a_group_only() -> None:
    """A depthwise convolution becomes a matrix with zeros beside every weight."""
    weight = np.ones((32, 1, 1, 1), np.float32)
    weight[::16] = 200.0
    assert np.array_equal(columns(weight, groups=32), weight.ravel())


@pytest.mark.parametrize(("dtype", "least"), [(BF16, 0.099609375), (F32, np.float32(0.1))])
def test_the_number_that_maximum_takes_is_cut_off(dtype: DType, least: float) -> None:
    """As the simulator has it (ttnn 0.81.1); to the nearest it would be 0.10009765625."""
    assert emulated(query("maximum", dtype, scalar=0.1), [np.minimum(X, 0)])[0].min() == least
