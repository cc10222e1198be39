"""Operands and results of a query as pieces that are moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.ir.compute_config import COMPUTE, FIDELITIES
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.case import Usage
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, WIDTH, tiles
from optimizer.opmodel.analytical.work import Piece, Place, Work
from optimizer.opmodel.base import OpQuery, TensorSpec


@dataclass(frozen=True, slots=True)
class Job:
    """A query with what its work is built from."""

    query: OpQuery
    attrs: dict[str, Any]
    """Of the query, defaults filled in."""
    usage: Usage
    device: DeviceSpec
    name: str
    cores: int
    reads: tuple[Piece, ...]
    writes: tuple[Piece, ...]

    @property
    def out(self) -> TensorSpec | None:
        return self.usage.outputs[0] if self.usage.outputs else None


Builder = Callable[[Job], tuple[Work, ...]]
"""What builds the work of an op's programs."""


@lru_cache(maxsize=65536)
def piece(shape: tuple[int, ...], dtype: DType, layout: TensorLayout) -> Piece:
    """What moving a whole tensor takes; rows of a block format, which only the host has, are kept in bfloat16."""
    rows, columns = tiles(shape)
    place = _place(layout)
    if layout.is_tile:
        return Piece(rows * columns * dtype.tile_bytes, rows * columns, place)
    count = prod(shape)
    sticks = count // shape[-1] if shape and shape[-1] else 0
    if shape and layout.is_l1 and layout.memory_layout in (BLOCK, WIDTH) and layout.shard_spec is not None:
        sticks *= max(1, ceil_div(shape[-1], layout.shard_spec.shape[1]))  # every row is cut
    kept = DType.BF16 if dtype.is_block_float else dtype
    return Piece(count * kept.element_bytes, max(1, ceil_div(count, TILE * TILE)), place, sticks)


def of_tensor(tensor: TensorSpec) -> Piece:
    return piece(tensor.shape, tensor.dtype, tensor.layout)


def _place(layout: TensorLayout) -> Place:
    if layout.is_host:
        return Place.HOST
    if layout.is_dram:
        return Place.DRAM
    return Place.SHARD if layout.is_sharded else Place.L1


def across(layout: TensorLayout) -> int:
    """Cores that share a row of the tensor: 1 for height shards and interleaved tensors."""
    spec = layout.shard_spec
    if spec is None or layout.memory_layout is HEIGHT:
        return 1
    return spec.num_cores if layout.memory_layout is WIDTH else spec.bounding_box_yx[1]


def elsewhere(part: Piece) -> Piece:
    """A shard that is not where it is needed."""
    return replace(part, place=Place.L1) if part.place is Place.SHARD else part


def at_most(part: Piece, writes: tuple[Piece, ...]) -> Piece:
    """An operand of which only what the results need is read."""
    count = sum(w.tiles for w in writes)
    if part.tiles <= count:
        return part
    sticks = max(1, part.sticks * count // part.tiles) if part.sticks else 0
    return Piece(max(1, part.size * count // part.tiles), count, part.place, sticks)


def fidelity(attrs: dict[str, Any], default: str) -> tuple[str, bool]:
    """(math fidelity, 32-bit accumulation); `default` is TTNN's own, which only recorded calls leave to it."""
    given = dict(attrs.get(COMPUTE) or ())
    chosen = FIDELITIES.get(str(attrs.get("math_fidelity")), default)
    return (str(given.get("fid", chosen)), bool(given.get("fp32", False)))
