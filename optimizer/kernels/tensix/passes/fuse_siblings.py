"""Computes that go over the same tiles and do not read each other become one where that costs no more.

Values that share inputs, or are stored one after the other, then share sections; equal ops run once. The plans of both
ways are compared (`dst/plan.py`); with the document's allocator, their sections. After `sink-to-stores`: a compute
moves down to its sibling only if nothing between them is pushed or popped, so no store waits for a later room.
Reductions stay alone: they set the packer's edge mask, which holds for all that a section packs.

A compute with several results may be cheaper in parts, each with what it needs of the body: a section then holds more
tiles. It is taken apart and put together again where that pays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from optimizer.errors import InfeasibleError
from optimizer.kernels.tensix.dialect import TILE_PREFIX
from optimizer.kernels.tensix.dst.plan import Relief, plan_body
from optimizer.kernels.tensix.dst.seed_allocator import seed_plan
from optimizer.kernels.tensix.ir import Names, Op, Region, substitute
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.assign_dst import Allocator, body_dag, capacity_of, parallel_tiles
from optimizer.kernels.tensix.passes.convert_to_compute import accumulates
from optimizer.kernels.tensix.passes.fuse_computes import joined, may_move, merge

_REDUCTION = f"{TILE_PREFIX}reduce_"
MOST_OPS = 32
"""Of a fused body: planning takes time with the number of ops."""
MOST_PARTS = 8
"""Results of a compute that is taken apart."""


def fuse_siblings(program: Op, capacity: int | None, allocator: Allocator) -> Op:
    """Every compute thread and loop."""
    slots = capacity_of(program, capacity)
    names = Names(program)

    def change(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        if allocator == "default":
            ops = tuple(part for op in ops for part in _apart(op, slots, names))
        return _fused(ops, slots, allocator)

    return rewrite_bodies(program, change)


def _fused(ops: tuple[Op, ...], slots: int, allocator: Allocator) -> tuple[Op, ...]:
    while True:
        found = next(_worthwhile(ops, slots, allocator), None)
        if found is None:
            return ops
        first, second, merged = found
        ops = joined(ops, first, second, merged)


def _apart(op: Op, slots: int, names: Names) -> tuple[Op, ...]:
    """A compute with several results in the parts that cost least together, if that is less than it costs."""
    whole = _price(op, slots, "default") if op.name == "ttl.compute" and 1 < len(op.results) <= MOST_PARTS else None
    if whole is None or any(accumulates(inner) for inner in op.body.ops):
        return (op,)
    parts = _fused(tuple(_part(op, k, names) for k in range(len(op.results))), slots, "default")
    prices = [_price(part, slots, "default") for part in parts]
    return parts if None not in prices and sum(p for p in prices if p is not None) < whole else (op,)


def _part(op: Op, k: int, names: Names) -> Op:
    """The compute of one result alone."""
    needed = {op.body.ops[-1].operands[k].name}
    body: list[Op] = []
    for inner in reversed(op.body.ops[:-1]):
        if inner.result.name in needed:
            needed |= {v.name for v in inner.operands}
            body.insert(0, inner)
    read = [n for n, arg in enumerate(op.body.args) if arg.name in needed]
    args = tuple(names.value(op.body.args[n].type, "in") for n in read)
    renamed = {op.body.args[n].name: arg for n, arg in zip(read, args, strict=True)}
    renamed |= {inner.result.name: names.value(inner.result.type, "t") for inner in body}
    ops = tuple(substitute(replace(i, results=(renamed[i.result.name],)), renamed) for i in body)
    made = Op("ttl.yield", (renamed[op.body.ops[-1].operands[k].name],))
    operands = tuple(op.operands[n] for n in read)
    part = replace(op, operands=operands, results=(op.results[k],), regions=(Region(args, (*ops, made)),))
    return part.with_attrs(indexing_maps=tuple(op.maps[n] for n in read), inputs=len(read))


def _worthwhile(ops: Sequence[Op], slots: int, allocator: Allocator) -> Iterator[tuple[int, int, Op]]:
    """(earlier, later, both as one) of siblings that are worth it."""
    for first, a in enumerate(ops):
        if a.name != "ttl.compute":
            continue
        for second in range(first + 1, len(ops)):
            b = ops[second]
            if b.name == "ttl.compute" and _siblings(a, b) and may_move(ops, first, second):
                merged = merge(a, b, frozenset(v.name for v in a.results))
                apart = [_price(op, slots, allocator) for op in (a, b)]
                together = _price(merged, slots, allocator)
                if together is not None and None not in apart and together <= sum(p for p in apart if p is not None):
                    yield first, second, merged


def _siblings(a: Op, b: Op) -> bool:
    """Whether both go over the same loops and neither reads the other."""
    nests = [(op.integers("bounds"), op.strings("iterator_types")) for op in (a, b)]
    read = {v.name for v in b.operands}
    small = len(a.body.ops) + len(b.body.ops) <= MOST_OPS + 2
    masked = any(inner.name.startswith(_REDUCTION) for op in (a, b) for inner in op.body.ops)
    return small and not masked and nests[0] == nests[1] and not any(v.name in read for v in a.results)


def _price(op: Op, slots: int, allocator: Allocator) -> int | None:
    """What the compute costs in one piece; None if it takes more than the slots that there are."""
    dag, tiles = body_dag(op), parallel_tiles(op)
    try:
        if allocator == "seed":
            return -(-tiles // seed_plan(dag, tiles, slots).unroll)
        plan = plan_body(dag, tiles, slots)
    except InfeasibleError:
        return None
    return plan.cost if plan.relief in (Relief.NONE, Relief.REORDER) else None
