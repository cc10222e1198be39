"""What tt-metal accepts of convolutions, pools and sampling, and what they take."""

from __future__ import annotations

from optimizer.families.windows import conv, pool, sampling
from optimizer.opmodel.analytical.case import Family

FAMILIES: dict[str, Family] = {
    "ttnn.conv2d": conv.conv2d,
    "ttnn.conv_transpose2d": conv.conv_transpose2d,
    "ttnn.max_pool2d": pool.pool2d,
    "ttnn.avg_pool2d": pool.pool2d,
    "ttnn.upsample": sampling.upsample,
    "ttnn.grid_sample": sampling.grid_sample,
}
