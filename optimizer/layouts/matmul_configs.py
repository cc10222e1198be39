"""Matmul program configs, for sharded results and for interleaved ones.

Formulas: tt-mlir `MatmulProgramConfig.cpp` (1D width: in0 multicast, every core all rows; 1D height: in1
multicast, every core all columns; 2D for block sharding), with the leading dims folded into M, which TTNN
does itself when `fuse_batch` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    OpConfig,
)
from optimizer.layouts.tiling import TILE, ceil_div

MAX_SUBBLOCK_TILES = 8
"""Output tiles that fit the destination registers in bf16 (half of them with fp32 accumulation)."""


def largest_divisor(n: int, limit: int) -> int:
    """The largest divisor of `n` that is at most `limit`."""
    return next(d for d in range(min(n, limit), 0, -1) if n % d == 0)


def in0_block_widths(k_tiles: int) -> tuple[int, ...]:
    """Widths of an in0 block to offer, in tiles: all divisors of K, widest first."""
    return tuple(d for d in range(k_tiles, 0, -1) if k_tiles % d == 0)


def matmul_program_configs(
    layout: TensorLayout,
    k_tiles: int,
    device_grid_yx: tuple[int, int],
    fp32_accumulation: Callable[[int], bool],
    fused_activation: str | None,
) -> tuple[OpConfig, ...]:
    """Program configs whose result has the given sharded layout; empty for interleaved layouts.

    A 1D config names the whole worker grid: its operand may be sharded over more cores than its result.
    `fp32_accumulation` says of a width of in0 blocks whether sums are 32 bits wide.
    """
    spec = layout.shard_spec
    if spec is None:
        return ()
    per_core_m, per_core_n = ceil_div(spec.shape[0], TILE), ceil_div(spec.shape[1], TILE)
    max_x = max(r[2] for r in spec.core_ranges) + 1
    max_y = max(r[3] for r in spec.core_ranges) + 1

    def fields(block_w: int) -> dict[str, Any]:
        limit = _subblock_limit(fp32_accumulation(block_w))
        subblock_w = largest_divisor(per_core_n, limit)
        subblock_h = largest_divisor(per_core_m, limit // subblock_w) if subblock_w == per_core_n else 1
        return {
            "in0_block_w": block_w,
            "out_subblock_h": subblock_h,
            "out_subblock_w": subblock_w,
            "per_core_M": per_core_m,
            "per_core_N": per_core_n,
            "fused_activation": fused_activation,
            "fuse_batch": True,
        }

    if layout.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and max_x > 1 and max_y > 1:
        return tuple(
            MatmulMultiCoreReuseMultiCastProgramConfig((max_y, max_x), transpose_mcast=False, **fields(w))
            for w in in0_block_widths(k_tiles)
        )
    mcast_in0 = spec.grid_yx[0] == 1 and layout.memory_layout is not TensorMemoryLayout.HEIGHT_SHARDED
    widths = in0_block_widths(k_tiles)
    if not mcast_in0 and k_tiles not in widths:
        widths = (k_tiles, *widths)
    return tuple(
        MatmulMultiCoreReuseMultiCast1DProgramConfig(device_grid_yx, mcast_in0=mcast_in0, **fields(w)) for w in widths
    )


def interleaved_matmul_configs(
    tiles: tuple[int, int, int],
    device_grid_yx: tuple[int, int],
    fp32_accumulation: Callable[[int], bool],
    fused_activation: str | None,
) -> tuple[OpConfig, ...]:
    """Program configs with an interleaved result over the whole grid, for M, K and N in tiles (batches within M).

    Both 1D forms and the 2D one, each with every width of in0 blocks and every cut of a core's output along its longer
    side: smaller blocks take less L1 and are written while the next one is computed, but operands come again for each.
    Given none, TTNN chooses by how much of L1 is free, and of operands in L1 often a kernel without reuse.
    """
    m, k, n = tiles
    rows, columns = device_grid_yx
    cores = rows * columns
    found: list[OpConfig] = []
    for w in in0_block_widths(k):
        limit = _subblock_limit(fp32_accumulation(w))
        for per_m, per_n, mcast_in0 in ((m, ceil_div(n, cores), True), (ceil_div(m, cores), n, False)):
            for block, cut in _cuts(per_m, per_n):
                h, v = _subblock(*block, limit)
                found.append(
                    MatmulMultiCoreReuseMultiCast1DProgramConfig(
                        device_grid_yx, w, h, v, per_m, per_n, mcast_in0, fused_activation, **cut
                    )
                )
        per_m, per_n = ceil_div(m, rows), ceil_div(n, columns)
        for block, cut in _cuts(per_m, per_n):
            h, v = _subblock(*block, limit)
            found.append(
                MatmulMultiCoreReuseMultiCastProgramConfig(
                    device_grid_yx, w, h, v, per_m, per_n, fused_activation=fused_activation, **cut
                )
            )
    return tuple(found)


def _cuts(rows: int, columns: int) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Blocks of a core's output, and the fields that say so: all of it, then its longer side in equal parts."""
    found: list[tuple[tuple[int, int], dict[str, Any]]] = [((rows, columns), {})]
    tall, longer = rows > columns, max(rows, columns)
    for size in (longer // parts for parts in range(2, longer + 1) if longer % parts == 0):
        found.append(((size, columns), {"out_block_h": size}) if tall else ((rows, size), {"out_block_w": size}))
    return found


def _subblock_limit(fp32_accumulation: bool) -> int:
    return MAX_SUBBLOCK_TILES // 2 if fp32_accumulation else MAX_SUBBLOCK_TILES


def _subblock(rows: int, columns: int, limit: int) -> tuple[int, int]:
    """The largest output subblock that divides a block and fits the destination registers; of equal ones the widest."""
    heights = (h for h in range(1, limit + 1) if rows % h == 0)
    pairs = ((h, largest_divisor(columns, limit // h)) for h in heights)
    return max(pairs, key=lambda pair: (pair[0] * pair[1], pair[1]))
