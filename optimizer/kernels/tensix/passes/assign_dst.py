"""Every body gets its order, forms and DST slots (`dst.plan`); one that is too large becomes several.

After this pass a body is the program of one tile: `ttl.tile_copy` loads an argument, `ttl.tile_copy_dst` copies a slot,
other ops name their form. `dst` maps the tile's number within the section to the result's slot. The compute says how
many tiles a section takes (`unroll`), whether it goes op by op (`grouped`) or tile by tile, its scratch slots
(`footprint`), and what was done about too few slots (`relief`). Stages that take turns are one body: `stages` says how
many ops each has, `ttl.spill_tile_to_l1` keeps a tile for later ones, `ttl.restore_tile_from_l1` loads it there. Slots:
results first, so that the tiles of one result lie side by side, then scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Literal

from optimizer.errors import InfeasibleError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import available_l1, free_l1
from optimizer.kernels.tensix.dialect import RESTORE, SPILL, TILE_PREFIX
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode
from optimizer.kernels.tensix.dst.plan import BodyPlan, Relief, plan_body
from optimizer.kernels.tensix.dst.schedule import Schedule
from optimizer.kernels.tensix.dst.seed_allocator import SeedPlan, seed_order, seed_plan
from optimizer.kernels.tensix.dst.slots import Instruction
from optimizer.kernels.tensix.dst.stages import Stage
from optimizer.kernels.tensix.index_expr import IndexMap, dim
from optimizer.kernels.tensix.ir import Attr, Names, Op, Region, Value, attributes, rewrite
from optimizer.kernels.tensix.rounding import widest
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, TileType

Allocator = Literal["default", "seed"]
DEFAULT_SCHEDULES: Mapping[Allocator, Schedule] = MappingProxyType({"default": "search", "seed": "given"})
"""The document leaves its scheduling to whoever asks for it."""


def dst_capacity(fp32_dest_acc_en: bool, dst_full_sync_en: bool) -> int:
    """Slots of DST: 16 tiles of 16 bits, half of them per side of the double buffer, half as many of 32 bits.

    Source: tt-metal, "Compute engines and dataflow within Tensix", DST register.
    """
    return 16 // (1 if dst_full_sync_en else 2) // (2 if fp32_dest_acc_en else 1)


def capacity_of(program: Op) -> int:
    """Slots that a program has: as it says (`dst_capacity`), or what its configuration leaves."""
    wide, full = bool(program.attr("fp32_dest_acc_en", False)), bool(program.attr("dst_full_sync_en", False))
    return program.integer("dst_capacity", dst_capacity(wide, full))


def assign_dst(program: Op, allocator: Allocator, board_l1_bytes: int, schedule: Schedule | None = None) -> Op:
    """Every `ttl.compute`, within as many slots and bytes of L1 as the program says or the board has (`capacity_of`,
    `available_l1`). Where the program does not say how much L1 there is, buffers that find no room are made as small as
    they can be."""
    names = Names(program)
    free = free_l1(program, available_l1(program, board_l1_bytes))
    room = _Room(capacity_of(program), free, l1_is_limit=program.has_attr("l1_bytes"))
    order = schedule or DEFAULT_SCHEDULES[allocator]

    def change(op: Op) -> tuple[Op, ...]:
        return tuple(_planned(op, room, allocator, order, names)) if op.name == "ttl.compute" else (op,)

    return rewrite(program, change)[0]


def body_dag(op: Op) -> TileDag:
    """The body of a compute as a tile DAG; inputs are its arguments."""
    region = op.body
    numbers = {v.name: k for k, v in enumerate(region.args)}
    nodes = []
    for inner in region.ops[:-1]:
        name = inner.name.removeprefix(TILE_PREFIX)
        attrs = tuple((key, float(str(inner.attr(key)))) for key in TILE_OPS[name].attrs)
        nodes.append(TileNode(name, tuple(numbers[v.name] for v in inner.operands), attrs))
        numbers[inner.result.name] = len(numbers)
    types = tuple(v.type.dtype.value for v in region.args if isinstance(v.type, TileType))
    dtype = "f32" if "f32" in types else min(types, default="bf16")
    yields = tuple(numbers[v.name] for v in region.ops[-1].operands)
    return TileDag(len(region.args), tuple(nodes), yields, dtype, types if len(set(types)) > 1 else ())


def parallel_tiles(op: Op) -> int:
    """Tiles of the result."""
    return prod(op.integers("bounds")[:2])


@dataclass(frozen=True)
class _Room:
    """What a body may take; see `plan_body`."""

    capacity: int
    l1_bytes: int
    l1_is_limit: bool


def _planned(op: Op, room: _Room, allocator: Allocator, schedule: Schedule, names: Names) -> Iterator[Op]:
    dag, tiles = body_dag(op), parallel_tiles(op)
    try:
        if allocator == "seed":
            dag, values = seed_order(dag, schedule)
            given = _names(op)
            called = tuple(given[v] for v in values)
            yield _Writer(op, dag, names).seed(seed_plan(dag, tiles, room.capacity, called))
        else:
            yield from _Writer(op, dag, names).stages(
                plan_body(dag, tiles, room.capacity, room.l1_bytes, room.l1_is_limit, _names(op), schedule)
            )
    except InfeasibleError as error:
        place = ", ".join(f"%{v.name}" for v in op.results)
        raise InfeasibleError(error.message, node=place, limit=error.limit, alternatives=error.alternatives) from error


def _names(op: Op) -> tuple[str, ...]:
    """Names of a body's values, arguments and results by the blocks that they are tiles of."""
    results = dict(zip((v.name for v in op.body.ops[-1].operands), (v.name for v in op.results), strict=True))
    made = (o.result.name for o in op.body.ops[:-1])
    return (*(v.name for v in op.operands[: len(op.body.args)]), *(results.get(name, name) for name in made))


