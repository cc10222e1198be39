"""Block ops become `ttl.compute`: a loop nest over tiles with a body of one tile op.

    %9 = ttl.add(%4, %6) : block<2x2xbf16>
    ->
    %9 = ttl.compute(%4, %6) {bounds = [2, 2], indexing_maps = [(d0, d1) -> (d0, d1), ...], inputs = 2,
                              iterator_types = ["parallel", "parallel"]} : block<2x2xbf16> {
      ^(%a: tile<bf16>, %b: tile<bf16>):
      %t = ttl.tile_add(%a, %b) : tile<bf16>
      ttl.yield(%t)
    }

The first two dimensions are the result's rows and columns of tiles; matmuls and reductions add those they sum over.
What nobody reads is left out; an operand that is given twice becomes one argument.

Before that `inline_regions` dissolves `ttl.compute_region`: its ops join the thread, its arguments become the blocks
that it was given; and `ttl.block_compute`, which has no arguments. The region states what stays in DST; `fuse_computes`
fuses whatever can be, so that nothing is lost. For the same reason markers of DST registers (`ttl.require_dst`,
`ttl.acquire_dst`, `ttl.release_dst`) go: liveness is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.kernels.tensix.dialect import BLOCK_COMPUTE, BLOCK_PREFIX, DST_MARKERS, TILE_PREFIX, is_block_op
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, const, dim
from optimizer.kernels.tensix.ir import Attr, Names, Op, Region, Value, attributes, rewrite, substitute, walk
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, TileType

PARALLEL, REDUCTION = "parallel", "reduction"


@dataclass(frozen=True)
class LoopNest:
    """Dimensions of a block op."""

    bounds: tuple[int, ...]
    kinds: tuple[str, ...]
    operands: tuple[IndexMap, ...]


def convert_to_compute(program: Op) -> Op:
    """Every block op of the compute threads."""
    names = Names(program)
    read = _read(program)

    def change(op: Op) -> tuple[Op, ...]:
        if not is_block_op(op):
            return (op,)
        return (_compute(op, names),) if op.result.name in read else ()

    return rewrite(program, change)[0]


def accumulates(op: Op) -> bool:
    """Whether an op of a body sums over a loop of its own."""
    name = op.name.removeprefix(TILE_PREFIX)
    return op.name.startswith(TILE_PREFIX) and name in TILE_OPS and TILE_OPS[name].accumulates


def _read(program: Op) -> set[str]:
    """Names of the values that something reads which is not itself unread."""
    found: set[str] = set()
    for op in reversed(list(walk(program))):
        if not is_block_op(op) or op.result.name in found:
            found.update(v.name for v in op.operands)
    return found


def _compute(op: Op, names: Names) -> Op:
    name = op.name.removeprefix(BLOCK_PREFIX)
    nest = loop_nest(op)
    used = dict.fromkeys(zip(op.operands, nest.operands, strict=True))
    args = {key: names.value(TileType(key[0].typed(BlockType).dtype), "in") for key in used}
    made = names.value(TileType(op.result.typed(BlockType).dtype), "t")
    operands = tuple(args[key] for key in zip(op.operands, nest.operands, strict=True))
    own = replace(nest, operands=tuple(index_map for _, index_map in used))
    tile_op = Op(f"{TILE_PREFIX}{name}", operands, (made,), op.attrs)
    return compute(own, tuple(block for block, _ in used), op.result, tuple(args.values()), tile_op)


def compute(nest: LoopNest, blocks: tuple[Value, ...], result: Value, args: tuple[Value, ...], tile_op: Op) -> Op:
    """A `ttl.compute` whose body is one tile op on `args`, the tiles of `blocks`."""
    attrs: dict[str, Attr] = {
        "bounds": nest.bounds,
        "iterator_types": nest.kinds,
        "indexing_maps": nest.operands,
        "inputs": len(blocks),
    }
    body = (tile_op, Op("ttl.yield", tile_op.results))
    return Op("ttl.compute", blocks, (result,), attributes(attrs), (Region(args, body),))


def loop_nest(op: Op) -> LoopNest:
    """Dimensions and index maps of a block op."""
    name = op.name.removeprefix(BLOCK_PREFIX)
    shapes = tuple(v.typed(BlockType).shape for v in op.operands)
    rows, columns = op.result.typed(BlockType).shape
    if name in ("matmul", "matmul_t"):
        depth = shapes[0][1]
        b = (dim(1), dim(2)) if name == "matmul_t" else (dim(2), dim(1))
        maps = (IndexMap(3, (dim(0), dim(2))), IndexMap(3, b))
        return LoopNest((rows, columns, depth), (PARALLEL, PARALLEL, REDUCTION), maps)
    if name.startswith("reduce_"):
        return _reduction(name.rsplit("_", 1)[1], shapes[0])
    operands = tuple(IndexMap(2, _operand(name, k, shape, (rows, columns))) for k, shape in enumerate(shapes))
    return LoopNest((rows, columns), (PARALLEL, PARALLEL), operands)


def _operand(name: str, k: int, shape: tuple[int, int], frame: tuple[int, int]) -> tuple[IndexExpr, ...]:
    """Tile of operand `k` that goes into the result's tile: a single row or column of tiles is repeated."""
    if name == "transpose":
        return (dim(1), dim(0))
    repeated = name.rsplit("_", 1)[1] if "bcast" in name and k == TILE_OPS[name].arity - 1 else ""
    within = {"row": (True, False), "col": (False, True), "scalar": (True, True)}.get(repeated, (False, False))
    single = (size == 1 < whole for size, whole in zip(shape, frame, strict=True))
    return tuple(const(0) if a or b else dim(axis) for axis, (a, b) in enumerate(zip(within, single, strict=True)))


def _reduction(axis: str, shape: tuple[int, int]) -> LoopNest:
    """The scaler is one tile, read every time."""
    rows, columns = shape
    bounds, operand = {
        "row": ((rows, 1, columns), (dim(0), dim(2))),
        "col": ((1, columns, rows), (dim(2), dim(1))),
    }.get(axis, ((1, 1, rows, columns), (dim(2), dim(3))))
    rank = len(bounds)
    kinds = (PARALLEL, PARALLEL) + (REDUCTION,) * (rank - 2)
    return LoopNest(bounds, kinds, (IndexMap(rank, operand), IndexMap(rank, (const(0), const(0)))))


# -- regions ----------------------------------------------------------------------------------------------
def inline_regions(program: Op) -> Op:
    """Every `ttl.compute_region` and `ttl.block_compute`."""
    known: dict[str, Value] = {}

    def change(op: Op) -> tuple[Op, ...]:
        op = substitute(op, known)
        if op.name in DST_MARKERS:
            return ()
        if op.name == BLOCK_COMPUTE:
            return op.body.ops
        if op.name != "ttl.compute_region":
            return (op,)
        region = op.body
        inner = dict(zip((v.name for v in region.args), op.operands, strict=True))
        ops = tuple(substitute(o, inner) for o in region.ops)
        known.update(zip((v.name for v in op.results), ops[-1].operands, strict=True))
        return ops[:-1]

    return rewrite(program, change)[0]
