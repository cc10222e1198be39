"""Every result of a compute gets the blocks it is packed to: those it is stored in, or a circular buffer of its own.

A result that another compute reads goes through a circular buffer of one block: reserved before the compute, pushed
after it, waited for at once, popped after its last reader, and then free for another result of the same shape. That is
the round trip through L1 that fusion saves. A tile that is spilled within a compute gets a buffer of one section's
tiles, and one more for a shorter last section, so that pushes never straddle the end of a buffer.
Afterwards computes have no results but the blocks they write as further operands, and no `ttl.store` is left.

Sums over the rounds of a loop are kept in DST where they fit, else the packer adds to L1 (`place_sums`). A compute adds
in DST if it is the loop's only one, is a sum itself (a matmul, a row of sums), has all its tiles in one section, and
gives sums only: then the section begins before the loop and is packed after it. Otherwise each round packs its block,
and from the second round on the packer adds to what lies there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from optimizer.errors import LimitError
from optimizer.kernels.tensix.dialect import SPILL, TILE_PREFIX, stores_sum
from optimizer.kernels.tensix.index_expr import IndexMap, dim
from optimizer.kernels.tensix.ir import Names, Op, Value, attributes, rewrite, walk
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.assign_dst import parallel_tiles
from optimizer.kernels.tensix.passes.convert_to_compute import PARALLEL, LoopNest, compute
from optimizer.kernels.tensix.tile_ops import SUMS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, TileType
from optimizer.kernels.tensix.verify import MAX_CIRCULAR_BUFFERS


def store_values(program: Op) -> Op:
    """A block stored as it came becomes a compute that copies it, so that every store has a compute before it."""
    names = Names(program)
    made = {v.name for op in walk(program) if op.name in ("ttl.compute", "ttl.copy") for v in op.results}
    blocks = {v.name for op in walk(program) if op.name == "ttl.cb_wait" for v in op.results}

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "ttl.store" or op.operands[0].name in made or op.operands[0].name not in blocks:
            return (op,)
        copied = names.value(op.operands[0].type, "copied")
        return copy_of(op.operands[0], copied, names), replace(op, operands=(copied, op.operands[1]))

    return rewrite(program, change)[0]


def copy_of(source: Value, result: Value, names: Names) -> Op:
    """A compute that copies a block."""
    block = source.typed(BlockType)
    arg, tile = (names.value(TileType(block.dtype), stem) for stem in ("in", "t"))
    nest = LoopNest(block.shape, (PARALLEL, PARALLEL), (IndexMap.identity(2),))
    return compute(nest, (source,), result, (arg,), Op(f"{TILE_PREFIX}copy", (arg,), (tile,)))


def place_results(program: Op) -> Op:
    """Every compute thread. LimitError if there are more circular buffers than the hardware has."""
    used = [op.integer("index") for op in walk(program) if op.name == "ttl.bind_cb"]
    buffers = _Buffers(Names(program), max(used, default=-1) + 1)
    changed = rewrite_bodies(program, lambda ops: _placed(ops, buffers))
    first = next(n for n, op in enumerate(changed.body.ops) if op.name != "ttl.bind_cb")
    return changed.with_body((*changed.body.ops[:first], *buffers.bound, *changed.body.ops[first:]))


@dataclass
class _Buffers:
    """Circular buffers for values between computes."""

    names: Names
    next_index: int
    bound: list[Op] = field(default_factory=list)
    free: list[Value] = field(default_factory=list)

    def bind(self, block: BlockType) -> Value:
        """A free buffer of such blocks, or a new one."""
        found = next((cb for cb in self.free if cb.type == CircularBufferType(block.shape, block.dtype, 1)), None)
        if found is not None:
            self.free.remove(found)
            return found
        if self.next_index >= MAX_CIRCULAR_BUFFERS:
            raise LimitError(
                f"the kernel needs more than {MAX_CIRCULAR_BUFFERS} circular buffers for values between computes",
                node=block.__str__(),
                limit=MAX_CIRCULAR_BUFFERS,
            )
        value = self.names.value(CircularBufferType(block.shape, block.dtype, 1), "cb")
        self.bound.append(Op("ttl.bind_cb", (), (value,), attributes({"index": self.next_index})))
        self.next_index += 1
        return value


def _placed(ops: Sequence[Op], buffers: _Buffers) -> tuple[Op, ...]:
    stores: dict[str, list[Value]] = {}
    for op in ops:
        if op.name == "ttl.store":
            stores.setdefault(op.operands[0].name, []).append(op.operands[1])
    sums = frozenset(op.operands[1].name for op in ops if stores_sum(op))
    last = {v.name: n for n, op in enumerate(ops) if op.name == "ttl.compute" for v in op.operands}
    pops: dict[int, list[Value]] = {}
    known: dict[str, Value] = {}
    placed: list[Op] = []
    for n, op in enumerate(ops):
        if op.name == "ttl.store":
            continue
        if op.name == "ttl.compute":
            op, lent = _with_spill_buffers(op, buffers)
            before, compute, after = _with_targets(op, stores, last, known, buffers)
            compute = _with_sums(compute, sums)
            placed += [*before, compute, *after]
            buffers.free += lent
            for wait in after:
                if wait.name == "ttl.cb_wait":
                    reader = next(last[v.name] for v in op.results if known.get(v.name) == wait.result)
                    pops.setdefault(reader, []).append(wait.operands[0])
        else:
            placed.append(op)
        done = pops.pop(n, [])
        placed += [Op("ttl.cb_pop", (cb,)) for cb in done]
        buffers.free += done
    return tuple(placed)


def _with_spill_buffers(op: Op, buffers: _Buffers) -> tuple[Op, list[Value]]:
    """The compute with circular buffers as further operands of its spills, and those buffers."""
    lent: list[Value] = []
    unroll = op.integer("unroll")
    rest = prod(op.integers("bounds")[:2]) % unroll
    body: list[Op] = []
    for inner in op.body.ops:
        if inner.name == SPILL:
            dtype = inner.operands[0].typed(TileType).dtype
            found = [buffers.bind(BlockType((1, count), dtype)) for count in (unroll, rest) if count]
            lent += found
            inner = replace(inner, operands=(*inner.operands, *found))
        body.append(inner)
    return op.with_body(tuple(body)), lent


def _with_sums(op: Op, rooms: frozenset[str]) -> Op:
    """`sums` of a compute: which of its targets are rooms that sum up the rounds of a loop."""
    targets = op.operands[op.integer("inputs") :]
    found = tuple(n for n, v in enumerate(targets) if v.name in rooms)
    return op.with_attrs(sums=found) if found else op


def _with_targets(
    op: Op,
    stores: dict[str, list[Value]],
    last: dict[str, int],
    known: dict[str, Value],
    buffers: _Buffers,
) -> tuple[list[Op], Op, list[Op]]:
    """What comes before the compute, the compute with its targets, and what comes after it."""
    before: list[Op] = []
    after: list[Op] = []
    targets: list[Value] = []
    packed: list[Value] = []
    for v, tile in zip(op.results, op.body.ops[-1].operands, strict=True):
        found = list(stores.get(v.name, ()))
        if v.name in last:
            cb = buffers.bind(v.typed(BlockType))
            block, ready = (buffers.names.value(v.type, stem) for stem in ("room", v.name))
            before.append(Op("ttl.cb_reserve", (cb,), (block,)))
            after += [Op("ttl.cb_push", (cb,)), Op("ttl.cb_wait", (cb,), (ready,))]
            known[v.name] = ready
            found.append(block)
        targets += found
        packed += [tile] * len(found)
    inputs = tuple(known.get(v.name, v) for v in op.operands)
    identity = IndexMap(len(op.integers("bounds")), (dim(0), dim(1)))
    body = (*op.body.ops[:-1], Op("ttl.yield", tuple(packed)))
    placed = replace(op, operands=(*inputs, *targets), results=()).with_body(body)
    return before, placed.with_attrs(indexing_maps=(*op.maps, *(identity for _ in targets))), after


# -- place sums -------------------------------------------------------------------------------------------
def place_sums(program: Op) -> Op:
    """Every loop of the compute threads: `sum_in` of a compute with `sums` is `dst` or `l1`."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "ttl.for":
            return (op,)
        computes = [inner for inner in walk(op) if inner.name == "ttl.compute"]
        alone = len(computes) == 1 and computes[0] in op.body.ops and _stays(computes[0])
        where = "dst" if alone else "l1"
        body = (
            o.with_attrs(sum_in=where) if o.name == "ttl.compute" and o.has_attr("sums") else o for o in op.body.ops
        )
        return (op.with_body(tuple(body)),)

    return rewrite(program, change)[0]


def _stays(compute: Op) -> bool:
    body = compute.body.ops[:-1]
    targets = len(compute.operands) - compute.integer("inputs")
    whole = compute.integer("unroll") >= parallel_tiles(compute) and not compute.has_attr("stages")
    sums = compute.has_attr("sums") and len(compute.integers("sums")) == targets
    return whole and sums and len(body) == 1 and body[0].name.removeprefix(TILE_PREFIX) in SUMS
