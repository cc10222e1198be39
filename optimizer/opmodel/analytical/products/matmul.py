"""matmul and linear, with an explicit program config or tt-metal's automatic choice.

Sources: tt-metal `matmul_device_operation.cpp` (validation, output specs) and the program factories' buffer
sizes, checked against recorded programs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
    OpConfig,
)
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape
from optimizer.opmodel.analytical.case import Case, Usage, need, refuse
from optimizer.opmodel.analytical.device_run.session import Session
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.products.dram_sharded import dram_sharded
from optimizer.opmodel.analytical.products.matmul_auto import Problem, check_choice, choice_room, choose
from optimizer.opmodel.analytical.products.matmul_buffers import Buffers, buffers, matmul_cores
from optimizer.opmodel.analytical.products.matmul_plan import Plan
from optimizer.opmodel.analytical.products.matmul_rules import check_plan, derived_memory
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY, TILED
from optimizer.opmodel.base import TensorSpec


@lru_cache(maxsize=65536)
def _dims(shape: tuple[int, ...], transposed: bool) -> tuple[int, int, int]:
    """(batch, rows, columns) of an operand in tiles, after transposition."""
    padded = padded_shape(shape, TILED)
    rows, columns = padded[-2] // TILE, padded[-1] // TILE
    if transposed:
        rows, columns = columns, rows
    return (prod(padded[:-2]), rows, columns)


@lru_cache(maxsize=65536)
def _explicit(config: OpConfig) -> Plan:
    """A program config of the caller as a plan; its output block is all of a core's unless it says otherwise."""
    if isinstance(config, MatmulMultiCoreReuseMultiCast1DProgramConfig):
        kind, mcast, transpose, fuse = "1d", config.mcast_in0, False, config.fuse_batch
    elif isinstance(config, MatmulMultiCoreReuseMultiCastProgramConfig):
        kind, mcast, transpose, fuse = "2d", False, config.transpose_mcast, config.fuse_batch
    elif isinstance(config, MatmulMultiCoreReuseProgramConfig):
        kind, mcast, transpose, fuse = "reuse", False, False, True
    else:
        refuse(f"matmul does not take a {config.kind} config")
    return Plan(
        kind=kind,
        grid_yx=config.compute_with_storage_grid_yx,
        in0_block_w=config.in0_block_w,
        subblock_h=config.out_subblock_h,
        subblock_w=config.out_subblock_w,
        block_h=getattr(config, "out_block_h", None) or config.per_core_M,
        block_w=getattr(config, "out_block_w", None) or config.per_core_N,
        per_core_m=config.per_core_M,
        per_core_n=config.per_core_N,
        mcast_in0=mcast,
        transpose_mcast=transpose,
        fuse_batch=fuse,
        fused_activation=getattr(config, "fused_activation", None) is not None,
    )


def _compute(case: Case, out: DType) -> tuple[bool, bool]:
    """(fp32 accumulation in the destination, packer accumulation in L1); defaults as `create_matmul_attributes`."""
    full = out is DType.F32
    return (case.fp32(full), bool(case.compute.get("l1acc", True)) if case.compute else not full)


def _separate_bias(case: Case, a: TensorSpec, b: TensorSpec, memory: MemoryConfig) -> bool:
    """Whether the bias is added by an eltwise op afterwards (`get_post_process_bias`)."""
    if len(case.inputs) < 3:
        return False
    if _dims(b.shape, False)[0] > 1 or isinstance(case.query.config, MatmulMultiCoreReuseProgramConfig):
        return True
    if case.query.config is not None or case.attrs.get("core_grid"):
        return False
    if memory.buffer_type.value != "dram":
        return True
    if a.layout.is_sharded:
        return False
    plain = not b.layout.is_sharded and not memory.is_sharded
    return not (plain and a.layout.is_dram and b.layout.is_dram)


def _check_bias(case: Case, b: TensorSpec, bias: TensorSpec, nt: int, separate: bool) -> None:
    if separate:
        width = b.shape[-1]  # of a rank-1 bias the shape check looks at B before its transposition
        need(len(bias.shape) > 1 or bias.shape[-1] in (1, width), "Broadcast error: Invalid dimension")
        return
    batch, rows, columns = _dims(bias.shape, False)
    need(batch == 1, "Unsupported bias shape: batch size not equal to 1.")
    need(rows == 1, "Unsupported bias shape: padded second last dimension of bias not equal to tile height")
    need(columns == nt, "Unsupported bias shape: padded last dimension of bias differs from second input's")
    need(not b.layout.is_sharded or bias.layout.is_sharded, "bad optional access")


CONFIG_ACTIVATIONS = frozenset([*FUSED_ACTIVATIONS, "hardsigmoid", "hardtanh", "selu"])
ACTIVATIONS = CONFIG_ACTIVATIONS.union(
    ["exp", "sqrt", "rsqrt", "abs", "log", "log1p", "log2", "log10", "square", "sin", "cos", "sinh", "cosh", "mish"]
)
"""Activations by name, in a program config and as an argument (asked of tt-metal 0.81, mock device)."""


