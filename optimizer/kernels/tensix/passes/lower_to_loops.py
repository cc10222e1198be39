"""`ttl.compute` becomes sections: acquire, the body over a section's tiles, commit, wait, pack, release.

    ttl.for {lower = 0, step = 1, upper = SECTIONS} { ^(%s): one section of `unroll` tiles }
    one more section for the rest

Stages that take turns have a section each within the loop; what one spills is pushed after its section, waited for at
once, and popped after the last one.

Grouped sections go op by op, each over all tiles; others tile by tile. An op that sums over a dimension has a loop
over it of its own. Tiles are counted row by row; `dst.<op>` takes blocks with the tile's number in them, slots, and
last the slot of the result. Tiles are packed in order, so that every pack goes to the next place of its block.

A sum over the rounds of a loop that stays in DST has its section around the loop; one in L1 has `dst.l1_sum` before its
packs, which go to places of their own, and `dst.l1_sum_end` after them.

With `unroll` the loops become straight lines, an op for every tile, its numbers literal:

    ttl.for {lower = 0, step = 1, upper = 2} { ^(%i): dst.exp(%i) }  ->  dst.exp(%0) dst.exp(%1)

Loops of the kernel itself stay. An init then comes where the op before needs another one, which may be seldomer than
once per round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from optimizer.errors import LimitError
from optimizer.kernels.tensix.dialect import DST_PREFIX, L1_SUM, L1_SUM_END, RESTORE, SPILL, TILE_PREFIX
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, const, dim, linear
from optimizer.kernels.tensix.ir import Attr, Names, Op, Region, Value, attributes, rewrite
from optimizer.kernels.tensix.passes.convert_to_compute import accumulates
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType

Loops = tuple[Value, ...]
"""Counters of the loops around, outermost first: the dimensions of index expressions."""
Rounds = Mapping[int, IndexExpr]
"""Dimension that is summed over -> the round of its loop."""


def lower_to_loops(program: Op, unroll: bool = False) -> Op:
    """Every `ttl.compute`; with `unroll` as straight lines."""
    names = Names(program)

    def change(op: Op) -> tuple[Op, ...]:
        if op.name == "ttl.for":
            return _around(op)
        if op.name != "ttl.compute":
            return (op,)
        made = _Sections(op, names).ops()
        return unrolled(made, names) if unroll else made

    return rewrite(program, change)[0]


def _around(loop: Op) -> tuple[Op, ...]:
    """A loop whose sums stay in DST, with its section around it; in others the packer adds from the second round on."""
    ops = loop.body.ops
    at = {op.name: n for n, op in enumerate(ops)}
    if not any(op.name == "ttl.tile_regs_acquire" and op.has_attr("sum") for op in ops):
        return (loop.with_body(tuple(_counted(op, loop.body.args[0], loop.integer("lower")) for op in ops)),)
    begin, commit, release = (at[f"ttl.tile_regs_{step}"] for step in ("acquire", "commit", "release"))
    inside = (*ops[:begin], *ops[begin + 1 : commit], *ops[release + 1 :])
    return Op("ttl.tile_regs_acquire"), loop.with_body(inside), *ops[commit : release + 1]


def _counted(op: Op, counter: Value, first: int) -> Op:
    """The op, with what it adds to L1 depending on this loop's counter."""
    if op.name == L1_SUM and len(op.operands) == 1:
        return replace(op, operands=(*op.operands, counter), attrs=attributes({"first": first}))
    if op.name != "ttl.for":
        return op
    return op.with_body(tuple(_counted(inner, counter, first) for inner in op.body.ops))


