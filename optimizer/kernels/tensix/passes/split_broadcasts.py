"""A broadcast op on a computed value becomes a broadcast and an elementwise op, so that the value can stay in DST.

    %y = ttl.add_bcast_row(%x, %b)    ->    %w = ttl.bcast_row(%b); %y = ttl.add(%x, %w)

The FPU's `add_tiles_bcast_rows` reads both operands from circular buffers. If the first one is computed, that costs a
round trip through L1; an unpacking broadcast and an SFPU add do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, COMPUTE
from optimizer.kernels.tensix.ir import Names, Op, rewrite
from optimizer.kernels.tensix.passes.convert_to_compute import is_block_op


@dataclass(frozen=True)
class SplitBroadcasts:
    """Every `<add|sub|mul>_bcast_<row|col|scalar>` whose first operand is the only use of a block op's result."""

    name: ClassVar[str] = "split-broadcasts"

    def apply(self, program: Op) -> Op:
        names = Names(program)

        def change(op: Op) -> tuple[Op, ...]:
            return (op.with_body(_split(op.body.ops, names)),) if op.name in (COMPUTE, "ttl.for") else (op,)

        return rewrite(program, change)[0]


def _split(ops: tuple[Op, ...], names: Names) -> tuple[Op, ...]:
    uses: dict[str, int] = {}
    for op in ops:
        for v in op.operands:
            uses[v.name] = uses.get(v.name, 0) + 1
    computed = {op.result.name for op in ops if is_block_op(op) and uses.get(op.result.name, 0) == 1}
    found: list[Op] = []
    for op in ops:
        kind, _, axis = op.name.removeprefix(BLOCK_PREFIX).partition("_bcast_")
        if axis and is_block_op(op) and op.operands[0].name in computed:
            wide = names.value(op.result.type, "wide")
            found.append(Op(f"{BLOCK_PREFIX}bcast_{axis}", (op.operands[1],), (wide,)))
            found.append(Op(f"{BLOCK_PREFIX}{kind}", (op.operands[0], wide), op.results))
        else:
            found.append(op)
    return tuple(found)
