"""Reading single columns of the measured-times table; FormatError names the column that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod

from optimizer.errors import FormatError
from optimizer.ir.dtype import DType
from optimizer.ir.sizes import LARGEST_INDEX, check_shape, is_whole
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.work import Piece, Place

Row = Mapping[str, str]
_DTYPES = {"bfp8": "bfp8_b", "bfp4": "bfp4_b", "bfp2": "bfp4_b", "fp32": "f32", "bytes": "u8", "": "bf16"}


def number(row: Row, name: str, default: int | None = None) -> int:
    text = row.get(name) or ""
    if not text and default is not None:
        return default
    try:
        found = int(float(text))
    except (ValueError, OverflowError) as error:
        raise FormatError(f"column '{name}' must be a number, got {text!r}") from error
    if not is_whole(found, 0, LARGEST_INDEX):
        raise FormatError(f"column '{name}' must be from 0 to {LARGEST_INDEX}, got {text}", limit=LARGEST_INDEX)
    return found


def shape(row: Row, name: str) -> tuple[int, ...]:
    text = (row.get(name) or "").removesuffix("B")
    try:
        sizes = _sizes(text)
    except ValueError as error:
        raise FormatError(f"column '{name}' must be sizes joined by x, got {text!r}") from error
    check_shape(f"column '{name}'", sizes)
    return sizes


def given_shape(row: Row, name: str) -> tuple[int, ...]:
    """A shape that the row must have."""
    sizes = shape(row, name)
    if not sizes:
        raise FormatError(f"column '{name}' must be given for op '{row.get('op') or ''}'")
    return sizes


def element_bytes(kind: DType) -> int:
    """Of row-major data; block formats are unpacked to 2 bytes."""
    return 2 if kind.is_block_float else kind.element_bytes


@lru_cache(maxsize=16384)
def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x")) if text else ()


def dtype(row: Row, name: str) -> DType:
    text = row.get(name) or "bf16"
    try:
        return _dtype(text)
    except ValueError as error:
        raise FormatError(f"column '{name}': unknown element type {text!r}") from error


@lru_cache(maxsize=64)
def _dtype(text: str) -> DType:
    name = text.rstrip("?") or "bf16"
    return DType(_DTYPES.get(name, name))


def place(memory: str) -> Place:
    if memory.startswith("L1_") and memory.endswith("SHARDED"):
        return Place.SHARD
    return Place.L1 if memory.startswith("L1") else Place.DRAM


def is_tile(row: Row, layout: str) -> bool:
    return (row.get(layout) or "TILE") == "TILE"


def cores(row: Row) -> int:
    return max(1, number(row, "cores", number(row, "avail_cores", 64)))


def config_number(row: Row, name: str) -> int | None:
    """A `name=number` of column `program_config`."""
    found = re.search(rf"\b{name}=(\d+)", row.get("program_config") or "")
    return int(found.group(1)) if found else None


def piece(row: Row, name: str, layout: str) -> Piece | None:
    """Operand or result `name` (`in0`, `in1`, `out`); None where the row has none."""
    sizes = shape(row, f"{name}_shape")
    if not sizes:
        return None
    kind, where = dtype(row, f"{name}_dtype"), place(row.get(f"{name}_mem") or "")
    if (row.get(f"{name}_shape") or "").endswith("B"):  # a trace of raw transactions
        return Piece(sizes[-1], 0, where)
    return _piece(sizes, kind, where, is_tile(row, layout) or kind.is_block_float)


def pieces(row: Row, names: tuple[str, ...] = ("in0", "in1")) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """The operands and the result that the row has."""
    reads = tuple(p for p in (piece(row, name, "in0_layout") for name in names) if p is not None)
    out = piece(row, "out", "out_layout")
    return reads, () if out is None else (out,)


@lru_cache(maxsize=16384)
def _piece(sizes: tuple[int, ...], kind: DType, where: Place, tiled: bool) -> Piece:
    if tiled:
        count = tile_rows(sizes) * ceil_div(sizes[-1], TILE)
        return Piece(count * kind.tile_bytes, count, where)
    count = prod(sizes)
    return Piece(count * kind.element_bytes, max(1, ceil_div(count, TILE * TILE)), where, count // max(1, sizes[-1]))


def tile_rows(sizes: tuple[int, ...]) -> int:
    """Rows of tiles of a tensor."""
    return prod(sizes[:-2]) * ceil_div(sizes[-2] if len(sizes) > 1 else 1, TILE)
