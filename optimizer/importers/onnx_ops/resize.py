"""Resize and Upsample: TTNN's upsample for whole factors, else one interpolation matrix per axis; GridSample."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError, Shape
from optimizer.importers.onnx_ops.computed import Array, counting, filled, one_hot_rows
from optimizer.importers.onnx_ops.selecting import MAX_CONSTANT, MAX_MATRIX, along, mix, runs
from optimizer.importers.onnx_shape_corrections import STRETCH, kept_ratio
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.layouts.tiling import TILE, round_up

_WHOLE = 1e-4
"""Relative difference from a whole number that scales in f32 may have."""
_HALF_PIXEL = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")


@dataclass(frozen=True)
class Sampling:
    """How positions in the result are read from the input (ONNX Resize, its attributes)."""

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    exclude_outside: bool
    antialias: bool

    def positions(
        self, ctx: Lowering, size: int, target: int, scale: float, region: tuple[float, float] = (0.0, 1.0)
    ) -> Array:
        """Where each of `target` samples lies among `size` elements; f32, as onnxruntime computes them."""
        x, factor = counting(ctx, target).astype(np.float32), np.float32(scale)
        if self.coordinates == "asymmetric":
            return np.asarray(x / factor)
        if self.coordinates == "align_corners":
            if abs(size * scale - target) > _WHOLE * target:
                raise NotMappedError(
                    f"Resize of {size} elements by {scale:g} with aligned corners: ONNX and onnxruntime read different "
                    "elements where that is no whole number; give sizes"
                )
            return x * np.float32((size - 1) / (target - 1)) if target > 1 else x * 0
        if self.coordinates == "tf_crop_and_resize":
            low, high = region
            if target == 1:
                return np.asarray([0.5 * (low + high) * (size - 1)], dtype=np.float32)
            return np.float32(low * (size - 1)) + x * np.float32((high - low) * (size - 1) / (target - 1))
        if self.coordinates == "pytorch_half_pixel" and target == 1:
            return x * 0
        shift = np.float32(0)
        if self.coordinates == "half_pixel_symmetric":
            shift = np.float32(size / 2 * (1 - target / (scale * size)))
        elif self.coordinates not in _HALF_PIXEL:
            raise NotMappedError(f"Resize with coordinates '{self.coordinates}'")
        return np.asarray(shift + (x + np.float32(0.5)) / factor - np.float32(0.5))

    def nearest(self, positions: Array, size: int) -> Array:
        """The element that each sample takes."""
        shift = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}.get(self.rounding, 0.0)
        whole = np.ceil if self.rounding in ("ceil", "round_prefer_floor") else np.floor
        return np.asarray(np.clip(whole(positions + shift), 0, size - 1).astype(np.int64))

    def matrix(self, ctx: Lowering, positions: Array, size: int, scale: float) -> Array:
        """Weights [samples, elements] of a linear or cubic interpolation; rows add up to one."""
        linear = self.mode != "cubic"
        step = min(scale, 1.0) if self.antialias else 1.0
        centres = np.clip(positions, 0, size - 1) if linear and step == 1.0 else positions
        result = filled(ctx, (len(centres), size), 0.0)
        reach = (1.0 if linear else 2.0) / step
        for row, centre in enumerate(centres):
            low = floor(centre - reach)
            taps = low + counting(ctx, floor(centre + reach) + 2 - low)
            distance = np.abs(taps - centre) * step
            weights = np.maximum(0, 1 - distance) if linear else _cubic(distance, self.cubic)
            inside = (taps >= 0) & (taps < size)
            if self.exclude_outside:
                weights = np.where(inside, weights, 0)
            weights = weights / weights.sum()
            np.add.at(result[row], np.clip(taps, 0, size - 1), weights)
        return result


def _cubic(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _sampling(ctx: Lowering) -> Sampling:
    modern = ctx.opset >= 11 and ctx.node.op_type == "Resize"
    return Sampling(
        mode=str(ctx.attr("mode", "nearest")).replace("bilinear", "linear"),
        coordinates=str(ctx.attr("coordinate_transformation_mode", "half_pixel" if modern else "asymmetric")),
        rounding=str(ctx.attr("nearest_mode", "round_prefer_floor" if modern else "floor")),
        cubic=float(ctx.attr("cubic_coeff_a", -0.75)),
        exclude_outside=bool(ctx.attr("exclude_outside", 0)),
        antialias=bool(ctx.attr("antialias", 0)),
    )


def _scales(ctx: Lowering, source: Shape, axes: list[int]) -> dict[int, float]:
    """Scale per axis, stated or the one that keeps the aspect ratio; empty where axes are stretched to sizes."""
    policy = str(ctx.attr("keep_aspect_ratio_policy", STRETCH))
    if ctx.attr("scales") is not None:
        given = list(ctx.attr("scales"))
    else:
        index = 2 if ctx.node.op_type == "Resize" and ctx.opset >= 11 else 1
        array = ctx.const(index)
        given = [] if array is None else array.reshape(-1).tolist()
    if not given and policy != STRETCH:
        sizes = ctx.need_const(3, "sizes").reshape(-1).tolist()
        given = [kept_ratio([source[axis] for axis in axes], sizes, policy)] * len(axes)
    return dict(zip(axes, (float(s) for s in given), strict=False))


def resize(ctx: Lowering) -> str:
    how = _sampling(ctx)
    source, target = ctx.shape(0), ctx.out_shape()
    rank = len(source)
    axes = [ctx.axis(a, rank) for a in ctx.attr("axes") or range(rank)]
    stated = _scales(ctx, source, axes)
    cropped = how.coordinates == "tf_crop_and_resize"
    regions = ctx.need_const(1, "region").reshape(-1).tolist() if cropped else [0.0, 1.0] * len(axes)
    region = {axis: (regions[i], regions[i + len(axes)]) for i, axis in enumerate(axes)} if cropped else {}
    scales = [stated.get(i) or target[i] / source[i] for i in range(rank)]
    whole = _whole_factors(ctx, how, source, target, scales)
    if whole is not None:
        return whole
    x = ctx.x(0)
    for axis in range(rank):
        size, scale = source[axis], scales[axis]
        if size == target[axis] and scale == 1.0 and axis not in region:
            continue
        positions = how.positions(ctx, size, target[axis], scale, region.get(axis, (0.0, 1.0)))
        if cropped and bool(np.any((positions < 0) | (positions > size - 1))):
            raise NotMappedError("a crop that reaches outside of the image")
        x = _resample(ctx, x, axis, how, positions, scale)
    return x


def _whole_factors(ctx: Lowering, how: Sampling, source: Shape, target: Shape, scales: list[float]) -> str | None:
    """TTNN's upsample, where it gives the same: whole factors of the last two dims."""
    if len(source) not in (3, 4) or source[:2] != target[:2] or how.coordinates == "tf_crop_and_resize":
        return None
    factors = [t // s if t % s == 0 and t // s == f else 0 for s, t, f in zip(source, target, scales, strict=True)][2:]
    if not all(factors) or (how.mode == "nearest" and set(factors) == {1}):
        return None
    if how.mode == "nearest":
        same = all(
            np.array_equal(how.nearest(how.positions(ctx, s, t, f), s), counting(ctx, t) // (t // s))
            for s, t, f in zip(source[2:], target[2:], scales[2:], strict=True)
        )
    else:
        same = how.mode == "linear" and how.coordinates in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
    if not same:
        return None
    n, c = source[:2]
    if how.mode == "linear" and c % TILE:
        return None  # TTNN interpolates whole tiles of channels only
    lead = (1,) * (4 - len(source))
    x = ctx.reshape(ctx.x(0), (n, c, *lead, *source[2:]))
    shape = (n, c, *lead, *target[2:])
    attrs: dict[str, Attr] = {
        "scale_factor": (*lead, *factors),
        "mode": "nearest" if how.mode == "nearest" else "bilinear",
    }
    return ctx.emit_raw("nchw.upsample", [x], attrs, [(shape, ctx.vdtype(x))])[0]


def _resample(ctx: Lowering, x: str, axis: int, how: Sampling, positions: Array, scale: float) -> str:
    """One axis: a slice where samples are equally spaced elements, else a matrix."""
    size = ctx.vshape(x)[axis]
    if how.mode == "nearest":
        index = how.nearest(positions, size)
        parts = runs([int(i) for i in index])
        if len(parts) == 1:
            first, last, step = parts[0]
            return ctx.slice(x, axis, first, last + 1, step)
        factor = len(index) // size
        if np.array_equal(index, counting(ctx, len(index)) // max(factor, 1)):
            return ctx.emit("repeat_interleave", x, repeats=factor, dim=axis)
        if len(index) * size > MAX_CONSTANT:
            return _hat(ctx, x, axis, index.astype(np.float64))
        return along(ctx, x, axis, one_hot_rows(ctx, index, size))
    if how.mode == "linear" and not (how.antialias and scale < 1) and len(positions) * size > MAX_CONSTANT:
        return _hat(ctx, x, axis, np.clip(positions, 0, size - 1))
    if len(positions) * size > MAX_MATRIX:
        raise NotMappedError(f"an interpolation matrix of {len(positions)} x {size}")
    return along(ctx, x, axis, how.matrix(ctx, positions, size, scale))


def _hat(ctx: Lowering, x: str, axis: int, positions: Array) -> str:
    """Linear interpolation by a large matrix, which is computed once: max(0, 1 - |position - element|)."""
    rows = ctx.constant(counting(ctx, ctx.vshape(x)[axis]).reshape(-1, 1).astype(np.float32), DType.F32, "elements")
    columns = ctx.constant(positions.reshape(1, -1).astype(np.float32), DType.F32, "positions")
    distance = ctx.emit("abs", ctx.emit("subtract", rows, columns))
    weights = ctx.emit("relu", ctx.emit("rsub", distance, scalar=1.0))
    return mix(ctx, x, axis, ctx.typecast(weights, ctx.vdtype(x)))


def depth_to_space(ctx: Lowering) -> str:
    n, c, h, w = ctx.shape(0)
    b = int(ctx.attr("blocksize"))
    if ctx.attr("mode", "DCR") == "DCR":
        split = ctx.reshape(ctx.x(0), (n, b, b, c // (b * b), h, w))
        mixed = ctx.permute(split, (0, 3, 4, 1, 5, 2))
    else:
        split = ctx.reshape(ctx.x(0), (n, c // (b * b), b, b, h, w))
        mixed = ctx.permute(split, (0, 1, 4, 2, 5, 3))
    return ctx.reshape(mixed, (n, c // (b * b), h * b, w * b))


def space_to_depth(ctx: Lowering) -> str:
    n, c, h, w = ctx.shape(0)
    b = int(ctx.attr("blocksize"))
    split = ctx.reshape(ctx.x(0), (n, c, h // b, b, w // b, b))
    return ctx.reshape(ctx.permute(split, (0, 3, 5, 1, 2, 4)), (n, c * b * b, h // b, w // b))


def grid_sample(ctx: Lowering) -> str:
    mode, outside = ctx.attr("mode", "linear"), ctx.attr("padding_mode", "zeros")
    if len(ctx.shape(0)) != 4:
        raise NotMappedError("TTNN samples images only, no volumes")
    if mode not in ("linear", "bilinear"):
        raise NotMappedError(f"TTNN samples bilinearly only, not by mode '{mode}'")
    if outside != "zeros":
        raise NotMappedError(f"TTNN takes zeros outside of the image, not padding_mode '{outside}'")
    n, channels = ctx.shape(0)[:2]
    whole = round_up(channels, TILE)
    x = ctx.x(0)
    if whole != channels:
        x = ctx.emit("pad", x, padding=((0, 0), (0, whole - channels), (0, 0), (0, 0)), value=0.0)
    attrs = {"align_corners": bool(ctx.attr("align_corners", 0))}
    shape = (n, whole, *ctx.shape(1)[1:3])
    found = ctx.emit_raw("nchw.grid_sample", [x, ctx.x(1)], attrs, [(shape, ctx.vdtype(x))])[0]
    return found if whole == channels else ctx.slice(found, 1, 0, channels)


OPS: dict[str, NodeMapping] = {
    "Resize": resize,
    "Upsample": resize,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "GridSample": grid_sample,
}
