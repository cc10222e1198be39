"""What tt-metal demands of a matmul program config, and the output shards it derives from one.

Source: tt-metal `matmul_device_operation.cpp`, `validate` and `compute_output_specs`.
"""

from __future__ import annotations

from optimizer.layouts.memory_config import BufferType, MemoryConfig, ShardOrientation, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.case import Case, need, refuse
from optimizer.opmodel.analytical.derive import block_spec, first_cores
from optimizer.opmodel.analytical.products.matmul_auto import Problem
from optimizer.opmodel.analytical.products.matmul_plan import Plan
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, INTERLEAVED, WIDTH
from optimizer.opmodel.base import TensorSpec


def check_plan(case: Case, plan: Plan, p: Problem, bias: TensorSpec | None) -> None:
    """Refuse what validation refuses."""
    out = p.memory_out
    for memory in (p.memory_a, out):
        on_chip = not memory.is_sharded or memory.buffer_type is BufferType.L1
        need(on_chip, "DFB borrows memory from a tensor that is not L1-resident (L1 is required)")
    if plan.kind == "multi_core":
        need(not out.is_sharded, "Unsupported op for output sharding")
        need(not p.memory_a.is_sharded and not p.memory_b.is_sharded, "Input A and B must be INTERLEAVED")
        _check_batches(case, p, plan)
        return
    _check_blocks(plan, p, case.device.grid_yx)
    if plan.kind != "reuse" and plan.fuse_batch:
        need(p.batch_b == 1, "Matmul with fused batch requires input tensors of shapes BCMK*11KN=BCMN")
    _check_batches(case, p, plan)
    if plan.kind == "1d":
        _check_1d(plan, p)
    elif plan.kind == "2d":
        _check_2d(plan, p)
    else:
        _check_reuse(plan, p, bias)
    if p.kt % plan.in0_block_w:
        refuse(f"Kt ({p.kt}) must be divisible by in0_block_w ({plan.in0_block_w})")
    if out.is_sharded:
        full = plan.subblock_w == plan.per_core_n or plan.subblock_h == 1
        need(full, "out_subblock_w must be equal to per_core_N or out_subblock_h must be equal to 1")
        if plan.kind != "reuse":
            whole = plan.block_w == plan.per_core_n or plan.block_h == 1
            need(whole, "out_block_w must be equal to per_core_N or out_block_h must be equal to 1")


def _check_blocks(plan: Plan, p: Problem, device: tuple[int, int]) -> None:
    rows, columns = plan.grid_yx
    need(min(rows, columns, plan.in0_block_w, plan.per_core_m, plan.per_core_n) > 0, "sizes must not be 0")
    need(min(plan.subblock_h, plan.subblock_w) > 0, "out_subblock is 0, which is not valid")
    need(rows <= device[0] and columns <= device[1], "compute grid must fit within the device grid")
    if plan.per_core_m % plan.block_h or plan.per_core_n % plan.block_w:
        refuse("per_core_M and per_core_N must be divisible by out_block_h and out_block_w")
    need(plan.block_h % plan.subblock_h == 0, "out_block_h must be divisible by out_subblock_h")
    need(plan.block_w % plan.subblock_w == 0, "out_block_w must be divisible by out_subblock_w")
    limit = 4 if p.fp32_dest else 8
    if plan.subblock_h * plan.subblock_w > limit:
        refuse(f"out_subblock needs to be at most {limit} to fit in hardware")


def _check_batches(case: Case, p: Problem, plan: Plan) -> None:
    """Batched operands must have equal batch dims, or the second none."""
    if p.batch_b == 1 and not (plan.kind == "reuse" and p.batch_a == 1):
        return
    a, b = case.inputs[0].shape, case.inputs[1].shape
    need(len(a) == len(b), "Input tensors must have the same rank")
    need(a[:-2] == b[:-2], "bmm (non-bcast matmul) expects input tensors of shapes BCMK*BCKN=BCMN")


def _within(grid: tuple[int, int], spec: ShardSpec | None) -> bool:
    if spec is None:
        return True
    return all(x1 < grid[1] and y1 < grid[0] for _, _, x1, y1 in spec.core_ranges)


