"""Attention and its heads in the TTNN dialect."""

from __future__ import annotations

from optimizer.export.mlir.spelling import Rule, Said, Site, told
from optimizer.export.mlir.text import UI32, boolean, real


def _sdpa(site: Site) -> tuple[Said, ...]:
    """The dialect's op has no configs: attributes here."""
    mask = int(len(site.inputs) > 3)
    properties = {"is_causal": boolean(site.attrs["is_causal"]), **site.segments(1, 1, 1, mask, 0)}
    if site.attrs["scale"] is not None:
        properties["scale"] = real(site.attrs["scale"])
    return (Said(site.op.op, site.operands, properties, {**site.program("program_config"), **site.compute()}),)


MLIR: dict[str, Rule] = {
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.split_query_key_value_and_split_heads": told(
        num_heads=("num_heads", UI32), transpose_key=("transpose_key", boolean), num_kv_heads=("num_kv_heads", UI32)
    ),
    "ttnn.concatenate_heads": told(),
    "ttnn.nlp_concat_heads": told(),
    "ttnn.rotary_embedding": told(compute=True),
}
