"""Embedding: row-major indices and bf16 row-major table."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY


def embedding(case: Case) -> Usage:
    ids, table = case.inputs
    for tensor in case.inputs:
        need(not tensor.layout.is_sharded, "embedding: operands must be interleaved")
    need(not table.layout.is_tile, "Weights tensor must be row major")
    need(table.dtype is DType.BF16, "Weights tensor must have BFLOAT16")
    memory = ids.layout.memory if case.output is None else case.output
    if memory.is_sharded and memory.shard_spec is None:
        memory = DRAM_MEMORY
    page = PageLayout(str(case.attrs.get("layout", "tile")))
    shape = (*ids.shape, table.shape[-1])
    out = case.result(shape, table.dtype, memory, page)
    cb = 4 * table.shape[-1] * 32 * 2
    return Usage((out,), cb=cb, cores=case.device.num_cores)
