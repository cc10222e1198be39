"""A broadcast op on a computed value becomes a broadcast and an elementwise op, so that the value can stay in DST.
So does one of f32 operands, so that they stay exact.

    %y = ttl.add_bcast_row(%x, %b)    ->    %w = ttl.bcast_row(%b); %y = ttl.add(%x, %w)

The FPU's `add_tiles_bcast_rows` reads both operands from circular buffers. If the first one is computed, that costs a
round trip through L1; an unpacking broadcast and an SFPU add do not. And it reads them at 19 bits, which f32 does not
fit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, COMPUTE
from optimizer.kernels.tensix.ir import Names, Op, Value, rewrite
from optimizer.kernels.tensix.passes.convert_to_compute import is_block_op
from optimizer.kernels.tensix.types import BlockType


@dataclass(frozen=True)
class SplitBroadcasts:
    """Every `<add|sub|mul>_bcast_<row|col|scalar>` whose first operand is the only use of a block op's result, or one
    of whose operands is f32."""

    computed: bool = True
    """Also those of computed values, which pays if values between ops stay in DST."""
    name: ClassVar[str] = "split-broadcasts"

    def apply(self, program: Op) -> Op:
        names = Names(program)

        def change(op: Op) -> tuple[Op, ...]:
            return (op.with_body(self._split(op.body.ops, names)),) if op.name in (COMPUTE, "ttl.for") else (op,)

        return rewrite(program, change)[0]

    def _split(self, ops: tuple[Op, ...], names: Names) -> tuple[Op, ...]:
        staying = _read_once(ops) if self.computed else frozenset()
        found: list[Op] = []
        for op in ops:
            kind, _, axis = op.name.removeprefix(BLOCK_PREFIX).partition("_bcast_")
            if axis and is_block_op(op) and (op.operands[0].name in staying or _is_wide(op)):
                first, second = op.operands
                repeated = names.value(BlockType(_block(op.result).shape, _block(second).dtype), "wide")
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
    return any(_block(v).dtype is DType.F32 for v in op.operands)


def _block(v: Value) -> BlockType:
    assert isinstance(v.type, BlockType)
    return v.type
