"""The largest elements and where they are: `ttnn.topk` along a dim, `ttnn.argmax` along one dim or of all.

Sources: tt-metal 0.81 `reduction/topk` (`topk.cpp`, single core, multi core and large-index programs) and
`argmax_device_operation.cpp` with its factories; when which program runs, how many cores share a row and the buffers
were measured on mock devices (top k: both boards, up to 65,536 columns).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.device_run.padding import pad, to_layout
from optimizer.opmodel.analytical.device_run.reducing import four_dims
from optimizer.opmodel.analytical.device_run.session import Held, Session, scoped
from optimizer.opmodel.analytical.device_run.slicing import Range, slice_tensor
from optimizer.opmodel.analytical.device_run.tilize import tilize_with_padding
from optimizer.opmodel.analytical.device_run.transfer import fill_padding
from optimizer.opmodel.analytical.device_run.transposing import swapped, transpose
from optimizer.opmodel.analytical.generic import result_shapes

VALUES = (DType.BF16, DType.BFP8_B, DType.F32)
LEAST_COLUMNS = 64
"""Narrower rows are padded."""
LEAST_SHARED, ALWAYS_SHARED, LONGEST_U16 = 1024, 8192, 65536
"""Columns from which rows are shared by cores: few rows, any rows; and from which indices need 32 bits."""
MOST_SHARED_K, FEW_ROWS = 64, 2
LEAST_INDEXED = 4096
"""Columns from which Blackhole looks for the indices first."""


def topk(case: Case) -> Usage:
    x = case.x
    need(x.layout.is_tile, "Input tensor must be tiled")
    need(x.dtype in VALUES, f"Input tensor must be BFLOAT16, BFLOAT8_B, or FLOAT32, got: {x.dtype.name}")
    axis = int(case.attrs["dim"]) % len(x.shape)
    last = len(x.shape) - 1
    shape, k = swapped(x.shape, axis, -1), int(case.attrs["k"])
    need(0 < k <= shape[-1], f"K cannot be larger than the dimension size! K={k}, dimension size={shape[-1]}")
    memory = case.output or x.layout.memory
    need(not memory.is_sharded, "Sharded implementation not supported yet")
    session = Session(case)
    given = session.inputs[0] if axis == last else transpose(session, session.inputs[0], axis, last)
    values, indices = _run(session, _wide_enough(session, four_dims(given)), k, memory)
    if len(shape) < 4 and k % TILE:
        values = session.replace(values, _cut(session, values, k))
        indices = session.replace(indices, _cut(session, indices, k))
    result = (*shape[:-1], k)
    out = Held(result, values.padded, values.dtype, values.page, values.memory, values.buffer)
    index = DType.U32 if x.dtype is DType.F32 else DType.U16
    where = Held(result, indices.padded, index, indices.page, indices.memory, indices.buffer)
    if axis == last:
        return session.usage(out, where)
    out = transpose(session, out, axis, last, memory)
    return session.usage(out, transpose(session, where, axis, last, memory))


@scoped
def _wide_enough(session: Session, held: Held) -> Held:
    """The operand with its padding filled, and with more of it where rows are short."""
    filled = fill_padding(session, held)
    if filled.padded[-1] >= LEAST_COLUMNS:
        return filled
    added = LEAST_COLUMNS - filled.shape[-1]
    return fill_padding(session, pad(session, filled, ((0, 0),) * (len(filled.shape) - 1) + ((0, added),)))


def _cut(session: Session, held: Held, k: int) -> Held:
    """The k columns of results whose columns are whole tiles."""
    rank = len(held.shape)
    return slice_tensor(session, held, Range((0,) * rank, (*held.shape[:-1], k), (1,) * rank))


def _run(session: Session, held: Held, k: int, memory: MemoryConfig) -> tuple[Held, Held]:
    width = held.padded[-1]
    rows = held.rows // TILE
    wide = held.dtype is DType.F32 or width >= LONGEST_U16
    index = DType.U32 if wide else DType.U16
    few = _shared(width, rows, k)
    if _indexed_first(session, held, k, few):
        return _index_first(session, held, k, memory, index)
    values, indices = _results(session, held, k, memory, index)
    cores = _sharing_cores(session, width // TILE, ceil_div(k, TILE)) if few else 1
    if cores > 1:
        _run_shared(session, held, index, cores, ceil_div(k, TILE))
    else:
        _run_alone(session, held, index, ceil_div(k, TILE))
    return values, indices


def _results(session: Session, held: Held, k: int, memory: MemoryConfig, index: DType) -> tuple[Held, Held]:
    shape = (*held.shape[:-1], round_up(k, TILE))
    return session.make(shape, held.dtype, held.page, memory), session.make(shape, index, held.page, memory)


def _computed(held: Held) -> int:
    """Tile size of what is sorted: block floats as bf16."""
    return (DType.BF16 if held.dtype.is_block_float else held.dtype).tile_bytes


def _run_alone(session: Session, held: Held, index: DType, wanted: int) -> None:
    """One core sorts whole rows of tiles."""
    tile, sorted_tile, where = held.dtype.tile_bytes, _computed(held), index.tile_bytes
    session.run(dfb=2 * tile + 2 * where + (4 + 2 * wanted) * (sorted_tile + where) + wanted * (tile + where))


def _run_shared(session: Session, held: Held, index: DType, cores: int, wanted: int) -> None:
    """Cores sort parts of a row, one more merges what they found."""
    tile, sorted_tile, where = held.dtype.tile_bytes, _computed(held), index.tile_bytes
    part = held.padded[-1] // TILE // cores
    gathered = cores * wanted
    together = (2 * gathered + part) * (sorted_tile + where)
    session.run(dfb=6 * tile + 6 * where + 2 * sorted_tile + together)


def _shared(width: int, rows: int, k: int) -> bool:
    if width & (width - 1) or k > MOST_SHARED_K or width >= LONGEST_U16:
        return False
    return width >= ALWAYS_SHARED or (width >= LEAST_SHARED and rows <= FEW_ROWS)


def _sharing_cores(session: Session, tiles: int, wanted: int) -> int:
    """Cores a row is cut for: parts and what they find are of about the same size."""
    part: int = 1 << ((tiles * wanted).bit_length() - 2) // 2
    rows, columns = session.device.grid_yx
    most = _power_below(rows - 1) * _power_below(columns - 1)
    return min(tiles // part, most)


def _power_below(count: int) -> int:
    power: int = 1 << (count.bit_length() - 1)
    return power


def _indexed_first(session: Session, held: Held, k: int, few: bool) -> bool:
    plain = not held.is_sharded and held.dtype is DType.BF16
    if session.device.arch != "blackhole" or not plain:
        return False
    width = held.padded[-1]
    if k > MOST_SHARED_K:
        return True
    return width >= LEAST_INDEXED and not (few and width >= ALWAYS_SHARED)


@scoped
def _index_first(session: Session, held: Held, k: int, memory: MemoryConfig, index: DType) -> tuple[Held, Held]:
    """`TopkRoutePrep`, `TopkLargeIndices`, `TopkRouteFinish`: rows untilized, indices found, values fetched."""
    lead = (prod(held.shape[:-2]) * held.padded[-2],)
    session.make((*lead, held.padded[-1]), held.dtype, PageLayout.ROW_MAJOR, held.memory)
    session.run(dfb=2 * 16 * held.dtype.tile_bytes)
    session.make((*lead, max(k, 16)), DType.U32, PageLayout.ROW_MAJOR, held.memory)
    session.run(dfb=2 * DType.U32.tile_bytes)
    values, indices = _results(session, held, k, memory, index)
    session.run(dfb=2 * 1024 + 2 * DType.U32.tile_bytes + held.dtype.tile_bytes + index.tile_bytes)
    return values, indices


ROW = PageLayout.ROW_MAJOR
ROW_TYPES = (DType.BF16, DType.F32, DType.I32, DType.U32, DType.U16)
TILE_TYPES = (DType.BF16, DType.F32)
INDEX_BYTES = 4
PAGE = 32
"""Bytes that the row-major kernel rounds its pages up to."""


def argmax(case: Case) -> Usage:
    x, dim = case.x, case.attrs.get("dim")
    need(not x.layout.is_sharded, "Only INTERLEAVED memory layout is supported for inputs")
    memory = case.follow()
    need(not memory.is_sharded, "Only INTERLEAVED memory layout is supported for outputs")
    need(x.dtype in (TILE_TYPES if x.layout.is_tile else ROW_TYPES), f"argmax of {x.dtype.value} is not supported")
    need(dim is not None or not x.layout.is_tile, "For inputs with TILE layout, dim parameter must be specified!")
    rank = len(x.shape)
    axis = rank - 1 if dim is None else int(dim) % max(1, rank)
    session = Session(case)
    shape = result_shapes(case)[0]
    if not x.layout.is_tile and axis == rank - 1:
        return _along_rows(case, session, shape, dim is None)
    need(x.dtype in TILE_TYPES, "ROW_MAJOR: only argmax on the last dim is supported")
    held = tilize_with_padding(session, session.inputs[0])
    if axis >= rank - 2:
        out = session.make(shape, DType.U32, ROW, memory)
        session.run(dfb=x.dtype.tile_bytes, scratch=(shape[-1] if shape else 1) * INDEX_BYTES)
        return replace(session.usage(out), cores=1)
    return _along_images(case, session, held, axis, shape)


def _along_images(case: Case, session: Session, held: Held, axis: int, shape: tuple[int, ...]) -> Usage:
    """A leading dim: tile by tile, then untilized."""
    kept = tuple(1 if i == axis else s for i, s in enumerate(held.shape))
    found = session.make(kept, DType.U32, PageLayout.TILE, case.follow())
    session.run(cb=2 * held.dtype.tile_bytes + 2 * DType.U32.tile_bytes)
    out = to_layout(session, found, ROW)
    out = Held(shape, shape, out.dtype, out.page, out.memory, out.buffer)
    return session.usage(out)


def _along_rows(case: Case, session: Session, shape: tuple[int, ...], everything: bool) -> Usage:
    """Each core searches a part of the row; the first one gathers what all found."""
    x = case.x
    kept = everything or bool(case.attrs.get("keepdim")) or len(x.shape) < 2
    results = 1 if kept else x.shape[-2]
    one = results == 1
    out = session.make(shape, DType.U32, ROW, case.follow())
    size = x.dtype.element_bytes
    step = case.device.dram_alignment_bytes if x.layout.is_dram else case.device.l1_alignment_bytes
    unit = step // DType.BF16.element_bytes
    cores, parts = _spread(case, ceil_div(x.shape[-1], unit), x.shape[-1] * size, one)
    held = sum(round_up(n * unit * size, PAGE) for n in parts) * (1 if one else 2)
    indices, values = round_up(results * INDEX_BYTES, PAGE), round_up(results * size, PAGE)
    session.run(dfb=held + indices + cores * (indices + values))
    return replace(session.usage(out), cores=cores)


def _spread(case: Case, units: int, row: int, one: bool) -> tuple[int, tuple[int, ...]]:
    """(cores, units per core of each group of cores) for a row of so many aligned units and bytes.

    Several results per image: a power of two of cores, the less the shorter the row; as rectangles, so that two
    groups appear where one rectangle does not hold them.
    """
    most = case.device.num_cores
    wanted = most
    if not one:
        wanted = 1
        while 8 * wanted * wanted < row and wanted < most:
            wanted *= 2
    if wanted >= min(units, most):
        cores = min(units, most)
        low, rest = divmod(units, cores)
        return (cores, (low + 1, low) if rest else (low,))
    columns = case.device.grid_yx[1]
    groups = 1 if wanted <= columns or wanted % columns == 0 else 2
    return (wanted, (ceil_div(units, wanted),) * groups)
