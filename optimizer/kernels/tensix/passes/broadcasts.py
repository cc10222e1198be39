"""Broadcasts and the ops that read them: joined, so that they need not go through L1, or apart.

join-broadcasts    %w = ttl.bcast_col(%m)                        sums, differences and products of what lies in L1
                   %y = ttl.sub(%x, %w)                          anyway: one op of the FPU, which reads both there
                   ->
                   %y = ttl.sub_bcast_col(%x, %m)

                   %w = ttl.bcast_col(%m) : block<2x1xbf16>      other ops on a larger frame: the broadcast covers it,
                   %y = ttl.max(%x, %w) : block<2x4xbf16>        tile by tile; so do blocks full of one number
                   ->
                   %w = ttl.bcast_col(%m) : block<2x4xbf16>
                   %y = ttl.max(%x, %w) : block<2x4xbf16>

split-broadcasts   %y = ttl.add_bcast_row(%x, %b)    ->    %w = ttl.bcast_row(%b); %y = ttl.add(%x, %w)
                   The FPU's `add_tiles_bcast_rows` reads both operands from circular buffers. If the first one is
                   computed, that costs a round trip through L1; an unpacking broadcast and an SFPU add do not. And it
                   reads them at 19 bits, which f32 does not fit.

spread-rows        %w = ttl.compute(%b) { tile_bcast_row(%in) }
                   ->
                   %z = ttl.compute() { tile_fill 0 }            one tile, once per thread or loop body
                   %w = ttl.compute(%z, %b) { tile_add_bcast_row(%zero, %in) }
                   `unary_bcast<BroadcastType::ROW>` moves rows to DST by an instruction that writes 16 bits
                   (`tile_forms.Form.narrow`): in a DST of 32 bits they land in other rows, and overwrite them.
                   `add_tiles_bcast_rows` goes through the FPU, which writes DST at its width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, TILE_PREFIX, is_block_op
from optimizer.kernels.tensix.index_expr import IndexMap, const
from optimizer.kernels.tensix.ir import Names, Op, Region, Value, attributes
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.convert_to_compute import PARALLEL, LoopNest, compute
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, TileType
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


# -- split broadcasts -------------------------------------------------------------------------------------
def split_broadcasts(program: Op, computed: bool = True) -> Op:
    """Every `<add|sub|mul>_bcast_<row|col|scalar>` one of whose operands is f32, and, if `computed`, every one whose
    first operand is the only use of a block op's result: that pays if values between ops stay in DST."""
    names = Names(program)
    return rewrite_bodies(program, lambda ops: _split(ops, _read_once(ops) if computed else frozenset(), names))


def _split(ops: tuple[Op, ...], staying: frozenset[str], names: Names) -> tuple[Op, ...]:
    found: list[Op] = []
    for op in ops:
        kind, _, axis = op.name.removeprefix(BLOCK_PREFIX).partition("_bcast_")
        if axis and is_block_op(op) and (op.operands[0].name in staying or _is_wide(op)):
            first, second = op.operands
            repeated = names.value(BlockType(op.result.typed(BlockType).shape, second.typed(BlockType).dtype), "wide")
            found.append(Op(f"{BLOCK_PREFIX}bcast_{axis}", (second,), (repeated,)))
            found.append(Op(f"{BLOCK_PREFIX}{kind}", (first, repeated), op.results))
        else:
            found.append(op)
    return tuple(found)


def _read_once(ops: tuple[Op, ...]) -> frozenset[str]:
    """Results of block ops that are read once."""
    uses = Counter(v.name for op in ops for v in op.operands)
    return frozenset(op.result.name for op in ops if is_block_op(op) and uses[op.result.name] == 1)


def _is_wide(op: Op) -> bool:
    """Whether an operand is f32."""
    return any(v.typed(BlockType).dtype is DType.F32 for v in op.operands)


# -- spread rows ------------------------------------------------------------------------------------------
_ROW, _SUM = f"{TILE_PREFIX}bcast_row", f"{TILE_PREFIX}add_bcast_row"


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
        if op.name == "ttl.compute" and op.body.ops[0].name == _ROW and _lands_wrong(op.body.args[0]):
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
