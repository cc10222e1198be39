"""The program config tt-metal chooses for a matmul when the caller gives none.

Source: tt-metal `ttnn/operations/matmul/device/config/matmul_program_config.cpp` (as of the 0.81 wheel, the
CB sizes of whose programs this reproduces). The choice depends on the estimated circular-buffer size and so on
how much L1 the operands leave free.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd

from optimizer.layouts.memory_config import MemoryConfig, ShardOrientation, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.case import Refused, need, refuse
from optimizer.opmodel.analytical.products.matmul_plan import Plan
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, INTERLEAVED, WIDTH

SUBBLOCKS = (
    *((4, 2), (2, 4), (8, 1), (1, 8), (7, 1), (1, 7), (3, 2), (2, 3), (6, 1), (1, 6), (5, 1), (1, 5)),
    *((2, 2), (4, 1), (1, 4), (3, 1), (1, 3), (2, 1), (1, 2), (1, 1)),
)
"""Output subblocks in tt-metal's order of preference (`SUBBLOCK_HW_CHOICES`)."""
NARROW_RATIO = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """The numbers the choice depends on; shapes after transposition, in tiles."""

    batch_a: int
    batch_b: int
    mt: int
    kt: int
    nt: int
    tile_a: int
    tile_b: int
    tile_bias: int
    """0 unless a bias is fused."""
    tile_interm: int
    """Estimated bytes of an intermediate tile."""
    memory_a: MemoryConfig
    memory_b: MemoryConfig
    memory_out: MemoryConfig
    fp32_dest: bool
    room: int
    """Free L1 bytes per core."""
    device_grid_yx: tuple[int, int]
    user_grid_yx: tuple[int, int] | None
    batched: bool
    """`user_run_batched`: the second operand is batched and the call is `matmul`."""
    fused_activation: bool = False
    transpose_a: bool = False
    passed: list[int] = field(default_factory=list, compare=False, repr=False)
    """Estimates that were found to fit: while there is room for them tt-metal goes the same way."""

    @property
    def m_total(self) -> int:
        return self.batch_a * self.mt

    def cb_estimate(self, m: int, n: int, k: int) -> int:
        """`get_estimated_size_of_cbs`."""
        size = 2 * k * (m * self.tile_a + n * self.tile_b)
        size += m * n * (self.tile_a + self.tile_interm) + n * self.tile_bias
        spec = self.memory_a.shard_spec
        in2 = 0 if spec is None else m * (spec.shape[1] // TILE) * self.tile_a
        if self.transpose_a:
            size += in2 if spec is not None else 2 * k * m * self.tile_a
        return size + in2

    def fits(self, m: int, n: int, k: int) -> bool:
        """Whether tt-metal takes such blocks to fit."""
        estimate = self.cb_estimate(m, n, k)
        if estimate >= self.room:
            return False
        self.passed.append(estimate)
        return True


def fit_blocks(problem: Problem, m: int, n: int, k: int, adjust_k: bool) -> tuple[int, int, int]:
    """`get_multi_dim_per_core_factor`: the largest output block (and K block) whose buffers fit."""
    blocks = _largest_blocks(problem, m, n, k, adjust_k)
    problem.fits(*blocks)
    return blocks


@lru_cache(maxsize=65536)
def _largest_blocks(problem: Problem, m: int, n: int, k: int, adjust_k: bool) -> tuple[int, int, int]:
    if problem.cb_estimate(m, n, k) < problem.room:
        return (m, n, k)
    best: dict[int, tuple[int, int]] = {}
    for bm in _divisors(m):
        for bn in _divisors(n):
            known = best.get(bm * bn)
            if known is None or not max(known) / min(known) < max(bm, bn) / min(bm, bn):
                best[bm * bn] = (bm, bn)
    depths = [d for d in range(k, 0, -1) if k % d == 0] if adjust_k else [k]
    for product in sorted(best, reverse=True):
        bm, bn = best[product]
        for depth in depths:
            if problem.cb_estimate(bm, bn, depth) < problem.room:
                return (bm, bn, depth)
    return (1, 1, 1)


def _divisors(n: int) -> list[int]:
    """tt-metal's order of factors: n, 1, then the proper divisors downwards."""
    return [n, 1, *(d for d in range(n // 2, 1, -1) if n % d == 0)]


def subblock(h: int, w: int, fp32: bool, full_width: bool = False) -> tuple[int, int]:
    """`get_matmul_subblock_params`: (h, w), with full_width meaning w must equal the block and h be 1."""
    for sh, sw in SUBBLOCKS:
        if fp32 and sh * sw > 4:
            continue
        if full_width and (sw != w or sh != 1):
            continue
        if h % sh == 0 and w % sw == 0:
            return (sh, sw)
    return (1, 1)


def _subblock_sizes(h: int, w: int, fp32: bool) -> tuple[int, int]:
    """`get_subblock_sizes`: the same choices read as (w, h)."""
    sw, sh = subblock(w, h, fp32)
    return (sh, sw)


def choose(p: Problem) -> Plan:
    """The automatic program config; refuses what tt-metal refuses while choosing."""
    if p.memory_a.shard_spec is not None:
        return _sharded(p)
    if p.user_grid_yx is not None:
        return _with_core_grid(p)
    return _simple(p)


@lru_cache(maxsize=65536)
def choice_room(problem: Problem, plan: Plan, taken: int) -> int:
    """Least room in which tt-metal still chooses `plan`, if that is more than the `taken` bytes of its buffers; else 0.

    From the room of the problem downwards, the next one in which an estimate that fitted does so no more.
    """
    narrower = problem
    choose(narrower)
    while narrower.passed and (room := max(narrower.passed)) >= taken:
        narrower = replace(problem, room=room, passed=[])
        try:
            same = choose(narrower) == plan
        except Refused:
            same = False
        if not same:
            return room + 1
    return 0


def _grid(p: Problem) -> tuple[int, int]:
    """The caller's core grid when it fits on the device."""
    user = p.user_grid_yx
    if user is not None and user[0] <= p.device_grid_yx[0] and user[1] <= p.device_grid_yx[1]:
        return user
    return p.device_grid_yx


def _systolic(p: Problem, grid: tuple[int, int]) -> Plan:
    """`create_matmul_1d_systolic_array_program_config`."""
    need(p.batch_b == 1, "Second input cannot be currently batched when running matmul using 1d systolic array")
    cores = grid[0] * grid[1]
    m, n = p.m_total, p.nt
    tall = m > n
    if p.memory_a.memory_layout is HEIGHT:
        tall = True
    elif p.memory_a.memory_layout is WIDTH:
        tall = False
    core_m, core_n = (ceil_div(m, cores), n) if tall else (m, ceil_div(n, cores))
    k = ceil_div(p.kt, cores)
    while p.kt % k:
        k -= 1
    bh, bw, _ = fit_blocks(p, core_m, core_n, k, False)
    sh, sw = _subblock_sizes(bh, bw, p.fp32_dest)
    return Plan("1d", grid, k, sh, sw, bh, bw, core_m, core_n, not tall, fused_activation=p.fused_activation)


def _mcast_1d(p: Problem, grid: tuple[int, int], fuse: bool, mcast_in0: bool, shard: ShardSpec | None = None) -> Plan:
    """`get_mcast_1d_config`."""
    m = p.m_total if fuse else p.mt
    if shard is not None:
        core_m, core_n = shard.shape[0] // TILE, shard.shape[1] // TILE
        grid = shard.bounding_box_yx
    elif mcast_in0:
        core_m, core_n = m, ceil_div(ceil_div(p.nt * TILE, grid[0] * grid[1]), TILE)
    else:
        core_m, core_n = ceil_div(ceil_div(m * TILE, grid[0] * grid[1]), TILE), p.nt
    k = 2 if p.kt % 2 == 0 else 1
    bh, bw, _ = fit_blocks(p, core_m, core_n, k, False)
    sh, sw = subblock(bh, bw, p.fp32_dest)
    return Plan("1d", grid, k, sh, sw, bh, bw, core_m, core_n, mcast_in0, fuse_batch=fuse)


def _with_core_grid(p: Problem) -> Plan:
    """`create_matmul_program_config`."""
    grid = _grid(p)
    a = p.memory_a
    if p.batch_b > 1:
        return _batched(p, grid)
    narrow = max(p.m_total, p.nt) // min(p.m_total, p.nt) > NARROW_RATIO
    small = p.kt == 1 or p.mt == 1 or p.nt == 1
    if a.memory_layout is not BLOCK and (narrow or small or a.is_sharded):
        return _systolic(p, grid)
    if not a.is_sharded:
        m, n, k = ceil_div(p.m_total, grid[0]), ceil_div(p.nt, grid[1]), 4
        while p.kt % k:
            k -= 1
    else:
        assert a.shard_spec is not None
        height, width = a.shard_spec.shape
        m, n, k = height // TILE, p.nt * width // (p.kt * TILE), gcd(width // TILE, p.kt)
    n = max(n, 1)
    bh, bw, _ = fit_blocks(p, m, n, k, False)
    sh, sw = _subblock_sizes(bh, bw, p.fp32_dest)
    transpose = a.shard_spec is not None and a.shard_spec.orientation is ShardOrientation.COL_MAJOR
    if sw != n:
        sh = 1
    return Plan("2d", grid, k, sh, sw, bh, bw, m, n, transpose_mcast=transpose, fused_activation=p.fused_activation)


def _batched(p: Problem, grid: tuple[int, int]) -> Plan:
    """The batched second operand of `create_matmul_program_config`."""
    a, b = p.memory_a, p.memory_b
    need(not p.fused_activation, "Cannot use activation with batched input b")
    if not a.is_sharded and not b.is_sharded:
        m, n, k = p.mt, p.nt, 1
        if not p.fits(m, n, k):
            return _simple(p)
    elif a.shard_spec is not None:
        need(a.memory_layout is not WIDTH, "MatmulMultiCoreReuseProgramConfig: Input A cannot be width sharded")
        m, n, k = a.shard_spec.shape[0] // TILE, p.nt, a.shard_spec.shape[1] // TILE
    else:
        need(b.memory_layout is not WIDTH, "MatmulMultiCoreReuseProgramConfig: Input B cannot be width sharded")
        assert b.shard_spec is not None
        m, n, k = p.mt, b.shard_spec.shape[1] // TILE, 1
    sh, sw = _subblock_sizes(m, n, p.fp32_dest)
    return Plan("reuse", grid, k, sh, sw, m, n, m, n)


def _sharded(p: Problem) -> Plan:
    """`get_matmul_program_config`: operand A is sharded and no core grid is given."""
    a, out = p.memory_a, p.memory_out
    spec = a.shard_spec
    assert spec is not None
    grid = spec.bounding_box_yx
    if p.batched:
        return _sharded_bmm(p, spec, grid)
    need(p.memory_b.memory_layout is INTERLEAVED, "Input tensor B must have INTERLEAVED memory layout")
    flat = a.memory_layout in (HEIGHT, WIDTH)
    block = a.memory_layout is BLOCK and grid[0] > 1 and grid[1] > 1
    if not flat and not block:
        return _with_core_grid(p)
    if flat and grid != (1, 1):
        need(spec.orientation is ShardOrientation.ROW_MAJOR, "Input tensor A must have ROW_MAJOR shard orientation")
    if out.is_sharded:
        need(a.buffer_type is out.buffer_type, "Input A and output buffer types must match")
        need(a.memory_layout is out.memory_layout, "Input A and output memory layouts must match")
    full = out.is_sharded
    height, width = spec.shape[0] // TILE, spec.shape[1] // TILE
    if a.memory_layout is WIDTH:
        m, n, k = p.m_total, ceil_div(p.nt, spec.num_cores), gcd(width, p.kt)
    elif a.memory_layout is HEIGHT:
        m, n, k = height, p.nt, p.kt
    else:
        return _sharded_block(p, spec, grid, full)
    bh, bw, _ = fit_blocks(p, m, n, k, False)
    if full and bw != n:  # a sharded output allows no narrow block of several rows
        bh = 1
    sh, sw = subblock(bh, bw, p.fp32_dest, full)
    return Plan("1d", grid, k, sh, sw, bh, bw, m, n, a.memory_layout is WIDTH)


def _sharded_block(p: Problem, spec: ShardSpec, grid: tuple[int, int], full: bool) -> Plan:
    transpose = spec.orientation is ShardOrientation.COL_MAJOR
    vy, vx = (grid[1], grid[0]) if transpose else grid
    height, width = spec.shape[0] // TILE, spec.shape[1] // TILE
    need(vy in (p.m_total // height, ceil_div(p.m_total, height)), f"Num cores along y ({vy}) must match grid size")
    exact_x = vx == p.kt // width
    need(exact_x or vx == ceil_div(p.kt, width), f"Num cores along x ({vx}) must match provided grid size")
    m, n = ceil_div(p.m_total, vy), ceil_div(p.nt, vx)
    k = gcd(width, p.kt) if exact_x else 1
    bh, bw, _ = fit_blocks(p, m, n, k, False)
    sh, sw = subblock(bh, bw, p.fp32_dest, full)
    return Plan("2d", grid, k, sh, sw, bh, bw, m, n, transpose_mcast=transpose)


def _sharded_bmm(p: Problem, spec: ShardSpec, grid: tuple[int, int]) -> Plan:
    a, b, out = p.memory_a, p.memory_b, p.memory_out
    need(a.memory_layout is not WIDTH, "Input A memory layout must not be WIDTH_SHARDED")
    if out.is_sharded:
        need(a.buffer_type is out.buffer_type, "Input A and output buffer types must match")
        need(a.memory_layout is out.memory_layout, "Input A and output memory layouts must match")
    m, n, k = spec.shape[0] // TILE, p.nt, spec.shape[1] // TILE
    sh, sw = subblock(m, n, p.fp32_dest, out.is_sharded)
    need(not (p.batch_a > 1 and p.batch_b == 1), "Batch broadcasting is not supported for the chosen program config")
    if b.shard_spec is not None:
        need(a.memory_layout is b.memory_layout, "Input A and B memory layouts must match")
        need(a.buffer_type is b.buffer_type, "Input A and B buffer types must match")
        need(spec.core_ranges == b.shard_spec.core_ranges, "Input A and B shard grids must match")
        need(spec.orientation is b.shard_spec.orientation, "Orientation mismatch")
    return Plan("reuse", grid, k, sh, sw, m, n, m, n)


def _simple(p: Problem) -> Plan:
    """`create_simple_matmul_program_config`: interleaved operands, any output."""
    rows, columns = grid = p.device_grid_yx
    out = p.memory_out
    interleaved = INTERLEAVED in (p.memory_a.memory_layout,) and not p.memory_b.is_sharded and not out.is_sharded
    all_dram = all(m.buffer_type.value == "dram" for m in (p.memory_a, p.memory_b, out))
    dram_interleaved = interleaved and all_dram
    narrow = max(p.mt, p.nt) // min(p.mt, p.nt) > NARROW_RATIO or (all_dram and (p.mt == 1 or p.nt == 1))
    wide = interleaved and narrow and p.nt > p.mt
    tall = interleaved and narrow and not wide
    core = next((factor for factor in (16, 8, 4, 2) if p.fits(factor, factor, 2)), 1)
    blocks_y, blocks_x = (p.mt - 1) // core + 1, (p.nt - 1) // core + 1
    k = 2
    if (out.is_sharded or blocks_y > 1 or blocks_x > 1) and p.kt % k:
        k = 1
    if not (dram_interleaved or (blocks_x * blocks_y <= rows * columns and p.kt % k == 0)):
        return Plan("multi_core", grid)
    core_y = core_x = 0
    if not (blocks_y == 1 and blocks_x == 1) and blocks_y <= rows and blocks_x <= columns:
        core_y, core_x = blocks_y, blocks_x
    rest = core_y == 0 and out.is_sharded
    line = _line_of_blocks(out)
    need(line is None or p.batch_b == 1, "BLOCK_SHARDED output on a 1D grid is not supported with batched operands")
    fuse = line is not None
    if wide or (core_y == 1 and not dram_interleaved) or (rest and (out.memory_layout is WIDTH or line == "row")):
        return _mcast_1d(p, grid, fuse, True, out.shard_spec if line == "row" else None)
    if tall or (core_x == 1 and not dram_interleaved) or (rest and (out.memory_layout is HEIGHT or line == "column")):
        return _mcast_1d(p, grid, fuse, False, out.shard_spec if line == "column" else None)
    if core_y > 0 or dram_interleaved or (rest and out.memory_layout is BLOCK):
        return _simple_2d(p, core, k, dram_interleaved)
    return Plan("multi_core", grid)


def _line_of_blocks(out: MemoryConfig) -> str | None:
    """`row` or `column` when block shards lie on one row or column of several cores."""
    if out.memory_layout is not BLOCK or out.shard_spec is None:
        return None
    rows, columns = out.shard_spec.bounding_box_yx
    if (rows == 1) == (columns == 1):
        return None
    return "row" if rows == 1 else "column"


def _simple_2d(p: Problem, core: int, k: int, dram_interleaved: bool) -> Plan:
    rows, columns = grid = p.device_grid_yx
    m, n = min(core, p.m_total if p.batch_b == 1 else p.mt), min(core, p.nt)
    bh, bw = m, n
    sh, sw = subblock(m, n, p.fp32_dest)
    if sw != n:
        sh = 1
    if dram_interleaved:
        k = p.kt // columns if p.kt % columns == 0 else 1
        m, n = ceil_div(p.mt, rows), ceil_div(p.nt, columns)
        bh, bw, k = fit_blocks(p, m, n, k, True)
        sh, sw = subblock(bh, bw, p.fp32_dest)
    return Plan("2d", grid, k, sh, sw, bh, bw, m, n, fuse_batch=p.memory_out.is_sharded and p.batch_b == 1)


def check_choice(plan: Plan) -> None:
    """The sanity checks tt-metal makes of its own choice (`get_program_config`)."""
    if plan.kind == "multi_core":
        return
    for name, value in (("in0_block_w", plan.in0_block_w), ("per_core_N", plan.per_core_n)):
        if value <= 0:
            refuse(f"{name} must be greater than 0!")
    need(plan.per_core_m % plan.subblock_h == 0, "per_core_M must be divisible by out_subblock_h!")
    need(plan.per_core_n % plan.subblock_w == 0, "per_core_N must be divisible by out_subblock_w!")
