"""How far a kernel may be from what its program means: a running error bound, element by element.

Every value is known twice: what it is without any rounding (in float64), and how far from that what a kernel holds can
be. An op first carries the errors of its operands on, by its values at the ends of their intervals, then adds half a
unit in the last place of the element type of DST, and of the block's where that is narrower: a fused kernel keeps a
value in DST or hands it on through L1, and both are right. So are, beside the result of a reduction, what an op makes
of zero and zero (`reference`). Running error analysis: N. J. Higham, Accuracy and Stability
of Numerical Algorithms, 2nd ed., 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import local_buffers
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, COMPUTE, is_block_op, stores_sum
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.passes.convert_to_compute import inline_regions, loop_nest
from optimizer.kernels.tensix.rounding import BLOCK_BITS, FLOATS, FORMAT_NUMBERS
from optimizer.kernels.tensix.tile_ops import SUMS, TILE_OPS, TileOp
from optimizer.kernels.tensix.types import TILE, BlockType
from optimizer.kernels.tensix.witness.core_numbers import CoreNumbers
from optimizer.kernels.tensix.witness.reference import beside_results, tile_of

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
DIGITS: Mapping[DType, int] = MappingProxyType({DType.BF16: 8, DType.F32: 24})
"""Bits of the significand, the leading one included."""
LEAST_EXPONENT, MOST = -126, float(np.finfo(np.float32).max)
"""Of normal numbers, and the largest number: the same for bf16 and float32, but for the last digits of the latter."""
FLOAT64 = 2.0**-50
"""What the evaluation itself in float64 may be wrong by, relative to the terms of a sum."""
EVALUATION = 2.0**-40
"""What a whole kernel's evaluation in float64 may be wrong by, relative to the larger of value and 1."""
TIMES_BOUND = 5.0
"""What a device may be off, in error bounds of a kernel that rounds every result to nearest: the SFPU cuts off where it
stores 16 bits, the FPU adds the parts of a product in DST, and functions are approximations. The most that was measured
is 4.6 (a product on the FPU with a DST of 16 bits, in a plan of densenet121)."""
FPU_SUM = 2.0**-14
"""What the FPU loses in the product of two tiles, relative to the sum of the terms' magnitudes: products that cancel
out to 2^-17 of it were 2^-14.3 of it off (HiFi4, DST of 32 bits)."""


@dataclass(frozen=True)
class Bounded:
    """Values without rounding, and how far from them a kernel's may be: infinite where that is not limited."""

    value: Numbers
    error: Numbers

    @property
    def ends(self) -> tuple[Numbers, Numbers]:
        """The smallest and the largest that a kernel may hold."""
        return self.value - self.error, self.value + self.error

    def allows(self, got: NDArray[np.float32]) -> Mask:
        """Whether each of these is as near as it must be; a value that is not a number, for one that is not."""
        with np.errstate(invalid="ignore"):
            near = np.abs(got - self.value) <= self.error
        found: Mask = near | (got == self.value) | np.isinf(self.error) | (np.isnan(got) & np.isnan(self.value))
        return found

    def may_be(self, number: float) -> Mask:
        low, high = self.ends
        return (low <= number) & (number <= high)


def exactly(values: NDArray[np.float32]) -> Bounded:
    """Values that are given."""
    return Bounded(values.astype(np.float64), np.zeros(values.shape))


def times_bound(got: NDArray[np.float32], exact: Numbers, near: Numbers) -> tuple[float, int]:
    """Largest error of a device in error bounds, and the elements that this is of: those that have an exact value and a
    bound. Beside a pole or a jump and where the exact value is not finite, anything is right."""
    known = np.isfinite(exact) & np.isfinite(near)
    allowed = near[known] + EVALUATION * np.maximum(np.abs(exact[known]), 1.0)
    times = np.abs(got[known] - exact[known]) / allowed
    return float(np.max(np.where(np.isnan(times), np.inf, times), initial=0.0)), int(known.sum())


def bounds(
    program: Op,
    blocks: Mapping[str, Sequence[NDArray[np.float32]]],
    sum_unit: float = TILE * FLOAT64,
    core: tuple[int, int] = (0, 0),
    arguments: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, tuple[Bounded, ...]]:
    """Blocks that the compute threads push, from those that they wait for, by circular buffer.

    `sum_unit`: what a matmul of two tiles loses, relative to the sum of its terms' magnitudes; the witnesses sum up
    exactly, an FPU does not. `core` and `arguments`: which core this is, and what it is given.
    """
    walker = _Walker(program, blocks, sum_unit, CoreNumbers(core, arguments))
    for thread in inline_regions(program).body.ops:
        if thread.name == COMPUTE:
            walker.local = local_buffers(thread)
            for op in walker.numbers.running(thread.body.ops):
                walker.step(op)
    return {name: tuple(made) for name, made in walker.pushed.items() if made}


