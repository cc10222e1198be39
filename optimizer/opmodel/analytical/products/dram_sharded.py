"""A matmul whose operand B lies in shards in the DRAM banks: what tt-metal refuses, the buffers, what every core does.

Source: tt-metal `matmul_device_operation.cpp` and `matmul_multicore_reuse_mcast_dram_sharded_program_factory.cpp`,
checked against ttnn 0.81.1 on mock devices.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.dram_sharded_matmuls import MOST_READERS
from optimizer.layouts.matmul_configs import MAX_SUBBLOCK_TILES, largest_divisor
from optimizer.layouts.memory_config import BufferType, MemoryConfig, ShardOrientation, ShardSpec
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig as Config
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need, refuse
from optimizer.opmodel.analytical.derive import first_cores
from optimizer.opmodel.analytical.products.matmul_auto import Problem
from optimizer.opmodel.analytical.products.matmul_buffers import partial_dtype
from optimizer.opmodel.analytical.products.matmul_plan import Plan
from optimizer.opmodel.analytical.tensors import WIDTH
from optimizer.opmodel.base import Rejection, TensorSpec


def dram_sharded(case: Case, config: Config, p: Problem, dtype: DType, l1_acc: bool) -> Usage:
    """Acceptance and figures; a result in the shards that the config gives, whatever was asked for."""
    _check(case, config, p)
    out = case.result(_shape(case), dtype, _memory(case, config, p))
    banks = _banks(case, p)
    readers = banks * config.num_workers_per_dram_bank
    columns = ceil_div(p.nt, readers)
    width, subblock = _padded(columns, p.fp32_dest)
    plan = Plan(
        "dram", in0_block_w=config.in0_block_w, subblock_w=subblock, block_w=width, per_core_n=width, mcast_in0=True,
        fused_activation=config.fused_activation is not None, readers=config.num_workers_per_dram_bank, banks=banks,
    )  # fmt: skip
    size = _buffer_bytes(case, config, p, columns, width, out.dtype, l1_acc)
    return Usage((out,), cb=size, cores=readers, block=(1, width), plan=plan)


def _shape(case: Case) -> tuple[int, ...]:
    return (*case.inputs[0].shape[:-1], case.inputs[1].shape[-1])


def _check(case: Case, config: Config, p: Problem) -> None:
    a, b, out = p.memory_a, p.memory_b, p.memory_out
    need(a.is_sharded, "Input tensor A must be sharded for DRAM sharded program config")
    need(out.is_sharded, "Output memory config must be sharded for DRAM sharded program config")
    if a.memory_layout is not WIDTH:
        refuse(f"Input A memory layout must be WIDTH_SHARDED, got: {a.memory_layout.value}")
    need(a.buffer_type is out.buffer_type, "Input A and output buffer types must match")
    need(a.memory_layout is out.memory_layout, "Input A and output memory layouts must match")
    need(a.buffer_type is BufferType.L1, "DFB borrows memory from a tensor that is not L1-resident (L1 is required)")
    spec = a.shard_spec
    assert spec is not None
    need(spec.orientation is ShardOrientation.ROW_MAJOR, "Input A shard orientation must be ROW_MAJOR")
    need(not p.transpose_a, "a transposed input A is not supported")
    if config.per_core_M < 1 or config.per_core_N < 1 or config.in0_block_w < 1:
        refuse("sizes must not be 0", Rejection.ABORT)
    if p.mt != config.per_core_M:
        refuse(f"M ({p.mt}) must equal per_core_M ({config.per_core_M})")
    need(p.mt == 1, "currently only support in0 tensor height of tile height")
    need(spec.shape[0] == TILE, "per_core_M must equal the height of a shard in tiles")
    _check_depth(config, p, spec)
    if b.memory_layout is not WIDTH:
        refuse(f"Input B memory layout must be WIDTH_SHARDED, got: {b.memory_layout.value}")
    need(p.batch_b == 1, "bmm (non-bcast matmul) expects input tensors of shapes BCMK*BCKN=BCMN")
    _check_readers(case, config, p)


def _check_depth(config: Config, p: Problem, spec: ShardSpec) -> None:
    width, block = spec.shape[1] // TILE, config.in0_block_w
    if p.kt % block:
        refuse(f"K ({p.kt}) must be divisible by in0_block_w ({block})")
    if width % block and block % width:
        refuse(f"the width of a shard ({width} tiles) and in0_block_w ({block}) must divide one another")
    if p.kt % width:
        refuse(f"in DRAM sharded Matmul we don't have support for un-even sharding currently. K: {p.kt}")
    if block > width and p.kt // width != spec.num_cores:
        refuse(f"blocks of several shards must cover the {spec.num_cores} storage cores")


def _check_readers(case: Case, config: Config, p: Problem) -> None:
    readers = config.num_workers_per_dram_bank
    if not 1 <= readers <= MOST_READERS:
        refuse(f"num_workers_per_dram_bank must be in [1, {MOST_READERS}], got {readers}")
    alone = readers == 1 or case.device.arch == "blackhole"
    need(alone, "num_workers_per_dram_bank > 1 is currently supported only on Blackhole")
    spec, shard = p.memory_a.shard_spec, _bank_columns(p)
    assert spec is not None
    rows, columns = case.device.grid_yx
    free = rows * columns - spec.num_cores - case.device.dram_banks
    # Where the first reader of a bank holds no part of A one core more is free than is counted here.
    enough = readers == 1 or free >= case.device.dram_banks * (readers - 1)
    need(enough, "No free DRAM reader core: those that hold input A and the first readers take too many")
    if shard % readers:
        refuse(f"weight shard width {shard} tiles per bank must be divisible by workers_per_bank {readers}")
    each = ceil_div(p.nt, _banks(case, p) * readers)
    # Result shards are dealt out to readers in order; one beyond the last shard has nowhere to write to.
    first = (_banks(case, p) * readers - 1) * each
    stored = each >= config.per_core_N or first < config.per_core_N * ceil_div(p.nt, config.per_core_N)
    need(stored, "Worker has no storage area assigned")
    fits = readers == 1 or shard == readers * each
    need(fits, f"weight shard width {shard} tiles must equal {readers} workers times {each} reader tiles")


def _bank_columns(p: Problem) -> int:
    """Tiles of one row in a shard of B."""
    spec = p.memory_b.shard_spec
    assert spec is not None
    return spec.shape[1] // TILE


def _banks(case: Case, p: Problem) -> int:
    """Banks that hold more than padding; the reader of an empty one computes nothing."""
    banks, shard = case.device.dram_banks, _bank_columns(p)
    return banks - max(0, banks * shard - p.nt) // shard


def _padded(columns: int, fp32: bool) -> tuple[int, int]:
    """(columns that a core computes, those of a subblock) for so many of its own: a number without a large divisor is
    filled up where that makes fewer subblocks."""
    most = MAX_SUBBLOCK_TILES // 2 if fp32 else MAX_SUBBLOCK_TILES
    width = largest_divisor(columns, most)
    count = columns // width
    for wider in range(width + 1, most + 1):
        if ceil_div(columns, wider) < count:
            width, count = wider, ceil_div(columns, wider)
    return width * count, width


def _memory(case: Case, config: Config, p: Problem) -> MemoryConfig:
    cores = ceil_div(p.nt, config.per_core_N)
    rows, columns = case.device.grid_yx
    if cores > rows * columns:
        refuse(f"Target number of cores {cores} is greater than total number of available cores {rows * columns}")
    ranges = first_cores(cores, case.device.grid_yx, ShardOrientation.ROW_MAJOR)
    spec = ShardSpec((1, cores), (TILE, config.per_core_N * TILE), ranges)
    return MemoryConfig(WIDTH, p.memory_out.buffer_type, spec)


def _buffer_bytes(case: Case, config: Config, p: Problem, columns: int, width: int, out: DType, l1_acc: bool) -> int:
    """Circular buffers per core: two blocks of A, three of B, the result before it goes to its shards, partial sums, a
    bias, and a block of several shards where it is put together."""
    block, spec = config.in0_block_w, p.memory_a.shard_spec
    assert spec is not None
    several = p.kt > block
    aligned = case.device.dram_alignment_bytes
    total = (2 if several else 1) * block * p.tile_a
    total += (3 if several else 1) * columns * block * round_up(p.tile_b, aligned)
    total += width * out.tile_bytes
    kind = partial_dtype(p.kt // block, out, p.fp32_dest, l1_acc)
    if kind is not out:
        total += width * kind.tile_bytes
    if p.tile_bias:
        total += width * round_up(p.tile_bias, aligned)
    if block > spec.shape[1] // TILE:
        total += block * p.tile_a
    return total


def bank_bytes(b: TensorSpec) -> int:
    """Bytes of B that the fullest bank gives."""
    spec = b.layout.shard_spec
    assert spec is not None
    return ceil_div(spec.shape[0], TILE) * (spec.shape[1] // TILE) * b.dtype.tile_bytes
