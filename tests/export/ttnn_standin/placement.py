"""Whether a memory config fits a tensor: TTNN's rules for shards.

Measured on the mock devices of ttnn 0.81.1 (docs/ttmetal.md): shards of tiled tensors are whole tiles; height shards
are as wide as the tensor, width shards as high; no more shards than cores; cores are the board's.
"""

from __future__ import annotations

from math import prod

from ttnn_standin.errors import Refused
from ttnn_standin.values import TILE, BufferType, Member, TensorMemoryLayout, Value, is_chosen, is_sharded

EDGE = 32
"""Rows and columns of a tile."""
BANKS = {(8, 8): 12}
"""DRAM banks by the grid of a board; others have 8. As cores they lie in one row."""


def physical(shape: tuple[int, ...], layout: Member) -> tuple[int, int]:
    """Height and width of a tensor as the two-dimensional thing that is cut into shards."""
    full = (1,) * (2 - len(shape)) + tuple(shape)
    if layout != TILE:
        return prod(full[:-1]), full[-1]
    return prod(full[:-2]) * _up(full[-2], EDGE), _up(full[-1], EDGE)


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def cores(spec: Value) -> list[tuple[int, int]]:
    """The cores (x, y) of a shard spec, in the order of its ranges."""
    found = []
    for area in spec.grid.core_ranges:
        (x0, y0), (x1, y1) = ((end.arg0, end.arg1) for end in (area.start, area.end))
        if x0 > x1 or y0 > y1:
            raise Refused(f"the core range ({x0}, {y0}) to ({x1}, {y1}) is empty")
        found += [(x, y) for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)]
    return found


def check_placement(shape: tuple[int, ...], layout: Member, memory: Value, grid_xy: tuple[int, int]) -> None:
    """Refused where a tensor cannot lie where a memory config says."""
    spec = memory.shard_spec
    if not is_sharded(memory):
        if spec is not None:
            raise Refused("an interleaved memory config with a shard spec")
        return
    if memory.buffer_type != BufferType.L1:
        if memory.memory_layout != TensorMemoryLayout.WIDTH_SHARDED:
            raise Refused(f"{memory.memory_layout} shards in {memory.buffer_type}")
        grid_xy = (BANKS.get(grid_xy, 8), 1)
    if spec is None:
        raise Refused("shards without a shard spec")
    if is_chosen(memory):
        return
    if len(spec.shard_shape) != 2:
        raise Refused(f"a shard of shape {spec.shard_shape}")
    used = cores(spec)
    if len(set(used)) != len(used):
        raise Refused("core ranges overlap")
    outside = [core for core in used if core[0] >= grid_xy[0] or core[1] >= grid_xy[1]]
    if outside:
        raise Refused(f"core {outside[0]} is not on a grid of {grid_xy}")
    height, width = spec.shard_shape
    if layout == TILE and (height % EDGE or width % EDGE):
        raise Refused(f"shards [{height}, {width}] are not whole tiles")
    _check_cut(physical(shape, layout), (height, width), memory.memory_layout, spec, used)


def _check_cut(
    whole: tuple[int, int], shard: tuple[int, int], kind: Member, spec: Value, used: list[tuple[int, int]]
) -> None:
    rows, columns = (-(-size // part) for size, part in zip(whole, shard, strict=True))
    text = f"{kind.name} shards {list(shard)} of {list(whole)}"
    if kind == TensorMemoryLayout.HEIGHT_SHARDED:
        if shard[1] != whole[1]:
            raise Refused(f"{text} are not as wide as the tensor")
        fits = rows <= len(used)
    elif kind == TensorMemoryLayout.WIDTH_SHARDED:
        if shard[0] != whole[0]:
            raise Refused(f"{text} are not as high as the tensor")
        fits = columns <= len(used)
    else:
        wide, high = (len({core[axis] for core in used}) for axis in (0, 1))
        if wide * high != len(used):
            raise Refused("block shards need one rectangle of cores")
        across = spec.shard_orientation.name == "COL_MAJOR"
        fits = rows <= wide and columns <= high if across else columns <= wide and rows <= high
    if not fits:
        raise Refused(f"{text} are more than {len(used)} cores hold")
