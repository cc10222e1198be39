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
from dataclasses import dataclass, replace

from optimizer.errors import InfeasibleError
from optimizer.kernels.tensix.dialect import TILE_PREFIX
from optimizer.kernels.tensix.dst.plan import Relief, plan_body
from optimizer.kernels.tensix.dst.schedule import Schedule
from optimizer.kernels.tensix.dst.seed_allocator import seed_order, seed_plan
from optimizer.kernels.tensix.ir import Names, Op, Region, Value, substitute
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.assign_dst import (
    DEFAULT_SCHEDULES,
    Allocator,
    body_dag,
    capacity_of,
    parallel_tiles,
)
from optimizer.kernels.tensix.passes.convert_to_compute import accumulates
from optimizer.kernels.tensix.passes.fuse_computes import joined, may_move, merge
from optimizer.process.work_limit import spend

_REDUCTION = f"{TILE_PREFIX}reduce_"
MOST_OPS = 32
"""Of a fused body: planning takes time with the number of ops."""
MOST_PARTS = 8
"""Results of a compute that is taken apart."""
_Pair = tuple[tuple[Value, ...], tuple[Value, ...]]
"""Results of two computes."""


def fuse_siblings(program: Op, allocator: Allocator, schedule: Schedule | None = None) -> Op:
    """Every compute thread and loop."""
    prices = _Prices(capacity_of(program), allocator, schedule or DEFAULT_SCHEDULES[allocator])
    names = Names(program)

    def change(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        if allocator == "default":
            ops = tuple(part for op in ops for part in _apart(op, prices, names))
        return _fused(ops, prices)

    return rewrite_bodies(program, change)


def _fused(ops: tuple[Op, ...], prices: _Prices) -> tuple[Op, ...]:
    refused: set[_Pair] = set()
    while (found := next(_worthwhile(ops, prices, refused), None)) is not None:
        ops = joined(ops, *found)
    return ops


def _apart(op: Op, prices: _Prices, names: Names) -> tuple[Op, ...]:
    """A compute with several results in the parts that cost least together, if that is less than it costs."""
    whole = prices.of(op) if op.name == "ttl.compute" and 1 < len(op.results) <= MOST_PARTS else None
    if whole is None or any(accumulates(inner) for inner in op.body.ops):
        return (op,)
    parts = _fused(tuple(_part(op, k, names) for k in range(len(op.results))), prices)
    return parts if (total := prices.together(parts)) is not None and total < whole else (op,)


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


def _worthwhile(ops: Sequence[Op], prices: _Prices, refused: set[_Pair]) -> Iterator[tuple[int, int, Op]]:
    """(earlier, later, both as one) of siblings that are worth it; those that are not are `refused` from now on."""
    for first, a in enumerate(ops):
        if a.name != "ttl.compute":
            continue
        for second in range(first + 1, len(ops)):
            b = ops[second]
            spend(1)
            if (a.results, b.results) in refused or b.name != "ttl.compute":
                continue
            if _siblings(a, b) and may_move(ops, first, second):
                merged = merge(a, b, frozenset(v.name for v in a.results))
                apart, together = prices.together((a, b)), prices.of(merged)
                if apart is not None and together is not None and together <= apart:
                    yield first, second, merged
                else:
                    refused.add((a.results, b.results))


def _siblings(a: Op, b: Op) -> bool:
    """Whether both go over the same loops and neither reads the other."""
    nests = [(op.integers("bounds"), op.strings("iterator_types")) for op in (a, b)]
    read = {v.name for v in b.operands}
    small = len(a.body.ops) + len(b.body.ops) <= MOST_OPS + 2
    masked = any(inner.name.startswith(_REDUCTION) for op in (a, b) for inner in op.body.ops)
    return small and not masked and nests[0] == nests[1] and not any(v.name in read for v in a.results)


@dataclass(frozen=True)
class _Prices:
    slots: int
    allocator: Allocator
    schedule: Schedule

    def of(self, op: Op) -> int | None:
        """What the compute costs in one piece; None if it takes more than the slots that there are."""
        dag, tiles = body_dag(op), parallel_tiles(op)
        try:
            if self.allocator == "seed":
                return -(-tiles // seed_plan(seed_order(dag, self.schedule)[0], tiles, self.slots).unroll)
            plan = plan_body(dag, tiles, self.slots, schedule=self.schedule)
        except InfeasibleError:
            return None
        return plan.cost if plan.relief in (Relief.NONE, Relief.REORDER) else None

    def together(self, ops: Sequence[Op]) -> int | None:
        """Of all of them; None if one of them has no price."""
        found = [price for op in ops if (price := self.of(op)) is not None]
        return sum(found) if len(found) == len(ops) else None
