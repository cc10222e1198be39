"""Rows of matrix products."""

from __future__ import annotations

from optimizer.ir.opdef import OpDef
from optimizer.ir.row_forms import by_name, matmul

# fmt: off
ROWS: dict[str, OpDef] = by_name(
    matmul("matmul", inputs=2),
    matmul("linear", inputs=(2, 3)),
)
# fmt: on