class _Walker:
    def __init__(
        self, program: Op, blocks: Mapping[str, Sequence[NDArray[np.float32]]], sum_unit: float, numbers: CoreNumbers
    ) -> None:
        self.numbers = numbers
        self._made_by: dict[str, Op] = {}
        self._sums: dict[str, Bounded] = {}
        """Room -> what the rounds of a loop have summed up there."""
        self._sum_unit = sum_unit
        self._dst = DType.F32 if program.attr("fp32_dest_acc_en", False) else DType.BF16
        self._waiting = {name: list(map(exactly, found)) for name, found in blocks.items()}
        self._values: dict[str, Bounded] = {}
        self._beside = beside_results(program)
        self._targets: dict[str, str] = {}
        self.pushed: dict[str, list[Bounded]] = {}
        self.local: frozenset[str] = frozenset()
        """Circular buffers that the thread pushes for itself."""

    def step(self, op: Op) -> None:
        if is_block_op(op):
            self._values[op.result.name] = self._block(op)
            self._made_by[op.result.name] = op
        else:
            self._move(op)

    def _move(self, op: Op) -> None:
        name = op.operands[0].name
        match op.name:
            case "ttl.cb_wait":
                given = self._waiting[name][0]
                fits = FLOATS.index(op.result.typed(BlockType).dtype) <= FLOATS.index(self._dst)
                self._values[op.result.name] = given if fits else rounded_to(given, self._dst)
            case "ttl.cb_pop":
                self._waiting[name].pop(0)
            case "ttl.cb_reserve":
                self._targets[op.result.name] = name
                self._sums.pop(op.result.name, None)
            case "ttl.store" if stores_sum(op):
                self._add(op)
            case "ttl.store":
                source, target = (v.typed(BlockType) for v in op.operands)
                kept = self._values[name]
                if FLOATS.index(target.dtype) < FLOATS.index(source.dtype):  # else L1 has rounded it already
                    kept = rounded_to(kept, target.dtype)
                self.pushed.setdefault(self._targets[op.operands[1].name], []).append(kept)
            case "ttl.cb_push":  # stored blocks are in order
                if name in self.local:
                    self._waiting.setdefault(name, []).append(self.pushed[name].pop(0))
            case _:
                raise StateError(f"{op.name} has no error bound")

    def _add(self, op: Op) -> None:
        """A round's block to the sum of those before: tile by tile in DST, or as a whole in L1."""
        value, room = op.operands
        kept, before, made_by = self._values[value.name], self._sums.get(room.name), self._made_by.get(value.name)
        pushed = self.pushed.setdefault(self._targets[room.name], [])
        if before is not None:
            pushed.pop()
            sums = made_by is not None and TILE_OPS[made_by.name.removeprefix(BLOCK_PREFIX)].name in SUMS
            total = Bounded(before.value + kept.value, before.error + kept.error)
            if made_by is not None and sums:  # a piece in L1 has been rounded, and may be larger than the sum
                in_dst = self._block(made_by, before)
                total = Bounded(in_dst.value, np.maximum(in_dst.error, total.error))
            kept = rounded_to(rounded_to(total, self._dst), room.typed(BlockType).dtype)
        self._sums[room.name] = kept
        pushed.append(kept)

    def _block(self, op: Op, before: Bounded | None = None) -> Bounded:
        """One block op, tile by tile as its loop nest says; one that sums up may have a sum to begin with."""
        definition = TILE_OPS[op.name.removeprefix(BLOCK_PREFIX)]
        nest, result = loop_nest(op), op.result.typed(BlockType)
        attrs = {name: float(str(op.attr(name))) for name in definition.attrs}
        operands = [self._values[v.name] for v in op.operands]
        shape = (result.shape[0] * TILE, result.shape[1] * TILE)
        made = Bounded(np.full(shape, definition.initial), np.zeros(shape))
        if before is not None:
            made = Bounded(before.value.copy(), before.error.copy())
        for point in np.ndindex(*nest.bounds):
            at = Bounded(tile_of(made.value, point[:2]), tile_of(made.error, point[:2]))
            tiles = [at] if definition.accumulates else []
            for x, m in zip(operands, nest.operands, strict=True):
                where = m.evaluate(point)
                tiles.append(Bounded(tile_of(x.value, where), tile_of(x.error, where)))
            found = step(definition, tiles, attrs, self._dst, self._sum_unit)
            at.value[...], at.error[...] = found.value, found.error
        narrower = FLOATS.index(result.dtype) < FLOATS.index(self._dst)
        made = rounded_to(made, result.dtype) if narrower and not _keeps_numbers(op) else made
        return self._or_zero(made, op) if op.result.name in self._beside else made

    def _or_zero(self, x: Bounded, op: Op) -> Bounded:
        """Beside the result of a reduction, 0 may be there as well."""
        beside = np.tile(self._beside[op.result.name], op.result.typed(BlockType).shape)
        return Bounded(x.value, np.where(beside, np.maximum(x.error, np.abs(x.value)), x.error))


