"""matmul and linear with an explicit program config or tt-metal's automatic choice."""

from __future__ import annotations

from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCast1DProgramConfig, MatmulProgramConfig
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import block_spec, flat_spec
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, WIDTH, tiles


def matmul(case: Case) -> Usage:
    a, b = case.inputs[0], case.inputs[1]
    shape = result_shapes(case)[0]
    memory = DRAM_MEMORY if case.output is None else case.output
    config = case.query.config
    need(not b.layout.is_sharded, "Input tensor B must have INTERLEAVED memory layout")
    mt, nt = tiles(shape)
    kt = tiles(a.shape)[1]
    if not isinstance(config, MatmulProgramConfig):
        need(not memory.is_sharded, "sharded output needs a program config")
        out = case.result(shape, case.dtype(), memory)
        cores = min(case.device.num_cores, mt * nt)
        return Usage((out,), cb=16 * 16 * 2048 + 128 * 2048, cores=cores)
    m, n, kw = config.per_core_M, config.per_core_N, config.in0_block_w
    need(kt % kw == 0, f"Kt ({kt}) must be divisible by in0_block_w ({kw})")
    blocks_y, blocks_x = -(-mt // m), -(-nt // n)
    cores = blocks_y * blocks_x
    rows, columns = config.compute_with_storage_grid_yx
    if isinstance(config, MatmulMultiCoreReuseMultiCast1DProgramConfig):
        need(cores <= rows * columns, f"Target number of cores {cores} > available {rows * columns}")
        kind = WIDTH if config.mcast_in0 else HEIGHT
    else:
        need(blocks_y <= rows and blocks_x <= columns, "Num output blocks along y/x must be <= rows/cols")
        kind = BLOCK
    if memory.is_sharded:
        need(memory.memory_layout is kind, f"output must be {kind.value}")
        size = (m * 32, n * 32)
        spec = block_spec(blocks_y, blocks_x, size) if kind is BLOCK else flat_spec(kind, cores, size, case.device)
        memory = MemoryConfig(kind, memory.buffer_type, spec)
    out = case.result(shape, case.dtype(), memory)
    depth = 1 if kt == kw else 2
    cb = depth * kw * (m * a.dtype.tile_bytes + n * b.dtype.tile_bytes)
    cb += 0 if memory.is_sharded else m * n * out.dtype.tile_bytes
    if len(case.inputs) > 2:
        cb += n * case.inputs[2].dtype.tile_bytes
    return Usage((out,), cb=cb, cores=cores)
