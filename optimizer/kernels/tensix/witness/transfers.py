"""Which blocks the data movement threads of a core bring and take: a program of block ops on whole tensors.

The reader's and the writer's loops are run with the core's coordinates and run-time arguments; what lies in a tensor's
shard comes and goes block by block, in the order of its tiles. What comes through a pipe comes from where its sender
has it; the order in which threads would run does not matter here. Blocks lie within their tensors (`check_places`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import GraphError, StateError, VerificationError
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments, Place, cores_of, named_arguments
from optimizer.kernels.tensix.buffers import backing
from optimizer.kernels.tensix.dialect import DATA_MOVEMENT
from optimizer.kernels.tensix.emit_cpp import runtime_args
from optimizer.kernels.tensix.ir import Op, loop_rounds
from optimizer.kernels.tensix.passes.fold_grid import fold_grid
from optimizer.kernels.tensix.pipes import nets_of
from optimizer.kernels.tensix.types import TILE, BlockType, CircularBufferType, TensorType
from optimizer.kernels.tensix.witness.core_numbers import CoreNumbers, Way

_COPIES = ("ttl.copy_in", "ttl.copy_out")
MOST_STEPS = 200_000
"""Ops of all cores together that are followed before anything runs."""


def check_places(program: Op) -> None:
    """GraphError for the first block that some core copies from or to beyond its tensor.

    Where that depends on run-time arguments, or on more than `MOST_STEPS` ops, only a run finds it (`transfers`).
    """
    folded = fold_grid(program)
    threads = [op for op in folded.body.ops if op.name == DATA_MOVEMENT]
    cores = cores_of(folded)
    if runtime_args(folded) or len(cores) * sum(map(_steps, threads)) > MOST_STEPS:
        return
    nets = nets_of(folded)
    for core in cores:
        for thread in threads:
            numbers = CoreNumbers(core, {}, nets)
            for op in numbers.running(thread.body.ops):
                if op.name in _COPIES and (told := _beyond(op, numbers)) is not None:
                    raise GraphError(told, node=f"{op.name} on core {core}")


def _beyond(op: Op, numbers: CoreNumbers) -> str | None:
    """What is wrong with the place of a `ttl.copy_in` or `ttl.copy_out`, if its block leaves the tensor."""
    row, column = _row_and_column(op, numbers)
    (block,) = (v.type for v in op.operands if isinstance(v.type, BlockType))
    ((name, tensor),) = ((v.name, v.type) for v in op.operands if isinstance(v.type, TensorType))
    rows, columns = block.shape
    if 0 <= row <= tensor.shape[0] - rows and 0 <= column <= tensor.shape[1] - columns:
        return None
    told = f"a block of {rows}x{columns} tiles at ({row}, {column}) is beyond %{name} ({tensor})"
    sizes = zip(("rows", "columns"), tensor.shape, block.shape, strict=True)
    return told + "".join(_uneven(side, whole, part) for side, whole, part in sizes)


def _uneven(name: str, whole: int, part: int) -> str:
    """Which blocks a tensor's rows or columns of tiles are a whole number of, where they are none of this one."""
    if whole % part == 0:
        return ""
    fitting = ", ".join(str(n) for n in range(1, whole + 1) if whole % n == 0)
    return f"; {whole} {name} of tiles are no whole number of blocks of {part}, but of {fitting}"


def _row_and_column(op: Op, numbers: CoreNumbers) -> tuple[int, int]:
    """First tile of the block that a `ttl.copy_in` or `ttl.copy_out` is about."""
    row, column = op.operands[1:3] if op.name == "ttl.copy_in" else op.operands[2:4]
    return numbers[row], numbers[column]


def _steps(op: Op) -> int:
    """Ops that run within one, at most; too many where a loop's rounds are not in the program."""
    rounds = loop_rounds(op) if op.name == "ttl.for" else 1
    inside = sum(_steps(inner) if inner.regions else 1 for inner in op.body.ops)
    return (MOST_STEPS + 1 if rounds is None else rounds) * (1 + inside)


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


