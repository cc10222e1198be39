"""Gradients of attention, its heads and rotary embeddings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimizer.families.attention.reference import attention_scale, causal_mask, mask_beyond
from optimizer.families.movement.adjoint import moved
from optimizer.families.reductions.adjoint import softmax_back
from optimizer.families.reductions.reference import softmax
from optimizer.values.adjoint.kinds import Call, Gradients, Maps, Rule, Transposed, one_result, summed_to
from optimizer.values.reference.kinds import Array

_TURN = (1, 2, 0, 3)
"""[1, B, H, D], one position each, as [B, H, 1, D]."""
_TURN_BACK = (2, 0, 1, 3)


class _Attended:
    """softmax(q k^T scale + bias) v on [B, H, S, D], linearised; heads of keys are shared where there are fewer."""

    def __init__(self, q: Array, k: Array, v: Array, bias: Array | None, scale: float) -> None:
        self._heads, self._shared, self._scale = k.shape[1], q.shape[1] // k.shape[1], scale
        self._q = q
        self._k, self._v = (x.repeat(self._shared, axis=1) for x in (k, v))
        scores = q @ self._k.swapaxes(-1, -2) * scale
        self._weights = softmax(scores if bias is None else scores + bias, -1)

    def back(self, gradient: Array) -> tuple[Array, Array, Array, Array]:
        """Gradients of q, k, v and of the scores before the softmax."""
        of_scores = softmax_back(self._weights, gradient @ self._v.swapaxes(-1, -2), -1)
        of_k = of_scores.swapaxes(-1, -2) @ self._q * self._scale
        of_v = self._weights.swapaxes(-1, -2) @ gradient
        return of_scores @ self._k * self._scale, self._joined(of_k), self._joined(of_v), of_scores

    def _joined(self, gradient: Array) -> Array:
        """Sum over the heads that share one."""
        b, _, s, d = gradient.shape
        return np.asarray(gradient.reshape(b, self._heads, self._shared, s, d).sum(axis=2))


def _sdpa(call: Call) -> Transposed:
    q, k, v = call.operands[:3]
    masked = bool(call.attrs.get("is_causal"))
    bias = causal_mask(q, k) if masked else (call.operands[3] if len(call.operands) > 3 else None)
    attended = _Attended(q, k, v, bias, attention_scale(call.attrs, q.shape[-1]))

    def transposed(gradients: Gradients) -> Mapping[int, Array]:
        if gradients[0] is None:
            return {}
        *found, scores = attended.back(gradients[0])
        if 3 in call.wanted and not masked:
            found.append(summed_to(scores, call.operands[3].shape))
        return {n: g for n, g in enumerate(found) if n in call.wanted}

    return transposed


def _sdpa_decode(call: Call) -> Transposed:
    q, k, v = call.operands[:3]
    masked = bool(call.attrs.get("is_causal", True))
    bias = call.operands[3].swapaxes(1, 2) if len(call.operands) > 3 else None
    bias = mask_beyond(call.attrs["cur_pos"], q.shape[1], k) if masked else bias
    attended = _Attended(q.transpose(_TURN), k, v, bias, attention_scale(call.attrs, q.shape[-1]))

    def transposed(gradients: Gradients) -> Mapping[int, Array]:
        if gradients[0] is None:
            return {}
        of_q, of_k, of_v, scores = attended.back(gradients[0].transpose(_TURN))
        found = [of_q.transpose(_TURN_BACK), of_k, of_v]
        if 3 in call.wanted and not masked and bias is not None:
            found.append(summed_to(scores, bias.shape).swapaxes(1, 2))
        return {n: g for n, g in enumerate(found) if n in call.wanted}

    return transposed


def _rotary(call: Call) -> Maps:
    """x * cos + (-second half of x, first half) * sin, over the first positions of the tables."""
    x, cos, sin = call.operands
    rows, half = x.shape[-2], x.shape[-1] // 2
    short_cos, short_sin = cos[..., :rows, :], sin[..., :rows, :]

    def turned(array: Array, sign: int) -> Array:
        return np.concatenate([-sign * array[..., half:], sign * array[..., :half]], axis=-1)

    def table(gradient: Array, whole: Array) -> Array:
        found = np.zeros_like(whole)
        found[..., :rows, :] = summed_to(gradient, whole[..., :rows, :].shape)
        return found

    return {
        0: lambda g: g * short_cos + turned(g * short_sin, -1),
        1: lambda g: table(g * x, cos),
        2: lambda g: table(g * turned(x, 1), sin),
    }


_HEADS = (
    "split_query_key_value_and_split_heads", "nlp_create_qkv_heads", "concatenate_heads", "nlp_concat_heads",
)  # fmt: skip
ADJOINTS: Mapping[str, Rule] = {
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.scaled_dot_product_attention_decode": _sdpa_decode,
    "ttnn.rotary_embedding": one_result(_rotary),
    **dict.fromkeys((f"ttnn.{name}" for name in _HEADS), moved),
}
