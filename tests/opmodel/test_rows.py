"""Rows of the answer tables as queries."""

from __future__ import annotations

import pytest

from optimizer.errors import FormatError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import ShardOrientation
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCast1DProgramConfig
from optimizer.opmodel.rows import memory_from_row, memory_to_row, query_from_row
from optimizer.process.json_document import Node

DRAM = {"memory_layout": "interleaved", "buffer": "dram"}
HEIGHT = {"memory_layout": "height", "buffer": "l1", "shard_shape": [32, 64], "grid": [[0, 0, 7, 0], [0, 1, 1, 1]],
          "orientation": "row"}  # fmt: skip
BLOCK = {"memory_layout": "block", "buffer": "l1", "shard_shape": [64, 32], "grid": [[0, 0, 3, 1]],
         "orientation": "col"}  # fmt: skip


def row(op: str, shapes: list[list[int]], **attrs: object) -> dict[str, object]:
    inputs = [{"shape": s, "dtype": "bf16", "layout": "tile", **DRAM} for s in shapes]
    return {"id": 1, "op": op, "attrs": attrs, "inputs": inputs, "request_mem": None, "request_dtype": None}


@pytest.mark.parametrize("memory", [DRAM, HEIGHT, BLOCK, {"memory_layout": "width", "buffer": "l1"}])
def test_memory_configs_come_back_as_written(memory: dict[str, object]) -> None:
    assert memory_to_row(memory_from_row(Node(memory, "m"))) == memory


def test_a_shard_grid_is_counted_in_shards() -> None:
    height, block = (memory_from_row(Node(m, "m")).shard_spec for m in (HEIGHT, BLOCK))
    assert height is not None
    assert height.grid_yx == (10, 1)
    assert block is not None
    assert (block.grid_yx, block.orientation) == ((4, 2), ShardOrientation.COL_MAJOR)


def test_names_and_attributes_become_the_vocabularys() -> None:
    query = query_from_row(row("repeat", [[32, 32]], reps=[1, 2]), "row 1")
    assert (query.op, query.attrs) == ("ttnn.repeat", (("repeats", (1, 2)),))


def test_requested_type_and_layout_are_read() -> None:
    asked = {**row("relu", [[32, 32]]), "request_mem": HEIGHT, "request_dtype": "bfp8_b"}
    query = query_from_row(asked, "row 1")
    assert query.output_dtype is DType.BFP8_B
    assert query.output == memory_from_row(Node(HEIGHT, "m"))


@pytest.mark.parametrize("bad", [{"op": "unheard"}, {"inputs": [{"shape": "x"}]}])
def test_an_unusable_row_is_an_error_of_its_place(bad: dict[str, object]) -> None:
    with pytest.raises((FormatError, UnknownNameError), match="row 9"):
        query_from_row({**row("relu", [[32, 32]]), **bad}, "row 9")


def test_a_matmul_program_config_is_read() -> None:
    given = {"kind": "1d", "fused_activation": None,
             "grid": [8, 8], "in0_block_w": 2, "out_subblock_h": 1, "out_subblock_w": 4,
             "per_core_M": 1, "per_core_N": 4, "fuse_batch": True, "mcast_in0": False}  # fmt: skip
    query = query_from_row(row("matmul", [[64, 64], [64, 128]], program_config=given), "row 1")
    assert isinstance(query.config, MatmulMultiCoreReuseMultiCast1DProgramConfig)
    assert (query.config.per_core_N, query.config.mcast_in0) == (4, False)