class _Sections:
    def __init__(self, op: Op, names: Names) -> None:
        self._op = op
        self._names = names
        self._bounds = op.integers("bounds")
        self._tiles = prod(self._bounds[:2])
        self._unroll = op.integer("unroll")
        self._grouped = bool(op.attr("grouped"))
        self._inputs = op.integer("inputs")
        self._body = op.body.ops[:-1]
        self._stages = op.integers("stages", (len(self._body),))
        self._slot = {o.result.name: o.index_map("dst") for o in self._body if o.name != SPILL}
        self._spilled: dict[str, Value] = {}
        """Spilled tile -> the block that holds those of this section."""
        self._block = dict(zip((v.name for v in op.body.args), op.operands, strict=False))
        self._map = dict(zip((v.name for v in op.body.args), op.maps, strict=False))

    def ops(self) -> tuple[Op, ...]:
        """Whole sections in a loop, then the rest."""
        whole, rest = divmod(self._tiles, self._unroll)
        found: list[Op] = []
        if whole > 1:
            found.append(self._loop(whole, (), lambda loops: self._section(self._unroll, dim(0) * self._unroll, loops)))
        elif whole == 1:
            found += self._section(self._unroll, const(0), ())
        if rest:
            found += self._section(rest, const(whole * self._unroll), ())
        return tuple(found)

    def _section(self, count: int, first: IndexExpr, loops: Loops) -> list[Op]:
        """One section of `count` tiles from tile `first`; one per stage if the stages take turns."""
        found: list[Op] = []
        spilled: list[Value] = []
        begin = 0
        for size in self._stages:
            ops = self._body[begin : begin + size]
            spills = [(op, op.operands[1 if count == self._unroll else 2]) for op in ops if op.name == SPILL]
            found += self._stage([op for op in ops if op.name != SPILL], spills, count, first, loops)
            spilled += [cb for _, cb in spills]
            begin += size
        return [*found, *(Op("ttl.cb_pop", (cb,)) for cb in spilled)]

    def _stage(
        self, ops: list[Op], spills: list[tuple[Op, Value]], count: int, first: IndexExpr, loops: Loops
    ) -> list[Op]:
        """From acquire to release, and what it hands on within the section."""
        in_dst = self._op.string("sum_in") == "dst" if self._op.has_attr("sum_in") else False
        found = [Op("ttl.tile_regs_acquire", (), (), attributes({"sum": True} if in_dst else {}))]
        if self._grouped:
            for op in ops:
                found += self._over(count, first, loops, [op])
        else:
            found += self._over(count, first, loops, ops)
        found += [Op("ttl.tile_regs_commit"), Op("ttl.tile_regs_wait")]
        made = {op.result.name for op in ops}
        sums = () if in_dst else self._op.integers("sums", ())
        targets = zip(self._op.body.ops[-1].operands, self._op.operands[self._inputs :], strict=True)
        for n, (tile, target) in enumerate(targets):
            if tile.name not in made:
                continue
            if n not in sums:
                found += self._pack(count, first, loops, self._slot[tile.name], target)
                continue
            packed = self._pack_each(count, first, loops, self._slot[tile.name], target, accumulate=True)
            found += [Op(L1_SUM, (target,)), *packed, Op(L1_SUM_END)]
        handed: list[Op] = []
        for op, cb in spills:
            block = cb.typed(CircularBufferType).block
            room, ready = (self._names.value(block, stem) for stem in ("room", "spilled"))
            found.append(Op("ttl.cb_reserve", (cb,), (room,)))
            found += self._pack(count, const(0), (), self._slot[op.operands[0].name], room)
            handed += [Op("ttl.cb_push", (cb,)), Op("ttl.cb_wait", (cb,), (ready,))]
            self._spilled[op.result.name] = ready
        return [*found, Op("ttl.tile_regs_release"), *handed]

    def _over(self, count: int, first: IndexExpr, loops: Loops, ops: Sequence[Op]) -> list[Op]:
        """Ops for each tile of the section; an accumulating op alone goes over all tiles in each round of its sum."""
        if len(ops) == 1 and accumulates(ops[0]):
            return self._rounds(
                ops[0], loops, {}, lambda inner, rounds: self._tiles_of(count, first, inner, ops, rounds)
            )
        return self._tiles_of(count, first, loops, ops, {})

    def _tiles_of(self, count: int, first: IndexExpr, loops: Loops, ops: Sequence[Op], rounds: Rounds) -> list[Op]:
        def tile(inner: Loops, k: IndexExpr) -> list[Op]:
            return [made for op in ops for made in self._one(op, first + k, k, inner, rounds)]

        if count == 1:
            return tile(loops, const(0))
        return [self._loop(count, loops, lambda inner: tile(inner, dim(len(loops))))]

    def _one(self, op: Op, tile: IndexExpr, k: IndexExpr, loops: Loops, rounds: Rounds) -> list[Op]:
        """One op for one tile, with the loops that it sums over unless they are around it already."""
        if not accumulates(op) or rounds:
            return self._tile_op(op, loops, tile, k, rounds)
        return self._rounds(op, loops, {}, lambda inner, own: self._tile_op(op, inner, tile, k, own))

    def _rounds(self, op: Op, loops: Loops, rounds: Rounds, body: Callable[[Loops, Rounds], list[Op]]) -> list[Op]:
        """Loops over the dimensions that an op sums over: those of its operands that are no rows or columns."""
        summed = sorted({d for v in op.operands for e in self._map[v.name].results for d in e.dims() if d > 1})
        axis = next((d for d in summed if d not in rounds), None)
        if axis is None:
            return body(loops, rounds)
        bound = self._bounds[axis]
        return [
            self._loop(bound, loops, lambda inner: self._rounds(op, inner, {**rounds, axis: dim(len(loops))}, body))
        ]

    def _tile_op(self, op: Op, loops: Loops, tile: IndexExpr, k: IndexExpr, rounds: Rounds) -> list[Op]:
        """One op for one tile, with the indices that it takes."""
        name = "copy" if op.name == RESTORE else op.name.removeprefix(TILE_PREFIX)
        form = TILE_OPS[name].forms[op.integer("form", 0)]
        found: list[Op] = []
        operands: list[Value] = []
        for v, place in zip(op.operands, form.places, strict=True):
            if place is Place.DST:
                operands.append(self._index(self._slot[v.name].results[0].substitute((k,)), loops, found))
            elif v.name in self._spilled:
                operands += [self._spilled[v.name], self._index(k, loops, found)]
            else:
                operands += [self._block[v.name], self._index(self._tile_in(v.name, tile, rounds), loops, found)]
        operands.append(self._index(self._slot[op.result.name].results[0].substitute((k,)), loops, found))
        attrs: dict[str, Attr] = {key: value for key, value in op.attrs if key != "dst"}
        return [*found, Op(f"{DST_PREFIX}{name}", tuple(operands), (), attributes(attrs))]

    def _tile_in(self, arg: str, tile: IndexExpr, rounds: Rounds) -> IndexExpr:
        """Number, in its block, of the tile that an argument is in this round."""
        block, index_map = self._block[arg].typed(BlockType), self._map[arg]
        columns = self._bounds[1]
        if index_map.results == (dim(0), dim(1)) and block.shape[1] == columns:
            return tile
        row, column = (tile, const(0)) if columns == 1 else (tile // columns, tile % columns)
        if self._bounds[0] == 1:
            row, column = const(0), tile
        outer = [rounds.get(d, const(0)) for d in range(2, len(self._bounds))]
        return linear([e.substitute([row, column, *outer]) for e in index_map.results], block.shape)

    def _pack(self, count: int, first: IndexExpr, loops: Loops, slot: IndexMap, target: Value) -> list[Op]:
        """Slots to a block, in order; those side by side in one call."""
        expr = slot.results[0]
        if count > 1 and expr.substitute((const(1),)).evaluate(()) - expr.substitute((const(0),)).evaluate(()) == 1:
            found: list[Op] = []
            start = self._index(expr.substitute((const(0),)), loops, found)
            at = self._index(first, loops, found)
            return [*found, Op("dst.pack_block", (start, target, at), (), attributes({"tiles": count}))]
        return self._pack_each(count, first, loops, slot, target)

    def _pack_each(
        self, count: int, first: IndexExpr, loops: Loops, slot: IndexMap, target: Value, accumulate: bool = False
    ) -> list[Op]:
        """One pack per tile; to the tile's own place where it adds to what is there."""
        attrs = attributes({"accumulate": True} if accumulate else {})

        def one(inner: Loops, k: IndexExpr) -> list[Op]:
            found: list[Op] = []
            source = self._index(slot.results[0].substitute((k,)), inner, found)
            place = self._index(first + k, inner, found)
            return [*found, Op("dst.pack", (source, target, place), (), attrs)]

        if count == 1:
            return one(loops, const(0))
        return [self._loop(count, loops, lambda inner: one(inner, dim(len(loops))))]

    def _loop(self, count: int, loops: Loops, body: Callable[[Loops], list[Op]]) -> Op:
        counter = self._names.value(IndexType(), "i")
        attrs = attributes({"lower": 0, "upper": count, "step": 1})
        return Op("ttl.for", (), (), attrs, (Region((counter,), tuple(body((*loops, counter)))),))

    def _index(self, expr: IndexExpr, loops: Loops, ops: list[Op]) -> Value:
        """An index as a value; appends what computes it."""
        value = self._names.value(IndexType(), "n")
        if expr.is_const:
            ops.append(Op("ttl.constant", (), (value,), attributes({"value": expr.value})))
            return value
        used = sorted(expr.dims())
        if expr == dim(used[0]):
            return loops[used[0]]
        narrow = expr.substitute([dim(used.index(d)) if d in used else const(0) for d in range(len(loops))])
        index_map = IndexMap(len(used), (narrow,))
        ops.append(Op("ttl.index", tuple(loops[d] for d in used), (value,), attributes({"map": index_map})))
        return value


# -- unroll loops -----------------------------------------------------------------------------------------
MOST_OPS = 4096
"""Ops of a compute without its loops: the code of a thread has to fit beside its data."""


def unrolled(ops: Sequence[Op], names: Names) -> tuple[Op, ...]:
    """Ops without their loops. LimitError if that are too many."""
    found: list[Op] = []
    for op in _Unroller(names).straight(ops, {}, {}):
        found.append(op)
        if len(found) > MOST_OPS:
            raise LimitError(
                f"the loops of a compute unroll to more than {MOST_OPS} ops; smaller blocks, or loops, take fewer",
                node="ttl.compute",
                limit=MOST_OPS,
            )
    return tuple(found)


class _Unroller:
    def __init__(self, names: Names) -> None:
        self._names = names

    def straight(self, ops: Sequence[Op], known: Mapping[str, int], renamed: Mapping[str, Value]) -> Iterator[Op]:
        """`known`: numbers of index values; `renamed`: what stands for a value in this round."""
        known, renamed = dict(known), dict(renamed)
        for op in ops:
            if op.name == "ttl.for":
                for n in range(op.integer("lower"), op.integer("upper"), op.integer("step")):
                    counter = self._names.value(op.body.args[0].type, "n")
                    yield Op("ttl.constant", (), (counter,), attributes({"value": n}))
                    inner = op.body.args[0].name
                    yield from self.straight(
                        op.body.ops, {**known, inner: n, counter.name: n}, {**renamed, inner: counter}
                    )
                continue
            for v in op.results:
                renamed[v.name] = self._names.value(v.type, "n" if op.name in _NUMBERS else "block")
            if op.name == "ttl.constant":
                known[op.result.name] = op.integer("value")
            elif op.name == "ttl.index" and all(v.name in known for v in op.operands):
                value = op.index_map("map").results[0].substitute([const(known[v.name]) for v in op.operands]).value
                known[op.result.name] = value
                op = Op("ttl.constant", (), op.results, attributes({"value": value}))
            operands = tuple(renamed.get(v.name, v) for v in op.operands)
            yield replace(op, operands=operands, results=tuple(renamed[v.name] for v in op.results))


_NUMBERS = ("ttl.constant", "ttl.index")
