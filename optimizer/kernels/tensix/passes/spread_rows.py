"""Row broadcasts into a DST of 32 bits become sums with a tile of zeros.

    %w = ttl.compute(%b) { tile_bcast_row(%in) }
    ->
    %z = ttl.compute() { tile_fill 0 }                      one tile, once per thread or loop body
    %w = ttl.compute(%z, %b) { tile_add_bcast_row(%zero, %in) }

`unary_bcast<BroadcastType::ROW>` moves rows to DST by an instruction that writes 16 bits (`tile_forms.Form.narrow`): in
a DST of 32 bits they land in other rows, and overwrite them. `add_tiles_bcast_rows` goes through the FPU, which writes
DST at its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimizer.kernels.tensix.dialect import TILE_PREFIX
from optimizer.kernels.tensix.index_expr import IndexMap, const
from optimizer.kernels.tensix.ir import Names, Op, Region, Value, attributes
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.convert_to_compute import PARALLEL, LoopNest, compute
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, TileType

_BCAST, _SUM = f"{TILE_PREFIX}bcast_row", f"{TILE_PREFIX}add_bcast_row"


def spread_rows(program: Op) -> Op:
    """Every row broadcast of a program with `fp32_dest_acc_en` that its DST would hold wrong."""
    if not program.attr("fp32_dest_acc_en", False):
        return program
    names = Names(program)
    return rewrite_bodies(program, lambda ops: _spread(ops, names))


def _spread(ops: Sequence[Op], names: Names) -> tuple[Op, ...]:
    found: list[Op] = []
    zeros: dict[TileType, Value] = {}
    for op in ops:
        if op.name == "ttl.compute" and op.body.ops[0].name == _BCAST and _lands_wrong(op.body.args[0]):
            tile = op.body.args[0].typed(TileType)
            if tile not in zeros:
                zeros[tile] = names.value(BlockType((1, 1), tile.dtype), "zeros")
                found.append(_zeros(zeros[tile], names))
            op = _sum(op, zeros[tile], names)
        found.append(op)
    return tuple(found)


def _lands_wrong(row: Value) -> bool:
    return any(row.typed(TileType).dtype.value in form.narrow for form in TILE_OPS["bcast_row"].forms)


def _zeros(block: Value, names: Names) -> Op:
    tile = names.value(TileType(block.typed(BlockType).dtype), "t")
    fill = Op(f"{TILE_PREFIX}fill", (), (tile,), attributes({"value": 0.0}))
    return compute(LoopNest((1, 1), (PARALLEL, PARALLEL), ()), (), block, (), fill)


def _sum(op: Op, zeros: Value, names: Names) -> Op:
    """The compute with the tile of zeros as its first operand, the same one every time."""
    zero = names.value(op.body.args[0].type, "zero")
    first = op.body.ops[0]
    body = (replace(first, name=_SUM, operands=(zero, *first.operands)), *op.body.ops[1:])
    everywhere = IndexMap(op.maps[0].rank, (const(0), const(0)))
    return replace(
        op,
        operands=(zeros, *op.operands),
        regions=(Region((zero, *op.body.args), body),),
    ).with_attrs(indexing_maps=(everywhere, *op.maps), inputs=2)
