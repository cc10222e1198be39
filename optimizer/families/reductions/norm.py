"""Layer norm, RMS norm and batch norm (inference).

Sources: tt-metal 0.81's own messages and the buffer lists of recorded LayerNorm programs, which the formulas
below reproduce; buffers of batch norms measured on mock devices. Interleaved input: rows of tiles per core, whole rows
when they fit in 95 % of the free L1, else chunks. Sharded input: one block per core, partial sums gathered over the
cores of a row.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, ShardOrientation, ShardSpec
from optimizer.layouts.op_config import LayerNormShardedMultiCoreProgramConfig
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need, need_named
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, TILED, WIDTH, tiles
from optimizer.opmodel.base import TensorSpec

MOST_STREAMED = 112
"""Tiles of a row in one chunk; half with 32-bit accumulation, half with weights or 32-bit input (measured)."""
L1_SHARE = 0.95
"""Part of the free L1 that the interleaved kernel may fill."""


def _centred(case: Case) -> bool:
    """Whether the mean is subtracted, as layer_norm does and rms_norm does not."""
    return case.query.op == "ttnn.layer_norm"


def _operands(case: Case) -> tuple[TensorSpec | None, TensorSpec | None, TensorSpec | None]:
    """(weight, bias, residual); rms_norm takes a weight only."""
    inputs = case.inputs
    bias = inputs[2] if len(inputs) > 2 and _centred(case) else None
    residual = inputs[3] if len(inputs) > 3 else None
    return (inputs[1] if len(inputs) > 1 else None, bias, residual)


def _fp32(case: Case) -> bool:
    """32-bit accumulation: by default for layer_norm, not for rms_norm."""
    return case.fp32(_centred(case))


def layer_norm(case: Case) -> Usage:
    x = case.x
    need(x.layout.is_tile, "layer norm input must be tiled")
    need(x.dtype in (DType.F32, DType.BF16, DType.BFP8_B), "Input data format not supported.")
    weight, bias, residual = _operands(case)
    for scale in (weight, bias):
        if scale is not None:
            _check_scale(x, scale)
    if residual is not None:
        need(padded_shape(residual.shape, TILED) == padded_shape(x.shape, TILED), "residual must have x's shape")
        need(residual.layout.is_sharded or not x.layout.is_sharded, "residual must be sharded like x")
    if x.layout.is_sharded:
        return _sharded(case, weight, bias, residual)
    given = isinstance(case.query.config, LayerNormShardedMultiCoreProgramConfig)
    need(not given, "a sharded program config needs a sharded operand")
    memory = case.follow()
    need_named(memory)
    out = case.result(x.shape, x.dtype, memory)
    return _interleaved(case, out, weight, bias, residual)


def _check_scale(x: TensorSpec, scale: TensorSpec) -> None:
    """A weight or bias: one tile row as wide as x, or [.., width / 32, 32] row-major."""
    need(not scale.layout.is_sharded, "gamma and beta must be interleaved")
    padded = padded_shape(x.shape, TILED)[-1]
    if scale.layout.is_tile:
        shape = padded_shape(scale.shape, TILED)
        need(shape[-1] == padded, f"Input and gamma inner dimensions must be equal, got {padded} and {shape[-1]}")
        need(shape[-2] == TILE, "gamma must be one tile row")
        return
    need(scale.shape[-1] == TILE, "row-major gamma must have tile width")
    need(scale.shape[-1] * scale.shape[-2] == padded, "row-major gamma must cover the input's width")


def _scale_bytes(tiles_wide: int, scale: TensorSpec | None) -> int:
    return 0 if scale is None else tiles_wide * scale.dtype.tile_bytes


def _interleaved(
    case: Case, out: TensorSpec, weight: TensorSpec | None, bias: TensorSpec | None, residual: TensorSpec | None
) -> Usage:
    x = case.x
    fp32, full = _fp32(case), _centred(case)
    block, interm = (4, 4096) if fp32 else (8, 2048)
    rows, wide = tiles(x.shape)
    padded = round_up(wide, block)
    scaled = weight is not None or bias is not None
    fixed = 2 * block * out.dtype.tile_bytes + 2 * 4096 + interm * 2 + 8 * interm
    fixed += interm * 2 if full else 0
    fixed += 2 * block * interm if scaled else 0
    if residual is not None:
        fixed += 2 * block * residual.dtype.tile_bytes + 2 * block * x.dtype.tile_bytes

    def total(width: int, chunked: bool) -> int:
        size = fixed + _scale_bytes(width, weight) + _scale_bytes(width, bias)
        size += (interm if chunked else 0) + width * interm
        if residual is None:
            size += width * x.dtype.tile_bytes
        else:
            size += width * interm
        return size + (width * interm if full or chunked else 0)

    def chosen(room: int) -> int:
        """Whole rows where they fit in the free L1, else chunks; row-major weights are always read whole."""
        usable = int(room * L1_SHARE)
        cb = total(padded, False)
        if cb <= usable or any(s is not None and not s.layout.is_tile for s in (weight, bias)):
            return cb
        width = MOST_STREAMED // (2 if fp32 else 1) // (2 if scaled or x.dtype is DType.F32 else 1)
        while width > block and total(width, True) > usable:
            width -= block
        cb = total(width, True)
        need(cb <= usable, f"LayerNorm streaming circular buffers require {cb} bytes, but only {usable} are available")
        return cb

    free = case.device.l1_bank_bytes(case.l1_small_bytes) - sum(case.l1(t) for t in case.inputs)
    # The report is made before the result is allocated, the program that runs after.
    run, reported = chosen(free - case.l1(out)), chosen(free)
    return Usage((out,), cb=reported, cores=min(rows, case.device.num_cores), room=run + case.l1(out))


def _sharded(case: Case, weight: TensorSpec | None, bias: TensorSpec | None, residual: TensorSpec | None) -> Usage:
    x = case.x
    kind = x.layout.memory_layout
    spec = x.layout.shard_spec
    assert spec is not None
    need(kind is not HEIGHT, "Height sharded inputs are not supported.")
    need(x.layout.is_l1, "layer norm needs its shards in L1")
    memory = case.follow()
    need(memory.is_sharded and memory.memory_layout is not HEIGHT, "Sharded inputs require sharded outputs.")
    need(memory.memory_layout is kind, "Input and output memory layouts must match")
    config = case.query.config
    given = config if isinstance(config, LayerNormShardedMultiCoreProgramConfig) else None
    block_h, block_w = spec.shape[0] // TILE, spec.shape[1] // TILE
    _check_grid(case, spec, given)
    inplace = given is not None and given.inplace
    if inplace or memory.shard_spec is None:
        memory = MemoryConfig(kind, memory.buffer_type, spec)
    out = case.result(x.shape, x.dtype, memory)
    held = memory.shard_spec
    assert held is not None
    need(held.shape[0] * held.shape[1] >= spec.shape[0] * spec.shape[1], "output shards are smaller than the input's")
    if residual is not None:
        need(residual.layout.memory == x.layout.memory, "residual must be sharded like x")
    cb = _sharded_buffers(case, spec, block_h, block_w, weight, bias)
    return Usage((out,), cb=cb, l1=0 if inplace else None, cores=spec.num_cores)


def _check_grid(case: Case, spec: ShardSpec, config: LayerNormShardedMultiCoreProgramConfig | None) -> None:
    x = case.x
    rows, columns = spec.bounding_box_yx
    tall, wide = tiles(x.shape)
    shards_h, shards_w = ceil_div(tall * TILE, spec.shape[0]), ceil_div(wide * TILE, spec.shape[1])
    whole = shards_h * shards_w == spec.num_cores
    need(whole, f"Shard layout requires {shards_h}x{shards_w} shards but shard grid has {spec.num_cores} cores")
    row_wise = spec.orientation is ShardOrientation.ROW_MAJOR
    if spec.num_cores != rows * columns:
        need(row_wise, "Sharded layernorm requires a non-rectangular core grid to fill its bounding box in shard order")
    if x.layout.memory_layout is WIDTH and not row_wise:
        need(rows > 1 or columns == 1, "Start core must be within grid size")
    if config is None:
        cores = spec.num_cores if x.layout.memory_layout is WIDTH else (columns if row_wise else rows)
        block_w = spec.shape[1] // TILE
        need(ceil_div(wide, cores) == block_w, f"block_w ({block_w}) must equal to K / num_cores ({cores})")
        return
    device = case.device.grid_yx
    grid = config.compute_with_storage_grid_yx
    need(grid[0] <= device[0] and grid[1] <= device[1], "program_config grid must be contained within device grid")
    need(rows <= grid[0] and columns <= grid[1], "shard_spec.grid size does not fit within program_config grid")
    need(config.subblock_w > 0 and config.block_w % config.subblock_w == 0, "block_w must be divisible by subblock_w.")
    cores = spec.num_cores if x.layout.memory_layout is WIDTH else (columns if row_wise else rows)
    need(ceil_div(wide, cores) == config.block_w, f"block_w ({config.block_w}) must equal to K / num_cores ({cores})")
    need(config.block_h * TILE == spec.shape[0], "block_h must equal the shard height in tiles")
    need(config.block_w * TILE == spec.shape[1], "block_w must equal the shard width in tiles")


def _gathered(spec: ShardSpec, kind: object) -> tuple[int, int]:
    """(cores whose partial sums meet, tiles gathered): wide grids gather in two stages, rows then columns."""
    rows, columns = spec.bounding_box_yx
    row_wise = spec.orientation is ShardOrientation.ROW_MAJOR
    if kind is BLOCK:
        across = columns if row_wise else rows
        return (across, across)
    if row_wise and rows > 1 and columns > 1 and spec.num_cores == rows * columns:
        return (columns, columns + rows - 1)
    return (spec.num_cores, spec.num_cores)


def _sharded_buffers(
    case: Case, spec: ShardSpec, block_h: int, block_w: int, weight: TensorSpec | None, bias: TensorSpec | None
) -> int:
    x = case.x
    full = _centred(case)
    interm = 4096 if _fp32(case) else 2048
    first, gathered = _gathered(spec, x.layout.memory_layout)
    rows = ceil_div(block_h, first)
    area, column = block_h * block_w * interm, block_h * interm
    size = 2 * 2048 + interm + 2 * column + gathered * interm + rows * interm + 2 * area + column
    size += _scale_bytes(block_w, weight) + _scale_bytes(block_w, bias)
    if full:
        size += 2 * column + gathered * interm
    if x.shape[-1] % TILE:
        size += block_w * 2048 + (area if full else 0)
    return size


def batch_norm(case: Case) -> Usage:
    """Operands: x, running mean and variance, then weight and bias; a buffer of two tiles for each of them."""
    x = case.x
    need(all(not t.layout.is_sharded for t in case.inputs), "batch_norm: interleaved only")
    need(all(t.layout.is_tile for t in case.inputs), "batch_norm: operands must be tiled")
    need(all(t.dtype in (DType.BF16, DType.F32) for t in case.inputs), "batch_norm only supports bfloat16, float32")
    held = case.inputs[1].dtype
    need(all(t.dtype is held for t in case.inputs[1:]), "batch_norm: parameter tensors must have the same dtype")
    memory = case.follow()
    need(not memory.is_sharded, "batch_norm: interleaved only")
    out = case.result(x.shape, x.dtype, memory)
    wide = DType.F32 if DType.F32 in (x.dtype, held) else DType.BF16
    scales = [held] * (len(case.inputs) - 1) + [DType.BF16] * (5 - len(case.inputs))
    tiles = x.dtype.tile_bytes + 4 * wide.tile_bytes + sum(d.tile_bytes for d in scales)
    if x.dtype is not wide:  # the result is narrowed at the end
        tiles += x.dtype.tile_bytes
    return Usage((out,), cb=2 * tiles, cores=case.device.num_cores)
