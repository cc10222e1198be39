"""conv2d."""

from __future__ import annotations

from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import block_spec, flat_spec
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, WIDTH, tiles


def _derived(case: Case, kind: TensorMemoryLayout, shape: tuple[int, ...]) -> MemoryConfig:
    mt, nt = tiles(shape)
    rows, columns = case.device.grid_yx
    if kind is BLOCK:
        y, x = min(rows, mt), min(columns, nt)
        m, n = -(-mt // y), -(-nt // x)
        spec = block_spec(-(-mt // m), -(-nt // n), (m * 32, n * 32))
    elif kind is HEIGHT:
        m = -(-mt // min(rows * columns, mt))
        spec = flat_spec(HEIGHT, -(-mt // m), (m * 32, nt * 32), case.device)
    else:
        n = -(-nt // min(rows * columns, nt))
        spec = flat_spec(WIDTH, -(-nt // n), (mt * 32, n * 32), case.device)
    return MemoryConfig(kind, BufferType.L1, spec)


def conv2d(case: Case) -> Usage:
    shape = result_shapes(case)[0]
    config = case.query.config
    x = case.x
    sliced = config.slice if isinstance(config, Conv2dConfig) else "auto"
    page = PageLayout.TILE
    if sliced == "auto" and x.layout.is_dram:
        need(not x.layout.is_sharded, "conv2d: DRAM input must be interleaved")
        out = case.result(shape, case.dtype(), DRAM_MEMORY, page)
        return Usage((out,), cb=400000, cores=case.device.num_cores)
    kind = HEIGHT
    if isinstance(config, Conv2dConfig) and config.shard_layout is not None:
        kind = TensorMemoryLayout(config.shard_layout)
    memory = _derived(case, kind, shape)
    spec = memory.shard_spec
    assert spec is not None
    if (
        case.output is not None
        and case.output != memory
        and not (case.output.is_sharded and case.output.shard_spec is None)
    ):
        memory = case.output
    out = case.result(shape, case.dtype(), memory, page)
    return Usage((out,), cb=300000, cores=spec.num_cores)
