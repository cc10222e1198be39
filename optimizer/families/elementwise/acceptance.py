"""What tt-metal accepts of element-wise ops, and what they take."""

from __future__ import annotations

from optimizer.families.elementwise import binary, unary
from optimizer.families.elementwise.rows import BINARY, UNARY, UNARY_PARAMS
from optimizer.opmodel.analytical.case import Family

FAMILIES: dict[str, Family] = {
    **{f"ttnn.{name}": unary.unary for name in (*UNARY, *UNARY_PARAMS)},
    **{f"ttnn.{name}": binary.binary for name in BINARY},
    "ttnn.clamp": unary.clamp,
    "ttnn.rsub": binary.binary,
    "ttnn.atan2": binary.atan2,
    "ttnn.prelu": binary.prelu,
    **{f"ttnn.{name}": binary.ternary for name in ("where", "addcmul", "addcdiv", "lerp", "mac")},
    "ttnn.typecast": unary.typecast,
    **{f"ttnn.{name}": unary.triangle for name in ("tril", "triu")},
}
