"""Gradients of matrix products."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimizer.families.elementwise.adjoint import slope_of_activation
from optimizer.values.adjoint.kinds import Call, Maps, Rule, one_result, summed_to
from optimizer.values.reference import computed
from optimizer.values.reference.kinds import Array


def before_activation(call: Call) -> Array | None:
    """The slope of the fused activation."""

    def product() -> Array:
        bare = {**call.attrs, "activation": None}
        return computed(call.op, bare, call.operands, call.results[0].dtype.name)[0].value

    return slope_of_activation(call, call.attrs.get("activation"), product)


def through(gradient: Array, factor: Array | None) -> Array:
    return gradient if factor is None else gradient * factor


def _matmul(call: Call) -> Maps:
    turned = [bool(call.attrs.get(name)) for name in ("transpose_a", "transpose_b")]
    a, b = (x.swapaxes(-1, -2) if t else x for x, t in zip(call.operands, turned, strict=False))
    factor = before_activation(call)

    def operand(k: int, gradient: Array) -> Array:
        g = through(gradient, factor)
        found = np.matmul(g, b.swapaxes(-1, -2)) if k == 0 else np.matmul(a.swapaxes(-1, -2), g)
        found = summed_to(found, (a, b)[k].shape)
        return found.swapaxes(-1, -2) if turned[k] else found

    def bias(gradient: Array) -> Array:
        shape = call.operands[2].shape
        return summed_to(through(gradient, factor), shape[-2:]).reshape(shape)

    return {0: lambda g: operand(0, g), 1: lambda g: operand(1, g), 2: bias}


ADJOINTS: Mapping[str, Rule] = dict.fromkeys(("ttnn.matmul", "ttnn.linear"), one_result(_matmul))
