"""Index of the largest element along one dim, or of all.

Sources: tt-metal 0.81 `argmax_device_operation.cpp` and the factories; how many cores share a row is measured on
mock devices.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.tiling import ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.tilize import tilize_with_padding
from optimizer.opmodel.analytical.device_run.to_layout import to_layout
from optimizer.opmodel.analytical.ops.generic import result_shapes

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
