"""Convolutions, pools and sampling in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.errors import ExecutionError
from optimizer.families.products.reference import with_activation
from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, of_products, of_sum, plus


def windows(x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """[N, H, W, C] as a view [N, Ho, Wo, kh, kw, C]."""
    (kh, kw), (sh, sw), (dh, dw) = kernel, stride, dilation
    n, h, w, c = x.shape
    ho, wo = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    bn, bh, bw, bc = x.strides
    return np.lib.stride_tricks.as_strided(
        x, (n, ho, wo, kh, kw, c), (bn, bh * sh, bw * sw, bh * dh, bw * dw, bc), writeable=False
    )


def _convolved(x: Array, weight: Array, attrs: Attrs) -> Array:
    """[N, H, W, C] padded already, weight [O, C/groups, kh, kw]; gives [N, Ho, Wo, O]."""
    groups = attrs["groups"]
    found = windows(x, attrs["kernel_size"], attrs["stride"], attrs["dilation"])
    n, ho, wo, *_, c = found.shape
    o = weight.shape[0]
    if c == groups and o == groups:
        depthwise: Array = np.einsum("nhwklc,ckl->nhwc", found, weight[:, 0], optimize=True)
        return depthwise
    parts = []
    for g in range(groups):
        columns = found[..., g * (c // groups) : (g + 1) * (c // groups)].reshape(n * ho * wo, -1)
        matrix = weight[g * (o // groups) : (g + 1) * (o // groups)].transpose(2, 3, 1, 0).reshape(-1, o // groups)
        parts.append(columns @ matrix)
    joined: Array = np.concatenate(parts, axis=-1)
    return joined.reshape(n, ho, wo, o)


def image(attrs: Attrs, x: Array) -> Array:
    """[1, 1, N*H*W, C] as [N, H, W, C]."""
    return x.reshape(attrs["batch_size"], attrs["input_height"], attrs["input_width"], x.shape[-1])


def flat(x: Array) -> Array:
    """[N, H, W, C] as [1, 1, N*H*W, C]."""
    return x.reshape(1, 1, -1, x.shape[-1])


def _with_bias(computed: Computed, operands: Sequence[Array], attrs: Attrs) -> Sequence[Computed]:
    found = computed
    computed = Computed(flat(found.value), lambda: (flat(found.most), flat(found.usual)), found.terms)
    if len(operands) > 2:
        computed = plus(computed, np.broadcast_to(operands[2].reshape(-1), computed.value.shape))
    return [with_activation(computed, attrs.get("activation"))]


def _conv2d(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    top, bottom, left, right = attrs["padding"]
    x = np.pad(image(attrs, operands[0]), ((0, 0), (top, bottom), (left, right), (0, 0)))
    weight = operands[1]
    terms = int(np.prod(weight.shape[1:]))
    return _with_bias(of_products(lambda a, b: _convolved(a, b, attrs), x, weight, terms), operands, attrs)


def spread(x: Array, weight: Array, attrs: Attrs) -> Array:
    """Transposed convolution: every element of the input adds its scaled kernel. Weight [C, O/groups, kh, kw]."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    top, bottom, left, right = attrs["padding"]
    eh, ew = attrs.get("output_padding") or (0, 0)
    groups = attrs["groups"]
    n, h, w, c = x.shape
    each_in, each_out = c // groups, weight.shape[1]
    full = np.zeros(
        (n, (h - 1) * sh + dh * (kh - 1) + 1 + eh, (w - 1) * sw + dw * (kw - 1) + 1 + ew, groups * each_out)
    )
    for i in range(kh):
        for j in range(kw):
            rows, columns = slice(i * dh, i * dh + (h - 1) * sh + 1, sh), slice(j * dw, j * dw + (w - 1) * sw + 1, sw)
            for g in range(groups):
                taken = slice(g * each_in, (g + 1) * each_in)
                full[:, rows, columns, g * each_out : (g + 1) * each_out] += x[..., taken] @ weight[taken, :, i, j]
    return full[:, top : full.shape[1] - bottom, left : full.shape[2] - right]


