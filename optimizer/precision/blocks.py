"""In what parts a product is summed up along K: what the kernels do of what a call states (ttnn 0.81.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

TILE = 32
_COLUMNS = 8
"""Cores that block shards split channels over."""


@dataclass(frozen=True)
class Blocks:
    """Parts along K, and how they come together."""

    tiles: int
    """Of a block, which are added up in a row in the destination registers; 0: all there are."""
    packer_adds: bool
    """Partial sums are added by the packer in L1; else they are reloaded, as if all were one block."""
    last_reloads: bool
    """Of these the last block is added to what is reloaded all the same: where no bias follows."""


def matmul_blocks(depth: int, block_tiles: int, packer_adds: bool, bias: bool) -> Blocks:
    """Of a matmul over `depth` elements; `block_tiles` is `in0_block_w`, 0 where TTNN chooses, which is taken as one
    block. The packer adds with more than two blocks, or more than one and a bias (`bmm_large_block_zm_fused_bias...`).
    """
    count = ceil(depth / TILE / block_tiles) if block_tiles else 1
    return Blocks(block_tiles, packer_adds and count > (1 if bias else 2), not bias)


def conv_blocks(kernel: tuple[int, int], channels: int, shards: str | None, packer_adds: bool, bias: bool) -> Blocks:
    """Of a convolution over so many channels of a group.

    Height shards take a row of the kernel at a time; block shards too, over the channels of one core; width shards all
    of the kernel. How many channels a core has is not known here: taken as an eighth of them, 32 at least (with that
    the errors are the simulator's).
    """
    high, wide = kernel
    core = channels if shards == "height_sharded" else min(channels, max(TILE, ceil(channels / _COLUMNS)))
    positions = high * wide if shards == "width_sharded" else wide
    return Blocks(ceil(positions * core / TILE), packer_adds, not bias)
