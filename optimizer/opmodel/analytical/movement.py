"""Data movement: reshape, permute, transpose, concat, slice, split, pad, repeat."""

from __future__ import annotations

from optimizer.layouts.memory_config import MemoryConfig
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY


def _simple(case: Case, memory: MemoryConfig) -> Usage:
    x = case.x
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    outputs = tuple(case.result(s, x.dtype, memory, x.layout.page_layout) for s in result_shapes(case))
    return Usage(outputs, cb=4 * x.dtype.tile_bytes, cores=case.device.num_cores)


def reshape(case: Case) -> Usage:
    need(not case.x.layout.is_sharded, "reshape: interleaved only")
    return _simple(case, case.follow())


def unsqueeze(case: Case) -> Usage:
    x = case.x
    dim = int(case.attrs["dim"])
    shape = list(x.shape)
    shape.insert(dim % (len(shape) + 1), 1)
    out = case.result(tuple(shape), x.dtype, x.layout.memory, x.layout.page_layout)
    return Usage((out,), cb=0, cores=1, view=True)


def permute(case: Case) -> Usage:
    return _simple(case, case.follow())


def transpose(case: Case) -> Usage:
    return _simple(case, case.follow())


def concat(case: Case) -> Usage:
    sharded = {t.layout.is_sharded for t in case.inputs}
    need(len(sharded) == 1, "All tensors must be sharded or all must be interleaved")
    memory = DRAM_MEMORY if case.output is None else case.output
    return _simple(case, memory)


def slice_(case: Case) -> Usage:
    return _simple(case, case.follow())


def split(case: Case) -> Usage:
    return _simple(case, case.follow())


def pad(case: Case) -> Usage:
    need(not case.x.layout.is_sharded or case.output is not None, "sharded input must name an output")
    return _simple(case, case.follow())


def repeat(case: Case) -> Usage:
    return _simple(case, case.follow())
