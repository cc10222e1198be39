"""Rows of convolutions, pools and sampling."""

from __future__ import annotations

from optimizer.ir import compulsory
from optimizer.ir import compute_config as compute
from optimizer.ir import shape_rules as rule
from optimizer.ir.dtype import WIDE_FLOATS
from optimizer.ir.opdef import REQUIRED, CostClass, Elements, OpDef, Page
from optimizer.ir.row_forms import by_name, convolution, pool, row, sharded

# fmt: off
ROWS: dict[str, OpDef] = by_name(
    convolution("conv2d", rule.conv2d, products=compulsory.conv2d),
    convolution("conv_transpose2d", rule.conv_transpose2d, products=compulsory.conv_transpose2d,
                output_padding=(0, 0)),
    pool("max_pool2d", {}, elements=Elements.SELECTED),
    pool("avg_pool2d", {"count_include_pad": True}, compute=compute.exact),
    row("global_avg_pool2d", CostClass.POOL, rule.global_avg_pool2d, takes=WIDE_FLOATS),
    sharded("upsample", CostClass.UPSAMPLE, rule.upsample, attrs={"scale_factor": REQUIRED, "mode": "nearest"},
            compute=compute.upsample, operand_pages=(Page.ROW_MAJOR,), output_page=Page.ROW_MAJOR),
    row("grid_sample", CostClass.SAMPLE, rule.grid_sample, inputs=2, attrs={"align_corners": False},
        compute=compute.exact, operand_pages=(Page.ROW_MAJOR, Page.ROW_MAJOR), output_page=Page.ROW_MAJOR,
        must_read=compulsory.selected),
)
# fmt: on
