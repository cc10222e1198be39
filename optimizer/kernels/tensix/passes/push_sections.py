"""Results are pushed section by section, and the writer takes tile by tile: it begins before the block is done.

    ttl.for { acquire ... pack 8 tiles; release }         ttl.for { acquire ... release; ttl.cb_push_part {tiles = 8} }
    ttl.cb_push(%cb)                               ->     ttl.cb_push(%cb) {parts = true}

    %b = ttl.cb_wait(%cb)                                 %b = ttl.cb_wait(%cb) {parts = true}
    ttl.copy_out(%b, ...)                                 ttl.copy_out(%b, ...)

What is pushed in parts makes no call of its own any more; what is waited for in parts is waited for before each tile.
The room of the whole block is reserved before, as it was. Buffers that the thread itself waits for, or that lie in a
tensor's shard, stay as they are, and blocks that one section computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from optimizer.kernels.tensix.buffers import backing, local_buffers
from optimizer.kernels.tensix.dialect import COMPUTE, DATA_MOVEMENT
from optimizer.kernels.tensix.ir import Op, Value, attributes, loop_rounds, rewrite, walk
from optimizer.kernels.tensix.types import BlockType

Push = Literal["section", "block"]
_PACKS = ("dst.pack", "dst.pack_block")


def push_sections(program: Op) -> Op:
    """Every compute thread, and the writer of what it pushes in parts."""
    shards = backing(program).keys()

    def compute(op: Op) -> tuple[Op, ...]:
        if op.name != COMPUTE:
            return (op,)
        kept = shards | local_buffers(op)
        return rewrite(op, lambda inner: (_refined(inner, kept) if inner.name in (COMPUTE, "ttl.for") else inner,))

    changed = rewrite(program, compute)[0]
    parts = {op.operands[0].name for op in walk(changed) if op.name == "ttl.cb_push_part"}

    def writer(op: Op) -> tuple[Op, ...]:
        return (_waiting(op, parts),) if op.name in (DATA_MOVEMENT, "ttl.for") else (op,)

    return rewrite(changed, writer)[0]


def _refined(op: Op, kept: frozenset[str] | set[str]) -> Op:
    """A thread's or a loop's ops, with what it reserves and pushes itself pushed in parts."""
    ops = op.body.ops
    for room in [o for o in ops if o.name == "ttl.cb_reserve" and o.operands[0].name not in kept]:
        cb, block = room.operands[0], room.result
        begin = ops.index(room)
        end = next((n for n in range(begin, len(ops)) if _is_push(ops[n], cb)), None)
        if end is None or any(inner.has_attr("accumulate") for o in ops[begin:end] for inner in walk(o)):
            continue  # what is added to in L1 is done when the last round is
        inside = _pushing(ops[begin:end], cb, block)
        sizes = [o.integer("tiles") * times for o, times in _repeated(inside, 1) if o.name == "ttl.cb_push_part"]
        if sum(sizes) == block.typed(BlockType).tiles and _sections(inside) > 1:
            ops = (*ops[:begin], *inside, ops[end].with_attrs(parts=True), *ops[end + 1 :])
    return op.with_body(ops)


def _is_push(op: Op, cb: Value) -> bool:
    return op.name == "ttl.cb_push" and op.operands[0].name == cb.name and not op.has_attr("parts")


def _pushing(ops: Sequence[Op], cb: Value, block: Value) -> tuple[Op, ...]:
    """The ops with a push of what each section packs to the block, behind its release."""
    found: list[Op] = []
    packed = 0
    for op in ops:
        if op.name == "ttl.for" and any(inner.name == "ttl.tile_regs_release" for inner in op.body.ops):
            op = op.with_body(_pushing(op.body.ops, cb, block))
        else:
            packed += sum(
                inner.integer("tiles", 1) * times
                for inner, times in _repeated((op,), 1)
                if inner.name in _PACKS and inner.operands[1].name == block.name
            )
        found.append(op)
        if op.name == "ttl.tile_regs_release" and packed:
            found.append(Op("ttl.cb_push_part", (cb,), (), attributes({"tiles": packed})))
            packed = 0
    return tuple(found)


def _repeated(ops: Sequence[Op], times: int) -> list[tuple[Op, int]]:
    """Everything inside with the number of times it runs; 0 where only the running kernel knows."""
    found: list[tuple[Op, int]] = []
    for op in ops:
        found.append((op, times))
        if op.name == "ttl.for":
            found += _repeated(op.body.ops, times * (loop_rounds(op) or 0))
    return found


def _sections(ops: Sequence[Op]) -> int:
    return sum(times for op, times in _repeated(ops, 1) if op.name == "ttl.cb_push_part")


def _waiting(op: Op, parts: set[str]) -> Op:
    """Waits for blocks that come in parts and are taken at once."""
    ops = list(op.body.ops)
    for n, (wait, after) in enumerate(pairwise(ops)):
        if wait.name == "ttl.cb_wait" and wait.operands[0].name in parts and _takes(after, wait.result):
            ops[n] = wait.with_attrs(parts=True)
    return op.with_body(tuple(ops))


def _takes(op: Op, block: Value) -> bool:
    return op.name == "ttl.copy_out" and op.operands[0] == block
