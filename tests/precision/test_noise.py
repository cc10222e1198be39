"""The error that one op adds, by element types and compute config."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from optimizer.ir.compute_config import COMPUTE, ComputeConfig
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.rounding import Array
from optimizer.layouts.memory_config import BufferType, PageLayout, interleaved
from optimizer.layouts.op_config import MatmulMultiCoreReuseProgramConfig
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.precision.noise import added_noise, packing_noise
from optimizer.precision.storing import EXACT, Noise
from optimizer.values.emulation.emulated import emulated
from optimizer.values.emulation.units import converted
from optimizer.values.reference import reference

DRAM = interleaved(BufferType.DRAM, PageLayout.TILE)
BF16, BFP8, BFP4, F32 = DType.BF16, DType.BFP8_B, DType.BFP4_B, DType.F32


def product(
    fidelity: str,
    fp32: bool,
    dtypes: tuple[DType, DType] = (BF16, BF16),
    depth: int = 1024,
    block: int = 0,
    packer: bool = True,
) -> OpQuery:
    """A matmul [64, depth] x [depth, 64] whose kernel takes `block` tiles along K at a time."""
    specs = tuple(TensorSpec(s, d, DRAM) for s, d in zip(((64, depth), (depth, 64)), dtypes, strict=True))
    config = MatmulMultiCoreReuseProgramConfig((1, 1), block, 1, 1, 2, 2) if block else None
    return OpQuery("ttnn.matmul", specs, ((COMPUTE, ComputeConfig(fidelity, fp32, packer).attr),), config)


@pytest.mark.parametrize(
    ("query", "ratio", "error"),
    [
        (product("lofi", False, block=2), 0.9794, 0.026),
        (product("hifi2", False, block=2), 1.0005, 0.008),
        (product("hifi2", False, block=8), 1.0082, None),
        (product("hifi2", False, block=32), 1.0148, 0.023),
        (product("hifi2", True), 0.9972, 0.004),
        (product("hifi4", True), 1.0000, 0.002),
    ],
)
def test_products_come_out_as_measured(query: OpQuery, ratio: float, error: float | None) -> None:
    """The rows of docs/cost-model.md, "Fidelity": ratio and relative L2 error, both together."""
    noise = added_noise(query, BF16)
    assert noise.gain == pytest.approx(ratio - 1, abs=0.002)
    assert error is None or sqrt(noise.variance + noise.gain**2) == pytest.approx(error, rel=0.35)


def test_weights_of_three_bits_need_one_pass() -> None:
    one, two = (added_noise(product(f, True, (BF16, BFP4)), BF16) for f in ("lofi", "hifi2"))
    assert one.gain == pytest.approx(two.gain)
    assert one.variance == pytest.approx(two.variance, rel=0.02)


def test_block_floats_are_exact_with_two_passes() -> None:
    noise = added_noise(product("hifi2", True, (BFP8, BFP8)), BF16)
    assert (noise.gain, noise.variance) == (
        pytest.approx(0.0, abs=1e-4),
        pytest.approx(packing_noise(BF16).variance, rel=0.1),
    )


def measured(query: OpQuery, operands: list[Array]) -> Noise:
    """Of a query in the emulation, which errs as the simulator does."""
    got, exact = emulated(query, operands)[0].astype(np.float64), reference(query, operands)[0].value
    gain = float((got * exact).sum() / (exact**2).sum())
    return Noise(gain - 1, float(((got - gain * exact) ** 2).sum() / (exact**2).sum()))


@pytest.mark.parametrize("dtypes", [(BF16, BF16), (BF16, BFP8), (BFP8, BFP4), (F32, F32)])
@pytest.mark.parametrize("fidelity", ["lofi", "hifi2", "hifi3"])
@pytest.mark.parametrize(
    ("fp32", "depth", "block"), [(True, 512, 0), (False, 128, 0), (False, 1024, 4), (False, 768, 2)]
)
def test_products_err_as_they_are_said_to(
    fidelity: str, fp32: bool, depth: int, block: int, dtypes: tuple[DType, DType]
) -> None:
    query = product(fidelity, fp32, dtypes, depth, block)
    rng = np.random.default_rng(7)
    operands = [converted(rng.standard_normal(x.shape), x.dtype) for x in query.inputs]
    stated, found = added_noise(query, dtypes[0]), measured(query, operands)
    assert stated.gain == pytest.approx(found.gain, abs=0.15 * sqrt(found.variance) + 3e-4)
    assert stated.variance == pytest.approx(found.variance, rel=0.2, abs=3e-7)


@pytest.mark.parametrize("x", [BF16, BFP8])
@pytest.mark.parametrize("kernel", [1, 3])
def test_a_convolution_tilizes_its_windows_into_the_type_of_its_result(kernel: int, x: DType) -> None:
    attrs = {
        "batch_size": 1, "input_height": 16, "input_width": 16, "in_channels": 64, "out_channels": 64,
        "kernel_size": (kernel, kernel), "stride": (1, 1), "padding": (kernel // 2,) * 4, "dilation": (1, 1),
        "groups": 1, COMPUTE: ComputeConfig("hifi3", True).attr,
    }  # fmt: skip
    specs = (TensorSpec((1, 1, 256, 64), x, DRAM), TensorSpec((64, 64, kernel, kernel), BF16, DRAM))
    query = OpQuery("ttnn.conv2d", specs, tuple(sorted(attrs.items())))  # type: ignore[arg-type]
    rng = np.random.default_rng(7)
    operands = [converted(rng.standard_normal(spec.shape), spec.dtype) for spec in specs]
    stated, found = added_noise(query, BFP8), measured(replace(query, output_dtype=BFP8), operands)
    assert stated.gain == pytest.approx(found.gain, abs=0.15 * sqrt(found.variance) + 3e-4)
    assert stated.variance == pytest.approx(found.variance, rel=0.25)
    assert (found.variance > 8e-5) == (kernel == 3 and x is BF16)


NORMS = {"softmax": 0, "layer_norm": 2, "rms_norm": 1}
"""And how many rows of weights they take."""


@pytest.mark.parametrize("fp32", [True, False])
@pytest.mark.parametrize("op", NORMS)
def test_norms_err_as_they_are_said_to(op: str, fp32: bool) -> None:
    attrs: dict[str, object] = {"dim": -1} if op == "softmax" else {"epsilon": 1e-5}
    attrs[COMPUTE] = ComputeConfig("hifi3", fp32).attr
    specs = (TensorSpec((1, 1, 64, 512), BF16, DRAM), *[TensorSpec((1, 1, 1, 512), BF16, DRAM)] * NORMS[op])
    query = OpQuery(f"ttnn.{op}", specs, tuple(sorted(attrs.items())))  # type: ignore[arg-type]
    rng = np.random.default_rng(7)
    operands = [converted(rng.standard_normal(x.shape), BF16) for x in specs]
    operands[1:] = [converted(x / 8 + (1 - k), BF16) for k, x in enumerate(operands[1:])]
    stated, found = added_noise(query, BF16), measured(query, operands)
    assert stated.gain == pytest.approx(found.gain, abs=0.25 * sqrt(found.variance))
    assert stated.variance == pytest.approx(found.variance, rel=0.3)


def test_approximate_functions_cost_exactness() -> None:
    spec, exact = TensorSpec((1, 1, 64, 512), BF16, DRAM), ComputeConfig("hifi3", True)
    hasty = ComputeConfig("hifi3", True, math_approx_mode=True)
    errors = [
        added_noise(OpQuery("ttnn.softmax", (spec,), ((COMPUTE, c.attr), ("dim", -1))), BF16).variance
        for c in (exact, hasty)
    ]
    assert errors[1] > 20 * errors[0]


@pytest.mark.parametrize("op", ["batch_norm", "group_norm", "avg_pool2d", "upsample", "sum"])
def test_one_pass_is_never_as_exact_as_three(op: str) -> None:
    spec = TensorSpec((1, 1, 64, 64), BF16, DRAM)
    low, high = (
        added_noise(OpQuery(f"ttnn.{op}", (spec,), ((COMPUTE, ComputeConfig(f, True).attr),)), BF16)
        for f in ("lofi", "hifi3")
    )
    assert low.variance + low.gain**2 > high.variance + high.gain**2


def test_ops_that_nothing_is_known_of_err_by_their_rounding() -> None:
    query = OpQuery("ttnn.maximum", (TensorSpec((64, 64), F32, DRAM),) * 2)
    assert added_noise(query, BF16) == packing_noise(BF16)


def test_more_passes_and_wider_sums_are_never_less_exact() -> None:
    losses = [added_noise(product(f, True), BF16).gain for f in ("lofi", "hifi2", "hifi4")]
    assert losses[0] < losses[1] < losses[2] == pytest.approx(0, abs=1e-4)
    narrow, wide_sums = (added_noise(product("hifi3", wide), BF16) for wide in (False, True))
    assert narrow.variance > wide_sums.variance


def test_results_in_block_floats_cost_their_rounding() -> None:
    narrow, wide = (added_noise(product("hifi4", True), dtype) for dtype in (BFP8, BF16))
    assert narrow.variance - wide.variance == pytest.approx(packing_noise(BFP8).variance - packing_noise(BF16).variance)


def test_moved_elements_are_exact_unless_their_type_is_narrower() -> None:
    copy = OpQuery("ttnn.to_memory_config", (TensorSpec((64, 64), BF16, DRAM),))
    assert added_noise(copy, BF16) == EXACT
    assert added_noise(copy, F32) == EXACT
    assert added_noise(copy, BFP8) == packing_noise(BFP8, wide=False)
    assert added_noise(OpQuery("ttnn.relu", copy.inputs), BF16) == EXACT


def test_block_floats_are_packed_anew_where_others_share_their_exponents() -> None:
    x = (TensorSpec((1, 1, 64, 64), BFP8, DRAM),)
    turned, kept = (OpQuery("ttnn.permute", x, (("dims", dims),)) for dims in ((0, 1, 3, 2), (0, 2, 1, 3)))
    transposed = OpQuery("ttnn.transpose", x, (("dim0", -2), ("dim1", -1)))
    assert added_noise(turned, BFP8) == added_noise(transposed, BFP8) == packing_noise(BFP8, False, "turned")
    assert added_noise(kept, BFP8) == EXACT
    assert 0 < added_noise(turned, BFP8).variance < packing_noise(BFP8).variance


def test_a_cast_has_less_gain_than_a_result_that_is_packed() -> None:
    cast = OpQuery("ttnn.typecast", (TensorSpec((64, 64), BF16, DRAM),), (("dtype", "bfp8_b"),))
    assert added_noise(cast, BFP8).gain < packing_noise(BFP8, wide=False).gain


def test_integers_are_exact() -> None:
    query = OpQuery("ttnn.add", (TensorSpec((64, 64), DType.U32, DRAM),) * 2)
    assert added_noise(query, DType.U32) == EXACT
