"""Element-wise ops whose result goes into an operand: the same program and time, nothing allocated; else refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import L1_TILE, BufferType, MemoryConfig, PageLayout, TensorLayout, interleaved
from optimizer.layouts.op_config import InPlaceConfig, LayerNormShardedMultiCoreProgramConfig
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.base import OpModel, OpQuery, TensorSpec
from optimizer.opmodel.registry import create

N150 = DeviceSpec.preset("n150")
MODEL = AnalyticalOpModel(N150, 32768)
SHAPE = (1, 1, 1024, 256)
ROWS = interleaved(BufferType.L1, PageLayout.ROW_MAJOR)


@pytest.fixture
def shards(layouts) -> dict[str, MemoryConfig]:
    return {
        "height": layouts.height(32, 32, 256),
        "uneven": layouts.height(3, 352, 256),
        "block": layouts.block((8, 8), 128, 32),
        "interleaved": layouts.l1,
    }


def query(op: str, memory: MemoryConfig, *others: TensorSpec, into: int = 0, **attrs: object) -> OpQuery:
    x = TensorSpec(SHAPE, DType.BF16, TensorLayout(PageLayout.TILE, memory))
    inputs = (*others[:into], x, *others[into:])
    return OpQuery(op, inputs, tuple(sorted(attrs.items())), InPlaceConfig(into), memory)  # type: ignore[arg-type]


def sample(shards: dict[str, MemoryConfig]) -> list[OpQuery]:
    """Unary and binary ops, numbers, whole operands and repeated ones, the result in either operand."""
    found = []
    for memory in shards.values():
        same = TensorSpec(SHAPE, DType.BF16, TensorLayout(PageLayout.TILE, memory))
        column = TensorSpec((1, 1, 1024, 1), DType.BF16, interleaved(BufferType.DRAM, PageLayout.TILE))
        row = TensorSpec((1, 1, 1, 256), DType.BF16, interleaved(BufferType.DRAM, PageLayout.TILE))
        for op in ("relu", "gelu", "silu", "hardswish", "rsqrt"):
            found.append(query(f"ttnn.{op}", memory))
        for op in ("add", "multiply", "divide", "maximum"):
            found.append(query(f"ttnn.{op}", memory, scalar=2.0))
            found += [query(f"ttnn.{op}", memory, other, into=k) for other in (same, column, row) for k in (0, 1)]
        found.append(query("ttnn.add", memory, same, activations=("relu",), input_tensor_a_activations=("silu",)))
        found.append(query("ttnn.clamp", memory, min=0.0, max=6.0))
    return found


def test_the_program_is_the_same_and_nothing_is_allocated(shards) -> None:
    for asked in sample(shards):
        into, fresh = MODEL.constraints(asked), MODEL.constraints(replace(asked, config=None))
        assert into.valid, into.error
        assert (into.outputs, into.cb_bytes, into.cores) == (fresh.outputs, fresh.cb_bytes, fresh.cores)
        assert (into.l1_peak_bytes, into.peak_bytes) == (0, fresh.peak_bytes - fresh.l1_peak_bytes)
        assert fresh.l1_peak_bytes > 0
        assert MODEL.cost(asked) == MODEL.cost(replace(asked, config=None))


@pytest.mark.parametrize(
    ("op", "inputs", "output", "into", "message"),
    [
        ("ttnn.softmax", (L1_TILE,), L1_TILE, 0, "cannot write its result into an operand"),
        ("ttnn.atan2", (L1_TILE, L1_TILE), L1_TILE, 0, "cannot write its result into an operand"),
        ("ttnn.relu", (L1_TILE,), L1_TILE, 1, "has no operand 1"),
        ("ttnn.relu", (ROWS,), ROWS, 0, "in tiles only"),
        ("ttnn.relu", (interleaved(BufferType.DRAM, PageLayout.TILE),), L1_TILE, 0, "not laid out like operand 0"),
        ("ttnn.add", (L1_TILE, interleaved(BufferType.DRAM, PageLayout.TILE)), L1_TILE, 1, "like operand 1"),
    ],
)
def test_what_cannot_be_in_place_is_refused(
    op: str, inputs: tuple[TensorLayout, ...], output: TensorLayout, into: int, message: str
) -> None:
    operands = tuple(TensorSpec(SHAPE, DType.BF16, layout) for layout in inputs)

    answer = MODEL.constraints(OpQuery(op, operands, (), InPlaceConfig(into), output.memory))

    assert not answer.valid
    assert message in (answer.error or "")


def test_an_operand_that_is_repeated_is_no_place_for_the_result() -> None:
    x, row = TensorSpec(SHAPE, DType.BF16, L1_TILE), TensorSpec((1, 1, 1, 256), DType.BF16, L1_TILE)

    answer = MODEL.constraints(OpQuery("ttnn.add", (x, row), (), InPlaceConfig(1), L1_TILE.memory))

    assert not answer.valid


def norm(layouts, inplace: bool) -> OpQuery:
    memory = layouts.block((8, 8), 128, 32)
    config = LayerNormShardedMultiCoreProgramConfig((8, 8), 1, 4, 1, inplace)
    return OpQuery("ttnn.layer_norm", (layouts.tensor(SHAPE, memory),), (("epsilon", 1e-5),), config, memory)


def test_tt_metal_says_the_same(needs_ttnn: None, layouts, shards) -> None:
    """Every answer field, of ops in place and of sharded norms in place, on the mock device."""
    real: OpModel = create("ttmetal", N150)
    asked = [*sample(shards), norm(layouts, inplace=True), norm(layouts, inplace=False)]
    assert [real.constraints(q) for q in asked] == [MODEL.constraints(q) for q in asked]
