"""Attention beside SDPA: head splitting and joining, rotary embedding."""

from __future__ import annotations

from optimizer.layouts.memory_config import BufferType, MemoryConfig, TensorLayout
from optimizer.layouts.tiling import TILE, padded_shape, physical_shape
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import whole_grid_spec
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, L1_MEMORY, TILED, WIDTH
from optimizer.opmodel.base import TensorSpec


def tiles_wide(case: Case) -> int:
    return padded_shape(case.x.shape, TILED)[-1] // TILE


def _heads(case: Case, shapes: tuple[tuple[int, ...], ...], memory: MemoryConfig, cb_tiles: int) -> Usage:
    need(memory in (DRAM_MEMORY, L1_MEMORY), f"{case.query.op}: result must be interleaved")
    outputs = tuple(case.result(s, case.x.dtype, memory) for s in shapes)
    return Usage(outputs, cb=cb_tiles * case.x.dtype.tile_bytes, cores=case.device.num_cores)


def split_heads(case: Case) -> Usage:
    need(not case.x.layout.is_sharded, f"{case.query.op}: operand must be interleaved")
    x = case.x.shape
    heads = int(case.attrs["num_heads"])
    kv = int(case.attrs.get("num_kv_heads") or heads)
    need(x[-1] % (heads + 2 * kv) == 0, "width is not divisible by the number of heads")
    size = x[-1] // (heads + 2 * kv)
    need("nlp" in case.query.op or size % TILE == 0, f"Invalid head size: {size}. It must be a multiple of {TILE}")
    batch, rows = x[0], x[-2]
    key = (batch, kv, size, rows) if case.attrs.get("transpose_key") else (batch, kv, rows, size)
    buffered = 12 if case.attrs.get("transpose_key") else (8 if size % 128 == 0 else 4)
    return _heads(case, ((batch, heads, rows, size), key, (batch, kv, rows, size)), case.follow(), buffered)


def concatenate_heads(case: Case) -> Usage:
    x = case.x
    b, h, s, d = x.shape
    nlp = "nlp" in case.query.op
    if x.layout.is_sharded:
        need(not nlp and x.layout.memory_layout is HEIGHT, f"{case.query.op}: operand must be interleaved")
        need(case.output is not None, f"{case.query.op}: shards must name an output")
    memory = case.follow()
    usage = _heads(case, ((b, 1, s, h * d) if nlp else (b, s, h * d),), memory, 2 * h * tiles_wide(case))
    if x.layout.is_sharded:  # made interleaved first
        usage.l1 = case.l1(usage.outputs[0]) + case.l1(TensorSpec(x.shape, x.dtype, TensorLayout(TILED, memory)))
    return usage


def rotary_embedding(case: Case) -> Usage:
    """Rows of X in any height shards of whole rows; the result interleaved or height sharded."""
    x = case.x
    kind = x.layout.memory_layout
    width = padded_shape(x.shape, TILED)[-1]
    need(x.layout.is_tile, "rotary embedding input must be tiled")
    need(kind is not WIDTH, "Input tensor memory layout must not be WIDTH_SHARDED")
    need(width == TILE or width % (2 * TILE) == 0, f"Input X dimension ({width}) must be {TILE} or divisible by 64")
    spec = x.layout.shard_spec
    need(spec is None or spec.shape[1] == width, "Input tensor shard width must equal padded width")
    memory = case.follow()
    need(memory.memory_layout not in (WIDTH, BLOCK), "rotary embedding writes interleaved or height shards")
    if memory.is_sharded and memory.shard_spec is None:
        given = spec
        if given is None:
            rows, columns = physical_shape(x.shape, x.layout.page_layout)
            given = whole_grid_spec(memory.memory_layout, rows, columns, True, case.device)
        memory = MemoryConfig(memory.memory_layout, memory.buffer_type, given)
    out = case.result(x.shape, x.dtype, memory)
    tile, wide = x.dtype.tile_bytes, width // TILE
    own = int(x.layout.is_sharded) + int(memory.is_sharded and memory.buffer_type is BufferType.L1)
    cb = (5 - own) * 2 * wide * tile + 3 * tile + 2048
    return Usage((out,), cb=cb, cores=min(case.device.num_cores, x.shape[0] * max(1, x.shape[-2] // TILE)))
