"""The error that one op adds, by element types and compute config."""

from __future__ import annotations

from math import sqrt

import pytest

from optimizer.ir.compute_config import COMPUTE, ComputeConfig
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, PageLayout, interleaved
from optimizer.layouts.op_config import MatmulMultiCoreReuseProgramConfig
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.precision.noise import added_noise, packing_noise
from optimizer.precision.storing import EXACT

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
    assert (noise.gain, noise.variance) == (0.0, pytest.approx(packing_noise(BF16).variance, rel=0.1))


def test_more_passes_and_wider_sums_are_never_less_exact() -> None:
    losses = [added_noise(product(f, True), BF16).gain for f in ("lofi", "hifi2", "hifi4")]
    assert losses[0] < losses[1] < losses[2] == 0
    narrow, wide_sums = (added_noise(product("hifi3", wide), BF16) for wide in (False, True))
    assert narrow.variance > wide_sums.variance


def test_results_in_block_floats_cost_their_rounding() -> None:
    narrow, wide = (added_noise(product("hifi4", True), dtype) for dtype in (BFP8, BF16))
    assert narrow.variance - wide.variance == pytest.approx(packing_noise(BFP8).variance - packing_noise(BF16).variance)


def test_moved_elements_are_exact_unless_their_type_is_narrower() -> None:
    copy = OpQuery("ttnn.to_memory_config", (TensorSpec((64, 64), BF16, DRAM),))
    assert added_noise(copy, BF16) == EXACT
    assert added_noise(copy, F32) == EXACT
    assert added_noise(copy, BFP8) == packing_noise(BFP8)
    assert added_noise(OpQuery("ttnn.relu", copy.inputs), BF16) == EXACT


def test_integers_are_exact() -> None:
    query = OpQuery("ttnn.add", (TensorSpec((64, 64), DType.U32, DRAM),) * 2)
    assert added_noise(query, DType.U32) == EXACT
