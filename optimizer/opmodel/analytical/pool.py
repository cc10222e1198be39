"""Pooling and upsampling."""

from __future__ import annotations

from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import flat_spec
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import HEIGHT


def pool2d(case: Case) -> Usage:
    x = case.x
    shape = result_shapes(case)[0]
    memory = case.output
    if memory is None:
        rows = shape[-2]
        cores = min(case.device.num_cores, rows)
        spec = flat_spec(HEIGHT, cores, (-(-rows // cores), shape[-1]), case.device)
        memory = MemoryConfig(HEIGHT, BufferType.L1, spec)
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(shape, x.dtype, memory, PageLayout.ROW_MAJOR)
    return Usage((out,), cb=20000, cores=case.device.num_cores)


def upsample(case: Case) -> Usage:
    x = case.x
    memory = case.follow()
    need(not x.layout.is_sharded and not memory.is_sharded, "upsample: interleaved only")
    out = case.result(result_shapes(case)[0], x.dtype, memory, x.layout.page_layout)
    return Usage((out,), cb=4 * x.shape[-1] * 2, cores=case.device.num_cores)
