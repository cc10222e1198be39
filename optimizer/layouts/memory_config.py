"""Where a tensor lives: TTNN's `MemoryConfig`, `ShardSpec` and the full `TensorLayout`.

All types are frozen and compare by content, so a layout can be a dictionary key. Coordinates are
`grid_yx` (rows, columns) except in `CoreRange`, which is written in TTNN's own (x, y) order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from optimizer.errors import FormatError
from optimizer.ir.dtype import DType

CoreRange = tuple[int, int, int, int]
"""Inclusive rectangle of cores `(x0, y0, x1, y1)`."""


class PageLayout(StrEnum):
    """TTNN's `Layout`: what one page of the tensor is."""

    TILE = "tile"
    ROW_MAJOR = "row_major"


class TensorMemoryLayout(StrEnum):
    INTERLEAVED = "interleaved"
    HEIGHT_SHARDED = "height_sharded"
    WIDTH_SHARDED = "width_sharded"
    BLOCK_SHARDED = "block_sharded"

    @property
    def is_sharded(self) -> bool:
        return self is not TensorMemoryLayout.INTERLEAVED


class BufferType(StrEnum):
    DRAM = "dram"
    L1 = "l1"
    HOST = "host"


class ShardOrientation(StrEnum):
    ROW_MAJOR = "row_major"
    COL_MAJOR = "col_major"


@dataclass(frozen=True)
class ShardSpec:
    """Which cores hold shards, and how large one shard is.

    `grid_yx` is the virtual grid: (n, 1) for height, (1, n) for width, (rows, columns) for block sharding.
    """

    grid_yx: tuple[int, int]
    shape: tuple[int, int]
    """Shard height and width in elements."""
    core_ranges: tuple[CoreRange, ...]
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR

    @property
    def num_cores(self) -> int:
        return sum((x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in self.core_ranges)

    @cached_property
    def bounding_box_yx(self) -> tuple[int, int]:
        """(rows, columns) of the smallest rectangle that holds the cores."""
        ranges = self.core_ranges
        rows = max(r[3] for r in ranges) - min(r[1] for r in ranges) + 1
        columns = max(r[2] for r in ranges) - min(r[0] for r in ranges) + 1
        return (rows, columns)

    @property
    def is_rectangle(self) -> bool:
        rows, columns = self.bounding_box_yx
        return rows * columns == self.num_cores


@dataclass(frozen=True)
class MemoryConfig:
    """TTNN's `MemoryConfig`. A sharded config without `shard_spec` asks the op to derive the shards."""

    memory_layout: TensorMemoryLayout
    buffer_type: BufferType
    shard_spec: ShardSpec | None = None

    @property
    def is_sharded(self) -> bool:
        return self.memory_layout is not TensorMemoryLayout.INTERLEAVED


@dataclass(frozen=True)
class TensorLayout:
    """Page layout and memory config of one value, and its element type where that is open.

    While a plan is searched for, a value may be made or read in another element type than the graph states: the layout
    then names it. In a result the value states its element type, and `dtype` is None.
    """

    page_layout: PageLayout
    memory: MemoryConfig
    dtype: DType | None = None
    """None: as the graph states it."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.page_layout, self.memory, self.dtype)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """String hashes differ between processes, so the cached hash is never pickled."""
        return (TensorLayout, (self.page_layout, self.memory, self.dtype))

    @property
    def plain(self) -> TensorLayout:
        """The same place, in the element type that the graph states."""
        return self if self.dtype is None else TensorLayout(self.page_layout, self.memory)

    def typed(self, dtype: DType | None) -> TensorLayout:
        """The same place, in this element type."""
        return self if self.dtype is dtype else TensorLayout(self.page_layout, self.memory, dtype)

    @property
    def is_l1(self) -> bool:
        return self.memory.buffer_type is BufferType.L1

    @property
    def is_dram(self) -> bool:
        return self.memory.buffer_type is BufferType.DRAM

    @property
    def is_host(self) -> bool:
        return self.memory.buffer_type is BufferType.HOST

    @property
    def is_sharded(self) -> bool:
        return self.memory.is_sharded

    @property
    def is_over_banks(self) -> bool:
        """Whether it is cut into shards over the DRAM banks, as weights of some matmuls are."""
        return self.is_dram and self.is_sharded

    @property
    def is_tile(self) -> bool:
        return self.page_layout is PageLayout.TILE

    @property
    def memory_layout(self) -> TensorMemoryLayout:
        return self.memory.memory_layout

    @property
    def shard_spec(self) -> ShardSpec | None:
        return self.memory.shard_spec

    @property
    def num_shard_cores(self) -> int:
        """Cores that hold a shard; 0 when not sharded or when the shards are left to the op."""
        spec = self.memory.shard_spec
        return 0 if spec is None else spec.num_cores

    def describe(self) -> str:
        """Short form for people: `l1 block_sharded 8x8 [128, 64] tile`."""
        text = f"{self.memory.buffer_type.value} {self.memory_layout.value}"
        spec = self.memory.shard_spec
        if spec is not None:
            text += f" {spec.grid_yx[0]}x{spec.grid_yx[1]} [{spec.shape[0]}, {spec.shape[1]}]"
        typed = "" if self.dtype is None else f" {self.dtype.value}"
        return f"{text} {self.page_layout.value}{typed}"

    def to_json(self) -> dict[str, Any]:
        """The `layout` object of `graph.json`; the last four fields are null unless sharded."""
        spec = self.memory.shard_spec
        return {
            "tensor_layout": self.page_layout.value,
            "memory_layout": self.memory_layout.value,
            "buffer_type": self.memory.buffer_type.value,
            "grid_yx": None if spec is None else list(spec.grid_yx),
            "shard_shape": None if spec is None else list(spec.shape),
            "core_ranges": None if spec is None else [list(r) for r in spec.core_ranges],
            "orientation": None if spec is None else spec.orientation.value,
        }

    @staticmethod
    def from_json(record: Any, place: str = "layout") -> TensorLayout:
        """Read the `layout` object of `graph.json`; FormatError names `place`."""
        try:
            memory_layout = TensorMemoryLayout(record["memory_layout"])
            spec = None
            if record.get("shard_shape") is not None:
                spec = ShardSpec(
                    grid_yx=(int(record["grid_yx"][0]), int(record["grid_yx"][1])),
                    shape=(int(record["shard_shape"][0]), int(record["shard_shape"][1])),
                    core_ranges=tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in record["core_ranges"]),
                    orientation=ShardOrientation(record.get("orientation") or "row_major"),
                )
            memory = MemoryConfig(memory_layout, BufferType(record["buffer_type"]), spec)
            return TensorLayout(PageLayout(record["tensor_layout"]), memory)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise FormatError(f"not a layout object: {error}", node=place) from error


def interleaved(buffer_type: BufferType, page_layout: PageLayout = PageLayout.TILE) -> TensorLayout:
    return TensorLayout(page_layout, MemoryConfig(TensorMemoryLayout.INTERLEAVED, buffer_type))


DRAM_TILE = interleaved(BufferType.DRAM)
DRAM_ROW_MAJOR = interleaved(BufferType.DRAM, PageLayout.ROW_MAJOR)
L1_TILE = interleaved(BufferType.L1)
L1_ROW_MAJOR = interleaved(BufferType.L1, PageLayout.ROW_MAJOR)
HOST_ROW_MAJOR = interleaved(BufferType.HOST, PageLayout.ROW_MAJOR)
