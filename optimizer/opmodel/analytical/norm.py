"""Layer, RMS, group and batch norm."""

from __future__ import annotations

from optimizer.layouts.op_config import LayerNormShardedMultiCoreProgramConfig
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.tensors import HEIGHT, tiles


def layer_norm(case: Case) -> Usage:
    x = case.x
    memory = case.follow()
    if x.layout.is_sharded:
        return _sharded(case)
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(x.shape, x.dtype, memory)
    _, wide = tiles(x.shape)
    cb = (wide * 5 + 36 + (2 * wide + 16 if len(case.inputs) > 1 else 0)) * x.dtype.tile_bytes
    rows, _ = tiles(x.shape)
    return Usage((out,), cb=cb, cores=min(rows, case.device.num_cores))


def _sharded(case: Case) -> Usage:
    x = case.x
    need(x.layout.memory_layout is not HEIGHT, "Height sharded layer norm is not supported")
    config = case.query.config
    if not isinstance(config, LayerNormShardedMultiCoreProgramConfig):
        need(False, "sharded layer norm needs a program config")
    memory = case.follow()
    need(memory.memory_layout is x.layout.memory_layout, "layer norm: output must keep the input's sharding")
    out = case.result(x.shape, x.dtype, memory)
    return Usage((out,), cb=64 * 2048, cores=x.layout.num_shard_cores)


def group_norm(case: Case) -> Usage:
    x = case.x
    memory = case.follow()
    need(not memory.is_sharded and not x.layout.is_sharded, "group_norm: interleaved only")
    out = case.result(x.shape, x.dtype, memory, x.layout.page_layout)
    return Usage((out,), cb=200 * 2048, cores=case.device.num_cores)


def batch_norm(case: Case) -> Usage:
    x = case.x
    need(all(not t.layout.is_sharded for t in case.inputs), "batch_norm: interleaved only")
    memory = case.follow()
    need(not memory.is_sharded, "batch_norm: interleaved only")
    out = case.result(x.shape, x.dtype, memory)
    return Usage((out,), cb=16 * x.dtype.tile_bytes, cores=case.device.num_cores)
