"""What an op is asked to compute with and to give."""

from __future__ import annotations

import pickle

from optimizer.ir.compute_config import COMPUTE, ComputeConfig
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.layouts.precision import Precision

LOFI = ComputeConfig("lofi", fp32_dest_acc_en=False).attr


def test_an_op_whose_call_takes_a_type_states_it() -> None:
    op = Op("m", "ttnn.matmul", ("x", "w"), ("y",))

    assert Precision(LOFI, DType.BFP8_B).applied(op).attrs == {COMPUTE: LOFI, "dtype": "bfp8_b"}


def test_an_op_whose_call_takes_none_does_not() -> None:
    op = Op("r", "ttnn.relu", ("x",), ("y",))

    assert Precision(None, DType.BFP8_B).applied(op) is op


def test_a_typed_layout_is_another_place_for_the_search() -> None:
    typed = DRAM_TILE.typed(DType.BFP8_B)

    assert typed != DRAM_TILE
    assert typed.plain == DRAM_TILE
    assert typed.describe() == "dram interleaved tile bfp8_b"
    assert pickle.loads(pickle.dumps(typed)) == typed
