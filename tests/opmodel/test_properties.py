"""Invariants over generated queries."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import REQUIRED
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastProgramConfig
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpQuery, TensorSpec
from tests.samples import examples

MODEL = registry.create("analytical", DeviceSpec.preset("n150"))
SIZES = st.sampled_from([1, 7, 32, 33, 64, 96, 197, 512])
SHAPES = st.lists(SIZES, min_size=0, max_size=5).map(tuple)
INTERLEAVED = st.sampled_from(list(BufferType)).map(lambda b: MemoryConfig(TensorMemoryLayout.INTERLEAVED, b))
KINDS = st.sampled_from([k for k in TensorMemoryLayout if k is not TensorMemoryLayout.INTERLEAVED])
ATTRS = {
    "dim": -1, "dims": (0, 1, 3, 2), "shape": (1, 512), "layout": "row_major", "dtype": "bf16", "sizes": (32, 32),
    "begins": (0, 0), "ends": (32, 32), "padding": ((0, 0), (0, 32)), "repeats": (1, 2), "scale_factor": (2, 2),
    "kernel_size": (3, 3), "dim0": -1, "dim1": -2, "num_heads": 2, "num_groups": 2, "batch_size": 1,
    "input_height": 8, "input_width": 8, "channels": 32, "in_channels": 32, "out_channels": 64,
}  # fmt: skip


@st.composite
def sharded(draw: st.DrawFn) -> MemoryConfig:
    kind = draw(KINDS)
    if draw(st.booleans()):
        return MemoryConfig(kind, BufferType.L1)
    rows, columns = draw(st.integers(1, 10)), draw(st.integers(1, 10))
    grid = {
        TensorMemoryLayout.HEIGHT_SHARDED: (rows * columns, 1),
        TensorMemoryLayout.WIDTH_SHARDED: (1, rows * columns),
    }.get(kind, (rows, columns))
    shape = (draw(SIZES), draw(SIZES))
    spec = ShardSpec(grid, shape, ((0, 0, columns - 1, rows - 1),), draw(st.sampled_from(list(ShardOrientation))))
    return MemoryConfig(kind, BufferType.L1, spec)


MEMORY = st.one_of(INTERLEAVED, sharded())
TENSORS = st.builds(
    TensorSpec,
    SHAPES,
    st.sampled_from(list(DType)),
    st.builds(TensorLayout, st.sampled_from(list(PageLayout)), MEMORY),
)


@st.composite
def queries(draw: st.DrawFn) -> OpQuery:
    op = draw(st.sampled_from([*op_names(), "ttnn.unheard_of"]))
    wanted = sorted(k for k, v in opdef(op).attrs.items() if v is REQUIRED)
    attrs = tuple((k, ATTRS.get(k, 1)) for k in wanted)
    inputs = tuple(draw(st.lists(TENSORS, max_size=4)))
    return OpQuery(op, inputs, attrs, None, draw(st.one_of(st.none(), MEMORY)))


@settings(max_examples=examples(1500))
@given(queries())
def test_any_question_is_answered(query: OpQuery) -> None:
    answer = MODEL.constraints(query)
    if answer.valid:
        assert 0 <= answer.peak_bytes <= answer.cb_bytes + answer.l1_peak_bytes
        assert MODEL.cost(query).time_ns >= 1
    else:
        assert answer.kind is not None
        assert answer.error


DRAM = TensorLayout(PageLayout.TILE, MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.DRAM))
TILES = st.integers(1, 64)


def _dram(*shape: int) -> TensorSpec:
    return TensorSpec(shape, DType.BF16, DRAM)


@settings(max_examples=examples(200))
@given(TILES, TILES, st.integers(1, 8), st.sampled_from(["ttnn.relu", "ttnn.softmax", "ttnn.layer_norm", "ttnn.exp"]))
def test_more_tiles_never_take_less_time(rows: int, columns: int, more: int, op: str) -> None:
    attrs = (("dim", -1),) if op == "ttnn.softmax" else ()
    small = OpQuery(op, (_dram(rows * 32, columns * 32),), attrs)
    large = OpQuery(op, (_dram((rows + more) * 32, columns * 32),), attrs)
    assert MODEL.runtime_ns(small) <= MODEL.runtime_ns(large)


@settings(max_examples=examples(200))
@given(TILES, TILES, st.sampled_from([1, 2, 4, 8]), TILES, st.integers(1, 8))
def test_a_deeper_matmul_never_takes_less_time(m: int, n: int, block: int, steps: int, more: int) -> None:
    """Of one program config: tt-metal's own choice blocks some depths far worse than greater ones."""
    grid, each = (8, 8), ((m + 7) // 8, (n + 7) // 8)
    config = MatmulMultiCoreReuseMultiCastProgramConfig(grid, block, 1, 1, each[0], each[1])

    def query(depth: int) -> OpQuery:
        return OpQuery("ttnn.matmul", (_dram(m * 32, depth * 32), _dram(depth * 32, n * 32)), (), config)

    assert MODEL.runtime_ns(query(steps * block)) <= MODEL.runtime_ns(query((steps + more) * block))
