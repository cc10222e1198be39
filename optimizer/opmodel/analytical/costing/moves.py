"""Element-wise ops, normalisations, data movement, retiling and reshards."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from optimizer.families.attention.acceptance import head_blocks, head_burst, head_counts
from optimizer.families.elementwise.rows import BINARY
from optimizer.families.elementwise.unary import is_uneven
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape
from optimizer.opmodel.analytical.costing.pieces import Job, across, at_most, elsewhere, of_tensor
from optimizer.opmodel.analytical.costing.windows import groups
from optimizer.opmodel.analytical.tensors import TILED, tiles
from optimizer.opmodel.analytical.work import Piece, Place, Window, Work
from optimizer.opmodel.base import TensorSpec

_PARTIAL_READS = frozenset(("slice", "split", "gather", "embedding"))
"""Ops that read no more than they write."""
_BY_LINES = frozenset(("reshape", "permute", "transpose_hc"))
_HEADS = frozenset(
    ("split_query_key_value_and_split_heads", "nlp_create_qkv_heads", "concatenate_heads", "nlp_concat_heads")
)
_NAMES = {"to_memory_config": "interleaved_to_sharded", "clone": "copy"}


def eltwise(job: Job) -> tuple[Work, ...]:
    """Arithmetic on tiles; shards that are not all the same are fetched like interleaved tensors."""
    out = job.out
    tensors = job.query.inputs
    if out is None:
        return (Work("eltwise", job.name, job.cores, job.reads, job.writes),)
    native = out.layout.is_l1 and out.layout.is_sharded and bool(out.shape)
    native = native and not is_uneven(out)
    native = native and all(t.layout.memory == out.layout.memory for t in tensors if t.layout.is_sharded)
    reads, broadcast = [], False
    whole = padded_shape(out.shape, TILED)[-2:] if len(out.shape) > 1 else (TILE, TILE)
    for tensor, part in zip(tensors, job.reads, strict=False):
        size = padded_shape(tensor.shape, TILED)[-2:] if tensor.shape else (TILE, TILE)
        if size != whole:
            if size[-1] != whole[-1]:
                continue  # a number or a column: read once
            broadcast = True
        part = Piece(part.size, part.tiles, part.place)
        reads.append(part if native else elsewhere(part))
    written = Piece(job.writes[0].size, job.writes[0].tiles, job.writes[0].place)
    cores = job.cores
    if native and out.layout.shard_spec is not None:
        cores = out.layout.shard_spec.num_cores
    spread = broadcast and (not native or any(r.place is not Place.SHARD for r in reads))
    traits = frozenset(("broadcast",)) if spread else frozenset[str]()
    writes = (written if native else elsewhere(written),)
    if len(tensors) == 1 and job.name in BINARY:
        traits |= {"number"}
    first = tuple(name for attr in OPERAND_ACTIVATIONS for name in job.attrs.get(attr) or ())
    name = job.name
    if name == "typecast" and tensors[0].dtype.is_float and not out.dtype.is_float:
        name = "typecast_to_integer"
    return (Work("eltwise", name, cores, tuple(reads), writes, traits=traits, first=first),)


def norm(job: Job) -> tuple[Work, ...]:
    found = groups(job) if job.name == "group_norm" else None
    return (Work("norm", job.name, job.cores, job.reads[:1], job.writes, groups=found),)


def reduce(job: Job) -> tuple[Work, ...]:
    if job.name == "cumsum":
        return _scan(job)
    return (Work("reduce", job.name, job.cores, job.reads, job.writes),)


def _scan(job: Job) -> tuple[Work, ...]:
    """Running sums: a core takes whole runs along the summed dim."""
    x = job.query.inputs[0]
    sizes = padded_shape(x.shape, TILED)
    rank = len(sizes)
    dim = int(job.attrs.get("dim", -1)) % max(1, rank)
    length = sizes[dim] // (TILE if dim >= rank - 2 else 1) if rank else 1
    share = ceil_div(ceil_div(job.reads[0].tiles, length), job.cores) * length
    return (Work("scan", job.name, job.cores, job.reads, job.writes, share=share),)


def tilize(job: Job) -> tuple[Work, ...]:
    x = job.query.inputs[0]
    rows, columns = tiles(x.shape)
    wide = across(x.layout)
    if rows < job.cores and wide == 1 and columns > 1:
        wide = min(columns, ceil_div(job.cores, rows))
    each = (ceil_div(rows * wide, job.cores), ceil_div(columns, wide))
    added = rows * TILE - prod(x.shape[:-1]) if not x.layout.is_tile else 0
    padding = ceil_div(added * wide, job.cores) if job.name == "tilize_with_zero_padding" else 0
    window = Window(each[0] * TILE, padding=padding, untilized=(each[0], each[0] * each[1]))
    # A row that is cut into blocks is read or written piece by piece.
    cut = wide if across(x.layout) == 1 else 1
    reads, writes = (tuple(replace(p, sticks=p.sticks * cut) for p in parts) for parts in (job.reads[:1], job.writes))
    return (Work("tilize", job.name, job.cores, reads, writes, window=window),)


def movement(job: Job) -> tuple[Work, ...]:
    if job.name in _HEADS and not any(p.place is Place.SHARD for p in (*job.reads, *job.writes)):
        return _heads(job)
    reads = job.reads
    name = _NAMES.get(job.name, job.name)
    if name in _PARTIAL_READS:
        source = reads[-1] if name == "embedding" else reads[0]
        reads = (at_most(source, job.writes),)
    lines = 0
    if name in _BY_LINES and job.out is not None and job.out.layout.is_tile and job.query.inputs[0].layout.is_tile:
        lines = min(_lines(job.query.inputs[0]), _lines(job.out))
    parts = (tuple(map(elsewhere, reads)), tuple(map(elsewhere, job.writes)))
    return (Work("movement", name, job.cores, *parts, lines=lines),)


def _heads(job: Job) -> tuple[Work, ...]:
    """Splitting and joining heads: a core moves tile rows of one head at a time, joined ones in one burst.

    With keys transposed it moves whole rows of the fused tensor, tile by tile (tt-metal 0.81.1, its kernels and the
    cores of its programs on mock devices).
    """
    x = job.query.inputs[0]
    rows, columns = tiles(x.shape)
    transposed = bool(job.attrs.get("transpose_key"))
    if "concat" in job.name:
        blocks, burst = rows, columns
    else:
        heads, kv, size = head_counts(columns * TILE, job.attrs)
        blocks = head_blocks(x, heads, kv, transposed=transposed)
        burst = 1 if transposed else head_burst(size)
    cores = min(blocks, job.device.num_cores)
    share = ceil_div(blocks, cores) * ceil_div(rows * columns, blocks)
    return (Work("movement", job.name, cores, job.reads[:1], job.writes, share=share, burst=burst),)


def transfer(job: Job) -> tuple[Work, ...]:
    """Between host and board."""
    return (Work("transfer", job.name, 1, job.reads, job.writes),)


def _lines(tensor: TensorSpec) -> int:
    """Half-tile rows of the elements of a tensor."""
    return prod(tensor.shape[:-1]) * ceil_div(tensor.shape[-1], TILE) * 2 if tensor.shape else 1


def reshard(job: Job) -> tuple[Work, ...]:
    """Between memories: to and from shards, from shards to other shards, or a plain copy."""
    x, out = job.query.inputs[0], job.out
    read = of_tensor(x)
    write = read if out is None else of_tensor(out)
    sharded = (read.place is Place.SHARD, write.place is Place.SHARD)
    if not any(sharded):
        return (Work("movement", "copy", job.cores, (read,), (write,)),)
    if all(sharded):
        if out is not None and x.layout.memory == out.layout.memory:
            return (Work("reshard", "move", job.cores, (read,), (write,)),)
        fewest = min(n for n in (_cores(x), _cores(out), job.cores) if n)
        return (
            Work("reshard", "reshard", fewest, (replace(read, place=Place.L1, sticks=0),), (replace(write, sticks=0),)),
        )
    sticks = max(read.sticks, write.sticks)
    read, write = replace(read, sticks=sticks), replace(write, sticks=sticks)
    name = "interleaved_to_sharded" if sharded[1] else "sharded_to_interleaved"
    return (Work("reshard", name, job.cores, (read,), (write,), columns=_columns(out)),)


def _columns(tensor: TensorSpec | None) -> int:
    """Columns of the grid that a tensor's shards lie in; 0 of one that has none."""
    spec = None if tensor is None else tensor.layout.shard_spec
    return 0 if spec is None else spec.bounding_box_yx[1]


def _cores(tensor: TensorSpec | None) -> int:
    spec = None if tensor is None else tensor.layout.shard_spec
    return 0 if spec is None else spec.num_cores
