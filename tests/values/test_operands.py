"""Random operands lie in the domain of their op, and are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer import families
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, interleaved
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.values.operands import paddings, random_operands
from optimizer.values.reference import reference

PLACE = interleaved(BufferType.DRAM)
UNARY = sorted(name for name in families.table("RULES") if name.removeprefix("ttnn.") in
               ("log", "sqrt", "rsqrt", "asin", "acos", "acosh", "atanh", "erfinv", "reciprocal", "log1p"))  # fmt: skip


def spec(*shape: int, dtype: DType = DType.BF16) -> TensorSpec:
    return TensorSpec(shape, dtype, PLACE)


@pytest.mark.parametrize("op", UNARY)
def test_results_are_numbers(op: str) -> None:
    query = OpQuery(op, (spec(64, 64),))

    assert np.isfinite(reference(query, random_operands(query, 0))[0].value).all()


def test_the_same_seed_gives_the_same_operands() -> None:
    query = OpQuery("ttnn.matmul", (spec(32, 64), spec(64, 32)), (("transpose_a", False), ("transpose_b", False)))

    one, two, other = (random_operands(query, seed) for seed in (3, 3, 4))

    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert (one[0] != other[0]).any()


def test_indices_are_rows_of_the_table() -> None:
    query = OpQuery("ttnn.embedding", (spec(1, 200, dtype=DType.U32), spec(7, 32)))

    assert set(np.unique(random_operands(query, 0)[0])) == set(range(7))


def test_results_of_contractions_have_unit_size() -> None:
    attrs = {
        "batch_size": 1, "input_height": 8, "input_width": 8, "in_channels": 64, "out_channels": 32, "groups": 1,
        "kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1),
    }  # fmt: skip
    query = OpQuery("ttnn.conv2d", (spec(1, 1, 64, 64), spec(32, 64, 3, 3)), tuple(sorted(attrs.items())))

    result = reference(query, random_operands(query, 0))[0].value

    assert 0.7 < result.std() < 1.1


def test_tiles_are_padded_with_garbage_that_an_op_must_not_see() -> None:
    operands = (spec(50, 70), spec(50, 70, dtype=DType.BFP8_B), spec(1, 70, dtype=DType.U32))
    garbage, shared, indices = paddings(OpQuery("ttnn.where", operands))

    assert min(garbage) < 0 < max(garbage)
    assert shared == indices == ()


def test_the_mask_of_an_attention_is_filled() -> None:
    q, mask = spec(1, 1, 50, 64), spec(1, 1, 50, 50)
    *_, filling = paddings(OpQuery("ttnn.scaled_dot_product_attention", (q, q, q, mask)))

    assert max(filling) < -1e9
