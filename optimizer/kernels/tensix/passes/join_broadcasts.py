"""A broadcast joins the op that reads it, so that it need not go through L1.

    %w = ttl.bcast_col(%m)                        sums, differences and products of what lies in L1 anyway:
    %y = ttl.sub(%x, %w)                          one op of the FPU, which reads both operands there
    ->
    %y = ttl.sub_bcast_col(%x, %m)

    %w = ttl.bcast_col(%m) : block<2x1xbf16>      other ops on a larger frame: the broadcast covers it, tile by tile
    %y = ttl.max(%x, %w) : block<2x4xbf16>
    ->
    %w = ttl.bcast_col(%m) : block<2x4xbf16>
    %y = ttl.max(%x, %w) : block<2x4xbf16>

Blocks full of one number (`ttl.fill`) cover the frame, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimizer.kernels.tensix.dialect import BLOCK_PREFIX
from optimizer.kernels.tensix.ir import Op, Value
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.convert_to_compute import is_block_op
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType
from optimizer.kernels.tensix.verify import block_result_shape

_JOINED = ("add", "sub", "mul")
_COMMUTE = ("add", "mul")
_BCAST = f"{BLOCK_PREFIX}bcast_"


def join_broadcasts(program: Op) -> Op:
    """Every compute thread and loop."""
    return rewrite_bodies(program, lambda ops: _widened(_joined(ops)))


# -- into one op ------------------------------------------------------------------------------------------
def _joined(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """With broadcasts that one sum, difference or product reads as a part of it."""
    gone: set[str] = set()
    found: list[Op] = []
    for n, op in enumerate(ops):
        at = next((m for m in range(n) if _may_join(ops, m, n)), None)
        if at is not None:
            gone.add(ops[at].result.name)
            op = _with_bcast(ops[at], op)
        found.append(op)
    return tuple(op for op in found if not (op.results and op.results[0].name in gone))


def _may_join(ops: Sequence[Op], at: int, reader: int) -> bool:
    """Whether the reader can do what the broadcast does, and reads what it reads where it stands."""
    bcast, op = ops[at], ops[reader]
    if not bcast.name.startswith(_BCAST) or op.name.removeprefix(BLOCK_PREFIX) not in _JOINED:
        return False
    if [other for other in ops for v in other.operands if v == bcast.result] != [op]:
        return False
    kind, joined = op.name.removeprefix(BLOCK_PREFIX), _with_bcast(bcast, op)
    if op.operands[1] != bcast.result and kind not in _COMMUTE:
        return False
    shapes = tuple(v.typed(BlockType).shape for v in joined.operands)
    if block_result_shape(joined.name.removeprefix(BLOCK_PREFIX), shapes) != op.result.typed(BlockType).shape:
        return False
    stays = all(is_block_op(between) or between.name == "ttl.cb_wait" for between in ops[at + 1 : reader])
    return stays and _lies_in_l1(joined.operands[0], [other for other in ops if other is not op])


def _lies_in_l1(v: Value, ops: Sequence[Op]) -> bool:
    """Whether a block is in a circular buffer anyway: it comes from one, or an op reads it from one only."""
    if not any(is_block_op(op) and op.result == v for op in ops):
        return True
    readers = ((op, k) for op in ops if is_block_op(op) for k, operand in enumerate(op.operands) if operand == v)
    return any(_takes_from_cb_only(op, k) for op, k in readers)


def _takes_from_cb_only(op: Op, k: int) -> bool:
    return all(form.places[k] is Place.CB for form in TILE_OPS[op.name.removeprefix(BLOCK_PREFIX)].forms)


def _with_bcast(bcast: Op, op: Op) -> Op:
    """One op for both; what is broadcast is its second operand."""
    other = op.operands[0] if op.operands[1] == bcast.result else op.operands[1]
    axis = bcast.name.removeprefix(_BCAST)
    return replace(op, name=f"{op.name}_bcast_{axis}", operands=(other, bcast.operands[0]))


# -- over the frame ---------------------------------------------------------------------------------------
def _widened(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """With broadcasts and fills as large as what all their readers compute on."""
    wider: dict[str, Value] = {}
    for op in ops:
        if op.name.startswith(_BCAST) or op.name == f"{BLOCK_PREFIX}fill":
            frames = {_frame(reader, op.result) for reader in ops if op.result in reader.operands}
            shape = frames.pop() if len(frames) == 1 else None
            if shape is not None:
                wider[op.result.name] = Value(op.result.name, replace(op.result.typed(BlockType), shape=shape))
    if not wider:
        return ops
    return tuple(
        replace(
            op,
            operands=tuple(wider.get(v.name, v) for v in op.operands),
            results=tuple(wider.get(v.name, v) for v in op.results),
        )
        for op in ops
    )


def _frame(reader: Op, v: Value) -> tuple[int, int] | None:
    """Tiles that a reader computes on element by element with a value; None if it needs the value as it is."""
    if not is_block_op(reader) or not TILE_OPS[reader.name.removeprefix(BLOCK_PREFIX)].elementwise:
        return None
    shape = reader.result.typed(BlockType).shape
    return shape if v.typed(BlockType).shape != shape else None
