"""Short ways to write queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.tiling import core_ranges_for
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpModel, TensorSpec

N150 = DeviceSpec.preset("n150")


class Layouts:
    """Memory configs and tensors for a board with an 8x8 grid."""

    dram = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.DRAM)
    l1 = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.L1)

    @staticmethod
    def height(cores: int, rows: int, columns: int) -> MemoryConfig:
        kind = TensorMemoryLayout.HEIGHT_SHARDED
        spec = ShardSpec((cores, 1), (rows, columns), core_ranges_for(kind, (cores, 1), N150))
        return MemoryConfig(kind, BufferType.L1, spec)

    @staticmethod
    def width(cores: int, rows: int, columns: int) -> MemoryConfig:
        kind = TensorMemoryLayout.WIDTH_SHARDED
        spec = ShardSpec((1, cores), (rows, columns), core_ranges_for(kind, (1, cores), N150))
        return MemoryConfig(kind, BufferType.L1, spec)

    @staticmethod
    def block(grid_yx: tuple[int, int], rows: int, columns: int) -> MemoryConfig:
        spec = ShardSpec(grid_yx, (rows, columns), ((0, 0, grid_yx[1] - 1, grid_yx[0] - 1),))
        return MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1, spec)

    @staticmethod
    def tensor(
        shape: tuple[int, ...],
        memory: MemoryConfig = dram,
        dtype: DType = DType.BF16,
        page: PageLayout = PageLayout.TILE,
    ) -> TensorSpec:
        return TensorSpec(shape, dtype, TensorLayout(page, memory))


@pytest.fixture
def layouts() -> type[Layouts]:
    return Layouts


@pytest.fixture
def n150() -> DeviceSpec:
    return N150


@pytest.fixture
def analytical(n150: DeviceSpec) -> OpModel:
    return registry.create("analytical", n150)


@pytest.fixture
def make() -> Callable[[str], OpModel]:
    """A backend for n150 by name."""
    return lambda name: registry.create(name, N150)
