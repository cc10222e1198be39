"""References of single ops; whole imported models go through them in tests/importers."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer import families
from optimizer.errors import ExecutionError
from optimizer.ir.vocabulary import op_names
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCast1DProgramConfig
from optimizer.opmodel.base import OpQuery
from optimizer.values.reference import computed, reference


def test_every_op_of_the_vocabulary_has_one() -> None:
    assert set(families.table("RULES")) == set(op_names())


def test_another_op_is_named() -> None:
    with pytest.raises(ExecutionError, match=r"no reference for the values of ttnn\.unheard_of"):
        reference(OpQuery("ttnn.unheard_of", ()), [])


def test_sums_say_how_large_their_terms_are() -> None:
    a, b = np.array([[3.0, -4.0]]), np.array([[1.0], [1.0]])

    (found,) = computed("ttnn.matmul", {"transpose_a": False, "transpose_b": False}, [a, b])

    assert (found.value, found.most, found.usual, found.terms) == (-1.0, 7.0, 5.0, 2)


def test_a_matmul_applies_the_activation_of_its_program_config() -> None:
    a, b = np.array([[1.0, -2.0]]), np.eye(2)
    config = MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_yx=(1, 1),
        in0_block_w=1,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=1,
        per_core_N=1,
        mcast_in0=True,
        fused_activation="relu",
    )
    query = OpQuery("ttnn.matmul", (), config=config)

    (found,) = reference(query, [a, b])

    assert found.value.tolist() == [[1.0, 0.0]]
