"""What tt-metal accepts of matrix products, and what they take."""

from __future__ import annotations

from optimizer.opmodel.analytical.case import Family
from optimizer.opmodel.analytical.products import matmul

FAMILIES: dict[str, Family] = {
    "ttnn.matmul": matmul.matmul,
    "ttnn.linear": matmul.matmul,
}
