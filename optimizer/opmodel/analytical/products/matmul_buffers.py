"""Circular buffers of the matmul program factories, and the cores they use.

Source: tt-metal `matmul_multicore*_program_factory.cpp`; the sizes of every recorded program with one output
block per core are reproduced exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.ir.dtype import DType
from optimizer.layouts.tiling import ceil_div
from optimizer.opmodel.analytical.products.matmul_auto import Problem
from optimizer.opmodel.analytical.products.matmul_plan import Plan
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, WIDTH
from optimizer.opmodel.base import TensorSpec


@dataclass(frozen=True, slots=True)
class Buffers:
    """Bytes per core, tensor-backed buffers left out."""

    in0: int
    in1: int
    out: int
    partials: int = 0
    bias: int = 0
    sender: int = 0
    """in0 buffers of cores that only send their shard."""

    @property
    def total(self) -> int:
        return self.in0 + self.in1 + self.out + self.partials + self.bias + self.sender


def partial_dtype(steps: int, out: DType, fp32: bool, l1_acc: bool) -> DType:
    """Element type of partial results (`determine_packer_l1_acc`): two steps along K already accumulate."""
    if fp32:
        return DType.F32
    return DType.BF16 if l1_acc and steps > 1 else out


def buffers(
    plan: Plan,
    problem: Problem,
    a: TensorSpec,
    b: TensorSpec,
    out: TensorSpec,
    bias: TensorSpec | None,
    fp32: bool,
    l1_acc: bool,
) -> Buffers:
    ta, tb, tout = a.dtype.tile_bytes, b.dtype.tile_bytes, out.dtype.tile_bytes
    if plan.kind == "multi_core":
        return Buffers(2 * ta, 2 * tb, 2 * tout)
    k = plan.in0_block_w
    steps, batches = problem.kt // k, _batches(plan, problem, a)
    depth = 2 if steps * batches > 1 or plan.kind == "reuse" else 1
    in0 = depth * plan.block_h * k * ta
    # The 1D factories read one B for all batches once when it comes in one step.
    once = plan.kind == "1d" and problem.batch_b == 1 and steps == 1
    in1 = (1 if once else depth) * plan.block_w * k * tb
    sender = 0
    if a.layout.is_sharded and a.layout.memory_layout is HEIGHT:
        narrow = plan.block_h != plan.per_core_m and plan.block_w != plan.per_core_n
        # A shard that is not one block is copied to be read block by block.
        in0 = plan.per_core_m * problem.kt * ta if narrow or k != problem.kt else 0
    if a.layout.is_sharded and plan.kind == "reuse":
        in0 = 0
    if b.layout.is_sharded:
        in1 = 0
    if a.layout.is_sharded and a.layout.memory_layout in (BLOCK, WIDTH) and plan.kind != "reuse":
        spec = a.layout.shard_spec
        assert spec is not None
        if matmul_cores(plan, problem) < spec.num_cores:
            sender = in0
    sharded = out.layout.is_sharded
    tiles = plan.block_h * plan.block_w
    kind = partial_dtype(steps, out.dtype, fp32, l1_acc)
    apart = kind is not out.dtype or (sharded and (plan.per_core_m != plan.block_h or plan.per_core_n != plan.block_w))
    return Buffers(
        in0,
        in1,
        0 if sharded else tiles * tout,
        tiles * kind.tile_bytes if apart else 0,
        0 if bias is None or bias.layout.is_sharded else plan.block_w * bias.dtype.tile_bytes,
        sender,
    )


def _batches(plan: Plan, problem: Problem, a: TensorSpec) -> int:
    """Batches one core goes through one after the other."""
    if plan.kind == "reuse":
        return 1 if a.layout.is_sharded else problem.batch_a
    return 1 if plan.fuse_batch else problem.batch_a


def matmul_cores(plan: Plan, problem: Problem) -> int:
    """Cores that compute."""
    rows, columns = plan.grid_yx
    if plan.kind == "multi_core":
        return min(rows * columns, problem.m_total * problem.nt)
    m = problem.m_total if plan.fuse_batch or plan.kind == "reuse" else problem.mt
    blocks = ceil_div(m, plan.per_core_m) * ceil_div(problem.nt, plan.per_core_n)
    if plan.kind == "reuse":
        return max(1, min(rows * columns, blocks))
    return max(1, blocks)
