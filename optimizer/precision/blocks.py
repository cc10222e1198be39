"""In what parts a product is summed up along K: what the kernels do of what a call states (ttnn 0.81.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

TILE = 32


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


def conv_blocks(channels: int, packer_adds: bool, bias: bool) -> Blocks:
    """Of a convolution over so many channels of a group: a block is one position of its kernel, as measured."""
    return Blocks(max(1, ceil(channels / TILE)), packer_adds, not bias)
