"""Calls of attention, of its heads and of rotary embeddings."""

from __future__ import annotations

from optimizer.layouts.op_config import SDPAProgramConfig
from optimizer.opmodel.ttnn_calls.text import Site, Writer, integers, literal, program_config_text


def _attended(site: Site, mask: str | None, positions: str | None) -> str:
    """Attention; a sequence is causal where that is said, a decode step unless it is said that it is not."""
    scale = site.attr("scale")
    return site.call(
        site.operand(1),
        site.operand(2),
        function=f"ttnn.transformer.{site.query.op.removeprefix('ttnn.')}",
        attn_mask=mask,
        cur_pos=positions,
        is_causal=site.flag("is_causal"),
        scale=None if scale is None else literal(float(scale)),
        memory_config=site.memory,
        program_config=program_config_text(site, SDPAProgramConfig),
        compute_kernel_config=site.compute,
    )


def _sdpa_decode(site: Site) -> str:
    positions = site.need("cur_pos")
    listed = integers(positions if isinstance(positions, tuple) else (positions,))
    return _attended(site, site.optional(3), listed)


def _split_heads(site: Site) -> str:
    kv = site.attr("num_kv_heads")
    return site.call(
        function="ttnn.transformer.split_query_key_value_and_split_heads",
        num_heads=site.integer("num_heads"),
        num_kv_heads=None if kv is None else literal(int(kv)),
        transpose_key=site.flag("transpose_key"),
        memory_config=site.memory,
    )


def _nlp_create_heads(site: Site) -> str:
    heads, kv = int(site.need("num_heads")), site.attr("num_kv_heads")
    made = site.call(
        function="ttnn.experimental.nlp_create_qkv_heads",
        num_heads=literal(heads),
        num_kv_heads=literal(heads if kv is None else int(kv)),
        transpose_k_heads=site.flag("transpose_key"),
        memory_config=site.memory,
    )
    return f"{made}[0]" if kv == 0 else made  # keys and values without heads have no elements


CALLS: dict[str, Writer] = {
    "ttnn.scaled_dot_product_attention": lambda site: _attended(site, site.optional(3) or "None", None),
    "ttnn.scaled_dot_product_attention_decode": _sdpa_decode,
    "ttnn.split_query_key_value_and_split_heads": _split_heads,
    "ttnn.concatenate_heads": lambda site: site.call(function="ttnn.transformer.concatenate_heads"),
    "ttnn.nlp_create_qkv_heads": _nlp_create_heads,
    "ttnn.nlp_concat_heads": lambda site: site.call(function="ttnn.experimental.nlp_concat_heads"),
    "ttnn.rotary_embedding": lambda site: site.call(
        site.operand(1),
        site.operand(2),
        function="ttnn.experimental.rotary_embedding",
        compute_kernel_config=site.compute,
    ),
}
