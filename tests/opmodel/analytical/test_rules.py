"""Which operand layouts go with which results: one string per op and operand layout.

Letters: operand or result in D(RAM), L(1) interleaved, H(eight), W(idth), B(lock) shards; a pattern lists what six
requests (none D L H W B) give, `.` being refused. Source: acceptance tables of tt-metal 0.81.1 on [1, 1, 1024, 1024].
"""

from __future__ import annotations

import pytest

from optimizer.layouts.memory_config import BufferType, MemoryConfig, TensorMemoryLayout
from optimizer.opmodel.base import OpModel, OpQuery

SHAPE = (1, 1, 1024, 1024)
LETTERS = {
    TensorMemoryLayout.HEIGHT_SHARDED: "H",
    TensorMemoryLayout.WIDTH_SHARDED: "W",
    TensorMemoryLayout.BLOCK_SHARDED: "B",
}
FREE = {"D": "DDLHWB", "L": "LDLHWB", "H": "HDLHWB", "W": "WDLHWB", "B": "BDLHWB"}
"""Anything to anything; no request follows operand 0."""
SAME = {"D": "DDL...", "L": "LDL...", "H": "H..H..", "W": "W...W.", "B": "B....B"}
NAMED = {"D": "DDLHWB", "L": "LDLHWB", "H": ".DLHWB", "W": ".DLHWB", "B": ".DLHWB"}
NORM = {"D": "DDLHWB", "L": "LDLHWB", "H": "......", "W": "W...W.", "B": "B....B"}
SDPA = {"D": "DDLHWB", "L": "DDLHWB", "H": "......", "W": "......", "B": "......"}
CASES = {
    "relu": ("ttnn.relu", 1, (), FREE),
    "gelu": ("ttnn.gelu", 1, (), FREE),
    "add": ("ttnn.add", 2, (), FREE),
    "multiply": ("ttnn.multiply", 2, (), FREE),
    "where": ("ttnn.where", 3, (), FREE),
    "typecast": ("ttnn.typecast", 1, (("dtype", "bf16"),), SAME),
    "softmax": ("ttnn.softmax", 1, (("dim", -1),), FREE),
    "layer_norm": ("ttnn.layer_norm", 1, (), NORM),
    "rms_norm": ("ttnn.rms_norm", 1, (), NORM),
    "slice aligned": ("ttnn.slice", 1, (("begins", (0, 0, 0, 0)), ("ends", (1, 1, 1024, 1024))), FREE),
    "pad": ("ttnn.pad", 1, (("padding", ((0, 0), (0, 0), (0, 0), (0, 0))),), None),
    "tilize_with_zero_padding": ("ttnn.tilize_with_zero_padding", 1, (), None),
    "reshape (view)": (
        "ttnn.reshape",
        1,
        (("shape", (1024, 1024)),),
        {"D": "DDLHWB", "L": "LDLHWB", "H": "HDLHHH", "W": "WDLWWW", "B": "BDLBBB"},
    ),
    "concat -1": (
        "ttnn.concat",
        2,
        (("dim", -1),),
        {"H": "DDL...", "W": "DDL...", "B": "DDL..."},  # shards of the operand's width do not fit the result
    ),
    "sdpa": ("ttnn.scaled_dot_product_attention", 3, (), SDPA),
    "to_memory_config": (
        "ttnn.to_memory_config",
        1,
        (),
        {"D": ".DLHWB", "L": ".DLHWB", "H": ".DLHWB", "W": ".DLHWB", "B": ".DLHWB"},
    ),
    "interleaved_to_sharded": (
        "ttnn.interleaved_to_sharded",
        1,
        (),
        {"D": "...HWB", "L": "...HWB", "H": "......", "W": "......", "B": "......"},
    ),
    "reshard": (
        "ttnn.reshard",
        1,
        (),
        {"D": "......", "L": "......", "H": "...HWB", "W": "...HWB", "B": "...HWB"},
    ),
    "prod": ("ttnn.prod", 1, (("dim", -1),), {"D": "DDL...", "L": "LDL..."}),
}


def _letter(memory: MemoryConfig) -> str:
    return LETTERS.get(memory.memory_layout) or ("D" if memory.buffer_type is BufferType.DRAM else "L")


def _memories(layouts) -> dict[str, MemoryConfig]:
    return {
        "D": layouts.dram,
        "L": layouts.l1,
        "H": layouts.height(32, 32, 1024),
        "W": layouts.width(32, 1024, 32),
        "B": layouts.block((8, 8), 128, 128),
    }


@pytest.mark.parametrize(
    ("name", "operand"),
    [(name, operand) for name, (_, _, _, rows) in CASES.items() if rows for operand in rows],
)
def test_acceptance_table(analytical: OpModel, layouts, name: str, operand: str) -> None:
    op, count, attrs, rows = CASES[name]
    assert rows is not None
    memories = _memories(layouts)
    got = ""
    for request in (None, *memories.values()):
        inputs = tuple(layouts.tensor(SHAPE, memories[operand]) for _ in range(count))
        answer = analytical.constraints(OpQuery(op, inputs, attrs, None, request))
        got += _letter(answer.outputs[0].layout.memory) if answer.valid else "."
    assert got == rows[operand]


def _matmul(layouts, m: int, k: int, n: int, a: MemoryConfig, out: MemoryConfig | None) -> OpQuery:
    return OpQuery("ttnn.matmul", (layouts.tensor((m, k), a), layouts.tensor((k, n))), output=out)


def test_matmul_results_are_in_dram_unless_asked(analytical: OpModel, layouts) -> None:
    answer = analytical.constraints(_matmul(layouts, 1024, 1024, 1024, layouts.height(32, 32, 1024), None))
    assert answer.outputs[0].layout.memory == layouts.dram


def test_matmul_shards_are_derived_when_no_spec_is_given(analytical: OpModel, layouts) -> None:
    block = layouts.block((8, 8), 128, 128)
    request = MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1)
    answer = analytical.constraints(_matmul(layouts, 1024, 1024, 1024, block, request))
    assert answer.valid
    assert answer.outputs[0].layout.memory == block


def test_an_unfused_activation_of_shards_is_refused(analytical: OpModel, layouts) -> None:
    inputs = (layouts.tensor((1024, 1024), layouts.block((8, 8), 128, 128)), layouts.tensor((1024, 1024)))
    query = OpQuery("ttnn.linear", inputs, (("activation", "relu"),))
    answer = analytical.constraints(query)
    assert not answer.valid
    assert "fused_activation" in str(answer.error)


def test_elementwise_ops_on_shards_need_no_buffers(analytical: OpModel, layouts) -> None:
    shard = layouts.height(32, 32, 1024)
    query = OpQuery("ttnn.add", (layouts.tensor(SHAPE, shard), layouts.tensor(SHAPE, shard)), output=shard)
    assert analytical.constraints(query).cb_bytes == 0


def test_a_view_takes_nothing(analytical: OpModel, layouts) -> None:
    query = OpQuery("ttnn.reshape", (layouts.tensor((1024, 256)),), (("shape", (4, 256, 256)),))
    answer = analytical.constraints(query)
    assert (answer.cb_bytes, answer.l1_peak_bytes) == (0, 0)
    assert analytical.cost(query).time_ns == 1


@pytest.mark.parametrize("count", [0, 3])
def test_a_wrong_number_of_operands_is_refused(analytical: OpModel, layouts, count: int) -> None:
    answer = analytical.constraints(OpQuery("ttnn.relu", (layouts.tensor((32, 32)),) * count))
    assert not answer.valid
    assert f"{count} operands" in str(answer.error)
