"""Rows of the measured-times table (`data/perf/calibration.csv`) as `Work`.

A row is one device operation under tt-metal's own name (`HaloDeviceOperation`) with padded shapes, placements
and the cores it ran on. Only the columns that describe it are read, never a measured one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from optimizer.errors import FormatError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.work import Piece, Place, Work

_FAMILIES = {
    "matmul": "matmul",
    "matmul_hs": "matmul_hs",
    "conv": "conv",
    "eltwise": "eltwise",
    "norm": "norm",
    "tm": "movement",
    "reshard": "reshard",
    "noc_trace": "reshard",
    "tilize": "tilize",
    "pool": "pool",
}
_DTYPES = {"bfp8": "bfp8_b", "bfp4": "bfp4_b", "bfp2": "bfp4_b", "fp32": "f32", "bytes": "u8", "": "bf16"}
_NAMES = (
    ("GroupNorm", "group_norm"),
    ("LayerNorm", "layer_norm"),
    ("Softmax", "softmax"),
    ("TilizeWithValPadding", "tilize_with_zero_padding"),
    ("UntilizeWithUnpadding", "untilize_with_unpadding"),
    ("InterleavedToSharded", "interleaved_to_sharded"),
    ("Embeddings", "embedding"),
    ("Reshape", "reshape"),
    ("Permute", "permute"),
    ("Transpose", "transpose"),
)
"""Prefixes of tt-metal's names and our short ones."""
Row = Mapping[str, str]


def _number(row: Row, name: str, default: int | None = None) -> int:
    text = row.get(name) or ""
    if not text and default is not None:
        return default
    try:
        return int(float(text))
    except ValueError as error:
        raise FormatError(f"column '{name}' must be a number, got {text!r}") from error


def _shape(row: Row, name: str) -> tuple[int, ...]:
    text = (row.get(name) or "").removesuffix("B")
    try:
        return tuple(int(part) for part in text.split("x")) if text else ()
    except ValueError as error:
        raise FormatError(f"column '{name}' must be sizes joined by x, got {text!r}") from error


def _dtype(row: Row, name: str) -> DType:
    text = (row.get(name) or "bf16").rstrip("?") or "bf16"
    try:
        return DType(_DTYPES.get(text, text))
    except ValueError as error:
        raise FormatError(f"column '{name}': unknown element type {text!r}") from error


def _place(memory: str) -> Place:
    if memory.startswith("L1_") and memory.endswith("SHARDED"):
        return Place.SHARD
    return Place.L1 if memory.startswith("L1") else Place.DRAM