# -- rounding -----------------------------------------------------------------------------------------------
def half_unit(magnitude: Numbers, dtype: DType) -> Numbers:
    """Half a unit in the last place of numbers of up to this magnitude; of a block format, a unit of its group.

    Block formats round to half a unit too, but cut off what is nearest to the next exponent.
    """
    with np.errstate(all="ignore"):
        if dtype in BLOCK_BITS:
            groups = magnitude.reshape(*magnitude.shape[:-1], -1, 16)
            largest = np.max(groups, axis=-1, keepdims=True)
            unit = np.ldexp(1.0, np.frexp(largest)[1] - BLOCK_BITS[dtype])
            found = np.broadcast_to(unit, groups.shape).reshape(magnitude.shape)
        else:
            exponent = np.maximum(np.frexp(magnitude)[1] - 1, LEAST_EXPONENT)
            found = np.ldexp(0.5, exponent + 1 - DIGITS[dtype])
    return np.where(magnitude == 0, 0.0, np.where(magnitude + found < MOST, found, np.inf))


def rounded_to(x: Bounded, dtype: DType) -> Bounded:
    """A value that may have been rounded to an element type."""
    return Bounded(x.value, x.error + half_unit(np.abs(x.value) + x.error, dtype))


# -- what ops do to errors ------------------------------------------------------------------------------------
_EXACT = frozenset(
    {
        "copy", "copy_dst", "identity", "transpose", "abs", "neg", "relu", "max", "min", "where", "sign", "signbit",
        "eq", "ne", "lt", "gt", "le", "ge", "eqz", "nez", "gtz", "gez", "ltz", "lez", "isnan", "isinf",
        "floor", "ceil", "trunc",
        *(f"bcast_{which}" for which in ("row", "col", "scalar")),
        *(f"reduce_max_{axis}" for axis in ("row", "col", "scalar")),
    }
)  # fmt: skip
"""Results are numbers that an operand holds, rounded there already, or whole numbers with no more digits than those.

So are maxima if their scaler is 1.
"""
_TURNS: Mapping[str, float] = {
    **dict.fromkeys(("abs", "square", "cosh", "eqz", "nez", "leaky_relu", "elu"), 0.0),
    "gelu": -0.7517915246935645,
    "gelu_tanh": -0.7524614221010293,
    "silu": -1.2784645427610738,
}
"""Where a function turns: it is monotone on either side."""
_SLOPE_ONE = ("sin", "cos")
"""Functions that turn often, and whose slope is at most 1."""


def _quotient_jumps(a: Bounded, b: Bounded) -> Mask:
    """Whether a/b may be on either side of a whole number."""
    whole = np.array([np.floor(p / q) for p, q in product(a.ends, b.ends)])
    found: Mask = b.may_be(0.0) | (whole != whole[0]).any(axis=0)
    return found


_JUMPS: Mapping[str, Callable[..., Mask]] = {
    "recip": lambda a: a.may_be(0.0),
    "div": lambda _a, b: b.may_be(0.0),
    "tan": lambda a: np.not_equal(*(np.floor(end / np.pi + 0.5) for end in a.ends)),
    "frac": lambda a: np.not_equal(*map(np.trunc, a.ends)),
    "eq": lambda a, b: (a.error + b.error > 0) & (np.abs(a.value - b.value) <= a.error + b.error),
    "ne": lambda a, b: (a.error + b.error > 0) & (np.abs(a.value - b.value) <= a.error + b.error),
    "pow": lambda a, _b: a.ends[0] < 0,
    "atan2": lambda a, b: a.may_be(0.0) & (b.ends[0] <= 0),
    "fmod": _quotient_jumps,
    "remainder": _quotient_jumps,
}
"""Where a function jumps or has a pole between the ends of its operands: the error is not limited there."""


