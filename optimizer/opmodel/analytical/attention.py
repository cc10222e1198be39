"""Attention: SDPA, head splitting and joining, rotary embedding."""

from __future__ import annotations

from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY, L1_MEMORY


def sdpa(case: Case) -> Usage:
    for tensor in case.inputs:
        need(not tensor.layout.is_sharded, "SDPA operands must be interleaved")
    memory = DRAM_MEMORY if case.output is None else case.output
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(result_shapes(case)[0], case.x.dtype, memory)
    return Usage((out,), cb=100 * case.x.dtype.tile_bytes, cores=case.device.num_cores)


def _heads(case: Case, shapes: tuple[tuple[int, ...], ...]) -> Usage:
    need(not case.x.layout.is_sharded, f"{case.query.op}: operand must be interleaved")
    memory = case.follow()
    need(memory in (DRAM_MEMORY, L1_MEMORY), f"{case.query.op}: result must be interleaved")
    outputs = tuple(case.result(s, case.x.dtype, memory) for s in shapes)
    return Usage(outputs, cb=8 * case.x.dtype.tile_bytes, cores=case.device.num_cores)


def split_heads(case: Case) -> Usage:
    x = case.x.shape
    heads = int(case.attrs["num_heads"])
    kv = int(case.attrs.get("num_kv_heads") or heads)
    need(x[-1] % (heads + 2 * kv) == 0, "width is not divisible by the number of heads")
    size = x[-1] // (heads + 2 * kv)
    batch, rows = x[0], x[-2]
    key = (batch, kv, size, rows) if case.attrs.get("transpose_key") else (batch, kv, rows, size)
    return _heads(case, ((batch, heads, rows, size), key, (batch, kv, rows, size)))


def concatenate_heads(case: Case) -> Usage:
    b, h, s, d = case.x.shape
    shape = (b, 1, s, h * d) if "nlp" in case.query.op else (b, s, h * d)
    return _heads(case, (shape,))


def rotary_embedding(case: Case) -> Usage:
    memory = case.follow()
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(case.x.shape, case.x.dtype, memory)
    return Usage((out,), cb=18 * case.x.dtype.tile_bytes, cores=case.device.num_cores)
