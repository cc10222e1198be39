"""Which rule judges which op."""

from __future__ import annotations

from functools import lru_cache

from optimizer.ir.vocabulary import BINARY, REDUCTIONS, UNARY, UNARY_PARAMS, opdef
from optimizer.opmodel.analytical.case import Family
from optimizer.opmodel.analytical.ops import (
    attention,
    binary,
    eltwise,
    generic,
    group_norm,
    indexing,
    largest,
    movement,
    norm,
    reduction,
    softmax,
)
from optimizer.opmodel.analytical.products import matmul
from optimizer.opmodel.analytical.windows import conv, pool, sampling
from optimizer.process.plugins import added_tables

_FAMILIES: dict[str, Family] = {
    **{f"ttnn.{n}": eltwise.unary for n in (*UNARY, *UNARY_PARAMS) if n != "rsub"},
    **{f"ttnn.{n}": binary.binary for n in BINARY},
    "ttnn.clamp": eltwise.clamp,
    "ttnn.rsub": binary.binary,
    "ttnn.atan2": binary.atan2,
    "ttnn.prelu": binary.prelu,
    **{f"ttnn.{n}": binary.ternary for n in ("where", "addcmul", "addcdiv", "lerp", "mac")},
    "ttnn.typecast": eltwise.typecast,
    "ttnn.clone": eltwise.clone,
    "ttnn.matmul": matmul.matmul,
    "ttnn.linear": matmul.matmul,
    "ttnn.conv2d": conv.conv2d,
    "ttnn.conv_transpose2d": conv.conv_transpose2d,
    "ttnn.max_pool2d": pool.pool2d,
    "ttnn.avg_pool2d": pool.pool2d,
    "ttnn.upsample": sampling.upsample,
    "ttnn.grid_sample": sampling.grid_sample,
    "ttnn.softmax": softmax.softmax,
    "ttnn.attention_softmax": softmax.attention_softmax,
    "ttnn.layer_norm": norm.layer_norm,
    "ttnn.rms_norm": norm.layer_norm,
    "ttnn.group_norm": group_norm.group_norm,
    "ttnn.batch_norm": norm.batch_norm,
    **{f"ttnn.{n}": reduction.reduce for n in REDUCTIONS if n != "prod"},
    "ttnn.argmax": largest.argmax,
    "ttnn.topk": largest.topk,
    "ttnn.cumsum": reduction.cumsum,
    **movement.FAMILIES,
    "ttnn.fill_implicit_tile_padding": eltwise.fill_padding,
    "ttnn.embedding": indexing.embedding,
    "ttnn.gather": indexing.gather,
    **{f"ttnn.{n}": indexing.scatter for n in ("scatter", "scatter_add")},
    **{f"ttnn.{n}": eltwise.triangle for n in ("tril", "triu")},
    "ttnn.from_device": generic.from_device,
    "ttnn.to_device": generic.to_device,
    "ttnn.scaled_dot_product_attention": attention.sdpa,
    "ttnn.scaled_dot_product_attention_decode": attention.sdpa_decode,
    "ttnn.split_query_key_value_and_split_heads": attention.split_heads,
    "ttnn.nlp_create_qkv_heads": attention.split_heads,
    "ttnn.concatenate_heads": attention.concatenate_heads,
    "ttnn.nlp_concat_heads": attention.concatenate_heads,
    "ttnn.rotary_embedding": attention.rotary_embedding,
}


@lru_cache(maxsize=4096)
def family(op: str) -> Family:
    """The rule of an op: its own, else interleaved only, else (unknown to the vocabulary) opaque."""
    own = _FAMILIES.get(op) or added_tables("FAMILIES", _FAMILIES).get(op)
    if own is not None:
        return own
    return generic.opaque if opdef(op).opaque else generic.interleaved_only