def transfers(
    program: Op, cores: Sequence[Place] = ((0, 0),), arguments: Arguments = NO_ARGUMENTS
) -> dict[Place, Transfers]:
    """What the cores at these (x, y) bring and take. VerificationError for a block beyond its tensor, or one that is
    received and not sent; StateError where a block that another core computed is received, or a core is missing."""
    folded = fold_grid(program)
    nets = nets_of(folded)
    walkers: dict[Place, _Walker] = {}
    for core in cores:
        numbers = CoreNumbers(core, named_arguments(folded, arguments, core), nets)
        walkers[core] = _Walker(numbers, backing(folded))
        for thread in folded.body.ops:
            if thread.name == DATA_MOVEMENT:
                walkers[core].places.clear()
                for op in numbers.running(thread.body.ops):
                    walkers[core].step(op)
    sent = {key: blocks for walker in walkers.values() for key, blocks in walker.sent.items()}
    return {
        core: Transfers(
            {cb: [_origin(block, sent) for block in blocks] for cb, blocks in walker.brought.items()},
            {cb: [_origin(block, sent) for block in blocks] for cb, blocks in walker.taken.items()},
        )
        for core, walker in walkers.items()
    }


@dataclass(frozen=True)
class _Received:
    """The block that was sent as the `number`th through a pipe."""

    way: Way
    number: int


_Block = BlockPlace | _Received


def _origin(block: _Block, sent: Mapping[Way, Sequence[_Block]]) -> BlockPlace:
    """Where a block comes from, through however many pipes."""
    seen: set[_Received] = set()
    while isinstance(block, _Received):
        if block in seen or block.number >= len(sent.get(block.way, ())):
            raise VerificationError(f"block {block.number} is received, and nobody sends it", node=f"%{block.way[0]}")
        seen.add(block)
        block = sent[block.way][block.number]
    return block


@dataclass
class _Walker:
    numbers: CoreNumbers
    backing: Mapping[str, str]
    brought: dict[str, list[_Block]] = field(default_factory=dict)
    taken: dict[str, list[_Block]] = field(default_factory=dict)
    sent: dict[Way, list[_Block]] = field(default_factory=dict)
    places: dict[str, _Block] = field(default_factory=dict)
    """Circular buffer -> where its current block comes from or goes to."""
    _buffer: dict[str, str] = field(default_factory=dict)
    """Block -> its circular buffer."""
    _received: dict[Way, int] = field(default_factory=dict)

    def step(self, op: Op) -> None:
        match op.name:
            case "ttl.cb_reserve" | "ttl.cb_wait":
                self._buffer[op.result.name] = op.operands[0].name
            case name if name in _COPIES:
                self._moves(op)
            case "ttl.send":
                cb = self._buffer[op.operands[0].name]
                if cb not in self.places:
                    raise StateError(f"a block of %{cb} that is computed is sent: it has no place in a tensor")
                self.sent.setdefault(self.numbers.ways[op.operands[1].name], []).append(self.places[cb])
            case "ttl.receive":
                way = self.numbers.ways[op.operands[0].name]
                number = self._received.get(way, 0)
                self._received[way] = number + 1
                self.places[self._buffer[op.operands[1].name]] = _Received(way, number)
            case "ttl.cb_push":
                self._ends(op, self.brought)
            case "ttl.cb_pop":
                self._ends(op, self.taken)
            case "ttl.transfer_wait":
                pass
            case _ if not op.name.startswith("ttl.semaphore_"):
                raise StateError(f"{op.name} has no meaning on whole tensors")

    def _moves(self, op: Op) -> None:
        if (told := _beyond(op, self.numbers)) is not None:
            raise VerificationError(told, node=f"{op.name} on core {self.numbers.core}")
        (block,) = (v for v in op.operands if isinstance(v.type, BlockType))
        (tensor,) = (v for v in op.operands if isinstance(v.type, TensorType))
        shape = block.typed(BlockType).shape
        self.places[self._buffer[block.name]] = BlockPlace(tensor.name, shape, *_row_and_column(op, self.numbers))

    def _ends(self, op: Op, found: dict[str, list[_Block]]) -> None:
        cb = op.operands[0]
        made = found.setdefault(cb.name, [])
        if cb.name in self.backing:
            block = cb.typed(CircularBufferType).block
            made.append(BlockPlace(self.backing[cb.name], block.shape, first=len(made) * block.tiles))
        elif cb.name in self.places:
            made.append(self.places.pop(cb.name))
        else:
            raise StateError(f"{op.name} of {cb} ends a block that no transfer was about")
