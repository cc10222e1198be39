"""Attention beside SDPA: head splitting and joining, rotary embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.layouts.memory_config import BufferType, MemoryConfig
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, physical_shape, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import flat_spec, reshaped, with_spec
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.transfer import sharded_to_interleaved
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, L1_MEMORY, TILED, WIDTH
from optimizer.opmodel.base import TensorSpec


def tiles_wide(case: Case) -> int:
    return padded_shape(case.x.shape, TILED)[-1] // TILE


def split_heads(case: Case) -> Usage:
    """`ttnn.transformer.split_query_key_value_and_split_heads` and `ttnn.experimental.nlp_create_qkv_heads`.

    Without key and value heads (the latter op only) Q alone is split. tt-metal 0.81 takes shards too, but cuts their
    columns otherwise: every shard holds the queries, keys and values of its own heads. That is another op, so
    shards are refused. Sources: `nlp_create_qkv_heads_device_operation.cpp`, kernels of the wheel,
    and the buffers and cores of its programs on mock devices.
    """
    op, x = case.query.op, case.x
    nlp, transposed = "nlp" in op, bool(case.attrs.get("transpose_key"))
    need(not x.layout.is_sharded, f"{op}: operand must be interleaved")
    need(x.layout.is_tile, "Input tensor layout must be TILE")
    need(len(x.shape) == (4 if nlp else 3), f"{op}: unexpected rank {len(x.shape)}")
    need(not nlp or x.shape[1] == 1, f"Unsupported input sequence length {x.shape[1]} is not equal to 1")
    heads, kv, size = head_counts(round_up(x.shape[-1], TILE) if nlp else x.shape[-1], case.attrs)
    need(size > 0, "width is not divisible by the number of heads")
    need(nlp or size % TILE == 0, f"Invalid head size: {size}. It must be a multiple of {TILE}")
    memory = case.follow()
    need(memory in (DRAM_MEMORY, L1_MEMORY), f"{op}: result must be interleaved")
    batch, rows, wide = x.shape[0], x.shape[-2], round_up(size, TILE) if nlp else size
    value = (batch, kv, rows, wide)
    shapes = ((batch, heads, rows, wide), (batch, kv, wide, rows) if transposed else value, value)
    outputs = tuple(case.result(s, x.dtype, memory) for s in (shapes if kv else shapes[:1]))
    buffered = 12 if transposed else max(4, 2 * head_burst(size))
    blocks = head_blocks(x, heads, kv, transposed=transposed)
    return Usage(outputs, cb=buffered * x.dtype.tile_bytes, cores=min(blocks, case.device.num_cores))


def head_counts(width: int, attrs: Mapping[str, Any]) -> tuple[int, int, int]:
    """(query heads, key/value heads, columns of a head) of fused projections so wide; 0 columns: they do not fit."""
    heads, given = int(attrs["num_heads"]), attrs.get("num_kv_heads")
    kv = heads if given is None else int(given)
    return heads, kv, 0 if width % (heads + 2 * kv) else width // (heads + 2 * kv)


def head_burst(size: int) -> int:
    """Tiles of a head of `size` columns that a reader asks for before it waits (tt-metal 0.81: 8, 4 or 1).

    A head that is not a whole tile wide counts as none, a multiple of 8.
    """
    wide = size // TILE
    return next(n for n in (8, 4, 1) if wide % n == 0)


def head_blocks(x: TensorSpec, heads: int, kv: int, *, transposed: bool) -> int:
    """Units of work: tile rows of one head, of whole fused rows where keys are transposed."""
    rows = x.shape[0] * ceil_div(x.shape[-2], TILE)
    return rows if transposed else rows * (heads + 2 * kv)


def concatenate_heads(case: Case) -> Usage:
    """`ttnn.transformer.concatenate_heads` and `ttnn.experimental.nlp_concat_heads` (tt-metal 0.81).

    Shards hold whole heads and give shards of as many heads side by side; for an interleaved result the former
    makes its operand interleaved first. Sources: `nlp_concat_heads_device_operation.cpp`,
    `nlp_concat_heads_program_factory.cpp`, `concatenate_heads.cpp`.
    """
    session = Session(case)
    held, nlp = session.inputs[0], "nlp" in case.query.op
    target = held.memory if case.output is None else case.output
    need(len(held.shape) == 4, "Input tensor must have rank 4")
    need(held.is_tile, "Input tensor layout must be TILE")
    size = held.shape[-1]
    need(nlp or size % TILE == 0, f"Head size must be a multiple of {TILE} but was found to be {size}")
    if held.is_sharded and not target.is_sharded:
        need(not nlp, "Sharded input requires a sharded output memory config but got INTERLEAVED")
        held = sharded_to_interleaved(session, held, target)
    b, h, s, d = held.shape
    if target.is_sharded:
        target = _joined_shards(held, target)
    out = session.make((b, 1, s, h * d) if nlp else (b, s, h * d), held.dtype, TILED, target)
    session.run(dfb=0 if held.is_sharded else 2 * h * held.padded[-1] // TILE * held.dtype.tile_bytes)
    return session.usage(out)


def _joined_shards(held: Held, target: MemoryConfig) -> MemoryConfig:
    """The operand's shards with their heads side by side, on the same cores."""
    kind, spec, rows = held.memory.memory_layout, held.spec, held.padded[-2]
    tall, wide = spec.shape
    need(kind is not WIDTH, "Input tensor memory layout must not be WIDTH_SHARDED")
    need(wide == held.padded[-1], f"Input tensor shard width ({wide}) must equal padded width ({held.padded[-1]})")
    whole = tall % rows == 0  # with less than a head in a shard, tt-metal divides by zero
    need(whole, f"Input tensor shard height ({tall}) must be divisible by padded height ({rows})")
    heads = tall // rows
    need(held.padded[1] % heads == 0, f"{held.padded[1]} heads must be divisible by the {heads} of a shard")
    need(target.memory_layout is not HEIGHT, "Output memory config layout must not be HEIGHT_SHARDED")
    need(held.is_l1 and target.buffer_type is BufferType.L1, "heads are joined in L1")
    return with_spec(target, reshaped(spec, (rows, wide * heads)))


