"""Attention, its heads and rotary embeddings in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.families.reductions.reference import softmax
from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, alike, of_one

_EXPONENTIAL = 2.0**-4.5
"""Of ttnn 0.81.1's approximation: 2.1 % as a root mean square on Tenstorrent's simulator, 0.3 % with the exact one."""


def _attended(q: Array, k: Array, v: Array, bias: Array | None, scale: float) -> Computed:
    """softmax(q k^T * scale + bias) v, heads of keys shared where there are fewer.

    The kernel keeps scores and weights in circular buffers of the result's type: an error of a score is one of its
    weight relative to it, as many roundings as the largest score has units. TTNN approximates the exponential unless
    told otherwise (`exp_approx_mode`).
    """
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat(shared, axis=1), v.repeat(shared, axis=1)
    scores = q @ k.swapaxes(-1, -2) * scale
    weights = softmax(scores if bias is None else scores + bias, -1)
    roundings = 1 + float(np.abs(scores).max())

    def sizes() -> tuple[Array, Array]:
        return weights @ np.abs(v), np.sqrt(weights**2 @ v**2)

    return Computed(weights @ v, sizes, k.shape[-2], roundings, _EXPONENTIAL)


def causal_mask(q: Array, k: Array) -> Array:
    """What is added to the scores so that no position sees a later one: [rows of q, rows of k]."""
    return np.triu(np.full((q.shape[-2], k.shape[-2]), -np.inf, q.dtype), 1)


def mask_beyond(positions: Any, batch: int, k: Array) -> Array:
    """What is added to the scores [B, H, 1, S] so that nothing beyond each one's position is seen."""
    last = np.broadcast_to(np.asarray(positions), (batch,))
    seen = np.arange(k.shape[2])[None, :] <= last[:, None]
    return np.where(seen, k.dtype.type(0), k.dtype.type(-np.inf))[:, None, None, :]


def attention_scale(attrs: Attrs, size: int) -> float:
    """What scores are multiplied by, for heads of this size."""
    scale = attrs.get("scale")
    return 1 / math.sqrt(size) if scale is None else float(scale)


def _sdpa(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    q, k, v = operands[:3]
    bias = operands[3] if len(operands) > 3 else None
    if attrs.get("is_causal"):
        bias = causal_mask(q, k)
    return [_attended(q, k, v, bias, attention_scale(attrs, q.shape[-1]))]


def _sdpa_decode(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    """Q [1, B, H, D]: one position each, caches [B, Hkv, S, D] valid up to and including `cur_pos`."""
    q, k, v = operands[:3]
    bias = operands[3].swapaxes(1, 2) if len(operands) > 3 else None
    if attrs.get("is_causal", True):
        bias = mask_beyond(attrs["cur_pos"], q.shape[1], k)
    found = _attended(q.transpose(1, 2, 0, 3), k, v, bias, attention_scale(attrs, q.shape[-1]))

    def sizes() -> tuple[Array, Array]:
        return found.most.transpose(2, 0, 1, 3), found.usual.transpose(2, 0, 1, 3)

    return [Computed(found.value.transpose(2, 0, 1, 3), sizes, found.terms, found.roundings, found.inexact)]


def _split_heads(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    """[B, S, (H + 2*Hkv)*D]: all query heads, then all key heads, then all value heads."""
    x = operands[0].reshape(operands[0].shape[0], -1, operands[0].shape[-1])
    heads = attrs["num_heads"]
    given = attrs.get("num_kv_heads")
    kv = heads if given is None else given
    b, s, width = x.shape
    size = width // (heads + 2 * kv)
    parts = np.split(x, [heads * size, (heads + kv) * size], axis=-1)
    made = [p.reshape(b, s, -1, size).transpose(0, 2, 1, 3) for p in parts if p.shape[-1]]
    if attrs.get("transpose_key") and len(made) > 1:
        made[1] = made[1].swapaxes(-1, -2)
    return made


def _joined(x: Array) -> Array:
    b, h, s, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, h * d)


def _rotary(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    """x * cos + rotate_half(x) * sin over the first positions of the tables.

    The kernel keeps both products in circular buffers of the result's type before it adds them
    (`rotary_embedding.cpp`, ttnn 0.81.1).
    """
    x, cos, sin = operands
    cos, sin = cos[..., : x.shape[-2], :], sin[..., : x.shape[-2], :]
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    size = np.abs(x * cos) + np.abs(turned * sin)
    return [Computed(x * cos + turned * sin, lambda: alike(size), 2, roundings=1)]


RULES: Mapping[str, Rule] = {
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.scaled_dot_product_attention_decode": _sdpa_decode,
    "ttnn.split_query_key_value_and_split_heads": _split_heads,
    "ttnn.nlp_create_qkv_heads": _split_heads,
    "ttnn.concatenate_heads": of_one(lambda x, _: _joined(x)),
    "ttnn.nlp_concat_heads": of_one(lambda x, _: _joined(x)[:, None]),
    "ttnn.rotary_embedding": _rotary,
}
