"""Expressions are evaluated where they are stored: a compute moves down to the reserve of the room it is stored in.

    %v = ttl.compute(%x) ...                 %room = ttl.cb_reserve(%cb)
    %room = ttl.cb_reserve(%cb)      ->      %v = ttl.compute(%x) ...
    ttl.store(%v, %room)                     ttl.store(%v, %room)

It cannot where something on the way reads its results, frees a block that it reads, or pushes a block that it is stored
in. Then the value waits in a circular buffer, and a copy is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimizer.kernels.tensix.ir import Names, Op, walk
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.place_results import copy_of


def sink_to_stores(program: Op) -> Op:
    """Every compute thread and loop."""
    names = Names(program)
    return rewrite_bodies(program, lambda ops: _sunk(ops, names))


def _sunk(ops: tuple[Op, ...], names: Names) -> tuple[Op, ...]:
    done: set[str] = set()
    while True:
        at = next((n for n, op in enumerate(ops) if op.name == "ttl.compute" and _key(op) not in done), None)
        if at is None:
            return ops
        done.add(_key(ops[at]))
        rooms = _rooms(ops, ops[at])
        target = max((n for n, op in enumerate(ops) if _reserves(op, rooms)), default=-1)
        if target <= at:
            continue
        if _may_sink(ops, at, target, rooms):
            ops = (*ops[:at], *ops[at + 1 : target + 1], ops[at], *ops[target + 1 :])
        else:
            ops = _copied(ops, at, names)


def _key(op: Op) -> str:
    return op.results[0].name if op.results else ""


def _rooms(ops: Sequence[Op], compute: Op) -> frozenset[str]:
    """Blocks that the results are stored in."""
    made = {v.name for v in compute.results}
    return frozenset(op.operands[1].name for op in ops if op.name == "ttl.store" and op.operands[0].name in made)


def _reserves(op: Op, rooms: frozenset[str]) -> bool:
    return op.name == "ttl.cb_reserve" and op.result.name in rooms


def _may_sink(ops: Sequence[Op], at: int, target: int, rooms: frozenset[str]) -> bool:
    """Whether nothing on the way reads what is made, frees what is read, or pushes what is written."""
    compute = ops[at]
    made, read = ({v.name for v in values} for values in (compute.results, compute.operands))
    frees = {"ttl.cb_pop": _buffers(ops, "ttl.cb_wait", read), "ttl.cb_push": _buffers(ops, "ttl.cb_reserve", rooms)}
    for op in ops[at + 1 : target + 1]:
        if op.name == "ttl.store" and op.operands[0].name in made:
            return False
        inside = list(walk(op)) if op.regions else [op]
        if any(v.name in made for inner in inside for v in inner.operands):
            return False
        if any(inner.operands[0].name in frees.get(inner.name, ()) for inner in inside if inner.operands):
            return False
    return True


def _buffers(ops: Sequence[Op], begin: str, blocks: frozenset[str] | set[str]) -> set[str]:
    """Circular buffers that blocks are of."""
    return {op.operands[0].name for op in ops if op.name == begin and op.result.name in blocks}


def _copied(ops: Sequence[Op], at: int, names: Names) -> tuple[Op, ...]:
    """A copy of its own for every store whose room is reserved after the compute."""
    made = {v.name for v in ops[at].results}
    late = {op.result.name for op in ops[at:] if op.name == "ttl.cb_reserve"}
    found: list[Op] = []
    for op in ops:
        if op.name == "ttl.store" and op.operands[0].name in made and op.operands[1].name in late:
            copied = names.value(op.operands[0].type, "copied")
            found.append(copy_of(op.operands[0], copied, names))
            op = replace(op, operands=(copied, op.operands[1]))
        found.append(op)
    return tuple(found)