def _is_line(out: MemoryConfig, axis: int) -> bool:
    """Block shards on a single row (axis 0) or column (axis 1) of cores."""
    return out.memory_layout is BLOCK and out.shard_spec is not None and out.shard_spec.bounding_box_yx[axis] == 1


def _same_place(p: Problem) -> None:
    if p.memory_out.is_sharded:
        need(p.memory_a.buffer_type is p.memory_out.buffer_type, "Buffer type mismatch")
        need(p.memory_a.memory_layout is p.memory_out.memory_layout, "Memory layout mismatch")


def _check_1d(plan: Plan, p: Problem) -> None:
    rows, columns = plan.grid_yx
    m = p.m_total if plan.fuse_batch else p.mt
    blocks_y, blocks_x = ceil_div(m, plan.per_core_m), ceil_div(p.nt, plan.per_core_n)
    total = blocks_y * blocks_x
    if total > rows * columns:
        refuse(f"Number of blocks exceeds number of cores: {total} blocks > {rows * columns} cores")
    if p.memory_out.is_sharded:
        need(_within(plan.grid_yx, p.memory_out.shard_spec), "output shard grid must lie within the compute grid")
    if not plan.mcast_in0 and plan.per_core_m > max(1, m):
        refuse(f"per_core_M ({plan.per_core_m}) exceeds Mt ({m})")
    spec, out = p.memory_a.shard_spec, p.memory_out
    if spec is not None and spec.num_cores > rows * columns:
        refuse(f"Target number of cores {spec.num_cores} is greater than total")
    if plan.mcast_in0:
        need(blocks_y == 1, "mcast_in0 requires M to fit within a single per_core_M block")
        if spec is not None:
            _check_1d_operand(plan, p, spec, WIDTH)
            need(m == plan.per_core_m, "M must be equal to per_core_M")
            need(spec.shape[1] // TILE % plan.in0_block_w == 0, "shard width must be divisible by in0_block_w")
        if out.is_sharded:
            need(out.memory_layout is WIDTH or _is_line(out, 0), "Output memory layout must be WIDTH_SHARDED")
            need(m == plan.per_core_m, "M must be equal to per_core_M")
        b = p.memory_b
        if b.is_sharded and b.buffer_type is BufferType.L1:
            need(b.memory_layout is WIDTH, "Operand B can only be interleaved or L1 width sharded")
            assert b.shard_spec is not None
            need(plan.per_core_n == b.shard_spec.shape[1] // TILE, "Shard width must match per core N")
        return
    if spec is not None:
        _check_1d_operand(plan, p, spec, HEIGHT)
        need(ceil_div(m, plan.per_core_m) <= spec.num_cores, "M must be divisible by per_core_M")
        need(p.kt == spec.shape[1] // TILE, "K must be equal to the shard width")
    if blocks_x != 1:
        refuse(f"mcast_in1 requires N ({p.nt}) to fit within a single per_core_N block ({plan.per_core_n})")
    if out.is_sharded:
        need(out.memory_layout is HEIGHT or _is_line(out, 1), "Output memory layout must be HEIGHT_SHARDED")
        need(p.nt == plan.per_core_n, "N must be equal to per_core_N")
    need(p.memory_b.memory_layout is INTERLEAVED, "Operand B must be interleaved")


def _check_1d_operand(plan: Plan, p: Problem, spec: ShardSpec, kind: object) -> None:
    need(plan.fuse_batch, "Batch fusion must be enabled")
    if p.memory_a.memory_layout is not kind:
        refuse(f"input_tensor_a must be {kind}")
    _same_place(p)
    need(spec.orientation is ShardOrientation.ROW_MAJOR, "Shard orientation must be ROW_MAJOR")
    need(plan.per_core_m == spec.shape[0] // TILE, "per_core_M must be equal to the shard height")


def _check_2d(plan: Plan, p: Problem) -> None:
    rows, columns = plan.grid_yx
    m = p.m_total if plan.fuse_batch else p.mt
    blocks_y, blocks_x = ceil_div(m, plan.per_core_m), ceil_div(p.nt, plan.per_core_n)
    if plan.transpose_mcast:
        blocks_y, blocks_x = blocks_x, blocks_y
    if blocks_x > columns:
        refuse(f"Num output blocks along x ({blocks_x}) must be <= number of columns ({columns})")
    if blocks_y > rows:
        refuse(f"Num output blocks along y ({blocks_y}) must be <= number of rows ({rows})")
    if plan.per_core_m > m:
        refuse(f"per_core_M ({plan.per_core_m}) exceeds Mt ({m})")
    out, spec = p.memory_out, p.memory_a.shard_spec
    if out.is_sharded:
        need(_within(plan.grid_yx, out.shard_spec), "output shard grid must lie within the compute grid")
        need(out.memory_layout is BLOCK, "Output memory layout must be BLOCK_SHARDED")
        need(plan.fuse_batch or p.batch_a == 1, "Block-sharded output is incompatible with batch > 1")
    if spec is not None:
        _check_2d_operand(plan, p, spec)
    if p.memory_b.is_sharded:
        _check_2d_weights(plan, p)


def _check_2d_operand(plan: Plan, p: Problem, spec: ShardSpec) -> None:
    need(plan.fuse_batch, "Batch fusion is required when input A is sharded")
    kind = p.memory_a.memory_layout
    need(kind in (BLOCK, HEIGHT), "Unsupported memory layout WIDTH_SHARDED")
    height, width = spec.shape[0] // TILE, spec.shape[1] // TILE
    if kind is BLOCK:
        want = ShardOrientation.COL_MAJOR if plan.transpose_mcast else ShardOrientation.ROW_MAJOR
        need(spec.orientation is want, f"Input tensor A must have {want.value} shard orientation")
        _same_place(p)
    else:
        need(not plan.transpose_mcast, "Transpose MCAST not supported with HEIGHT_SHARDED layout")
        need(p.kt == plan.in0_block_w, "K must equal in0_block_w")
        need(plan.in0_block_w == width, "in0_block_w must equal the shard width")
        need(spec.bounding_box_yx[1] == 1, "the shard grid must be one column")
    need(plan.per_core_m == height, f"per_core_M ({plan.per_core_m}) must equal the shard height ({height})")
    need(width % plan.in0_block_w == 0, "the shard width must be divisible by in0_block_w")


def _check_2d_weights(plan: Plan, p: Problem) -> None:
    b = p.memory_b
    spec = b.shard_spec
    assert spec is not None
    need(not plan.transpose_mcast, "Transpose MCAST not supported when input B is sharded")
    need(b.memory_layout is WIDTH, "Input B memory layout must be WIDTH_SHARDED")
    if b.buffer_type is not BufferType.DRAM:
        need(p.memory_a.memory_layout in (HEIGHT, INTERLEAVED), "width sharded input B requires other input A")
        need(plan.per_core_n == spec.shape[1] // TILE, "per_core_N must equal input tensor B shard width")
    need(spec.bounding_box_yx[0] == 1, "Width-sharded input tensor B grid must be one row")


def _check_reuse(plan: Plan, p: Problem, bias: TensorSpec | None) -> None:
    m, total = p.mt, p.m_total
    need(bias is None, "MatmulMultiCoreReuseProgramConfig: bias is not supported")
    if plan.per_core_m > m:
        need(plan.per_core_m % m == 0, f"per_core_M {plan.per_core_m} must be a multiple of M {m}")
        need(total % plan.per_core_m == 0, "input a total height must be divisible by per_core_M")
    else:
        need(m % plan.per_core_m == 0, f"per_core_M {plan.per_core_m} must divide M {m}")
    need(p.nt == plan.per_core_n, f"N {p.nt} is not equal to per_core_N {plan.per_core_n}")
    spec, other = p.memory_a.shard_spec, p.memory_b.shard_spec
    if spec is not None:
        need(p.memory_a.memory_layout is not WIDTH, "Input A must not be width sharded")
        need(p.kt == spec.shape[1] // TILE, "K needs to be equal to the shard width")
        need(spec.shape[1] == plan.in0_block_w * TILE, "shard width needs to equal in0_block_w")
        need(plan.per_core_m * TILE == spec.shape[0], "per_core_M needs to equal the shard height")
        _same_place(p)
    need(not (p.batch_a > 1 and p.batch_b == 1), "Batch broadcasting is not supported for the chosen program config")
    if p.batch_a > 1 and p.batch_b > 1:
        need(m % plan.subblock_h == 0, "out_subblock_h needs to divide M evenly")
    if other is not None:
        need(plan.per_core_m % m == 0, "per_core_M must be a multiple of M if input b is sharded!")
        need(p.memory_b.memory_layout is not WIDTH, "Input B must not be width sharded")
        need(other.shape[1] // TILE == p.nt, "Input B shard width must equal N")
        need(other.shape[0] % (p.kt * TILE) == 0, "Input B shard height must be divisible by K")
    if p.memory_out.is_sharded:
        need(p.memory_out.memory_layout is not WIDTH, "Output memory layout must not be WIDTH_SHARDED")
    _check_reuse_work(plan, p)


def _check_reuse_work(plan: Plan, p: Problem) -> None:
    """Blocks must divide over the cores of the sharded operand."""
    blocks = (p.m_total // plan.per_core_m) * (p.nt // plan.per_core_n)
    need(blocks > 0, "matmul reuse produced zero output blocks")
    for memory in (p.memory_a, p.memory_b):
        if memory.shard_spec is not None and memory.buffer_type is not BufferType.DRAM:
            cores = memory.shard_spec.num_cores
            need(blocks % cores == 0, f"num_output_blocks ({blocks}) must be divisible by the shard cores ({cores})")
            need(blocks >= cores, "some cores would have no work")
            return
    out = p.memory_out.shard_spec
    if out is not None and p.memory_out.buffer_type is not BufferType.DRAM:
        need(blocks >= out.num_cores, "some cores would have no work")


def derived_memory(plan: Plan, p: Problem) -> MemoryConfig:
    """The sharded output config tt-metal computes from the program config, whatever spec was requested."""
    out = p.memory_out
    shape = (plan.per_core_m * TILE, plan.per_core_n * TILE)
    if plan.kind == "2d":
        blocks_y, blocks_x = ceil_div(p.m_total, plan.per_core_m), ceil_div(p.nt, plan.per_core_n)
        if plan.transpose_mcast:
            spec = block_spec(blocks_x, blocks_y, shape, ShardOrientation.COL_MAJOR)
        else:
            spec = block_spec(blocks_y, blocks_x, shape)
        return MemoryConfig(out.memory_layout, out.buffer_type, spec)
    if plan.kind == "1d" and out.memory_layout is BLOCK and out.shard_spec is not None:
        spec = out.shard_spec
        kind = HEIGHT if spec.bounding_box_yx[1] == 1 else WIDTH
        grid = (spec.num_cores, 1) if kind is HEIGHT else (1, spec.num_cores)
        return MemoryConfig(kind, out.buffer_type, ShardSpec(grid, spec.shape, spec.core_ranges, spec.orientation))
    m = p.m_total if plan.fuse_batch or plan.kind == "reuse" else p.mt
    cores = ceil_div(m, plan.per_core_m) * ceil_div(p.nt, plan.per_core_n)
    orientation = ShardOrientation.ROW_MAJOR
    if plan.kind == "reuse":
        orientation = ShardOrientation.COL_MAJOR
        for memory in (p.memory_b, p.memory_a):
            if memory.shard_spec is not None:
                orientation = memory.shard_spec.orientation
    if plan.kind == "reuse" and out.shard_spec is not None:
        given = out.shard_spec
        spec = ShardSpec(given.grid_yx, shape, given.core_ranges, orientation)
        return MemoryConfig(out.memory_layout, out.buffer_type, spec)
    need(cores <= plan.grid_yx[0] * plan.grid_yx[1], "Target number of cores is greater than available")
    ranges = first_cores(cores, plan.grid_yx, orientation)
    if out.memory_layout is BLOCK:
        rows = max(r[3] for r in ranges) + 1
        columns = max(r[2] for r in ranges) + 1
        grid = (rows, columns) if orientation is ShardOrientation.ROW_MAJOR else (columns, rows)
    else:
        grid = (cores, 1) if out.memory_layout is HEIGHT else (1, cores)
    return MemoryConfig(out.memory_layout, out.buffer_type, ShardSpec(grid, shape, ranges, orientation))
