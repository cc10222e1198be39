"""What rules are, and what several of them ask."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.opmodel.base import OpQuery, TensorSpec

Rule = Callable[[OpQuery], str | None]
"""What goes wrong when tt-metal runs an op so; None where nothing is known to."""
Rules = dict[str, Rule]


def channel_shards(x: TensorSpec) -> int:
    """Cores among which the channels of one row are shared."""
    spec = x.layout.shard_spec
    if spec is None or x.layout.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return 1
    return spec.num_cores if x.layout.memory_layout is TensorMemoryLayout.WIDTH_SHARDED else spec.grid_yx[1]
