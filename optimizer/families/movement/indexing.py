"""Rows by index: embedding and scatter (along the last dim, on row-major rows).

An embedding's tiled table is untilized first. Indices in rows whose count and whose table's width are whole tiles give
tiles directly; otherwise the kernel writes rows, which are tilized afterwards where tiles are asked.
Sources: tt-metal 0.81 `embedding/embedding.cpp` and the `embeddings_{rm,fused,tilized_indices}` program factories.

A scatter's rule was measured on mock devices (tt-metal 0.81.1, `scatter_device_operation.cpp`): one program, whose
buffers hold a row of the operand, of the result, of the index and of the source, each rounded up to 32 B; sums of bf16
take a row in f32 besides. Scatter along another dim is a chain of transposes inside TTNN; the importer writes those
out, so it is refused here.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.device_run.padding import to_layout
from optimizer.opmodel.analytical.device_run.reducing import four_dims
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.slicing import Range, slice_tensor
from optimizer.opmodel.analytical.device_run.transfer import alignment, fill_padding
from optimizer.opmodel.analytical.device_run.transposing import swapped, transpose
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import HEIGHT, ROWS, TILED
from optimizer.opmodel.base import TensorSpec

MOST_DOUBLE = 64
"""Tiles of a row that are still double buffered."""


def embedding(case: Case) -> Usage:
    ids, table = case.inputs[0], case.inputs[1]
    for tensor in (ids, table):
        need(not tensor.layout.is_sharded, "Embedding does not currently support sharded inputs")
    need(table.dtype is DType.BF16, "Weights tensor must have BFLOAT16 dtype")
    memory = ids.layout.memory if case.output is None else case.output
    need(not memory.is_sharded or memory.shard_spec is not None, "MemoryConfig must have Shard Spec specified")
    page = PageLayout(str(case.attrs.get("layout", "tile")))
    session = Session(case)
    indices = session.inputs[0]
    to_layout(session, session.inputs[1], ROWS)  # a tiled table's rows live to the end
    width = table.shape[-1]
    fused = page is TILED and indices.padded[-1] % TILE == 0 and width % TILE == 0
    height = not memory.is_sharded or memory.memory_layout is HEIGHT
    need(fused or height, "Embedding only supports height sharded Row Major outputs")
    if fused and memory.shard_spec is not None:
        rows, shard = prod(indices.padded), memory.shard_spec.shape
        need(rows % shard[0] == 0, f"Input tensor volume {rows} must be a multiple of shard height {shard[0]}")
        need(width % shard[1] == 0, f"Number of columns in table {width} must be factor of shard width {shard[1]}")
    if fused and not indices.is_tile:
        return session.usage(_fused(session, indices, width, memory))
    return session.usage(to_layout(session, _rows(session, indices, width, memory), page))


def _rows(session: Session, indices: Held, width: int, memory: MemoryConfig) -> Held:
    """The kernels that write rows; those of tiled indices hold a tile of them."""
    out = session.make((*indices.shape, width), DType.BF16, ROWS, memory)
    step = alignment(session.device, indices.memory)
    entry = round_up(width * DType.BF16.element_bytes, step)
    if memory.is_sharded:
        # A block shard of the fused kernel's layout comes from tiled indices only.
        whole = out.spec.shape[1] == width or memory.memory_layout is not HEIGHT
        need(whole, "page size must equal buffer size for valid non-interleaved buffers")
    if indices.is_tile:
        session.run(dfb=2 * entry, scratch=TILE * TILE * indices.dtype.element_bytes)
        return out
    scratch = step // indices.dtype.element_bytes * TILE
    if memory.is_sharded:
        need(out.is_l1, "Embedding sharded Row Major output must be in L1")
        size = out.spec.shape[0] * round_up(
            out.spec.shape[1] * DType.BF16.element_bytes, alignment(session.device, memory)
        )
        need(size % entry == 0, f"Embedding output staging buffer size {size} B must be divisible by {entry} B")
        session.run(scratch=scratch)
        return out
    each = ceil_div(prod(indices.shape), session.device.num_cores)
    session.run(dfb=(2 if each > 1 else 1) * entry, scratch=scratch)
    return out


def _fused(session: Session, indices: Held, width: int, memory: MemoryConfig) -> Held:
    """The kernel that tilizes a row of tiles (of a shard) as it goes."""
    out = session.make((*indices.shape, width), DType.BF16, TILED, memory)
    wide = (out.spec.shape[1] if memory.is_sharded else width) // TILE
    block = (1 if wide > MOST_DOUBLE else 2) * wide * DType.BF16.tile_bytes
    # Results in L1 shards are the second buffer.
    session.run(dfb=block if memory.is_sharded else 2 * block, scratch=TILE * indices.dtype.element_bytes)
    return out


ALIGNMENT = 32
"""Bytes to which rows are rounded up, on either board and in either memory."""
LONGEST_ROW = 60
"""Tiles of a row up to which all of it is in a core's L1, where numbers are gathered that are not bf16."""
WRITTEN_AT_ONCE = 4
"""Tiles of results of bf16 that one burst writes."""
_INDEX = (DType.U32, DType.I32, DType.U16)