def _keeps_numbers(op: Op) -> bool:
    """Whether what L1 held of the operands is what it holds of the result; exponents are shared by other groups."""
    types = [v.type for v in (op.result, *op.operands)]
    dtypes = [t.dtype for t in types if isinstance(t, BlockType)]
    known = op.name.removeprefix(BLOCK_PREFIX) in _EXACT and not set(dtypes) & set(BLOCK_BITS)
    return known and all(FLOATS.index(d) <= FLOATS.index(dtypes[0]) for d in dtypes)


def step(
    definition: TileOp,
    tiles: Sequence[Bounded],
    attrs: Mapping[str, float],
    dst: DType,
    sum_unit: float = TILE * FLOAT64,
) -> Bounded:
    """One tile op: its operands' errors carried on, and the result rounded to DST's element type."""
    with np.errstate(all="ignore"):
        if definition.name.startswith("matmul"):
            return _computed(_product(definition, tiles, sum_unit), dst)
        if definition.name == "typecast":
            wide = int(attrs["target"]) == FORMAT_NUMBERS[DType.F32]
            return tiles[0] if wide else rounded_to(tiles[0], DType.BF16)
        value = np.asarray(definition.meaning(*(t.value for t in tiles), **attrs), np.float64)
        error = _carried(definition, tiles, attrs, value)
        found = Bounded(value, np.where(np.isnan(error), np.inf, error) * (1 + FLOAT64))
        scaled = definition.name.startswith("reduce_max") and bool(tiles[2].value[0, 0] != 1 or tiles[2].error[0, 0])
        return found if definition.name in _EXACT and not scaled else _computed(found, dst)


def _computed(x: Bounded, dst: DType) -> Bounded:
    """A result in DST: rounded to float32, and to 16 bits then if those are what DST holds."""
    computed = rounded_to(x, DType.F32)
    return computed if dst is DType.F32 else rounded_to(computed, dst)


def _carried(definition: TileOp, tiles: Sequence[Bounded], attrs: Mapping[str, float], value: Numbers) -> Numbers:
    name = definition.name
    if name == "where":
        return _either(tiles, value)
    if name in _SLOPE_ONE:
        return np.minimum(tiles[0].error, 2.0)
    as_given = {key: float(number) for key, number in definition.held(attrs).items()}
    error = np.zeros(value.shape)
    for corner in _corners(name, tiles):
        end = np.asarray(definition.meaning(*corner, **as_given), np.float64)
        error = np.maximum(error, np.where(end == value, 0.0, np.abs(end - value)))
    return np.where(_JUMPS[name](*tiles), np.inf, error) if name in _JUMPS else error


def _corners(name: str, tiles: Sequence[Bounded]) -> Iterator[tuple[Numbers, ...]]:
    """Operands between which an op, monotone in each of them, has its extremes."""
    yield from product(*(t.ends for t in tiles))
    if name in _TURNS:
        yield (np.clip(_TURNS[name], *tiles[0].ends),)


def _either(tiles: Sequence[Bounded], value: Numbers) -> Numbers:
    """`where`: the branch that is taken, or both if the condition may be zero or not."""
    c, a, b = tiles
    zero, only_zero = c.may_be(0.0), (c.value == 0) & (c.error == 0)
    first = np.where(only_zero, 0.0, np.abs(a.value - value) + a.error)
    second = np.where(zero, np.abs(b.value - value) + b.error, 0.0)
    return np.maximum(first, second)


def _product(definition: TileOp, tiles: Sequence[Bounded], sum_unit: float) -> Bounded:
    """total + a @ b: |a| eb + ea |b| + ea eb, and what a sum in another order makes of it in the kernel's precision."""
    total, a, b = tiles
    value, error = b.value, b.error
    if definition.name == "matmul_t":
        value, error = value.T, error.T
    sizes = np.abs(a.value) @ np.abs(value)
    carried = np.abs(a.value) @ error + a.error @ (np.abs(value) + error)
    return Bounded(total.value + a.value @ value, total.error + carried + sum_unit * sizes)
