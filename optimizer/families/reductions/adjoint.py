"""Gradients of reductions, sorting, running sums, softmax and norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from optimizer.families.reductions.reference import reduced_axes
from optimizer.values.adjoint.kinds import Call, Gradients, Maps, Rule, Transposed, nothing, one_result
from optimizer.values.reference.kinds import Array


def _spread_back(call: Call, array: Array) -> Array:
    """A reduction's result, or its gradient, with its dims as the operand has them."""
    axes = reduced_axes(call.attrs, call.operands[0])
    return array.reshape([1 if k in axes else n for k, n in enumerate(call.operands[0].shape)])


def _terms(call: Call) -> int:
    return call.operands[0].size // max(1, call.results[0].size)


def _scaled_back(factor: Callable[[Call], Array | float]) -> Rule:
    """Of a reduction: the result's gradient times what each element adds to the result."""

    def maps(call: Call) -> Maps:
        x = call.operands[0]
        each = factor(call)
        return {0: lambda gradient: np.broadcast_to(_spread_back(call, gradient) * each, x.shape).astype(x.dtype)}

    return one_result(maps)


def _extreme(call: Call) -> Array:
    """To the elements that are the result, in equal parts where there are several."""
    x = call.operands[0]
    axes = reduced_axes(call.attrs, x)
    chosen = x == _spread_back(call, call.results[0])
    return np.asarray(chosen / chosen.sum(axis=axes, keepdims=True))


def _product(call: Call) -> Array:
    """The product of the others."""
    x = call.operands[0]
    axes = reduced_axes(call.attrs, x)
    zero = x == 0
    several = zero.sum(axis=axes, keepdims=True)
    others = np.where(zero, 1, x).prod(axis=axes, keepdims=True)
    return np.where(several == 0, others / np.where(zero, 1, x), np.where(zero & (several == 1), others, 0.0))


def _variance(root: bool) -> Callable[[Call], Array]:
    def factor(call: Call) -> Array:
        x = call.operands[0]
        centred = x - x.mean(axis=reduced_axes(call.attrs, x), keepdims=True)
        scale = 1 / _spread_back(call, call.results[0]) if root else 2.0
        found: Array = centred * scale / (_terms(call) - 1)
        return found

    return factor


def _ordered(call: Call) -> Transposed:
    """Of sorting: to where the values came from, which the second result says."""
    x, index = call.operands[0], call.results[1].astype(np.int64)
    axis = int(call.attrs["dim"])

    def transposed(gradients: Gradients) -> Mapping[int, Array]:
        if gradients[0] is None or 0 not in call.wanted:
            return {}
        found = np.zeros_like(x)
        np.put_along_axis(found, index, gradients[0], axis)
        return {0: found}

    return transposed


def _cumsum(call: Call) -> Maps:
    axis = int(call.attrs["dim"])
    if call.attrs.get("reverse_order"):
        return {0: lambda gradient: gradient.cumsum(axis)}
    return {0: lambda gradient: np.flip(np.flip(gradient, axis).cumsum(axis), axis)}


def softmax_back(weights: Array, gradient: Array, axis: int) -> Array:
    """Gradient of what the softmax that gave these weights was taken of."""
    found: Array = weights * (gradient - (gradient * weights).sum(axis=axis, keepdims=True))
    return found


def _normalised(
    call: Call, x: Array, axes: tuple[int, ...], centred: bool, unit: Callable[[Array], Array] = lambda v: v
) -> Maps:
    """Of (x - mean) / root, scaled and shifted along the last dim; `unit` brings arrays to the shape of x.

    With n the normalised values and r the factor that made them, dn_i/dx_j = r (1_ij - 1/N - n_i n_j / N); without the
    mean's 1/N where nothing is taken off.
    """
    shape = call.operands[0].shape
    deviations = x - x.mean(axis=axes, keepdims=True) if centred else x
    factor = 1 / np.sqrt((deviations**2).mean(axis=axes, keepdims=True) + x.dtype.type(call.attrs["epsilon"]))
    n = deviations * factor
    weight = call.operands[1].reshape(-1) if len(call.operands) > 1 else np.ones(1, x.dtype)

    def operand(gradient: Array) -> Array:
        g = unit(gradient * weight)
        back = g - n * (g * n).mean(axis=axes, keepdims=True)
        back = back - g.mean(axis=axes, keepdims=True) if centred else back
        return np.asarray(back * factor).reshape(shape)

    def row(k: int, gradient: Array) -> Array:
        return np.asarray(gradient.reshape(-1, shape[-1]).sum(axis=0)).reshape(call.operands[k].shape)

    return {0: operand, 1: lambda g: row(1, g * n.reshape(shape)), 2: lambda g: row(2, g)}


def _group_norm(call: Call) -> Maps:
    n, _, rows, channels = call.operands[0].shape
    groups = int(call.attrs["num_groups"])

    def unit(array: Array) -> Array:
        return array.reshape(n, rows, groups, channels // groups)

    return _normalised(call, unit(call.operands[0]), (1, 3), True, unit)


def _batch_norm(call: Call) -> Maps:
    x, mean, variance = call.operands[:3]
    shape = (1, -1, *(1,) * (x.ndim - 2))
    axes = (0, *range(2, x.ndim))
    inner = variance.reshape(shape) + x.dtype.type(call.attrs["epsilon"])
    n = (x - mean.reshape(shape)) / np.sqrt(inner)
    weight = call.operands[3].reshape(shape) if len(call.operands) > 3 else np.ones(1, x.dtype)

    def channel(k: int, array: Array) -> Array:
        return np.asarray(array.sum(axis=axes)).reshape(call.operands[k].shape)

    return {
        0: lambda g: g * weight / np.sqrt(inner),
        1: lambda g: channel(1, -g * weight / np.sqrt(inner)),
        2: lambda g: channel(2, -g * weight * n / (2 * inner)),
        3: lambda g: channel(3, g * n),
        4: lambda g: channel(4, g),
    }


def _softmax(call: Call) -> Maps:
    return {0: lambda gradient: softmax_back(call.results[0], gradient, int(call.attrs["dim"]))}


ADJOINTS: Mapping[str, Rule] = {
    "ttnn.sum": _scaled_back(lambda _: 1.0),
    "ttnn.mean": _scaled_back(lambda call: 1.0 / _terms(call)),
    "ttnn.max": _scaled_back(_extreme),
    "ttnn.min": _scaled_back(_extreme),
    "ttnn.prod": _scaled_back(_product),
    "ttnn.std": _scaled_back(_variance(root=True)),
    "ttnn.var": _scaled_back(_variance(root=False)),
    "ttnn.argmax": nothing,
    "ttnn.topk": _ordered,
    "ttnn.sort": _ordered,
    "ttnn.cumsum": one_result(_cumsum),
    "ttnn.softmax": one_result(_softmax),
    "ttnn.layer_norm": one_result(lambda call: _normalised(call, call.operands[0], (-1,), True)),
    "ttnn.rms_norm": one_result(lambda call: _normalised(call, call.operands[0], (-1,), False)),
    "ttnn.group_norm": one_result(_group_norm),
    "ttnn.batch_norm": one_result(_batch_norm),
}