def rotary_embedding(case: Case) -> Usage:
    """Rows of X in any height shards of whole rows; the result interleaved or height sharded.

    Source: tt-metal 0.81 `rotary_embedding_device_operation.cpp`; requested shards are replaced by the operand's,
    or by an even cut over as many cores as divide the tile rows.
    """
    x = case.x
    kind = x.layout.memory_layout
    width = padded_shape(x.shape, TILED)[-1]
    need(x.layout.is_tile, "rotary embedding input must be tiled")
    need(kind is not WIDTH, "Input tensor memory layout must not be WIDTH_SHARDED")
    need(width == TILE or width % (2 * TILE) == 0, f"Input X dimension ({width}) must be {TILE} or divisible by 64")
    spec = x.layout.shard_spec
    rows, _ = physical_shape(x.shape, x.layout.page_layout)
    if spec is not None:
        need(spec.shape[1] == width, f"Input tensor shard width ({spec.shape[1]}) must equal padded width ({width})")
        need(rows % spec.shape[0] == 0, f"{rows} rows must divide evenly into shards of {spec.shape[0]}")
    memory = case.follow()
    need(memory.memory_layout not in (WIDTH, BLOCK), "rotary embedding writes interleaved or height shards")
    if memory.is_sharded:
        blocks = rows // TILE
        cores = next(n for n in range(min(blocks, case.device.num_cores), 0, -1) if blocks % n == 0)
        even = flat_spec(HEIGHT, cores, (rows // cores, width), case.device)
        memory = MemoryConfig(memory.memory_layout, memory.buffer_type, spec or even)
    out = case.result(x.shape, x.dtype, memory)
    tile, wide = x.dtype.tile_bytes, width // TILE
    own = int(x.layout.is_sharded) + int(memory.is_sharded and memory.buffer_type is BufferType.L1)
    cb = (5 - own) * 2 * wide * tile + 3 * tile + 2048
    return Usage((out,), cb=cb, cores=min(case.device.num_cores, x.shape[0] * max(1, x.shape[-2] // TILE)))
