"""Attention: SDPA, head splitting and joining, rotary embedding."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, TensorLayout
from optimizer.layouts.op_config import SDPAProgramConfig
from optimizer.layouts.tiling import TILE, padded_shape, physical_shape
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import whole_grid_spec
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, L1_MEMORY, TILED, WIDTH
from optimizer.opmodel.base import TensorSpec


def sdpa(case: Case) -> Usage:
    for tensor in case.inputs:
        need(not tensor.layout.is_sharded, "SDPA operands must be interleaved")
        need(tensor.dtype is not DType.F32, "Data type of input tensor must be BFLOAT16, BFLOAT8_B or BFLOAT4_B")
        need(tensor.layout.is_tile, "SDPA operands must be tiled")
    for tensor in case.inputs[:3]:
        need(tensor.shape[-1] % TILE == 0, "Padding is not supported on the head_dim dimension")
    config = case.query.config
    q_chunk, k_chunk = TILE, TILE
    if isinstance(config, SDPAProgramConfig):
        q_chunk, k_chunk = config.q_chunk_size, config.k_chunk_size
        for name, size in (("q_chunk_size", q_chunk), ("k_chunk_size", k_chunk)):
            need(size > 0 and size % TILE == 0, f"{name} must be a positive multiple of TILE_SIZE")
    memory = DRAM_MEMORY if case.output is None else case.output
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(result_shapes(case)[0], case.x.dtype, memory)
    cb = _sdpa_buffers(case, q_chunk // TILE, k_chunk // TILE)
    return Usage((out,), cb=cb, cores=case.device.num_cores)


def _sdpa_buffers(case: Case, q: int, k: int) -> int:
    """Query, key and value chunks (keys and values double), scores, running sums and outputs."""
    q_tile, k_tile, width = case.x.dtype.tile_bytes, case.inputs[1].dtype.tile_bytes, tiles_wide(case)
    chunks = q * width * q_tile + 4 * k * width * k_tile
    mask = 2 * q * k * 2048 if len(case.inputs) > 3 else 0
    return chunks + mask + q * k * 2048 + 3 * q * width * 2048 + 8 * q * 2048 + 7 * 2048


def tiles_wide(case: Case) -> int:
    return padded_shape(case.x.shape, TILED)[-1] // TILE


def sdpa_decode(case: Case) -> Usage:
    """One query row per user; Q in DRAM or height sharded, keys and values in DRAM."""
    q = case.x.layout
    for tensor in case.inputs:
        need(tensor.dtype is not DType.F32, "Unsupported data type DataType::FLOAT32.")
    for tensor in case.inputs[1:3]:
        need(tensor.layout.is_dram and not tensor.layout.is_sharded, "K and V must be DRAM interleaved")
        need(padded_shape(tensor.shape, TILED)[-2] % TILE == 0, "Chunk size must be multiple of 32")
        need(tensor.shape[-2] % TILE == 0, "Chunk size must be multiple of 32")
    need(q.is_dram or q.memory_layout is HEIGHT, "Q tensor buffer type must be DRAM when not sharded")
    grouped = case.x.shape[2] != case.inputs[1].shape[1]
    need(not grouped or case.x.dtype is DType.BF16, "GQA expects BFLOAT16 input tensor")
    need(case.x.dtype is DType.BF16 or not grouped, "GQA expects BFLOAT16 input tensor")
    need(case.x.dtype is not DType.BFP8_B, "GQA expects BFLOAT16 input tensor")
    memory = DRAM_MEMORY if case.output is None else case.output
    need(memory == DRAM_MEMORY, "the result of sdpa_decode must be DRAM interleaved")
    out = case.result(result_shapes(case)[0], case.x.dtype, memory)
    return Usage((out,), cb=200 * 2048, cores=case.device.num_cores)


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
