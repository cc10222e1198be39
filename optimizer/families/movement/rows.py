"""Rows of ops that move elements, look them up, make tensors, or put them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.ir import compulsory
from optimizer.ir import shape_rules as rule
from optimizer.ir import view_rules as view
from optimizer.ir.dtype import FLOATS, INTEGERS, DType
from optimizer.ir.opdef import REQUIRED, CostClass, DTypeRule, Elements, OpDef, Page
from optimizer.ir.row_forms import by_name, layout, made, movement, row

_KEPT, _MOVED = Elements.KEPT, Elements.MOVED
_SAME = view.whenever_alike
_NUMBERS = FLOATS | INTEGERS
_DIM = {"dim": "int"}


def _pad_page(attrs: Mapping[str, Any]) -> Page | None:
    """TTNN pads tiles at their end only; padding in front needs row-major data."""
    return Page.ROW_MAJOR if any(before for before, _ in attrs["padding"]) else None


# fmt: off
ROWS: dict[str, OpDef] = by_name(
    movement("reshape", rule.reshape, attrs={"shape": REQUIRED}, elements=_KEPT, view=view.reshape_is_view,
             view_of_shards=True, view_of_rows=True, returns_operand=_SAME, padding_follows=True),
    movement("permute", rule.permute, attrs={"dims": REQUIRED}, elements=_KEPT, view=view.permute_is_view,
             returns_operand=view.permute_keeps_order, rows_apart=True),
    movement("transpose", rule.transpose, attrs={"dim0": REQUIRED, "dim1": REQUIRED}, elements=_KEPT,
             returns_operand=view.transpose_keeps_order, rows_apart=True),
    movement("concat", rule.concat, inputs=(1, 1 << 16), attrs={"dim": REQUIRED}, kinds=_DIM, shardable=True,
             operands_sharded_alike=True, returns_operand=_SAME),
    movement("slice", rule.slice_, attrs={"begins": REQUIRED, "ends": REQUIRED, "steps": None}, returns_operand=_SAME,
             must_read=compulsory.selected),
    movement("split", rule.split, num_outputs=None, attrs={"sizes": REQUIRED, "dim": REQUIRED}, kinds=_DIM,
             returns_operand=_SAME, must_read=compulsory.selected),
    movement("pad", rule.pad, attrs={"padding": REQUIRED, "value": 0.0}, kinds={"padding": "pairs"},
             operand_pages=(Page.ANY,), output_page=Page.ANY, page_rule=_pad_page, view=view.pad_is_view,
             fills_padding=True, returns_operand=_SAME, takes=_NUMBERS),
    movement("repeat", rule.repeat, attrs={"repeats": REQUIRED}, kinds={"repeats": "ints"}, view=view.repeat_is_view,
             returns_operand=_SAME),
    movement("repeat_interleave", rule.repeat_interleave, attrs={"repeats": REQUIRED, "dim": REQUIRED},
             kinds={"repeats": "int", "dim": "int"}, returns_operand=_SAME, rows_apart=True, turns_rows=True),
    movement("fill_implicit_tile_padding", rule.same, attrs={"value": REQUIRED}, elements=_KEPT, view=view.stays,
             fills_padding=True),
    movement("gather", rule.gather, inputs=2, attrs={"dim": -1}, must_read=compulsory.selected, looks_up=(1, 0)),
    movement("scatter", rule.scatter, inputs=3, attrs={"dim": REQUIRED}, kinds=_DIM, operand_pages=(Page.ROW_MAJOR,),
             output_page=Page.ROW_MAJOR),
    movement("scatter_add", rule.scatter, inputs=3, attrs={"dim": REQUIRED}, kinds=_DIM,
             operand_pages=(Page.ROW_MAJOR,), output_page=Page.ROW_MAJOR, elements=Elements.COMPUTED),
    row("embedding", CostClass.EMBEDDING, rule.embedding, inputs=2, dtype=DTypeRule.SECOND, elements=_MOVED,
        operand_pages=(Page.ROW_MAJOR, Page.ROW_MAJOR), must_read=compulsory.looked_up, looks_up=(0, 1),
        takes=frozenset({DType.U32, DType.BF16})),
    made("full", rule.attr_shape, {"shape": REQUIRED, "value": 0.0}),
    made("zeros", rule.attr_shape, {"shape": REQUIRED, "value": 0.0}),
    made("ones", rule.attr_shape, {"shape": REQUIRED, "value": 0.0}),
    made("arange", rule.arange, {"start": 0, "end": REQUIRED, "step": 1}, output_page=Page.ROW_MAJOR),

    # -- what ttopt inserts
    layout("to_layout", CostClass.LAYOUT, attrs={"layout": REQUIRED}, output_page=Page.ATTR, returns_operand=_SAME),
    layout("to_memory_config", CostClass.LAYOUT, shardable=True, returns_operand=_SAME, padding_follows=True),
    layout("from_device", CostClass.HOST),
    layout("to_device", CostClass.HOST),
)
# fmt: on
