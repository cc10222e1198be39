"""Rows of reductions, sorting, running sums, softmax and norms."""

from __future__ import annotations

from optimizer.ir import compute_config as compute
from optimizer.ir import shape_rules as rule
from optimizer.ir.dtype import WIDE_FLOATS, WORDS, DType
from optimizer.ir.opdef import REQUIRED, ConfigFamily, CostClass, DTypeRule, Elements, OpDef, Page, short_name
from optimizer.ir.row_forms import by_name, norm, reduction, row, sharded

# fmt: off
_REDUCTIONS = (
    *reduction("mean", "std", "var", compute=compute.exact),
    *reduction("sum", compute=compute.exact, takes=WIDE_FLOATS | WORDS),
    *reduction("max", "min", compute=compute.exact, elements=Elements.SELECTED, takes=WIDE_FLOATS | WORDS),
    *reduction("prod"),
)
ROWS: dict[str, OpDef] = by_name(
    sharded("softmax", CostClass.SOFTMAX, rule.same, attrs={"dim": -1, "numeric_stable": True}, compute=compute.exact,
            takes=WIDE_FLOATS),
    norm("layer_norm", rule.norm, inputs=(1, 3), most_asked=4, config=ConfigFamily.NORM, sharding_follows_operand=True,
         rows_apart=True),
    norm("rms_norm", rule.norm, inputs=(1, 2), compute_rule=compute.rms_norm, config=ConfigFamily.NORM,
         sharding_follows_operand=True, rows_apart=True),
    norm("group_norm", rule.group_norm, inputs=(1, 3), attrs={"num_groups": REQUIRED}),
    row("batch_norm", CostClass.NORM, rule.same, inputs=(3, 5), attrs={"epsilon": 1e-5}, compute=compute.exact),
    *_REDUCTIONS,
    row("argmax", CostClass.REDUCE, rule.argmax, attrs={"dim": None, "keepdim": False}, dtype=DTypeRule.U32,
        operand_pages=(Page.ROW_MAJOR,), output_page=Page.ROW_MAJOR),
    row("topk", CostClass.REDUCE, rule.topk, num_outputs=2, attrs={"k": REQUIRED, "dim": -1, "largest": True},
        dtype=DTypeRule.FIRST_INDEX),
    row("sort", CostClass.REDUCE, rule.sort, num_outputs=2, attrs={"dim": -1, "descending": False},
        dtype=DTypeRule.FIRST_INDEX, takes=frozenset({DType.F32, DType.BF16, DType.U16})),
    row("cumsum", CostClass.REDUCE, rule.along, attrs={"dim": -1, "reverse_order": False}),
)
# fmt: on

REDUCTIONS = tuple(short_name(entry.name) for entry in _REDUCTIONS)
"""Reductions over attribute `dim`."""
