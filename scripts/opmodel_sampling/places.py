"""Where sampled tensors live: dtype, layout, memory config with or without shard spec, on good and odd grids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any

# Worker cores (x, y) of the boards whose answers can be recorded without hardware.
BOARDS = {"n150": (8, 8), "p150": (11, 10)}
ARCH = {"n150": "wormhole_b0", "p150": "blackhole"}
SMALL_GRIDS = ((1, 1), (1, 8), (8, 1), (4, 4), (8, 4), (8, 8), (2, 8), (5, 8), (7, 7), (4, 8), (11, 1))
# Larger than a board: real callers make this mistake when they move a model from one board to another.
BIG_GRIDS = ((12, 12), (10, 8), (9, 8), (12, 10), (11, 10))
DTYPES = (("bf16", 75), ("f32", 12), ("bfp8_b", 13))
ITEM_BYTES = {"bf16": 2, "f32": 4, "u32": 4, "i32": 4, "u16": 2, "bfp8_b": 1}

Place = dict[str, Any]


def pick(rng: Random, weighted: tuple[tuple[Any, int], ...]) -> Any:
    values, weights = zip(*weighted, strict=True)
    return rng.choices(values, weights)[0]


@dataclass(frozen=True)
class Sharder:
    """Draws shard specs of a tensor on one board; about one in eight is perturbed."""

    rng: Random
    board: str

    def grid(self) -> tuple[int, int]:
        draw = self.rng.random()
        if draw < 0.72:
            return BOARDS[self.board]
        return self.rng.choice(SMALL_GRIDS if draw < 0.93 else BIG_GRIDS)

    def place(self, kind: str, shape: tuple[int, ...], layout: str, dtype: str, buffer: str = "l1") -> Place:
        rows, cols = _rows_cols(shape, layout)
        unit = 32 if layout == "tile" else 1
        # Row-major shard rows are 16-byte aligned in L1.
        unit_w = 32 if layout == "tile" else max(1, 16 // ITEM_BYTES[dtype])
        gx, gy = self.grid()
        orientation = "col" if self.rng.random() < 0.05 else "row"
        if kind == "height":
            height, width = _share(rows, gx * gy, unit), cols
            rects = _line(math.ceil(rows / height), gx)
        elif kind == "width":
            height, width = rows, _share(cols, gx * gy, unit_w)
            rects = _line(math.ceil(cols / width), gx)
        else:
            # Column orientation lays the shards of a row down a grid column.
            down, across = (gx, gy) if orientation == "col" and self.rng.random() < 0.5 else (gy, gx)
            height, width = _share(rows, down, unit), _share(cols, across, unit_w)
            tall, wide = math.ceil(rows / height), math.ceil(cols / width)
            rects = (
                [[0, 0, tall - 1, wide - 1]]
                if (down, across) == (gx, gy) and gx != gy
                else [[0, 0, wide - 1, tall - 1]]
            )
        if self.rng.random() < 0.12:
            height, width, rects = self._perturbed(height, width, rects)
        return {
            "memory_layout": kind,
            "buffer": buffer,
            "shard_shape": [height, width],
            "grid": rects,
            "orientation": orientation,
        }

    def _perturbed(self, height: int, width: int, rects: list[list[int]]) -> tuple[int, int, list[list[int]]]:
        x0, y0, x1, y1 = rects[0]
        change = self.rng.randrange(6)
        if change == 0:
            height += 32
        elif change == 1:
            width += self.rng.choice((32, 64))
        elif change == 2:
            height = max(1, height // 2)
        elif change == 3:
            width = max(1, width - self.rng.choice((1, 16)))
        elif change == 4:
            rects = [[x0, y0, x1, max(0, y1 - 1)]]
        else:
            rects = [[x0, y0, x1, y1 + 1]]
        return height, width, rects


def _rows_cols(shape: tuple[int, ...], layout: str) -> tuple[int, int]:
    full = (1, 1, *shape)
    high, wide, lead = full[-2], full[-1], math.prod(full[:-2])
    if layout == "tile":
        high, wide = math.ceil(high / 32) * 32, math.ceil(wide / 32) * 32
    return max(1, lead * high), max(1, wide)


def _share(extent: int, cores: int, unit: int) -> int:
    return math.ceil(math.ceil(extent / unit) / cores) * unit


def _line(cores: int, width: int) -> list[list[int]]:
    full, rest = divmod(cores, width)
    rects = [[0, 0, width - 1, full - 1]] if full else []
    return [*rects, [0, full, rest - 1, full]] if rest else rects


def interleaved(buffer: str) -> Place:
    return {"memory_layout": "interleaved", "buffer": buffer}


def input_place(sharder: Sharder, shape: tuple[int, ...], layout: str, dtype: str, sharded: float = 0.44) -> Place:
    """Memory config of an input: DRAM a third, L1 a fifth, the rest sharded."""
    rng = sharder.rng
    if rng.random() >= sharded:
        return interleaved("dram" if rng.random() < 0.6 else "l1")
    kind = pick(rng, (("height", 36), ("width", 27), ("block", 37)))
    return sharder.place(kind, shape, layout, dtype, "dram" if rng.random() < 0.02 else "l1")


def request(
    sharder: Sharder,
    shape: tuple[int, ...],
    layout: str,
    dtype: str,
    first: Place,
    weights: tuple[tuple[str, int], ...] = (
        ("none", 38),
        ("dram", 16),
        ("l1", 10),
        ("same", 9),
        ("spec", 15),
        ("bare", 12),
    ),
) -> Place | None:
    """The memory config asked of the op's output of `shape`; `same` repeats the first operand's."""
    rng = sharder.rng
    choice = pick(rng, weights)
    if choice == "none":
        return None
    if choice in ("dram", "l1"):
        return interleaved(choice)
    if choice == "same":
        return {key: first[key] for key in first if key not in ("shape", "dtype", "layout")}
    kind = pick(rng, (("height", 36), ("width", 28), ("block", 36)))
    if choice == "bare":
        return {"memory_layout": kind, "buffer": "l1"}
    return sharder.place(kind, shape, layout, dtype, "dram" if rng.random() < 0.02 else "l1")


def tensor(shape: tuple[int, ...], dtype: str, layout: str, place: Place) -> dict[str, Any]:
    return {"shape": list(shape), "dtype": dtype, "layout": layout, **place}