def _conv_transpose2d(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    x, weight = image(attrs, operands[0]), operands[1]
    terms = weight.shape[0] // attrs["groups"] * weight.shape[2] * weight.shape[3]
    return _with_bias(of_products(lambda a, b: spread(a, b, attrs), x, weight, terms), operands, attrs)


# -- pools and sampling -------------------------------------------------------------------------------------------
def _count(size: int, kernel: int, stride: int, pads: Sequence[int], dilation: int, ceil: bool) -> int:
    """Windows along one dim; with `ceil` the last one may end outside, but begins within the input or its front pad."""
    span = size + sum(pads) - dilation * (kernel - 1) - 1
    if not ceil:
        return span // stride + 1
    count = -(-span // stride) + 1
    return count - 1 if (count - 1) * stride >= size + pads[0] else count


def framed(attrs: Attrs, x: Array, fill: float) -> Array:
    """The image with its padding, cut or grown to what the windows read."""
    frame = []
    dilation, ceil = attrs.get("dilation") or (1, 1), bool(attrs.get("ceil_mode"))
    for axis, pads in ((0, attrs["padding"][:2]), (1, attrs["padding"][2:])):
        size, kernel, stride = x.shape[axis + 1], attrs["kernel_size"][axis], attrs["stride"][axis]
        count = _count(size, kernel, stride, pads, dilation[axis], ceil)
        frame.append((pads[0], max(pads[1], (count - 1) * stride + dilation[axis] * (kernel - 1) + 1 - size - pads[0])))
    return np.pad(x, ((0, 0), *frame, (0, 0)), constant_values=fill)


def _pool_windows(attrs: Attrs, x: Array) -> Array:
    return windows(x, attrs["kernel_size"], attrs["stride"], attrs.get("dilation") or (1, 1))


def _max_pool2d(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    x = framed(attrs, image(attrs, operands[0]), -np.inf)
    return [flat(_pool_windows(attrs, x).max(axis=(3, 4)))]


def window_shares(attrs: Attrs, source: Array) -> Array:
    """What an average multiplies the sum of each window by: one over the elements under it that count.

    Those are the input's, and the padding's as it is stated.
    """
    top, bottom, left, right = attrs["padding"]
    stated = np.ones((1, source.shape[1], source.shape[2], 1))
    if attrs.get("count_include_pad", True):
        within = np.pad(stated, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=1.0)
        bare = {**attrs, "padding": (0, 0, 0, 0)}
        counted = framed(bare, within, 0.0)
    else:
        counted = framed(attrs, stated, 0.0)
    x = framed(attrs, stated, 0.0)
    taken = [min(a, b) for a, b in zip(x.shape[1:3], counted.shape[1:3], strict=True)]
    shares: Array = 1 / _pool_windows(attrs, np.ascontiguousarray(counted[:, : taken[0], : taken[1]])).sum(axis=(3, 4))
    return shares


def averaged_windows(attrs: Attrs, x: Array) -> tuple[Array, Array]:
    """[N, Ho, Wo, kh, kw, C] of an image, zeros beyond it, and what a sum over a window is multiplied with."""
    source = image(attrs, x)
    return _pool_windows(attrs, framed(attrs, source, 0.0)), window_shares(attrs, source)


def _avg_pool2d(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    source = image(attrs, operands[0])
    share, x = window_shares(attrs, source), framed(attrs, source, 0.0)
    terms = int(np.prod(attrs["kernel_size"]))
    summed = of_sum(lambda v: _pool_windows(attrs, v).sum(axis=(3, 4)), x, terms)
    return [
        Computed(flat(summed.value * share), lambda: (flat(summed.most * share), flat(summed.usual * share)), terms)
    ]


def _global_avg_pool2d(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    x = operands[0]
    terms = x.shape[1] * x.shape[2]
    return [of_sum(lambda v: v.sum(axis=(1, 2), keepdims=True), x, terms, 1 / terms)]


def _upsample(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    x = operands[0]
    high, wide = attrs["scale_factor"]
    mode = str(attrs.get("mode", "nearest"))
    if mode == "nearest":
        return [x.repeat(high, axis=1).repeat(wide, axis=2)]
    if mode == "bilinear":
        return [between(between(x, 1, high), 2, wide)]
    raise ExecutionError(f"there is no reference for upsampling by {mode!r}")


def between(x: Array, axis: int, scale: int) -> Array:
    """Linear interpolation with half-pixel centres; at the border the edge's value."""
    size = x.shape[axis]
    at = np.clip((np.arange(size * scale) + 0.5) / scale - 0.5, 0, size - 1)
    low = np.floor(at).astype(int)
    share = (at - low).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    found: Array = x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, size - 1), axis) * share
    return found


@dataclass(frozen=True)
class Corner:
    """One of the four elements around every point of a grid, each array [N, Ho, Wo]."""

    rows: Array
    columns: Array
    weight: Array
    """Its share; zero outside of the image."""
    slope_x: Array
    slope_y: Array
    """What a step of one element along W, H adds to the share."""


def sample_points(attrs: Attrs, image: Array, grid: Array) -> Iterator[Corner]:
    """Of an image [N, H, W, C], whose points are (x, y) from -1 to 1 and which is zero beyond."""
    _, height, width, _ = image.shape
    edge = 1.0 if attrs["align_corners"] else 0.0
    x, y = ((grid[..., k] + 1) / 2 * (size - edge) + (edge - 1) / 2 for k, size in enumerate((width, height)))
    left, top = np.floor(x), np.floor(y)
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        across, down = 1 - np.abs(x - column), 1 - np.abs(y - row)
        rows, columns = (np.where(inside, k, 0).astype(int) for k in (row, column))
        to_x, to_y = (np.where(inside, np.where(k == low, -1.0, 1.0), 0.0) for k, low in ((column, left), (row, top)))
        yield Corner(rows, columns, np.where(inside, across * down, 0.0), to_x * down, to_y * across)


def _grid_sample(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    """Bilinear."""
    image, grid = operands
    index = np.arange(len(image))[:, None, None]
    total = most = usual = np.zeros((*grid.shape[:-1], image.shape[-1]))
    for corner in sample_points(attrs, image, grid):
        term = corner.weight[..., None] * image[index, corner.rows, corner.columns]
        total, most, usual = total + term, most + np.abs(term), usual + term**2
    return [Computed(total, lambda: (most, np.sqrt(usual)), 4)]


RULES: Mapping[str, Rule] = {
    "ttnn.conv2d": _conv2d,
    "ttnn.conv_transpose2d": _conv_transpose2d,
    "ttnn.max_pool2d": _max_pool2d,
    "ttnn.avg_pool2d": _avg_pool2d,
    "ttnn.global_avg_pool2d": _global_avg_pool2d,
    "ttnn.upsample": _upsample,
    "ttnn.grid_sample": _grid_sample,
}
