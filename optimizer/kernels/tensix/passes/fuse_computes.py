"""Chains of `ttl.compute` become one: values between them stay in DST.

A producer joins its reader if the reader can take the value from DST, tile by tile: its loop nest runs over the same
parallel dimensions, it reads the tile that is made in the same round, and no op of it needs the value in a circular
buffer (matmuls, reductions, broadcasts and transposes read those). A matmul or a reduction may be a producer: what
follows it in the body runs after its last round. A matmul may be on both sides: each has a loop of its own over what
it sums. A value that others read as well is a result of the fused compute too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from optimizer.kernels.tensix.dialect import TILE_PREFIX
from optimizer.kernels.tensix.index_expr import IndexMap, dim
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes, substitute
from optimizer.kernels.tensix.passes import rewrite_bodies
from optimizer.kernels.tensix.passes.convert_to_compute import PARALLEL, LoopNest, accumulates
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.process.work_limit import spend

_PRODUCT = f"{TILE_PREFIX}matmul"
_OPS_PER_STEP = 16
"""That are only looked at."""
_FREES = ("ttl.cb_pop", "ttl.cb_push")


def fuse_computes(program: Op) -> Op:
    """Every compute thread, until nothing more can be fused."""
    return rewrite_bodies(program, _fused)


def _fused(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    begin = 0
    while (pair := next(_pairs(ops, begin), None)) is not None:
        first, second = pair
        ops = joined(ops, first, second, merge(ops[first], ops[second], _read_elsewhere(ops, first, second)))
        begin = first  # nothing before it has changed
    return ops


def joined(ops: tuple[Op, ...], first: int, second: int, merged: Op) -> tuple[Op, ...]:
    """The ops with `merged` in place of two computes, where the later one is; stores of the earlier one follow it."""
    made = {v.name for v in ops[first].results}
    between = ops[first + 1 : second]
    stores = tuple(op for op in between if any(v.name in made for v in op.operands))
    return (*ops[:first], *(op for op in between if op not in stores), merged, *stores, *ops[second + 1 :])


def _pairs(ops: Sequence[Op], begin: int) -> Iterator[tuple[int, int]]:
    """(producer, reader) positions that may be fused, of readers from `begin` on; the producer moves to its reader."""
    spend(len(ops) // _OPS_PER_STEP)
    makers = {v.name: n for n, op in enumerate(ops) if op.name == "ttl.compute" for v in op.results}
    for second, reader in enumerate(islice(ops, begin, None), begin):
        if reader.name != "ttl.compute":
            continue
        for first in sorted({makers[v.name] for v in reader.operands if v.name in makers}, reverse=True):
            if fusable(ops[first], reader) and may_move(ops, first, second):
                yield first, second


def fusable(producer: Op, reader: Op) -> bool:
    """Whether the reader can take everything it reads of the producer from DST."""
    made = {v.name for v in producer.results}
    shared = [k for k, v in enumerate(reader.operands) if v.name in made]
    if not shared or _parallel(producer) != _parallel(reader) or (_reduces(reader) and not _products(producer, reader)):
        return False
    maps = reader.maps
    return all(maps[k].results == (dim(0), dim(1)) and _takes_from_dst(reader, k) for k in shared)


def _parallel(op: Op) -> tuple[int, ...]:
    pairs = zip(op.integers("bounds"), op.strings("iterator_types"), strict=True)
    return tuple(b for b, kind in pairs if kind == PARALLEL)


def _reduces(op: Op) -> bool:
    return any(kind != PARALLEL for kind in op.strings("iterator_types"))


def _products(*computes: Op) -> bool:
    """Whether all that they sum up are matrix products: reductions set the packer's edge mask for the whole section."""
    summed = [op.name for compute in computes for op in compute.body.ops if accumulates(op)]
    return all(name.startswith(_PRODUCT) for name in summed)


def _takes_from_dst(reader: Op, k: int) -> bool:
    """Whether every op of the body that reads argument `k` has a form with it in DST."""
    arg = reader.body.args[k].name
    for op in reader.body.ops:
        if not op.name.startswith(TILE_PREFIX):
            continue
        for position, v in enumerate(op.operands):
            forms = TILE_OPS[op.name.removeprefix(TILE_PREFIX)].forms
            if v.name == arg and not any(form.places[position] is Place.DST for form in forms):
                return False
    return True


def may_move(ops: Sequence[Op], first: int, second: int) -> bool:
    """Whether the producer may run as late as its reader: nothing between reads it, nor frees what it reads."""
    made = {v.name for v in ops[first].results}
    spend((second - first) // _OPS_PER_STEP)
    for op in ops[first + 1 : second]:
        if op.name == "ttl.store" and any(v.name in made for v in op.operands):
            continue
        nested = bool(op.regions) and op.name != "ttl.compute"
        if op.name in _FREES or nested or any(v.name in made for v in op.operands):
            return False
    return True


def _read_elsewhere(ops: Sequence[Op], first: int, second: int) -> frozenset[str]:
    """Results of the producer that others than the reader use."""
    others = {v.name for n, op in enumerate(ops) if n not in (first, second) for v in op.operands}
    return frozenset(v.name for v in ops[first].results if v.name in others)


def _joined_nest(producer: Op, reader: Op) -> LoopNest:
    """Dimensions of both: the rows and columns that they have in common, then those that either sums over."""
    bounds, kinds = producer.integers("bounds"), producer.strings("iterator_types")
    extra = len(bounds) - 2
    rank = len(bounds) + len(reader.integers("bounds")) - 2
    moved = [dim(0), dim(1), *(dim(d + extra) for d in range(2, rank - extra))]
    maps = [IndexMap(rank, m.results) for m in producer.maps]
    maps += [IndexMap(rank, tuple(e.substitute(moved) for e in m.results)) for m in reader.maps]
    own = slice(2, None)
    return LoopNest(
        (*bounds, *reader.integers("bounds")[own]), (*kinds, *reader.strings("iterator_types")[own]), tuple(maps)
    )


def merge(producer: Op, reader: Op, kept: frozenset[str]) -> Op:
    """One compute with the producer's body before the reader's; `kept` results of the producer stay results."""
    made = {v.name: k for k, v in enumerate(producer.results)}
    yielded = producer.body.ops[-1].operands
    nest = _joined_nest(producer, reader)
    operands, args = list(producer.operands), list(producer.body.args)
    maps = list(nest.operands[: len(operands)])
    inner: dict[str, Value] = {}
    for v, wide, arg in zip(reader.operands, nest.operands[len(operands) :], reader.body.args, strict=True):
        known = list(zip(operands, maps, strict=True))
        if v.name in made:
            inner[arg.name] = yielded[made[v.name]]
        elif (v, wide) in known:
            inner[arg.name] = args[known.index((v, wide))]
        else:
            operands.append(v)
            maps.append(wide)
            args.append(arg)
    tail = tuple(substitute(op, inner) for op in reader.body.ops)
    results = [(v, y) for v, y in zip(producer.results, yielded, strict=True) if v.name in kept]
    results += zip(reader.results, tail[-1].operands, strict=True)
    body = (*producer.body.ops[:-1], *tail[:-1], Op("ttl.yield", tuple(y for _, y in results)))
    attrs: dict[str, Attr] = {
        **dict(producer.attrs),
        "bounds": nest.bounds,
        "iterator_types": nest.kinds,
        "indexing_maps": tuple(maps),
        "inputs": len(operands),
    }
    return replace(
        producer,
        operands=tuple(operands),
        results=tuple(v for v, _ in results),
        attrs=attributes(attrs),
        regions=(Region(tuple(args), body),),
    )