def _piece(row: Row, name: str, layout: str) -> Piece | None:
    shape = _shape(row, f"{name}_shape")
    if not shape:
        return None
    dtype = _dtype(row, f"{name}_dtype")
    if (row.get(f"{name}_shape") or "").endswith("B"):  # a trace of raw transactions
        return Piece(shape[-1], 0, _place(row.get(f"{name}_mem") or ""))
    place = _place(row.get(f"{name}_mem") or "")
    if (row.get(layout) or "TILE") == "TILE" or dtype.is_block_float:
        padded = prod(shape[:-2]) * ceil_div(shape[-2] if len(shape) > 1 else 1, TILE) * ceil_div(shape[-1], TILE)
        return Piece(padded * dtype.tile_bytes, padded, place)
    count = prod(shape)
    return Piece(count * dtype.element_bytes, max(1, count // (TILE * TILE)), place, count // max(1, shape[-1]))


def row_work(row: Row) -> Work:
    """The work of one row; FormatError where a column cannot be read."""
    klass = row.get("op_class") or ""
    family = _FAMILIES.get(klass)
    if family is None:
        raise UnknownNameError("op class", klass, tuple(_FAMILIES))
    cores = max(1, _number(row, "cores", _number(row, "avail_cores", 64)))
    reads = [p for p in (_piece(row, "in0", "in0_layout"), _piece(row, "in1", "in0_layout")) if p is not None]
    out = _piece(row, "out", "out_layout") or (reads[0] if reads else None)
    name = _name(row)
    if family in ("matmul", "matmul_hs", "conv"):
        return _product(row, family, name, cores, tuple(reads), () if out is None else (out,))
    if out is not None and "Partial" in (row.get("op") or ""):
        out = _cut(out, reads[0])
    if family == "reshard" and row.get("op_class") == "noc_trace":
        out = Piece(reads[0].size, 0, _place(row.get("out_mem") or ""))
    if out is not None and family in ("movement", "reshard"):
        reads = [_cut(p, out) for p in reads[:1]]
    window = 1.0
    if family == "pool" and (row.get("variant") or "").startswith("k"):
        window = float(prod(int(n) for n in (row["variant"].split()[0][1:]).split(";") if n.isdigit()))
    traits = {"wide"} if _dtype(row, "in0_dtype").tile_bytes == 4096 else set[str]()
    if family == "eltwise" and len(reads) > 1 and _shape(row, "in0_shape")[-2:] != _shape(row, "in1_shape")[-2:]:
        traits.add("broadcast")
    writes = () if out is None else (out,)
    return Work(family, name, cores, tuple(reads), writes, passes=window, traits=frozenset(traits))


def _cut(part: Piece, out: Piece) -> Piece:
    """Halo, slices and resharding read about what they write."""
    if part.size <= out.size:
        return part
    sticks = part.sticks * out.size // part.size
    return Piece(out.size, min(part.tiles, out.tiles), part.place, max(1, sticks) if part.sticks else 0)


def _name(row: Row) -> str:
    """Our short op name where constants differ by op, else tt-metal's own."""
    op, variant = row.get("op") or "", (row.get("variant") or "").upper()
    if op.startswith(("Unary", "Binary", "Typecast")):
        named = {"ADD": "add", "SUB": "subtract", "MUL": "multiply", "RELU": "relu", "EXP": "exp"}
        if op.startswith("Typecast"):
            return "typecast"
        return named.get(variant.split("+")[0].split(";")[0], variant.lower().split("+")[0] or "add")
    if op.startswith("Transpose") and variant == "HC":
        return "transpose_hc"
    for prefix, name in _NAMES:
        if op.startswith(prefix):
            return name
    return op


def _product(row: Row, family: str, name: str, cores: int, reads: tuple[Piece, ...], writes: tuple[Piece, ...]) -> Work:
    batch = _number(row, "batch", 1)
    m, k, n = (ceil_div(_number(row, c), TILE) for c in ("M", "K", "N"))
    block, blocks = _block(row, batch, m, n, cores)
    a, b = _dtype(row, "in0_dtype"), _dtype(row, "in1_dtype")
    traits = set()
    if (row.get("in0_mem") or "") == "L1_HEIGHT_SHARDED":
        traits.add("height_sharded")
    if family == "conv" and "k1;1" in (row.get("variant") or ""):
        traits.add("pointwise")
    return Work(
        family, name, cores, reads, writes, block, blocks, k, (a.tile_bytes, b.tile_bytes),
        row.get("fidelity") or "HiFi2", row.get("fp32_acc") == "1", gap=row.get("time_kind") == "host_traced",
        traits=frozenset(traits),
    )  # fmt: skip


def _block(row: Row, batch: int, m: int, n: int, cores: int) -> tuple[tuple[int, int], int]:
    """Output tiles of one core: by the grid the row names, else as evenly as the cores allow."""
    config = row.get("program_config") or ""
    if "grid " in config:
        grid = config.split("grid ")[1].split()[0].split("x")
        if len(grid) == 2 and all(g.isdigit() for g in grid):
            return ((ceil_div(m, int(grid[1])), ceil_div(n, int(grid[0]))), batch)
    total = batch * m
    if (row.get("out_mem") or "") == "L1_HEIGHT_SHARDED" or total >= cores:
        return ((ceil_div(total, cores), n), 1)
    if n >= cores:
        return ((total, ceil_div(n, cores)), 1)
    return ((1, ceil_div(total * n, cores)), 1)
