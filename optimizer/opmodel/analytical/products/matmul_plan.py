"""A complete program config of a matmul, given or chosen: what its rules, buffers and times are computed from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete program config: what the kernels will do. Sizes in tiles."""

    kind: str
    """`multi_core` (no reuse), `reuse`, `1d`, `2d` or `dram` (B in shards in the DRAM banks)."""
    grid_yx: tuple[int, int] = (1, 1)
    in0_block_w: int = 1
    subblock_h: int = 1
    subblock_w: int = 1
    block_h: int = 1
    block_w: int = 1
    per_core_m: int = 1
    per_core_n: int = 1
    mcast_in0: bool = False
    transpose_mcast: bool = False
    fuse_batch: bool = True
    fused_activation: bool = False
    readers: int = 1
    """Cores that read one DRAM bank (`dram`)."""
    banks: int = 0
    """Banks that hold columns of B (`dram`)."""
