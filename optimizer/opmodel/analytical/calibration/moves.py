"""Rows of element-wise ops, data movement and reshards."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

from optimizer.errors import FormatError
from optimizer.layouts.tiling import FACE, TILE, ceil_div
from optimizer.opmodel.analytical.calibration import columns
from optimizer.opmodel.analytical.calibration.columns import Row
from optimizer.opmodel.analytical.calibration.windows import grid_of, halo
from optimizer.opmodel.analytical.work import Piece, Place, Window, Work

_OPERATIONS = {"ADD": "add", "SUB": "subtract", "MUL": "multiply", "DIV": "divide", "RELU": "relu", "EXP": "exp"}
_PREFIXES = (
    ("TilizeWithValPadding", "tilize_with_zero_padding"),
    ("UntilizeWithUnpadding", "untilize_with_unpadding"),
    ("Tilize", "tilize"),
    ("Untilize", "untilize"),
    ("InterleavedToSharded", "interleaved_to_sharded"),
    ("ShardedToInterleaved", "sharded_to_interleaved"),
    ("Reshard", "reshard"),
    ("Move", "move"),
    ("Embeddings", "embedding"),
    ("Reshape", "reshape"),
    ("Permute", "permute"),
    ("Transpose", "transpose"),
    ("PaddedSlice", "padded_slice"),
    ("SliceWrite", "slice_write"),
    ("Slice", "slice"),
    ("Concat", "concat"),
    ("Split", "split"),
    ("Copy", "copy"),
)
"""tt-metal's names and our short ones."""


def short_name(row: Row) -> str:
    op, variant = row.get("op") or "", (row.get("variant") or "").upper()
    if op.startswith("Transpose") and variant in ("HC", "CN"):
        return f"transpose_{variant.lower()}"
    return next((name for prefix, name in _PREFIXES if op.startswith(prefix)), op)


def _pieces(row: Row) -> tuple[list[Piece], Piece | None]:
    reads, writes = columns.pieces(row)
    return list(reads), next(iter(writes or reads), None)


def eltwise(row: Row) -> Work:
    op, variant = row.get("op") or "", (row.get("variant") or "").upper()
    first = variant.split("+")[0].split(";")[0]
    name = "typecast" if op.startswith("Typecast") else _OPERATIONS.get(first, first.lower() or "add")
    if name == "typecast" and not columns.dtype(row, "out_dtype").is_float:
        name = "typecast_to_integer"
    reads, out = _pieces(row)
    if op.startswith(("Unary", "Typecast")):
        reads = reads[:1]  # a second one is the result's buffer
    traits = set()
    a, b = columns.shape(row, "in0_shape"), columns.shape(row, "in1_shape")
    if len(reads) > 1 and a[-2:] != b[-2:]:
        # A row must be spread over the tile; a single number or a column is read once.
        if a[-1] == b[-1]:
            traits.add("broadcast")
        else:
            reads = reads[:1]
    if op.startswith("Binary") and not b:
        traits.add("number")
    pieces = [*reads, *([] if out is None else [out])]
    if any(p.place is Place.SHARD for p in pieces) and _uneven(row):
        pieces = [Piece(p.size, p.tiles, Place.L1, p.sticks) if p.place is Place.SHARD else p for p in pieces]
    count = len(reads)
    return Work(
        "eltwise", name, columns.cores(row), tuple(_tiled(p) for p in pieces[:count]),
        tuple(_tiled(p) for p in pieces[count:]), traits=frozenset(traits),
    )  # fmt: skip


def _tiled(part: Piece) -> Piece:
    """Row-major shards are computed in tile-sized pieces too."""
    return Piece(part.size, part.tiles, part.place)


def _uneven(row: Row) -> bool:
    """Whether height shards over the grid leave a last core with less than the others."""
    if row.get("in0_mem") != "L1_HEIGHT_SHARDED" or (row.get("op") or "").startswith("Unary"):
        return False
    rows = columns.tile_rows(columns.given_shape(row, "in0_shape"))
    return rows % ceil_div(rows, columns.cores(row)) != 0


def movement(row: Row) -> Work:
    reads, out = _pieces(row)
    name, cores = short_name(row), columns.cores(row)
    if name == "embedding" and out is not None and len(reads) > 1:
        return _embedding(row, out, cores)
    if out is None or not reads:
        return Work("movement", name, cores, tuple(reads), () if out is None else (out,))
    if name == "slice_write":
        out = cut(out, reads[0])
    keep = reads if name == "concat" else reads[:1]
    if name in ("slice", "padded_slice", "split", "embedding"):
        source = reads[1] if name == "embedding" and len(reads) > 1 else reads[0]
        keep = [cut(source, out)]
    if name == "split":
        out = Piece(reads[0].size, reads[0].tiles, out.place, reads[0].sticks)
        keep = reads[:1]
    if name == "concat":
        share = max(1, out.tiles - reads[0].tiles)
        keep = [reads[0], Piece(out.size - reads[0].size, share, reads[-1].place, out.sticks and reads[-1].sticks)]
    lines = _lines(row, name) if not (reads[0].sticks or out.sticks) else 0
    return Work("movement", name, cores, tuple(keep), (out,), window=_untilized(row, out, cores), lines=lines)


