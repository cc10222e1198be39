"""Matmuls and attention as the product that one core computes."""

from __future__ import annotations

from optimizer.families.attention.acceptance import attention_chunks, dealt, shared_slots
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape
from optimizer.opmodel.analytical.case import Case
from optimizer.opmodel.analytical.costing.pieces import Job, fidelity, of_tensor
from optimizer.opmodel.analytical.products.dram_sharded import bank_bytes
from optimizer.opmodel.analytical.products.matmul_plan import Plan
from optimizer.opmodel.analytical.tensors import HEIGHT, TILED, tiles
from optimizer.opmodel.analytical.work import Attention, BankReads, Feed, Piece, Place, Product, Work


def matmul(job: Job) -> tuple[Work, ...]:
    """The product, and the element-wise programs after it."""
    a, b, out = job.query.inputs[0], job.query.inputs[1], job.out
    assert out is not None, "a matmul has a result"
    attrs, usage = job.attrs, job.usage
    depth = tiles(a.shape[-2:])[0 if attrs.get("transpose_a") else 1]
    plan = usage.plan
    bytes_ab = (a.dtype.tile_bytes, b.dtype.tile_bytes)
    fid, fp32 = fidelity(attrs, "HiFi2")
    if plan is None:
        rows, columns = usage.block or (1, ceil_div(job.writes[0].tiles, job.cores))
        feeds = (_interleaved(a.layout, True), _interleaved(b.layout, True))
        product = Product(rows, columns, depth, min(2, depth), bytes_ab, usage.blocks, feeds=feeds, fidelity=fid)
    else:
        rows, columns = usage.block or (plan.per_core_m, plan.per_core_n)
        # A kernel without reuse reads a tile of each operand for every product.
        alone = plan.kind == "multi_core"
        product = Product(
            rows, columns, depth, 1 if alone else max(1, plan.in0_block_w), bytes_ab, usage.blocks,
            min(rows, plan.block_h) if plan.block_h else rows, min(columns, plan.block_w) if plan.block_w else columns,
            _feeds(plan, a.layout, b.layout), fid, fp32, (max(1, plan.subblock_h), max(1, plan.subblock_w)),
            _fused(job, plan),
        )  # fmt: skip
    banks = _bank_reads(job, plan) if plan is not None and plan.kind == "dram" else None
    first = Work("matmul", job.name, job.cores, job.reads, job.writes, product, banks=banks)
    rest = tuple(_after(job, name) for name in usage.after)
    return (first, *rest)


def _bank_reads(job: Job, plan: Plan) -> BankReads:
    a, b = job.query.inputs[:2]
    spec = a.layout.shard_spec
    assert spec is not None
    return BankReads(bank_bytes(b), plan.readers, plan.in0_block_w * TILE > spec.shape[1])


def _fused(job: Job, plan: Plan) -> str:
    """The activation that the kernel applies itself."""
    named = getattr(job.query.config, "fused_activation", None)
    return str(named or job.attrs.get("activation") or "") if plan.fused_activation else ""


def _after(job: Job, name: str) -> Work:
    """An element-wise program over the result; a bias is one row spread over it."""
    traits = frozenset(("broadcast",)) if name == "add" and job.writes[0].place is not Place.SHARD else frozenset[str]()
    return Work("eltwise", name, job.cores, job.writes, job.writes, traits=traits)


def _interleaved(layout: TensorLayout, each: bool) -> Feed:
    if layout.is_l1:
        return Feed.L1_EACH if each else Feed.L1_SHARED
    return Feed.DRAM_EACH if each else Feed.DRAM_SHARED


def _feeds(plan: Plan, a: TensorLayout, b: TensorLayout) -> tuple[Feed, Feed]:
    """How the kernels of a program config get their operands."""
    shards_a, shards_b = a.is_sharded and a.is_l1, b.is_sharded and b.is_l1
    if plan.kind in ("multi_core", "reuse"):
        local = plan.kind == "reuse"
        return (
            Feed.LOCAL if shards_a and local else _interleaved(a, True),
            Feed.LOCAL if shards_b and local else _interleaved(b, True),
        )
    if plan.kind == "dram":
        return (Feed.SHARED, Feed.DRAM_EACH)
    if plan.kind == "1d" and plan.mcast_in0:
        return (Feed.SHARED if shards_a else _interleaved(a, False), Feed.LOCAL if shards_b else _interleaved(b, True))
    if plan.kind == "1d":
        home = shards_a and a.memory_layout is HEIGHT
        return (Feed.LOCAL if home else _interleaved(a, True), _interleaved(b, False))
    return (Feed.SHARED if shards_a else _interleaved(a, False), _interleaved(b, False))


def sdpa(job: Job) -> tuple[Work, ...]:
    """Attention over a sequence: what the busiest core multiplies, and what all read.

    Without a causal mask the cores of a head pass keys and values on (tenstorrent/tt-metal #38025); with one every core
    reads its own, but where Blackhole's hand them on too.
    """
    if "cur_pos" in opdef(job.query.op).attrs:
        return _decode(job)
    case = Case(job.query, job.device, job.attrs, 0)
    chunks = attention_chunks(case)
    work = dealt(case, chunks)
    fid, fp32 = fidelity(job.attrs, "HiFi2")
    causal = bool(job.attrs.get("is_causal"))
    shared = not causal or shared_slots(case, chunks, causal, not fp32) > 0
    keys, values = (t.dtype.tile_bytes for t in job.query.inputs[1:3])
    mask = job.query.inputs[3] if len(job.query.inputs) > 3 else None
    masks = 0 if mask is None else chunks.q * chunks.k * mask.dtype.tile_bytes
    both = chunks.k * chunks.head * (keys + values)
    fetched = work.steps * work.active * (ceil_div(both, work.sharers if shared else 1) + masks)
    read = Piece(fetched, fetched // max(keys, values), of_tensor(job.query.inputs[1]).place)
    attention = Attention(chunks.q, chunks.k, chunks.head, work.steps, fid, fp32, both + masks, mask is not None)
    return (Work("sdpa", job.name, job.cores, (job.reads[0], read), job.writes, attention=attention),)


def _decode(job: Job) -> tuple[Work, ...]:
    q, k = job.query.inputs[0], job.query.inputs[1]
    rows, width = tiles(q.shape)
    keys = padded_shape(k.shape, TILED)[-2] // TILE
    if job.query.attr.get("is_causal"):  # stated: keys after the current position are left out
        keys = ceil_div(keys, 2)
    fid, fp32 = fidelity(job.attrs, "HiFi2")
    product = Product(
        ceil_div(rows, job.cores), width, keys, 1, (q.dtype.tile_bytes, k.dtype.tile_bytes), fidelity=fid, fp32=fp32
    )
    pieces = tuple(of_tensor(t) for t in job.query.inputs)
    return (Work("sdpa_decode", job.name, job.cores, pieces, job.writes, product),)
