"""Every element-wise op of the vocabulary, on every placement: the analytical backend against tt-metal itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.ir.opdef import REQUIRED, CostClass, OpDef
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE, MemoryConfig, PageLayout, TensorMemoryLayout
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpConstraints, OpQuery, TensorSpec

pytestmark = pytest.mark.usefixtures("needs_ttnn")

BOARD = DeviceSpec.preset("n150")
SHAPE = (1, 1, 256, 256)
HEIGHT = sharded_layout(SHAPE, TensorMemoryLayout.HEIGHT_SHARDED, (8, 1), BOARD, PageLayout.TILE)
BLOCK = sharded_layout(SHAPE, TensorMemoryLayout.BLOCK_SHARDED, (4, 4), BOARD, PageLayout.TILE)
PLACES = (
    (DRAM_TILE, DRAM_TILE.memory),
    (L1_TILE, L1_TILE.memory),
    (HEIGHT, HEIGHT.memory),
    (BLOCK, BLOCK.memory),
    (DRAM_TILE, HEIGHT.memory),
    (HEIGHT, DRAM_TILE.memory),
)
REQUIRED_VALUES: dict[str, Attr] = {"exponent": 3.0, "scalar": 2.0, "threshold": 0.5, "value": 1.0, "weight": 0.2}
CONSERVATIVE = ("ttnn.tril", "ttnn.triu")
"""Ops whose sharded forms, which tt-metal takes, the analytical backend refuses."""
OPS = [
    name
    for name in op_names()
    if opdef(name).cost_class is CostClass.ELTWISE and name not in ("ttnn.rotary_embedding", "ttnn.typecast")
]


def attributes(row: OpDef, **given: Attr) -> tuple[tuple[str, Attr], ...]:
    filled: dict[str, Attr] = {}
    for name, default in row.attrs.items():
        filled[name] = REQUIRED_VALUES[name] if default is REQUIRED else default  # type: ignore[assignment]
    return tuple(sorted({**filled, **given}.items()))


def queries(name: str) -> Iterator[OpQuery]:
    """Every operand count that the op takes, with numbers for the operands left out."""
    row = opdef(name)
    dtype = DType.I32 if "bitwise" in name or "shift" in name else DType.BF16
    number: dict[str, Attr] = {"scalar": 2 if dtype is DType.I32 else 2.5} if "scalar" in row.attrs else {}
    clamp: dict[str, Attr] = {"min": 0.0, "max": 1.0} if name == "ttnn.clamp" else {}
    for layout, memory in PLACES:
        x = TensorSpec(SHAPE, dtype, layout)
        yield from _of(name, x, memory, row, number, clamp)


def _of(
    name: str, x: TensorSpec, memory: MemoryConfig, row: OpDef, number: dict[str, Attr], clamp: dict[str, Attr]
) -> Iterator[OpQuery]:
    if row.max_inputs == 1:
        yield OpQuery(name, (x,), attributes(row, **clamp), None, memory)
        return
    yield OpQuery(name, (x,) * row.max_inputs, attributes(row), None, memory)
    if number:
        yield OpQuery(name, (x,), attributes(row, **number), None, memory)


def answer(found: OpConstraints) -> object:
    if not found.valid:
        return "refused"
    return (found.peak_bytes, [(t.shape, t.dtype, t.layout) for t in found.outputs])


@pytest.mark.parametrize("name", OPS)
@pytest.mark.slow
def test_the_analytical_backend_says_what_tt_metal_says(name: str) -> None:
    real, ours = registry.create("ttmetal", BOARD), registry.create("analytical", BOARD)
    for query in queries(name):
        found, wanted = ours.constraints(query), real.constraints(query)
        if name in CONSERVATIVE and not found.valid:
            continue
        assert answer(found) == answer(wanted), (query.inputs[0].layout.describe(), query.output, wanted.error)
