"""Tensors, circular buffers and blocks of kernels in Python, and the block ops that are recorded of them.

`x[row, column]` and `x[0:2, :]` are places in a tensor, counted in tiles. Numbers in expressions become scalar ops
(`expressions.py`); `block_op` is any op of `tile_ops`, `compute_region(body, x, y)` says what stays in DST together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.errors import GraphError, StateError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes
from optimizer.kernels.tensix.rounding import FORMAT_NUMBERS, widest
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.ttl.expressions import Expression
from optimizer.kernels.tensix.ttl.recording import recording
from optimizer.kernels.tensix.types import BlockType, CircularBufferType
from optimizer.kernels.tensix.verify import block_result_shape


@dataclass(frozen=True)
class Tensor:
    """An argument of a kernel: tiles per dimension and element type."""

    shape: tuple[int, int]
    dtype: DType = DType.BF16
    value: Value | None = None

    def __getitem__(self, index: tuple[Any, Any]) -> TensorSlice:
        """The place of a block: row and column of its first tile, or slices of whole numbers that it fills."""
        places, sizes = zip(*map(_place, index, self.shape), strict=True)
        return TensorSlice(self, places[0], places[1], sizes)


def _place(part: Any, size: int) -> tuple[Any, int | None]:
    """First tile of a slice or a number, and how many tiles are meant, if that is said."""
    if not isinstance(part, slice):
        return part, None
    whole = range(size)[part]
    if part.step not in (None, 1) or not whole or (part.stop or 0) > size:
        raise GraphError(f"tiles {part.start} to {part.stop} in steps of {part.step} are no part of {size}")
    return whole.start, len(whole)


@dataclass(frozen=True)
class TensorSlice:
    """A place in a tensor, for `copy`; `sizes` are the tiles that its block has, where they are said."""

    tensor: Tensor
    row: Any
    column: Any
    sizes: tuple[int | None, ...] = (None, None)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.row, self.column))

    def check(self, shape: tuple[int, int]) -> None:
        """GraphError if a block of this shape has other tiles."""
        if any(size not in (None, tiles) for size, tiles in zip(self.sizes, shape, strict=True)):
            said = " x ".join("any" if size is None else str(size) for size in self.sizes)
            raise GraphError(f"a place of {said} tiles and a block of {shape[0]} x {shape[1]}", node="copy")


@dataclass(frozen=True)
class CircularBuffer:
    """A circular buffer; `wait`, `pop`, `reserve` and `push` are recorded."""

    value: Value

    def wait(self) -> Block:
        return self._block("ttl.cb_wait", "ttl.cb_pop")

    def reserve(self) -> Block:
        return self._block("ttl.cb_reserve", "ttl.cb_push")

    def pop(self) -> None:
        recording().emit(Op("ttl.cb_pop", (self.value,)))

    def push(self) -> None:
        recording().emit(Op("ttl.cb_push", (self.value,)))

    def _block(self, name: str, closing: str) -> Block:
        block = recording().value(self.value.typed(CircularBufferType).block)
        recording().emit(Op(name, (self.value,), (block,)))
        return Block(block, Op(closing, (self.value,)))


def make_circular_buffer_like(
    tensor: Tensor,
    shape: tuple[int, int] | None = None,
    buffer_factor: int = 2,
    *,
    buffer_index: int | None = None,
    page_size: int | None = None,
    core_ranges: Sequence[Sequence[int]] | None = None,
) -> CircularBuffer:
    """A circular buffer of `buffer_factor` blocks of `shape` tiles (default: the kernel's `block_factors`) with the
    tensor's element type. `buffer_index`: its number, by default the lowest free one; `page_size` and `core_ranges` as
    docs/tile-language.md says."""
    now = recording()
    rows, columns = shape or now.factors_of(tensor.value)
    attrs: dict[str, Attr] = {} if buffer_index is None else {"index": buffer_index}
    if page_size is not None:
        attrs["page_size"] = page_size
    if core_ranges is not None:
        attrs["core_ranges"] = tuple(map(tuple, core_ranges))
    type_ = CircularBufferType((rows, columns), tensor.dtype, buffer_factor)
    return CircularBuffer(now.declared("ttl.bind_cb", type_, attrs))


# -- block expressions ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Block(Expression):
    """A block of tiles in a thread. One that is waited for or reserved is popped or pushed at the end of a `with`."""

    value: Value
    closing: Op | None = None

    def store(self, result: Block) -> None:
        """Materialise a result in this block, which was reserved."""
        recording().emit(Op("ttl.store", (result.value, self.value)))

    def accumulate(self, result: Block) -> None:
        """Sum up a result over the rounds of the loop around this; the block is reserved outside of the loop."""
        recording().emit(Op("ttl.store", (result.value, self.value), (), attributes({"accumulate": True})))

    def applied(self, name: str, *others: Block, **numbers: float) -> Block:
        attrs: dict[str, Any] = dict(numbers)
        return block_op(name, self, *others, **attrs)

    def filled(self, number: float) -> Block:
        block = self.value.typed(BlockType)
        return full(number, block.shape, block.dtype)

    def __enter__(self) -> Block:
        if self.closing is None:
            raise StateError("'with' takes a block that is waited for or reserved")
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None and self.closing is not None:
            recording().emit(self.closing)


def block_op(
    name: str,
    *operands: Block,
    result_dtype: DType | None = None,
    result_shape: tuple[int, int] | None = None,
    **attrs: float | bool,
) -> Block:
    """Any op of `tile_ops` on blocks. GraphError if the operands' shapes contradict each other.

    `result_dtype`: by default the widest element type of the operands. `result_shape`: by default what the operands
    cover together.
    """
    if name not in TILE_OPS:
        raise UnknownNameError("block op", name, TILE_OPS)
    types = [b.value.type for b in operands]
    blocks = [t for t in types if isinstance(t, BlockType)]
    shape = result_shape or block_result_shape(name, tuple(b.shape for b in blocks))
    if shape is None:
        raise GraphError(f"{name} does not take {', '.join(map(str, blocks))}", node=name)
    dtype = result_dtype or widest(b.dtype for b in blocks)
    result = recording().value(BlockType(shape, dtype))
    recording().emit(Op(f"ttl.{name}", tuple(b.value for b in operands), (result,), attributes(dict(attrs))))
    return Block(result)


def full(number: float, shape: tuple[int, int], dtype: DType = DType.BF16) -> Block:
    """A block of so many tiles with one number everywhere."""
    block = recording().value(BlockType((shape[0], shape[1]), dtype))
    recording().emit(Op("ttl.fill", (), (block,), attributes({"value": float(number)})))
    return Block(block)


def compute_region(
    body: Callable[..., Block | tuple[Block, ...]], *operands: Block, keep_in_dst: bool = True
) -> tuple[Block, ...]:
    """Block ops whose values between them stay in DST: what `body` makes of the operands.

    (y,) = compute_region(lambda a, b: exp(a) * b, x, other)
    """
    now = recording()
    with now.inside("a compute region") as ops:
        args = tuple(now.value(b.value.type) for b in operands)
        made = body(*map(Block, args))
        yielded = tuple(b.value for b in (made if isinstance(made, tuple) else (made,)))
        now.emit(Op("ttl.yield", yielded))
    results = tuple(now.value(v.type) for v in yielded)
    attrs = attributes({"keep_in_dst": keep_in_dst})
    now.emit(Op("ttl.compute_region", tuple(b.value for b in operands), results, attrs, (Region(args, tuple(ops)),)))
    return tuple(map(Block, results))


def typecast(x: Block, dtype: DType) -> Block:
    """The block in another element type."""
    source, target = (float(FORMAT_NUMBERS[t]) for t in (x.value.typed(BlockType).dtype, dtype))
    return block_op("typecast", x, result_dtype=dtype, source=source, target=target)