def matmul(case: Case) -> Usage:
    a, b = case.inputs[0], case.inputs[1]
    bias = case.operand(2)
    for tensor in case.inputs:
        need(tensor.layout.is_tile, "Inputs to matmul must be tilized")
        need(tensor.dtype.is_float, "Unsupported data format")
    shape = result_shapes(case)[0]
    memory = DRAM_MEMORY if case.output is None else case.output
    dtype = case.query.output_dtype or a.dtype
    activation = case.attrs.get("activation")
    config = case.query.config
    core_grid = case.attrs.get("core_grid")
    if not (activation is None or activation in ACTIVATIONS):
        refuse(f"Unknown unary op: {activation}")
    fused = getattr(config, "fused_activation", None)
    if not (fused is None or fused in CONFIG_ACTIVATIONS):
        refuse(f"Unsupported UnaryOpType for fused activation: {fused}")
    if activation and (a.layout.is_sharded or b.layout.is_sharded):
        refuse("Sharded matmul run with activation: this should be placed in the program config's fused_activation")
    need(not (core_grid and config is not None), "Cannot use both user core grid/coordinates and a program config")
    batch_a, mt, kt = _dims(a.shape, bool(case.attrs.get("transpose_a")))
    batch_b, kt_b, nt = _dims(b.shape, bool(case.attrs.get("transpose_b")))
    need(kt == kt_b, "K dimension in tiles must match")
    separate = _separate_bias(case, a, b, memory)
    fused_bias = bias if bias is not None and not separate else None
    if bias is not None:
        _check_bias(case, b, bias, nt, separate)
    fp32, l1_acc = _compute(case, dtype)
    resident = sum(case.l1(t) for t in case.inputs)
    problem = Problem(
        batch_a, batch_b, mt, kt, nt, a.dtype.tile_bytes, b.dtype.tile_bytes,
        0 if fused_bias is None else fused_bias.dtype.tile_bytes,
        4096 if fp32 else max(2048, dtype.tile_bytes),
        a.layout.memory, b.layout.memory, memory, fp32,
        case.device.l1_bank_bytes(case.l1_small_bytes) - resident,
        case.device.grid_yx,
        (core_grid[1], core_grid[0]) if core_grid else None,
        batch_b > 1,
        bool(activation) and bool(core_grid),
        bool(case.attrs.get("transpose_a")),
    )  # fmt: skip
    if isinstance(config, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig):
        return dram_sharded(case, config, problem, dtype, l1_acc)
    if config is None:
        plan = choose(problem)
        check_choice(plan)
    else:
        plan = _explicit(config)
    check_plan(case, plan, problem, fused_bias)
    produced = derived_memory(plan, problem) if memory.is_sharded else memory
    out = case.result(shape, dtype, produced)
    sizes = buffers(plan, problem, a, b, out, fused_bias, fp32, l1_acc)
    usage = _usage(case, plan, problem, out, sizes, bias if separate else None, bool(activation) and not core_grid)
    return replace(usage, choice_room=0 if config is not None else choice_room(problem, plan, sizes.total))


def _blocks(plan: Plan, problem: Problem, cores: int) -> tuple[tuple[int, int], int]:
    """(output tiles of one core's block, blocks of one core)."""
    if plan.kind == "multi_core":
        return ((1, 1), ceil_div(problem.m_total * problem.nt, cores))
    block = (plan.per_core_m, plan.per_core_n)
    if plan.kind == "reuse":
        count = ceil_div(problem.m_total, plan.per_core_m) * ceil_div(problem.nt, plan.per_core_n)
        return (block, ceil_div(count, cores))
    return (block, 1 if plan.fuse_batch else max(1, problem.m_total // problem.mt))


def _usage(
    case: Case, plan: Plan, problem: Problem, out: TensorSpec, sizes: Buffers, bias: TensorSpec | None, unary: bool
) -> Usage:
    """Adds the eltwise programs that follow when bias or activation is not fused."""
    size = case.l1(out)
    cores = matmul_cores(plan, problem)
    block, blocks = _blocks(plan, problem, cores)
    turned = 0
    if plan.kind == "multi_core" and case.attrs.get("transpose_b"):
        # B is transposed by an op of its own; a bias is compared with its columns as they were.
        turned = case.l1(case.inputs[1])
        fits = bias is None or bias.shape[-1] in (1, case.inputs[1].shape[-1])
        need(fits, "Broadcast error: Invalid dimension")
    if bias is None and not unary and not turned:
        room = sizes.total - sizes.sender + size
        return Usage((out,), cb=sizes.total, cores=cores, block=block, blocks=blocks, room=room, plan=plan)
    tile = out.dtype.tile_bytes
    after: list[str] = []
    session = Session(case, endless=True)
    if turned:
        session.hold(turned)
        session.run(dfb=4 * case.inputs[1].dtype.tile_bytes)
    session.hold(size)
    session.run(dfb=sizes.total, per_core=sizes.total - sizes.sender)
    if bias is not None:
        after.append("add")
        sum_of = session.hold(size)
        broadcast = out.shape[-2:] != (1, *bias.shape)[-2:]
        session.run(cb=4 * tile + (4 if broadcast else 2) * bias.dtype.tile_bytes)
        session.end(sum_of)
    if unary:
        after.append(str(case.attrs.get("activation") or ""))
        session.hold(size)
        session.run(dfb=0 if out.layout.is_sharded and out.layout.is_l1 else 4 * tile)
    usage = session.summed((out,), cores)
    return replace(usage, block=block, blocks=blocks, plan=plan, after=tuple(after), allocations=None)
