"""Limits of errors: rounding as the hardware does it is within them, what is wrong is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.kernels.tensix.rounding import rounded
from optimizer.layouts.memory_config import BufferType, TensorLayout, interleaved
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.values.bounds import Verdict, judge
from optimizer.values.operands import random_operands
from optimizer.values.reference import reference

Array = NDArray[Any]
PLACE: TensorLayout = interleaved(BufferType.DRAM)


def query(op: str, *shapes: tuple[int, ...], dtype: DType = DType.BF16, **attrs: Attr) -> OpQuery:
    return OpQuery(op, tuple(TensorSpec(s, dtype, PLACE) for s in shapes), tuple(sorted(attrs.items())))


def in_type(values: Array, dtype: DType) -> Array:
    return np.asarray(rounded(values.astype(np.float32), dtype), dtype=np.float64)


def operands(asked: OpQuery) -> list[Array]:
    return [in_type(x, asked.inputs[0].dtype) for x in random_operands(asked, 1)]


def verdict(asked: OpQuery, got: Array, given: Sequence[Array]) -> Verdict:
    return judge(asked, asked.inputs[0].dtype, got, reference(asked, given)[0])


MATMUL = query("ttnn.matmul", (1, 256, 512), (512, 256), math_fidelity="hifi4", transpose_a=False, transpose_b=False)
RELU = query("ttnn.relu", (1, 64, 64))


@pytest.mark.parametrize("dtype", [DType.BF16, DType.BFP8_B, DType.BFP4_B], ids=lambda d: d.value)
def test_rounding_a_result_is_within_its_limits(dtype: DType) -> None:
    asked = query("ttnn.relu", (1, 64, 64), dtype=dtype)
    given = operands(asked)

    assert verdict(asked, in_type(np.maximum(given[0], 0), dtype), given).ok


def test_a_matmul_in_bf16_is_within_its_limits() -> None:
    given = operands(MATMUL)

    assert verdict(MATMUL, in_type(given[0] @ given[1], DType.BF16), given).ok


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda x: x * 1.05, id="gain"),
        pytest.param(lambda x: np.roll(x, 1, -1), id="shifted"),
        pytest.param(lambda x: np.where(np.arange(x.shape[-1]) % 32 == 31, 0, x), id="lost-columns"),
        pytest.param(lambda x: x.swapaxes(-1, -2), id="transposed"),
        pytest.param(lambda x: np.where(np.arange(x.size).reshape(x.shape) == 77, np.nan, x), id="not-a-number"),
    ],
)
def test_wrong_matmuls_are_noticed(wrong: Any) -> None:
    given = operands(MATMUL)

    assert not verdict(MATMUL, in_type(wrong(given[0] @ given[1]), DType.BF16), given).ok


def test_a_lower_fidelity_than_stated_is_noticed() -> None:
    """LoFi as the hardware has it: five bits of one significand, seven of the other, the rest cut off."""
    given = operands(MATMUL)

    def cut(x: Array, bits: int) -> Array:
        fraction, exponent = np.frexp(x)
        return np.ldexp(np.trunc(fraction * 2**bits) / 2**bits, exponent)

    lofi = cut(given[0], 5) @ cut(given[1], 7)

    assert not verdict(MATMUL, in_type(lofi, DType.BF16), given).ok
    stated = query("ttnn.matmul", (1, 256, 512), (512, 256), math_fidelity="lofi", transpose_a=False, transpose_b=False)
    assert verdict(stated, in_type(lofi, DType.BF16), given).ok


def test_sums_in_32_bits_have_narrower_limits() -> None:
    """A gain that 16-bit sums are known to give is an error where the op states 32 bits."""
    given = operands(MATMUL)
    got = in_type(given[0] @ given[1] * 1.012, DType.BF16)
    wide = query("ttnn.matmul", (1, 256, 512), (512, 256), transpose_a=False, transpose_b=False,
                 compute=(("fid", "HiFi3"), ("fp32", True)))  # fmt: skip

    assert verdict(MATMUL, got, given).ok
    assert not verdict(wide, got, given).ok


def test_one_wrong_element_is_noticed_and_counted() -> None:
    given = operands(RELU)
    got = np.maximum(given[0], 0)
    got[0, 5, 5] += 0.25

    found = verdict(RELU, got, given)

    assert (found.ok, found.wrong) == (False, 1)


def test_integers_must_be_equal() -> None:
    asked = query("ttnn.identity", (1, 64), dtype=DType.U32)
    given = [np.arange(64).reshape(1, 64)]

    assert verdict(asked, given[0], given).ok
    assert verdict(asked, given[0] + (given[0] == 7), given).wrong == 1


def test_a_number_that_is_cut_off_is_within_its_limits() -> None:
    asked = query("ttnn.maximum", (1, 64, 64), scalar=0.1)
    given = operands(asked)

    cut = np.maximum(given[0], 0.099609375)

    assert verdict(asked, cut, given).ok
    assert not verdict(asked, np.where(cut == cut.min(), 0.098, cut), given).ok