def gather(case: Case) -> Usage:
    """Interleaved tiles along the last dim; another one is turned there and back, to where the index lies."""
    need(all(t.layout.is_tile and not t.layout.is_sharded for t in case.inputs), "only interleaved tiles are supported")
    need(case.inputs[1].dtype in (DType.U32, DType.U16), "the index must be of an unsigned integer type")
    session = Session(case)
    x, index = session.inputs
    rank, axis = len(x.shape), int(case.attrs["dim"]) % len(x.shape)
    memory = case.interleaved(case.output or x.memory)
    turned = axis != rank - 1
    places = _turned(session, index, axis)
    values = _turned(session, x, axis, places.padded[:3])
    out = session.make(places.shape, x.dtype, x.page, memory)
    session.run(cb=_gathering(session, values, places))
    shape = swapped(index.shape, axis, rank - 1)
    out = view(out, shape, (*shape[:-2], *out.padded[-2:]))
    return session.usage(transpose(session, out, axis, rank - 1, index.memory) if turned else out)


@scoped
def _turned(session: Session, held: Held, axis: int, cut: Shape | None = None) -> Held:
    """An operand with the axis last and in four dims, of which the first three are cut, with its padding filled."""
    last = len(held.shape) - 1
    found = four_dims(transpose(session, held, axis, last) if axis != last else held)
    if cut is not None:
        found = slice_tensor(session, found, Range((0,) * 4, (*cut, found.shape[3]), (1,) * 4), held.memory)
    return fill_padding(session, found)


def _gathering(session: Session, values: Held, places: Held) -> int:
    """Circular buffers of its program.

    Of bf16 (`gather/codegen`) a row of operand and result, or as much of the operand as fits; of others
    (`gather_program_factory`) a row of the operand, or two tiles of a long one.
    """
    tile, index = values.dtype.tile_bytes, places.dtype.tile_bytes
    wide, asked = values.padded[-1] // TILE, places.padded[-1] // TILE
    if values.dtype is not DType.BF16:
        return (2 if max(wide, asked) > LONGEST_ROW else wide) * tile + index + tile
    whole = (wide + max(asked, WRITTEN_AT_ONCE)) * tile + index
    if whole <= session.free_l1():
        return whole
    held = min(wide, max(2, (session.free_l1() - index) // tile - 1))
    return (ceil_div(wide, ceil_div(wide, held)) + 1) * tile + index


def scatter(case: Case) -> Usage:
    x, index, source = case.inputs
    for tensor in case.inputs:
        case.need_interleaved(tensor)
        need(not tensor.layout.is_tile, f"{case.query.op}: only row-major operands are supported")
    need(x.dtype is source.dtype, "the source must have the operand's element type")
    need(index.dtype in _INDEX, "the index must be an integer tensor")
    need(int(case.attrs["dim"]) % len(x.shape) == len(x.shape) - 1, "only the last dim is supported")
    memory = case.interleaved(case.follow())
    out = case.result(result_shapes(case)[0], x.dtype, memory, PageLayout.ROW_MAJOR)
    cb = sum(_row_bytes(tensor, tensor.dtype) for tensor in (x, out, index, source))
    if case.query.op == "ttnn.scatter_add" and x.dtype is DType.BF16:
        cb += _row_bytes(x, DType.F32)
    return Usage((out,), cb=cb, cores=min(prod(x.shape[:-1]), case.device.num_cores))


def _row_bytes(tensor: TensorSpec, dtype: DType) -> int:
    return -(-tensor.shape[-1] * dtype.element_bytes // ALIGNMENT) * ALIGNMENT
