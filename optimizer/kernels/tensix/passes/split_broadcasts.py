"""A broadcast op on a computed value becomes a broadcast and an elementwise op, so that the value can stay in DST.
So does one of f32 operands, so that they stay exact.

    %y = ttl.add_bcast_row(%x, %b)    ->    %w = ttl.bcast_row(%b); %y = ttl.add(%x, %w)

The FPU's `add_tiles_bcast_rows` reads both operands from circular buffers. If the first one is computed, that costs a
round trip through L1; an unpacking broadcast and an SFPU add do not. And it reads them at 19 bits, which f32 does not
fit.
"""

from __future__ import annotations

from collections import Counter

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX
from optimizer.kernels.tensix.ir import Names, Op
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.convert_to_compute import is_block_op
from optimizer.kernels.tensix.types import BlockType


def split_broadcasts(program: Op, computed: bool = True) -> Op:
    """Every `<add|sub|mul>_bcast_<row|col|scalar>` one of whose operands is f32, and, if `computed`, every one whose
    first operand is the only use of a block op's result: that pays if values between ops stay in DST."""
    names = Names(program)
    return rewrite_bodies(program, lambda ops: _split(ops, _read_once(ops) if computed else frozenset(), names))


def _split(ops: tuple[Op, ...], staying: frozenset[str], names: Names) -> tuple[Op, ...]:
    found: list[Op] = []
    for op in ops:
        kind, _, axis = op.name.removeprefix(BLOCK_PREFIX).partition("_bcast_")
        if axis and is_block_op(op) and (op.operands[0].name in staying or _is_wide(op)):
            first, second = op.operands
            repeated = names.value(BlockType(op.result.typed(BlockType).shape, second.typed(BlockType).dtype), "wide")
            found.append(Op(f"{BLOCK_PREFIX}bcast_{axis}", (second,), (repeated,)))
            found.append(Op(f"{BLOCK_PREFIX}{kind}", (first, repeated), op.results))
        else:
            found.append(op)
    return tuple(found)


def _read_once(ops: tuple[Op, ...]) -> frozenset[str]:
    """Results of block ops that are read once."""
    uses = Counter(v.name for op in ops for v in op.operands)
    return frozenset(op.result.name for op in ops if is_block_op(op) and uses[op.result.name] == 1)


def _is_wide(op: Op) -> bool:
    """Whether an operand is f32."""
    return any(v.typed(BlockType).dtype is DType.F32 for v in op.operands)
