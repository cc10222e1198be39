"""Calls of the attention family."""

from __future__ import annotations

from optimizer.errors import OpModelError
from optimizer.layouts.op_config import SDPAProgramConfig
from optimizer.opmodel.ttnn_calls.text import Site, call, core_coord_text, integers, literal


def _program_config(site: Site) -> str | None:
    config = site.query.config
    if config is None:
        return None
    if not isinstance(config, SDPAProgramConfig):
        raise OpModelError(f"{site.query.op} takes no {config.kind} config")
    return call(
        "ttnn.SDPAProgramConfig",
        compute_with_storage_grid_size=core_coord_text(config.compute_with_storage_grid_yx),
        q_chunk_size=literal(config.q_chunk_size),
        k_chunk_size=literal(config.k_chunk_size),
    )


def _scale(site: Site) -> str | None:
    scale = site.attr("scale")
    return None if scale is None else literal(float(scale))


def _sdpa(site: Site) -> str:
    return call(
        "ttnn.transformer.scaled_dot_product_attention",
        *(site.operand(k) for k in range(3)),
        attn_mask=site.optional(3) or "None",
        is_causal=literal(bool(site.attr("is_causal", False))),
        scale=_scale(site),
        memory_config=site.memory,
        program_config=_program_config(site),
        compute_kernel_config=site.compute,
    )


def _sdpa_decode(site: Site) -> str:
    positions = site.need("cur_pos")
    return call(
        "ttnn.transformer.scaled_dot_product_attention_decode",
        *(site.operand(k) for k in range(3)),
        attn_mask=site.optional(3),
        cur_pos=integers(positions if isinstance(positions, tuple) else (positions,)),
        is_causal=literal(bool(site.attr("is_causal", True))),
        scale=_scale(site),
        memory_config=site.memory,
        program_config=_program_config(site),
        compute_kernel_config=site.compute,
    )


def _split_heads(site: Site) -> str:
    kv = site.attr("num_kv_heads")
    return call(
        "ttnn.transformer.split_query_key_value_and_split_heads",
        site.operand(0),
        num_heads=literal(int(site.need("num_heads"))),
        num_kv_heads=None if kv is None else literal(int(kv)),
        transpose_key=literal(bool(site.attr("transpose_key", False))),
        memory_config=site.memory,
    )


def _concatenate_heads(site: Site) -> str:
    return call("ttnn.transformer.concatenate_heads", site.operand(0), memory_config=site.memory)


def _nlp_create_heads(site: Site) -> str:
    heads, kv = int(site.need("num_heads")), site.attr("num_kv_heads")
    made = call(
        "ttnn.experimental.nlp_create_qkv_heads",
        site.operand(0),
        num_heads=literal(heads),
        num_kv_heads=literal(heads if kv is None else int(kv)),
        transpose_k_heads=literal(bool(site.attr("transpose_key", False))),
        memory_config=site.memory,
    )
    return f"{made}[0]" if kv == 0 else made  # keys and values without heads have no elements


def _nlp_concat_heads(site: Site) -> str:
    return call("ttnn.experimental.nlp_concat_heads", site.operand(0), memory_config=site.memory)


def _rotary(site: Site) -> str:
    tables = [site.operand(k) for k in range(3)]
    name = "ttnn.experimental.rotary_embedding"
    return call(name, *tables, memory_config=site.memory, compute_kernel_config=site.compute)


def _attention_softmax(site: Site) -> str:
    return call(
        "ttnn.transformer.attention_softmax",
        site.operand(0),
        head_size=literal(int(site.need("head_size"))),
        attention_mask=site.optional(1) or "None",
        memory_config=site.memory,
    )


CALLS = {
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.scaled_dot_product_attention_decode": _sdpa_decode,
    "ttnn.split_query_key_value_and_split_heads": _split_heads,
    "ttnn.concatenate_heads": _concatenate_heads,
    "ttnn.nlp_create_qkv_heads": _nlp_create_heads,
    "ttnn.nlp_concat_heads": _nlp_concat_heads,
    "ttnn.rotary_embedding": _rotary,
    "ttnn.attention_softmax": _attention_softmax,
}
"""Query op -> writer of its call."""