def _as_restore(op: Op) -> Op:
    """A load of a spilled tile by its own name."""
    return replace(op, name=RESTORE) if op.name == f"{TILE_PREFIX}copy" else op


class _Writer:
    """Writes plans back as bodies."""

    def __init__(self, op: Op, dag: TileDag, names: Names) -> None:
        self._op = op
        self._dag = dag
        self._names = names
        self._dtype = self._kept_tile()

    def _kept_tile(self) -> TileType:
        """What values are between stages: never a block format, whose neighbours would share an exponent."""
        types = [t.dtype for v in self._op.body.args if isinstance(t := v.type, TileType)]
        return TileType(widest((DType.BF16, *(types or [self._op.results[0].typed(BlockType).dtype]))))

    def _kept_block(self) -> BlockType:
        return BlockType(self._op.results[0].typed(BlockType).shape, self._dtype.dtype)

    def stages(self, plan: BodyPlan) -> Iterator[Op]:
        """One compute per stage; values between stages are results of the earlier and operands of the later one."""
        blocks: dict[int, Value] = {}
        made: dict[int, list[Value]] = {}
        for v, result in zip(plan.dag.yields, self._op.results, strict=True):
            made.setdefault(v, []).append(result)
        if plan.interleaved:
            yield self._interleaved(plan)
            return
        for stage in plan.stages:
            results: list[tuple[int, Value]] = []
            for v in stage.yields:
                for result in made.get(v, []):
                    results.append((v, result))
                if v in plan.spilled:
                    blocks[v] = made[v][0] if v in made else self._names.value(self._kept_block(), "spill")
                    if v not in made:
                        results.append((v, blocks[v]))
            yield self._stage(plan, stage, results, blocks)

    def _stage(self, plan: BodyPlan, stage: Stage, results: list[tuple[int, Value]], blocks: dict[int, Value]) -> Op:
        rank = self._op.maps[0].rank if self._op.operands else 2
        identity = IndexMap(rank, (dim(0), dim(1)))
        operands, maps, args = [], [], []
        for v in stage.inputs:
            given = v < len(self._op.body.args)
            operands.append(self._op.operands[v] if given else blocks[v])
            maps.append(self._op.maps[v] if given else identity)
            arg = self._names.value(self._op.body.args[v].type if given else self._dtype, "in")
            args.append(arg)
        ops, tiles = self._body(plan, stage, args)
        body = (*ops, Op("ttl.yield", tuple(tiles[v] for v, _ in results)))
        attrs = {**self._planned(plan, stage.slots.footprint), "indexing_maps": tuple(maps), "inputs": len(operands)}
        values = tuple(v for _, v in results)
        return Op("ttl.compute", tuple(operands), values, attributes(attrs), (Region(tuple(args), body),))

    def _interleaved(self, plan: BodyPlan) -> Op:
        """One compute whose stages take turns: `stages` says how many ops each has."""
        args = self._op.body.args
        known: dict[int, Value] = dict(enumerate(args))
        tiles: dict[int, Value] = {}
        ops: list[Op] = []
        sizes: list[int] = []
        for stage in plan.stages:
            made, found = self._body(plan, stage, [known[v] for v in stage.inputs])
            restored = {known[v].name for v in stage.inputs if v >= len(args)}
            made = tuple(_as_restore(op) if op.operands and op.operands[0].name in restored else op for op in made)
            for v in stage.yields:
                if v in plan.spilled:
                    known[v] = self._names.value(found[v].type, "spilled")
                    made = (*made, Op(SPILL, (found[v],), (known[v],)))
            tiles |= found
            ops += made
            sizes.append(len(made))
        footprint = max(stage.slots.footprint for stage in plan.stages)
        attrs = {**self._planned(plan, footprint), "stages": tuple(sizes)}
        ops.append(Op("ttl.yield", tuple(tiles[v] for v in plan.dag.yields)))
        return replace(self._op, attrs=attributes(attrs), regions=(Region(args, tuple(ops)),))

    def _planned(self, plan: BodyPlan, footprint: int) -> dict[str, Attr]:
        unroll = min(plan.unroll, plan.tiles)
        relief: dict[str, Attr] = {} if plan.relief is Relief.NONE else {"relief": plan.relief.value}
        found = {**dict(self._op.attrs), "unroll": unroll, "grouped": plan.grouped, "footprint": footprint}
        return found | relief

    def _body(self, plan: BodyPlan, stage: Stage, args: list[Value]) -> tuple[tuple[Op, ...], dict[int, Value]]:
        """A stage's ops, and the tiles of the values that it packs."""
        unroll, slots = min(plan.unroll, plan.tiles), stage.slots
        slot: dict[int, IndexMap] = {}
        for i in slots.instructions:
            first, step = slots.slot(i.result, plan.scheme, unroll)
            slot[i.result] = IndexMap(1, (dim(0) * step + first,))
        values: dict[int, Value] = {}
        ops = [self._instruction(i, args, values, slot[i.result]) for i in slots.instructions]
        packed = {stage.dag.yields[k]: values[t] for k, t in slots.packed}
        own = dict(zip(dict.fromkeys(stage.dag.yields), stage.yields, strict=True))
        return tuple(ops), {own[v]: tile for v, tile in packed.items()}

    def _instruction(self, i: Instruction, args: list[Value], values: dict[int, Value], slot: IndexMap) -> Op:
        operands = tuple(values[s] if s >= 0 else args[-1 - s] for s in i.sources)
        value = self._names.value(self._dtype, "t")
        values[i.result] = value
        attrs: dict[str, Attr] = {**dict(i.attrs), "form": i.form, "dst": slot}
        return Op(f"{TILE_PREFIX}{i.op}", operands, (value,), attributes(attrs))

    def seed(self, plan: SeedPlan) -> Op:
        """All arguments loaded at the start, every op on DST, inputs first and results after them."""
        args = self._op.body.args
        values: dict[int, Value] = {}
        ops: list[Op] = []
        results = {s: s - plan.footprint for s in plan.slots.values() if s >= plan.footprint}

        def slot(v: int) -> IndexMap:
            s = plan.slots[v]
            if s not in results:
                return IndexMap(1, (dim(0) * 0 + s,))
            return IndexMap(1, (dim(0) * plan.outputs + s,))

        def emit(name: str, v: int, operands: tuple[Value, ...], attrs: dict[str, Attr]) -> None:
            values[v] = self._names.value(self._dtype, "t")
            found = attributes({**attrs, "dst": slot(v)})
            ops.append(Op(f"{TILE_PREFIX}{name}", operands, (values[v],), found))

        for k, arg in enumerate(args):
            if k in plan.slots:
                emit("copy", k, (arg,), {"form": 0})
        for op in plan.ops:
            form = len(TILE_OPS[op.op].forms) - 1
            emit(op.op, op.result, tuple(values[a] for a in op.args), {**dict(op.attrs), "form": form})
        ops.append(Op("ttl.yield", tuple(values[v] for v in self._dag.yields)))
        planned = self._op.with_attrs(unroll=plan.unroll, grouped=False, footprint=plan.footprint)
        return replace(planned, regions=(Region(args, tuple(ops)),))