def _embedding(row: Row, out: Piece, cores: int) -> Work:
    """Rows of a table, which is row-major whatever the indices are, one after the other."""
    count = prod(columns.given_shape(row, "out_shape")[:-1])
    if columns.is_tile(row, "in0_layout"):
        count = min(count, FACE * ceil_div(count, FACE * cores)) * cores
    source = Piece(out.size, out.tiles, columns.place(row.get("in1_mem") or ""), count)
    return Work("movement", "embedding", cores, (source,), (out,))


def _lines(row: Row, name: str) -> int:
    """Half-tile rows that a tiled reshape or permute moves one by one."""
    if name not in ("reshape", "permute", "transpose_hc"):
        return 0
    given, out = columns.shape(row, "in0_logical") or columns.shape(row, "in0_shape"), columns.shape(row, "out_shape")
    return min(prod(s[:-1]) * ceil_div(s[-1], TILE) * 2 for s in (given, out) if s)


def _untilized(row: Row, out: Piece, cores: int) -> Window | None:
    """Tiles that become row-major on the way."""
    if columns.is_tile(row, "out_layout") or not columns.is_tile(row, "in0_layout"):
        return None
    sizes = columns.shape(row, "out_shape")
    across = 1
    if row.get("out_mem") == "L1_BLOCK_SHARDED":
        across = grid_of(cores)[1]
    width = ceil_div(columns.given_shape(row, "in0_shape")[-1], TILE * across)
    rows = ceil_div(ceil_div(prod(sizes[:-1]), TILE) * across, cores)
    return Window(rows * TILE, untilized=(rows, rows * width))


def cut(part: Piece, whole: Piece) -> Piece:
    """An operand of which only as much as `whole` is touched."""
    if part.tiles <= whole.tiles:
        return part
    count = part.sticks * whole.tiles // part.tiles
    size = part.size * whole.tiles // part.tiles
    return Piece(size, whole.tiles, part.place, max(1, count) if part.sticks else 0)


def reshard(row: Row) -> Work:
    if (row.get("op") or "").startswith("Halo"):
        return halo(row)
    reads, out = _pieces(row)
    name, cores = short_name(row), columns.cores(row)
    if out is None or not reads:
        return Work("reshard", name, cores, tuple(reads))
    if "Partial" in (row.get("op") or ""):
        out = cut(out, reads[0])
    source = cut(reads[0], out)
    if name == "reshard":  # the shards are other cores'
        source = Piece(source.size, source.tiles, Place.L1)
    if name == "move" and source.place is not Place.SHARD:
        return Work("movement", name, cores, (source,), (out,))
    if "L1_BLOCK_SHARDED" in (row.get("in0_mem"), row.get("out_mem")):  # every row is cut
        across = grid_of(cores)[1]
        source, out = (Piece(p.size, p.tiles, p.place, p.sticks * across) for p in (source, out))
    return Work("reshard", name, cores, (source,), (out,))


def trace(row: Row) -> Work:
    """A trace of raw transactions: bytes into shards, from DRAM or from other shards."""
    reads, _ = _pieces(row)
    if not reads:
        raise FormatError("column 'in0_shape' must be given for a trace")
    source = reads[0]
    size = columns.config_number(row, "tx_bytes") or 2048
    count = max(1, source.size // size)
    where = source.place if source.place is Place.DRAM else Place.L1
    target = Piece(source.size, 0, Place.SHARD)
    cores = columns.cores(row)
    grid = re.match(r"(\d+)x(\d+)_", row.get("variant") or "")
    if grid:  # the shards' owners send no faster than the others receive
        cores = min(cores, int(grid.group(1)) * int(grid.group(2)))
    across = int(grid.group(2)) if grid else 0
    shards = re.match(r"DRAM_TO_\d+x(\d+)_", row.get("variant") or "")
    if shards:
        across = int(shards.group(1))
    return Work("reshard", "trace", cores, (Piece(source.size, count, where),), (target,), columns=across)


def tilize(row: Row) -> Work:
    reads, out = _pieces(row)
    cores = columns.cores(row)
    sizes = columns.given_shape(row, "in0_shape")
    across = grid_of(cores)[1] if row.get("in0_mem") == "L1_BLOCK_SHARDED" else 1
    width = ceil_div(sizes[-1], TILE)
    rows = columns.tile_rows(sizes)
    if rows < cores and across == 1 and width > 1:  # rows are cut into blocks
        across = ceil_div(cores, rows)
    each = (ceil_div(rows * across, cores), ceil_div(width, across))
    count = prod(sizes[:-1])
    padding = max(0, prod(columns.shape(row, "out_shape")[:-1]) - count) if reads[0].sticks else 0
    window = Window(each[0] * TILE, padding=ceil_div(padding * across, cores), untilized=(each[0], each[0] * each[1]))
    pieces = [replace(p, sticks=p.sticks * across) for p in (reads[0], *([] if out is None else [out]))]
    return Work("tilize", short_name(row), cores, tuple(pieces[:1]), tuple(pieces[1:]), window=window)
