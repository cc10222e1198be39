"""Matrix products in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from optimizer.families.elementwise.reference import activated
from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, of_products, plus

MOST_PRODUCTS = 1 << 34
"""Multiplied at once: half a second to two."""


def with_activation(computed: Computed, activation: object) -> Computed:
    return replace(computed, value=activated(computed.value, activation))


def _product(a: Array, b: Array) -> Array:
    """`a @ b`, some rows at a time: NumPy cannot be interrupted."""
    parts = ceil(a.size * b.shape[-1] / MOST_PRODUCTS)
    if parts < 2 or a.ndim < 2 or b.ndim < 2:
        joined: Array = np.matmul(a, b)
        return joined
    rows = np.array_split(a, min(parts, a.shape[-2]), axis=-2)
    return np.concatenate([np.matmul(part, b) for part in rows], axis=-2)


def _matmul(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    a, b = operands[0], operands[1]
    a = a.swapaxes(-1, -2) if attrs.get("transpose_a") else a
    b = b.swapaxes(-1, -2) if attrs.get("transpose_b") else b
    computed = of_products(_product, a, b, a.shape[-1])
    product = computed.value
    if len(operands) > 2:
        bias = operands[2]
        computed = plus(computed, np.broadcast_to(bias.reshape(bias.shape[-2:] if bias.ndim > 1 else bias.shape),
                                                  computed.value.shape))  # fmt: skip
    return [with_activation(replace(computed, before=(product, computed.value)), attrs.get("activation"))]


RULES: Mapping[str, Rule] = dict.fromkeys(("ttnn.matmul", "ttnn.linear"), _matmul)
