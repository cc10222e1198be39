"""Attention, its heads and rotary positions."""

from __future__ import annotations

import numpy as np

from ttnn_standin.context import Context, Op, broadcast, tiled
from ttnn_standin.errors import Refused, Unmodelled
from ttnn_standin.norm import softmax
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Tensor
from ttnn_standin.values import DRAM, TILE


def _attention(c: Context, a: Arguments) -> Tensor:
    q, k, v = (a[f"input_tensor_{name}"] for name in "qkv")
    mask = a["attn_mask"]
    tiled(a, q, k, v, mask)
    if not q.rank == k.rank == v.rank == 4 or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise Refused(f"ttnn.{a.function}: {q.shape}, {k.shape}, {v.shape}")
    if k.shape[0] != q.shape[0] or q.shape[1] % k.shape[1]:
        raise Refused(f"ttnn.{a.function}: {q.shape[1]} heads on {k.shape[1]}")
    if a["is_causal"] and mask is not None:
        raise Refused(f"ttnn.{a.function}: causal, and a mask")
    if a["is_causal"] and q.shape[2] != k.shape[2]:
        raise Refused(f"ttnn.{a.function}: causal, {q.shape[2]} rows on {k.shape[2]}")
    if a["output_concat_heads"]:
        raise Unmodelled(f"ttnn.{a.function} with concatenated heads")
    times = q.shape[1] // k.shape[1]
    keys, values = (t.read().repeat(times, axis=1) for t in (k, v))
    scale = q.shape[3] ** -0.5 if a["scale"] is None else a["scale"]
    scores = (q.read() * np.asarray(scale, q.read().dtype)) @ np.swapaxes(keys, -1, -2)
    if mask is not None:
        if mask.rank != 4 or mask.shape[-2:] != scores.shape[-2:]:
            raise Refused(f"ttnn.{a.function}: a mask {mask.shape} for scores {scores.shape}")
        broadcast(a, mask.shape, scores.shape)
        _hidden(a, mask)
        scores = scores + mask.read()
    if a["is_causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return c.result(a, softmax(scores) @ values, q.dtype, TILE, DRAM)


def _hidden(a: Arguments, mask: Tensor) -> None:
    """The kernel adds whole tiles of a mask: keys that do not exist count unless the mask's padding hides them."""
    padding = mask.buffer.padding
    if mask.shape[-1] % 32 and (padding is None or padding > -1e9):
        raise Refused(f"ttnn.{a.function}: a mask {mask.shape} with {padding} beyond its columns")


def _split_heads(c: Context, a: Arguments) -> tuple[Tensor, ...]:
    """[B, S, (heads + 2 kv) D], or [B, 1, S, ...], to three of [B, heads, S, D]."""
    x = a.first
    tiled(a, x)
    both = "kv_input_tensor" in a
    if (a["kv_input_tensor"] if both else a["input_kv"]) is not None:
        raise Unmodelled(f"ttnn.{a.function} with keys and values apart")
    if x.rank != (3 if both else 4) or (not both and x.shape[1] != 1):
        raise Refused(f"ttnn.{a.function}: {x.shape}")
    batch, rows, width = x.shape[0], x.shape[-2], x.shape[-1]
    heads = a["num_heads"]
    kv = heads if a["num_kv_heads"] is None else a["num_kv_heads"]
    turned = a["transpose_key"] if both else a["transpose_k_heads"]
    if width % (heads + 2 * kv) or heads % max(kv, 1):
        raise Refused(f"ttnn.{a.function}: {heads} and twice {kv} heads of {width}")
    size = width // (heads + 2 * kv)
    values = x.read().reshape(batch, rows, heads + 2 * kv, size).transpose(0, 2, 1, 3)
    parts = [values[:, :heads], values[:, heads : heads + kv], values[:, heads + kv :]]
    if turned:
        parts[1] = np.swapaxes(parts[1], -1, -2)
    made = [c.alike(a, part, x) for part in parts if part.size]
    return tuple(made)


def _concatenate_heads(extra: tuple[int, ...]) -> Op:
    """[B, H, S, D] to [B, *extra, S, H D]."""

    def op(c: Context, a: Arguments) -> Tensor:
        x = a["input_tensor"]
        tiled(a, x)
        if x.rank != 4:
            raise Refused(f"ttnn.{a.function}: {x.shape}")
        batch, heads, rows, size = x.shape
        made = x.read().transpose(0, 2, 1, 3).reshape(batch, *extra, rows, heads * size)
        return c.alike(a, made, x)

    return op


def _rotary(c: Context, a: Arguments) -> Tensor:
    x, cos, sin = a["input_tensor"], a["cos_cache"], a["sin_cache"]
    tiled(a, x, cos, sin)
    if a["token_index"] is not None:
        raise Unmodelled("rotary_embedding of one token")
    rows, size = x.shape[-2:]
    for table in (cos, sin):
        if table.shape[:-2] != (1,) * (table.rank - 2) or table.shape[-1] != size or table.shape[-2] < rows:
            raise Refused(f"ttnn.{a.function}: a table {table.shape} for {x.shape}")
    values = x.read()
    turned = np.concatenate([-values[..., size // 2 :], values[..., : size // 2]], axis=-1)
    angles = [table.read().reshape(-1, size)[:rows] for table in (cos, sin)]
    return c.alike(a, values * angles[0] + turned * angles[1], x)


def _attention_softmax(c: Context, a: Arguments) -> Tensor:
    x, mask = a["tensor"], a["attention_mask"]
    tiled(a, x, mask)
    if a["causal_mask"]:
        raise Unmodelled("attention_softmax with a causal mask")
    scores = x.read() if a["head_size"] is None else x.read() / np.sqrt(np.float32(a["head_size"]))
    return c.alike(a, softmax(scores if mask is None else scores + mask.read()), x)


OPS: dict[str, Op] = {
    "transformer.scaled_dot_product_attention": _attention,
    "transformer.split_query_key_value_and_split_heads": _split_heads,
    "transformer.concatenate_heads": _concatenate_heads(()),
    "transformer.attention_softmax": _attention_softmax,
    "experimental.nlp_create_qkv_heads": _split_heads,
    "experimental.nlp_concat_heads": _concatenate_heads((1,)),
    "experimental.rotary_embedding": _rotary,
}
"""Function of `ttnn` -> what it does."""
