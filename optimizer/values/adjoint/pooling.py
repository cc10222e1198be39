"""Pooling, upsampling and sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optimizer.values.adjoint.contraction import kernel_places
from optimizer.values.adjoint.kinds import Call, Maps, Rule, Transposed, one_result
from optimizer.values.adjoint.movement import moved
from optimizer.values.reference.contraction import image
from optimizer.values.reference.kinds import Array
from optimizer.values.reference.pooling import between, framed, sample_points, window_shares


def _counts(call: Call, padded: Array) -> tuple[int, int]:
    """Windows along H and W."""
    dilation = call.attrs.get("dilation") or (1, 1)
    high, wide = (
        (padded.shape[k + 1] - dilation[k] * (call.attrs["kernel_size"][k] - 1) - 1) // call.attrs["stride"][k] + 1
        for k in (0, 1)
    )
    return high, wide


def _cut(call: Call, padded: Array, shape: tuple[int, ...]) -> Array:
    """What lies on the image itself."""
    top, _, left, _ = call.attrs["padding"]
    return padded[:, top : top + shape[1], left : left + shape[2]].reshape(call.operands[0].shape)


def _max_pool2d(call: Call) -> Maps:
    """To the first of the largest elements under each window."""
    source = image(call.attrs, call.operands[0])
    x = framed(call.attrs, source, -np.inf)
    counts = _counts(call, x)
    shape = (len(x), *counts, x.shape[-1])
    largest = call.results[0].reshape(shape)

    def operand(gradient: Array) -> Array:
        g, full, open_ = gradient.reshape(shape), np.zeros_like(x), np.ones(shape, bool)
        for _, _, place in kernel_places(call.attrs, counts):
            chosen = open_ & (x[place] == largest)
            full[place] += g * chosen
            open_ &= ~chosen
        return _cut(call, full, source.shape)

    return {0: operand}


def _avg_pool2d(call: Call) -> Maps:
    source = image(call.attrs, call.operands[0])
    x = framed(call.attrs, source, 0.0)
    counts = _counts(call, x)
    shares = window_shares(call.attrs, source).astype(x.dtype)

    def operand(gradient: Array) -> Array:
        g, full = gradient.reshape(len(x), *counts, -1) * shares, np.zeros_like(x)
        for _, _, place in kernel_places(call.attrs, counts):
            full[place] += g
        return _cut(call, full, source.shape)

    return {0: operand}


def _global_avg_pool2d(call: Call) -> Maps:
    shape = call.operands[0].shape
    return {0: lambda gradient: np.broadcast_to(gradient / (shape[1] * shape[2]), shape)}


def _upsample(call: Call) -> Transposed:
    if str(call.attrs.get("mode", "nearest")) == "nearest":
        return moved(call)
    x = call.operands[0]
    high, wide = (
        between(np.eye(x.shape[k + 1], dtype=x.dtype), 0, call.attrs["scale_factor"][k]).astype(x.dtype) for k in (0, 1)
    )
    back: Maps = {0: lambda gradient: np.einsum("nhwc,ha,wb->nabc", gradient, high, wide, optimize=True)}
    return one_result(lambda _: back)(call)


def _grid_sample(call: Call) -> Maps:
    source, grid = call.operands
    points = list(sample_points(call.attrs, source, grid))
    n, height, width, _ = source.shape
    index = np.arange(n)[:, None, None]
    edge = 1.0 if call.attrs["align_corners"] else 0.0

    def operand(gradient: Array) -> Array:
        found = np.zeros_like(source)
        for point in points:
            np.add.at(found, (index, point.rows, point.columns), gradient * point.weight[..., None])
        return found

    def places(gradient: Array) -> Array:
        along: Any = np.zeros(grid.shape)
        for point in points:
            held = (gradient * source[index, point.rows, point.columns]).sum(axis=-1)
            along += np.stack([held * point.slope_x, held * point.slope_y], axis=-1)
        return np.asarray(along * (np.array([width, height]) - edge) / 2).astype(grid.dtype)

    return {0: operand, 1: places}


RULES: Mapping[str, Rule] = {
    "ttnn.max_pool2d": one_result(_max_pool2d),
    "ttnn.avg_pool2d": one_result(_avg_pool2d),
    "ttnn.global_avg_pool2d": one_result(_global_avg_pool2d),
    "ttnn.upsample": _upsample,
    "ttnn.grid_sample": one_result(_grid_sample),
}
