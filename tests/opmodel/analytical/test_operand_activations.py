"""Activations that a binary op applies to an operand first: buffers as mock devices report them, and their time."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    L1_TILE,
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.base import OpQuery, TensorSpec

WIDTH = TensorLayout(
    PageLayout.TILE,
    MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1, ShardSpec((1, 64), (128, 128), ((0, 0, 7, 7),))),
)
MODEL = AnalyticalOpModel(DeviceSpec.preset("n150"), 32768)


def query(op: str, layout: TensorLayout, dtype: DType = DType.BF16, **activations: tuple[str, ...]) -> OpQuery:
    """A binary op on two [1, 128, 8192] operands with a width-sharded result."""
    x = TensorSpec((1, 128, 8192), dtype, layout)
    return OpQuery(op, (x, x), tuple(sorted(activations.items())), None, WIDTH.memory)


@pytest.mark.parametrize(
    ("op", "layout", "dtype", "activations", "cb_bytes"),
    [
        ("ttnn.multiply", WIDTH, DType.BF16, {}, 0),
        ("ttnn.multiply", WIDTH, DType.BF16, {"input_tensor_a_activations": ("silu",)}, 4096),
        ("ttnn.multiply", WIDTH, DType.F32, {"input_tensor_b_activations": ("relu",)}, 8192),
        ("ttnn.add", WIDTH, DType.BF16, {"input_tensor_a_activations": ("silu",)}, 16384),
        (
            "ttnn.add",
            WIDTH,
            DType.BF16,
            {"input_tensor_a_activations": ("silu",), "input_tensor_b_activations": ("gelu",)},
            32768,
        ),
        ("ttnn.multiply", L1_TILE, DType.BF16, {"input_tensor_a_activations": ("silu",)}, 10240),
    ],
)
def test_each_takes_a_buffer_of_its_own(
    op: str, layout: TensorLayout, dtype: DType, activations: dict[str, tuple[str, ...]], cb_bytes: int
) -> None:
    answer = MODEL.constraints(query(op, layout, dtype, **activations))

    assert answer.valid
    assert answer.cb_bytes == cb_bytes


def test_it_costs_less_than_an_op_of_its_own() -> None:
    plain = query("ttnn.multiply", WIDTH)
    fused = query("ttnn.multiply", WIDTH, input_tensor_a_activations=("silu",))
    alone = OpQuery("ttnn.silu", plain.inputs[:1], (), None, WIDTH.memory)

    assert MODEL.runtime_ns(plain) < MODEL.runtime_ns(fused)
    assert MODEL.runtime_ns(fused) < MODEL.runtime_ns(plain) + MODEL.runtime_ns(alone)
