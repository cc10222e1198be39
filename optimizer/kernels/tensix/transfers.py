"""Which blocks the data movement threads of a core bring and take: a program of block ops on whole tensors.

The reader's and the writer's loops are run with the core's coordinates; what lies in a tensor's shard comes and goes
block by block, in the order of its tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import StateError, VerificationError
from optimizer.kernels.tensix.dialect import DATA_MOVEMENT
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.passes.fold_grid import fold_grid
from optimizer.kernels.tensix.types import TILE, BlockType, CircularBufferType, TensorType


@dataclass(frozen=True)
class BlockPlace:
    """A block of a tensor: the tiles from `row`, `column` on, or of a shard the tiles from the `first` one on."""

    tensor: str
    shape: tuple[int, int]
    """In tiles."""
    row: int = 0
    column: int = 0
    first: int | None = None

    def read[T: np.generic](self, tensor: NDArray[T]) -> NDArray[T]:
        """The block's elements."""
        rows, columns = (n * TILE for n in self.shape)
        if self.first is None:
            return tensor[self._part]
        tiles = _tiles(tensor)[self.first : self.first + self.shape[0] * self.shape[1]]
        return tiles.reshape(*self.shape, TILE, TILE).swapaxes(1, 2).reshape(rows, columns)

    def write[T: np.generic](self, tensor: NDArray[T], block: NDArray[T]) -> None:
        """Put a block's elements there."""
        if self.first is None:
            tensor[self._part] = block
            return
        tiles = _tiles(tensor)
        tiles[self.first : self.first + self.shape[0] * self.shape[1]] = _tiles(block)
        rows, columns = (n // TILE for n in tensor.shape)
        tensor[...] = tiles.reshape(rows, columns, TILE, TILE).swapaxes(1, 2).reshape(tensor.shape)

    @property
    def _part(self) -> tuple[slice, slice]:
        (rows, columns), down, right = self.shape, self.row * TILE, self.column * TILE
        return slice(down, down + rows * TILE), slice(right, right + columns * TILE)


def _tiles[T: np.generic](values: NDArray[T]) -> NDArray[T]:
    """A copy of the tiles, row by row."""
    rows, columns = (n // TILE for n in values.shape)
    return values.reshape(rows, TILE, columns, TILE).swapaxes(1, 2).copy().reshape(rows * columns, TILE, TILE)


@dataclass(frozen=True)
class Transfers:
    """Of one core: the blocks of every circular buffer in their order."""

    brought: Mapping[str, Sequence[BlockPlace]]
    taken: Mapping[str, Sequence[BlockPlace]]


def transfers(program: Op, core: tuple[int, int] = (0, 0)) -> Transfers:
    """What the core at (x, y) brings and takes. VerificationError for a block beyond its tensor."""
    folded = fold_grid(program)
    walker = _Walker(core, _backing(folded))
    for thread in folded.body.ops:
        if thread.name == DATA_MOVEMENT:
            walker.places.clear()
            walker.run(thread.body.ops, {})
    return Transfers(walker.brought, walker.taken)


def _backing(program: Op) -> dict[str, str]:
    """Circular buffer -> the tensor whose shard it lies in."""
    binds = (op for op in program.body.ops if op.name == "ttl.bind_cb" and op.has_attr("tensor"))
    return {op.result.name: op.string("tensor") for op in binds}


@dataclass
class _Walker:
    core: tuple[int, int]
    backing: Mapping[str, str]
    brought: dict[str, list[BlockPlace]] = field(default_factory=dict)
    taken: dict[str, list[BlockPlace]] = field(default_factory=dict)
    places: dict[str, BlockPlace] = field(default_factory=dict)
    """Circular buffer -> where its current block comes from or goes to."""
    _buffer: dict[str, str] = field(default_factory=dict)
    """Block -> its circular buffer."""

    def run(self, ops: Sequence[Op], numbers: dict[str, int]) -> None:
        for op in ops:
            match op.name:
                case "ttl.for":
                    for n in range(op.integer("lower"), op.integer("upper"), op.integer("step")):
                        self.run(op.body.ops, {**numbers, op.body.args[0].name: n})
                case "ttl.constant":
                    numbers[op.result.name] = op.integer("value")
                case "ttl.core_coordinate":
                    numbers[op.result.name] = self.core[op.integer("axis")]
                case "ttl.index":
                    at = [numbers[v.name] for v in op.operands]
                    numbers[op.result.name] = op.index_map("map").evaluate(at)[0]
                case "ttl.cb_reserve" | "ttl.cb_wait":
                    self._buffer[op.result.name] = op.operands[0].name
                case "ttl.copy_in":
                    tensor, row, column, block = op.operands
                    self._moves(op, tensor.name, numbers[row.name], numbers[column.name], block.name)
                case "ttl.copy_out":
                    block, tensor, row, column = op.operands
                    self._moves(op, tensor.name, numbers[row.name], numbers[column.name], block.name)
                case "ttl.cb_push":
                    self._ends(op, self.brought)
                case "ttl.cb_pop":
                    self._ends(op, self.taken)
                case "ttl.transfer_wait":
                    pass
                case _:
                    raise StateError(f"{op.name} has no meaning on whole tensors")

    def _moves(self, op: Op, tensor: str, row: int, column: int, block: str) -> None:
        (block_type,) = (v.type for v in op.operands if isinstance(v.type, BlockType))
        (tensor_type,) = (v.type for v in op.operands if isinstance(v.type, TensorType))
        rows, columns = block_type.shape
        if not (0 <= row <= tensor_type.shape[0] - rows and 0 <= column <= tensor_type.shape[1] - columns):
            message = f"a block of {rows}x{columns} tiles at ({row}, {column}) is beyond %{tensor} ({tensor_type})"
            raise VerificationError(message, node=f"{op.name} on core {self.core}")
        self.places[self._buffer[block]] = BlockPlace(tensor, block_type.shape, row, column)

    def _ends(self, op: Op, found: dict[str, list[BlockPlace]]) -> None:
        cb = op.operands[0]
        made = found.setdefault(cb.name, [])
        if cb.name in self.backing:
            block = cb.typed(CircularBufferType).block
            made.append(BlockPlace(self.backing[cb.name], block.shape, first=len(made) * block.tiles))
        elif cb.name in self.places:
            made.append(self.places.pop(cb.name))
        else:
            raise StateError(f"{op.name} of {cb} ends a block that no transfer was about")
