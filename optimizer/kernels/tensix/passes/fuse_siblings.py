"""Computes that go over the same tiles and do not read each other become one where that costs no more.

Values that share inputs, or are stored one after the other, then share sections; equal ops run once. The plans of both
ways are compared (`dst/plan.py`); with the document's allocator, their sections. After `sink-to-stores`: a compute
moves down to its sibling only if nothing between them is pushed or popped, so no store waits for a later room.
Reductions stay alone: they set the packer's edge mask, which holds for all that a section packs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.errors import InfeasibleError
from optimizer.kernels.tensix.dialect import TILE_PREFIX
from optimizer.kernels.tensix.dst.plan import Relief, plan_body
from optimizer.kernels.tensix.dst.seed_allocator import seed_plan
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.assign_dst import Allocator, body_dag, capacity_of, parallel_tiles
from optimizer.kernels.tensix.passes.fuse_computes import joined, may_move, merge

_REDUCTION = f"{TILE_PREFIX}reduce_"
MOST_OPS = 32
"""Of a fused body: planning takes time with the number of ops."""


def fuse_siblings(program: Op, capacity: int | None, allocator: Allocator) -> Op:
    """Every compute thread and loop."""
    slots = capacity_of(program, capacity)
    return rewrite_bodies(program, lambda ops: _fused(ops, slots, allocator))


def _fused(ops: tuple[Op, ...], slots: int, allocator: Allocator) -> tuple[Op, ...]:
    while True:
        found = next(_worthwhile(ops, slots, allocator), None)
        if found is None:
            return ops
        first, second, merged = found
        ops = joined(ops, first, second, merged)


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
