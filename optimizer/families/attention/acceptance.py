"""Scaled dot product attention, over a sequence and for one new token per user; heads split and joined; rotary.

Sources: tt-metal 0.81 `sdpa_device_operation.cpp`, `sdpa_program_factory.cpp`, `sdpa_subblock_utils.hpp`; of
`sdpa_decode` the messages and the buffers measured on mock devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.layouts.attention_chunks import Dealt, deal
from optimizer.layouts.memory_config import BufferType, MemoryConfig
from optimizer.layouts.op_config import SDPAProgramConfig
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, physical_shape, round_up
from optimizer.opmodel.analytical.case import Case, Family, Usage, need, need_named
from optimizer.opmodel.analytical.derive import flat_spec, reshaped, with_spec
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.transfer import sharded_to_interleaved
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, L1_MEMORY, TILED, WIDTH
from optimizer.opmodel.base import TensorSpec

FLOATS = (DType.BF16, DType.BFP8_B, DType.BFP4_B)
BF16_TILE, F32_TILE, BFP4_TILE = (d.tile_bytes for d in (DType.BF16, DType.F32, DType.BFP4_B))
MOST_SHARED_QUERIES = 4
"""Tallest query chunk, in tiles, with which cores share keys and values."""
MOST_KEYS = 512
"""Most keys that the decode kernel takes at a time."""
MOST_CORES_PER_HEAD = 64
"""Six rounds of pairwise reduction."""
DEST_TILES = 8
SUBBLOCKS = (
    (2, 4), (4, 2), (1, 8), (8, 1), (1, 7), (7, 1), (2, 3), (3, 2), (1, 6), (6, 1),
    (1, 5), (5, 1), (2, 2), (1, 4), (4, 1), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1),
)  # fmt: skip
"""(height, width) in tiles of what is computed at once, best first."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunk sizes in tiles, the head width in tiles, and the cores."""

    q: int
    k: int
    head: int
    grid_yx: tuple[int, int]

    @property
    def cores(self) -> int:
        return self.grid_yx[0] * self.grid_yx[1]


def sdpa(case: Case) -> Usage:
    for tensor in case.inputs[:3]:
        need(tensor.dtype in FLOATS, "Data type of input tensor must be BFLOAT16, BFLOAT8_B, or BFLOAT4_B")
        need(not tensor.layout.is_sharded, "Operands to SDPA need to be DRAM/L1 interleaved")
        need(tensor.layout.is_tile, "Inputs to SDPA must be tilized")
        need(tensor.shape[-1] % TILE == 0, "Padding is not supported on the head_dim dimension")
    causal = bool(case.attrs.get("is_causal"))
    q, k = case.x.shape, case.inputs[1].shape
    need(not causal or q[2] == k[2], "Causal SDPA requires Q and K to have the same sequence length")
    mask = case.inputs[3] if len(case.inputs) > 3 else None
    if mask is not None:
        _check_mask(mask, q, k, causal)
    chunks = attention_chunks(case)
    memory = DRAM_MEMORY if case.output is None else case.output
    need_named(memory)
    out = case.result(result_shapes(case)[0], case.x.dtype, memory)
    return Usage((out,), cb=_buffers(case, chunks, mask, causal), cores=chunks.cores)


def _check_mask(mask: TensorSpec, q: tuple[int, ...], k: tuple[int, ...], causal: bool) -> None:
    need(not causal, "is_causal and attn_mask cannot both be present")
    need(mask.layout.is_tile, "When mask is provided to SDPA, it must be tilized")
    need(mask.dtype in FLOATS, "When mask is provided to SDPA, it must be in BF16, BFP8, or BFP4 dataformat")
    need(mask.layout.is_dram, "When mask is provided to SDPA, it must be in DRAM")
    shape = mask.shape
    need(len(shape) == 4, "the mask must have rank 4")
    need(shape[0] in (1, q[0]) and shape[1] in (1, q[1]), "Mask batch and num_heads must be 1 or those of Q")
    need(shape[2:] == (q[2], k[2]), "Mask sequence lengths must match those of Q and K")


