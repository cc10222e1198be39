"""The core grid and blocking that TTNN's group_norm chooses for an interleaved tensor.

Source: tt-metal 0.81 `groupnorm_grid_utils.cpp` (`compute_num_virtual_cols`, `find_expected_dram_grid`) and
`groupnorm_program_utils.cpp` (`groupnorm_heuristic_num_out_blocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.tiling import TILE, padded_shape

ELEMENTS_PER_BLOCK = 256 * 256
MOST_BLOCKS = 256


@dataclass(frozen=True, slots=True)
class GroupNormArguments:
    """How one group_norm call is spread: channels over `virtual_columns`, rows of tiles over the rest."""

    core_grid_yx: tuple[int, int]
    virtual_columns: int
    """Parts into which the channels are cut; `create_group_norm_input_mask` wants the same number."""
    num_out_blocks: int

    @property
    def virtual_rows(self) -> int:
        rows, columns = self.core_grid_yx
        return columns // self.virtual_columns * rows


def virtual_columns(columns: int, groups: int, channels: int) -> int:
    """Most parts, at most `columns`, that cut channels into whole tiles and whole groups; 0 when there are none."""
    for parts in range(min(columns, groups), 0, -1):
        if (channels // parts) % TILE == 0 and groups % parts == 0:
            return parts
    return 0


def grid_fits(rows: int, columns: int, groups: int, channels: int, tall: int, batches: int) -> bool:
    """Whether a core grid can hold `tall` rows of tiles (all batches) of `channels` channels."""
    parts = virtual_columns(columns, groups, channels)
    if parts == 0:
        return False
    down = columns // parts * rows
    return tall >= down and tall % down == 0 and (down < batches or down % batches == 0)


def num_out_blocks(image: int, cores: int) -> int:
    """Blocks into which TTNN cuts a core's rows: a power of two; `image` counts padded elements of one batch."""
    wanted = image // (ELEMENTS_PER_BLOCK * max(1, cores))
    blocks = 1
    while blocks < wanted and blocks < MOST_BLOCKS:
        blocks *= 2
    return blocks


def group_norm_arguments(shape: tuple[int, ...], groups: int, grid_yx: tuple[int, int]) -> GroupNormArguments | None:
    """What TTNN chooses for an interleaved tiled [N, 1, H*W, C] on a device of `grid_yx` cores when no core grid is
    named: the widest, then tallest grid that divides the rows of tiles. None: there is none, the call is refused.
    """
    padded = padded_shape(shape, PageLayout.TILE)
    batches, channels = padded[0], padded[-1]
    tall = prod(padded[:-1]) // TILE
    for columns in range(grid_yx[1], 0, -1):
        parts = virtual_columns(columns, groups, channels)
        if parts == 0 or columns % parts:
            continue
        for rows in range(min(tall // (columns // parts), grid_yx[0]), 0, -1):
            if grid_fits(rows, columns, groups, channels, tall, batches):
                blocks = num_out_blocks(prod(padded[1:]), columns // parts * parts * rows)
                return GroupNormArguments((rows, columns), parts, blocks)
    return None
