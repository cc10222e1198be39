"""The TTNN vocabulary: the row of every op.

Rows stand with the other aspects of their ops in `optimizer.families`; what a row may say is described in `ir.opdef`,
what rows of one form share in `ir.row_forms`. What may be sharded follows the acceptance tables measured on tt-metal
0.81.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from optimizer import families
from optimizer.errors import GraphError, StateError
from optimizer.ir.opdef import CostClass, OpDef, Page, Shape
from optimizer.process.plugins import OPS_GROUP, added_tables

# -- names of the ops that are inserted or rewritten -----------------------------------------------------------
COPY = "ttnn.to_memory_config"
"""Brings a tensor to another place."""
CONVERT = "ttnn.to_layout"
"""Brings a tensor into other pages."""
CAST = "ttnn.typecast"
"""Brings a tensor to another element type."""
FILL = "ttnn.fill_implicit_tile_padding"
"""Writes a number into the padding of tiles."""
FETCH, SEND = "ttnn.from_device", "ttnn.to_device"
"""Bring a tensor from DRAM to the host and back."""
RESHAPE, FULL, ZEROS = "ttnn.reshape", "ttnn.full", "ttnn.zeros"
"""What programs are given besides the ops of a graph."""
CONV2D, LINEAR = "ttnn.conv2d", "ttnn.linear"
"""What TTNN itself computes as a product, and that product."""


def _opaque_shapes(attrs: Mapping[str, Any], inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
    raise GraphError("an opaque op has no shape rule: its outputs must state their shapes")


_OPAQUE = OpDef(
    "opaque",
    CostClass.HOST,
    _opaque_shapes,
    min_inputs=0,
    max_inputs=1 << 16,
    num_outputs=None,
    operand_pages=(Page.ANY,),
    output_page=Page.TILE,
    opaque=True,
)

_TABLE: dict[str, OpDef] = families.table("ROWS")


def opdef(name: str) -> OpDef:
    """The row of an op; the opaque row for names the vocabulary lacks."""
    return _TABLE.get(name) or _added().get(name, _OPAQUE)


def op_names() -> tuple[str, ...]:
    """All vocabulary names, sorted."""
    return tuple(sorted({*_TABLE, *_added()}))


@cache
def _added() -> dict[str, OpDef]:
    """Rows of other distributions."""
    rows = added_tables("ROWS", _TABLE)
    wrong = next((name for name, entry in rows.items() if not isinstance(entry, OpDef) or entry.name != name), None)
    if wrong is not None:
        raise StateError(f"the row '{wrong}' of {OPS_GROUP} is no OpDef of that name")
    return rows
