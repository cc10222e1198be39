"""Layout encodings as tt-mlir has them, of its own plans and of one tensor in every memory layout."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import OptionError
from optimizer.export.mlir.types import Types, layout_text
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
    interleaved,
)
from optimizer.opmodel.base import TensorSpec
from tests.export.mlir.syntax import Layout, Reader
from tests.export.placed_graphs import BLOCK, HEIGHT, shards

N150 = DeviceSpec.preset("n150")
BUFFERS = {"dram": BufferType.DRAM, "l1": BufferType.L1, "system_memory": BufferType.HOST}
DTYPES = {"bf16": DType.BF16, "f32": DType.F32, "si32": DType.I32}
PLANS = sorted((Path(__file__).resolve().parents[3] / "fixtures" / "tt_mlir_plans").glob("*.ops.json.gz"))
SHAPE = (1, 1, 1024, 512)
MAP = "(d0, d1, d2, d3) -> (d0 * 1024 + d1 * 1024 + d2, d3)"
TILE = "!ttcore.tile<32x32, bf16>"
WRITTEN = {
    f"#ttnn.ttnn_layout<{MAP}, <8x8>, memref<4x2x{TILE}, #l1>, <block_sharded>, "
    "core_ranges = <[#ttnn.core_range<(0, 0), (7, 7)>]>>": shards(SHAPE, (8, 8), BLOCK),
    f"#ttnn.ttnn_layout<{MAP}, <32x1>, memref<1x16x{TILE}, #l1>, <height_sharded>, "
    "core_ranges = <[#ttnn.core_range<(0, 0), (7, 3)>]>>": shards(SHAPE, (32, 1), HEIGHT),
    f"#ttnn.ttnn_layout<{MAP}, <1x1>, memref<32x16x{TILE}, #dram>, <interleaved>>": interleaved(BufferType.DRAM),
    f"#ttnn.ttnn_layout<{MAP}, <8x8>, memref<1x8x{TILE}, #l1>, <interleaved>>": interleaved(BufferType.L1),
}
"""As tt-mlir's own tests write one tensor on 8x8 cores."""


@pytest.mark.parametrize("wanted", WRITTEN, ids=lambda text: text.partition("memref")[2].partition("!")[0][1:-1])
def test_layouts_of_one_tensor(wanted: str) -> None:
    assert layout_text(TensorSpec(SHAPE, DType.BF16, WRITTEN[wanted]), N150) == wanted


def test_the_last_row_of_cores_need_not_be_full() -> None:
    spec = TensorSpec((1, 1, 320, 64), DType.BF16, shards((1, 1, 320, 64), (10, 1), HEIGHT))
    assert "<[#ttnn.core_range<(0, 0), (7, 0)>, #ttnn.core_range<(0, 1), (1, 1)>]>" in layout_text(spec, N150)


def test_shards_in_column_major_order_are_refused() -> None:
    spec = ShardSpec((2, 2), (32, 32), ((0, 0, 1, 1),), ShardOrientation.COL_MAJOR)
    layout = TensorLayout(PageLayout.TILE, MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1, spec))
    with pytest.raises(OptionError, match="column-major"):
        layout_text(TensorSpec((64, 64), DType.BF16, layout), N150)


def tensors(path: Path) -> Iterator[dict[str, Any]]:
    """Every tensor of a plan of tt-mlir's."""
    for function in json.loads(gzip.decompress(path.read_bytes()))["functions"].values():
        yield from (tensor for tensor in function["tensors"].values() if "layout" in tensor)


def placed(told: dict[str, Any]) -> TensorLayout:
    page, buffer = PageLayout(told["page"]), BUFFERS[told["buffer"]]
    if told["cores"] is None:
        memory = TensorMemoryLayout.INTERLEAVED
        return TensorLayout(page, MemoryConfig(memory, buffer))
    cores = tuple(tuple(box) for box in told["cores"])
    spec = ShardSpec(tuple(told["grid"]), tuple(told["shard"]), cores)
    return TensorLayout(page, MemoryConfig(TensorMemoryLayout(told["memory"]), buffer, spec))


def read(text: str) -> Layout:
    """A layout, whose memory spaces are aliases."""
    reader = Reader("".join(f"#{name} = #ttnn.buffer_type<{name}>\n" for name in BUFFERS) + text)
    for _ in BUFFERS:
        reader.alias()
    found = reader.attribute()
    assert isinstance(found, Layout)
    return found


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name.partition(".")[0])
def test_layouts_that_tt_mlir_chose_are_written_as_it_writes_them(path: Path) -> None:
    met = 0
    for tensor in tensors(path):
        told = tensor["layout"]
        spec = TensorSpec(tuple(tensor["shape"]), DTYPES[tensor["dtype"]], placed(told))
        text = layout_text(spec, N150)
        assert text.startswith(f"#ttnn.ttnn_layout<{told['map']}, <")
        layout = read(text)
        unit = 32 if layout.tiled else 1
        if told["cores"] is None:
            assert [size * unit for size in layout.held] == told["phys2d"]
        else:
            assert [size * unit for size in layout.held] == told["shard"]
            assert list(layout.grid) == told["grid"]
            assert [list(box) for box in layout.core_ranges or ()] == told["cores"]
        met += 1
    assert met >= 40


def test_a_layout_is_one_alias() -> None:
    types = Types(N150)
    spec = TensorSpec((64, 64), DType.BF16, interleaved(BufferType.DRAM))
    assert types.tensor(spec) == types.tensor(spec) == "tensor<64x64xbf16, #ttnn_layout>"
    assert [line.partition(" ")[0] for line in types.definitions()] == ["#dram", "#ttnn_layout"]