def attention_chunks(case: Case) -> Chunks:
    config = case.query.config
    grid, q_size, k_size = case.device.grid_yx, TILE, TILE
    if isinstance(config, SDPAProgramConfig):
        grid, q_size, k_size = config.compute_with_storage_grid_yx, config.q_chunk_size, config.k_chunk_size
    for name, size in (("q_chunk_size", q_size), ("k_chunk_size", k_size)):
        need(size > 0 and size % TILE == 0, f"{name} must be a positive multiple of TILE_SIZE. Got {size}")
    device = case.device.grid_yx
    need(0 < grid[0] <= device[0] and 0 < grid[1] <= device[1], "Provided grid must lie within the device grid")
    return Chunks(q_size // TILE, k_size // TILE, case.x.shape[-1] // TILE, grid)


def dealt(case: Case, chunks: Chunks) -> Dealt:
    causal = bool(case.attrs.get("is_causal"))
    return deal(case.x.shape, case.inputs[1].shape, causal, chunks.cores, chunks.q, chunks.k)


def shared_slots(case: Case, chunks: Chunks, causal: bool, streaming: bool) -> int:
    """Chunks buffered per operand where Blackhole's cores pass keys and values on to each other, else 0.

    Only under a causal mask and when each pair of a light and a heavy query chunk reads equally many key chunks.
    Measured on mock devices.
    """
    high = ceil_div(case.x.shape[2], chunks.q * TILE)
    keys = ceil_div(case.inputs[1].shape[2], chunks.k * TILE) * chunks.k
    if case.device.arch != "blackhole" or not causal or high % 2 or chunks.q > MOST_SHARED_QUERIES:
        return 0
    plain = all(t.dtype is DType.BF16 for t in case.inputs[:3])
    if chunks.cores < (32 if plain and streaming and chunks.head >= 4 else 64) or not (plain or streaming):
        return 0
    read = [ceil_div(min((i + 1) * chunks.q, keys), chunks.k) for i in range(high)]
    if len({a + b for a, b in zip(read, reversed(read), strict=True)}) > 1:
        return 0
    return 3 if chunks.q >= 3 and chunks.k <= 8 else 2


def _mask_bytes(case: Case, chunks: Chunks, mask: TensorSpec | None, causal: bool, streaming: bool) -> int:
    """A named mask chunk by chunk, double buffered; what the op itself masks takes a few tiles."""
    whole = 2 * chunks.q * chunks.k
    if mask is not None:
        return whole * mask.dtype.tile_bytes
    queries, keys = case.x.shape[2], case.inputs[1].shape[2]
    padded = queries % (chunks.q * TILE) or keys % (chunks.k * TILE)
    if not causal and not padded:
        return 0
    if causal:
        return 2 * BF16_TILE
    if not streaming:
        return whole * BFP4_TILE
    return (2 if keys % TILE else 1) * BF16_TILE


def _subblock(high: int, wide: int, most: int, tallest: int) -> tuple[int, int]:
    """`determine_largest_subblock_size`."""
    for h, w in SUBBLOCKS:
        if h * w > most or h > tallest or high % h or wide % w:
            continue
        if w == wide or h == 1:
            return (h, w)
    return (1, 1)


def _output_tiles(chunks: Chunks, streaming: bool) -> int:
    """Two groups of rows in flight; with 32-bit accumulation the whole chunk."""
    if not streaming:
        return chunks.q * chunks.head
    high, wide = _subblock(chunks.q, chunks.head, DEST_TILES, 2)
    if high == 1 and 2 * wide <= DEST_TILES and chunks.q >= 2:
        high = 2
    return 2 * high * chunks.head


def _buffers(case: Case, chunks: Chunks, mask: TensorSpec | None, causal: bool) -> int:
    streaming = not case.fp32()
    q, k, head = chunks.q, chunks.k, chunks.head
    q_tile, k_tile, v_tile = (t.dtype.tile_bytes for t in case.inputs[:3])
    size = q * head * (2 if dealt(case, chunks).chunks > 1 else 1) * q_tile
    slots = shared_slots(case, chunks, causal, streaming)
    size += (slots or 2) * k * head * (k_tile + v_tile)
    size += 32 * (slots + 1) if slots else 0  # requests to pass a slot on
    size += _mask_bytes(case, chunks, mask, causal, streaming)
    wide = BF16_TILE if streaming else F32_TILE
    size += (3 if streaming else 2) * BF16_TILE  # identity scalers and, streaming, reciprocals
    size += q * k * wide + 2 * q * head * BF16_TILE
    size += q * (3 * BF16_TILE + 2 * wide)
    return size + _output_tiles(chunks, streaming) * q_tile


def sdpa_decode(case: Case) -> Usage:
    """One query row per user; Q [1, B, heads, D] in DRAM or height shards, keys and values in DRAM."""
    q, k = case.x, case.inputs[1]
    for tensor in case.inputs:
        need(tensor.dtype in FLOATS, f"Unsupported data type {tensor.dtype.value}.")
        need(tensor.layout.is_tile, "Inputs to SDPA must be tilized")
    for tensor in case.inputs[1:3]:
        need(tensor.layout.is_dram and not tensor.layout.is_sharded, "K and V must be DRAM interleaved")
    if q.layout.is_sharded:
        need(q.layout.memory_layout is HEIGHT, "Q tensor memory layout must be HEIGHT_SHARDED when sharded")
    else:
        need(q.layout.is_dram, "Q tensor buffer type must be DRAM when not sharded")
    keys = gcd(k.shape[-2], MOST_KEYS)
    need(keys % TILE == 0, f"Chunk size must be multiple of 32, but the maximum calculated k_chunk_size is: {keys}")
    grouped = k.shape[1] > 1
    need(not grouped or q.dtype is DType.BF16, "GQA expects BFLOAT16 input tensor")
    memory = DRAM_MEMORY if case.output is None else case.output
    if memory.is_sharded:
        need(memory.memory_layout is HEIGHT, "Output memory config layout must be HEIGHT_SHARDED when sharded")
        need(memory.shard_spec is not None, "bad optional access")
        need(not grouped, "Sharded output not supported for GQA")
    out = case.result(result_shapes(case)[0], q.dtype, memory)
    cb = _decode_buffers(case, keys // TILE, memory.is_sharded)
    return Usage((out,), cb=cb, cores=case.device.num_cores)


def _decode_buffers(case: Case, keys: int, in_shards: bool) -> int:
    """Queries of at most 16 bf16 heads lie in half tiles; the cores of a head gather partial results as a tree."""
    q, k = case.x, case.inputs[1]
    heads, head = ceil_div(q.shape[2], TILE), ceil_div(q.shape[3], TILE)
    half = q.dtype is DType.BF16 and q.shape[2] <= TILE // 2
    tile = BF16_TILE // 2 if half else BF16_TILE
    q_tile = tile if half else q.dtype.tile_bytes
    per_head = max(1, case.device.num_cores // q.shape[1] // k.shape[1])
    need(per_head <= MOST_CORES_PER_HEAD, "num_tree_reduction_rounds <= MAX_TREE_REDUCTION_ROUNDS")
    at_once = min(heads * keys, DEST_TILES)
    need(at_once & (at_once - 1) == 0, f"mul_bcast_granularity {at_once} must be a power of two")
    size = 2 * keys * head * (k.dtype.tile_bytes + case.inputs[2].dtype.tile_bytes)
    size += 2 * heads * head * q_tile
    size += heads * (4 * head + 2 * keys + 11) * tile
    size += 2 * tile + BF16_TILE
    size += 0 if in_shards else heads * head * q.dtype.tile_bytes
    return size + (per_head - 1) * heads * (head + 2) * tile


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
    cos, sin = case.inputs[1:3]
    need(cos.dtype is sin.dtype, "Cos and Sin dtypes must match")
    out = case.result((*x.shape[:-1], width), x.dtype, memory)
    tile, turned, wide = x.dtype.tile_bytes, cos.dtype.tile_bytes, width // TILE
    own = int(x.layout.is_sharded) + int(memory.is_sharded and memory.buffer_type is BufferType.L1)
    cb = (3 - own) * 2 * wide * tile + tile + (4 * wide + 2) * turned + 2048
    return Usage((out,), cb=cb, cores=min(case.device.num_cores, x.shape[0] * max(1, x.shape[-2] // TILE)))


FAMILIES: dict[str, Family] = {
    "ttnn.scaled_dot_product_attention": sdpa,
    "ttnn.scaled_dot_product_attention_decode": sdpa_decode,
    "ttnn.split_query_key_value_and_split_heads": split_heads,
    "ttnn.nlp_create_qkv_heads": split_heads,
    "ttnn.concatenate_heads": concatenate_heads,
    "ttnn.nlp_concat_heads": concatenate_heads,
    "ttnn.rotary_embedding": rotary_embedding,
}
