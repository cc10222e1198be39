"""Rows of attention, of its heads and of rotary embeddings."""

from __future__ import annotations

from optimizer.ir import compulsory
from optimizer.ir import compute_config as compute
from optimizer.ir import shape_rules as rule
from optimizer.ir.dtype import WIDE_FLOATS
from optimizer.ir.opdef import REQUIRED, ConfigFamily, CostClass, Elements, OpDef
from optimizer.ir.row_forms import by_name, movement, row, sharded

# fmt: off
ROWS: dict[str, OpDef] = by_name(
    row("scaled_dot_product_attention", CostClass.SDPA, rule.sdpa, inputs=(3, 4), config=ConfigFamily.SDPA,
        attrs={"is_causal": False, "scale": None}, compute=compute.sdpa, products=compulsory.attention),
    row("scaled_dot_product_attention_decode", CostClass.SDPA, rule.sdpa_decode, inputs=(3, 4),
        config=ConfigFamily.SDPA, attrs={"cur_pos": REQUIRED, "is_causal": True, "scale": None}, compute=compute.sdpa,
        products=compulsory.attention_decode, must_read=compulsory.cached),
    movement("split_query_key_value_and_split_heads", rule.split_qkv_heads, num_outputs=3, rows_apart=True,
             takes=WIDE_FLOATS, attrs={"num_heads": REQUIRED, "num_kv_heads": None, "transpose_key": False}),
    movement("nlp_create_qkv_heads", rule.nlp_create_qkv_heads, num_outputs=None, rows_apart=True,
             takes=WIDE_FLOATS, attrs={"num_heads": REQUIRED, "num_kv_heads": None, "transpose_key": False}),
    movement("concatenate_heads", rule.concatenate_heads, elements=Elements.KEPT, takes=WIDE_FLOATS),
    movement("nlp_concat_heads", rule.nlp_concat_heads, elements=Elements.KEPT, takes=WIDE_FLOATS),
    sharded("rotary_embedding", CostClass.ELTWISE, rule.rotary_embedding, inputs=3, compute=compute.exact,
            padding_follows=True, rows_apart=True),
)
# fmt: on
