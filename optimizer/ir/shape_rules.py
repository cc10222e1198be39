"""Shape rules of the vocabulary: pure functions `(attrs, input shapes) -> output shapes`.

They state the semantics of TTNN ops on logical shapes (no tile padding). A rule raises ShapeError, or
any of ValueError/IndexError/TypeError, when the inputs do not fit; the caller adds the op's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from optimizer.errors import ShapeError
from optimizer.ir.sizes import check_shape

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
Attrs = Mapping[str, Any]


def _axis(dim: int, rank: int) -> int:
    if not -rank <= dim < rank:
        raise ShapeError(f"dim {dim} is outside rank {rank}")
    return dim % rank


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ShapeError(message)


def broadcast(*shapes: Shape) -> Shape:
    """Numpy broadcasting of shapes."""
    rank = max(len(s) for s in shapes)
    result = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, start=rank - len(shape)):
            if size == 1 or size == result[i]:
                continue
            if result[i] != 1:
                raise ShapeError(f"shapes {' and '.join(str(list(s)) for s in shapes)} do not broadcast")
            result[i] = size
    return tuple(result)


def same(attrs: Attrs, inputs: Shapes) -> Shapes:
    return (inputs[0],)


def along(attrs: Attrs, inputs: Shapes) -> Shapes:
    """The operand's shape, for an op along one of its dims."""
    _axis(attrs["dim"], len(inputs[0]))
    return (inputs[0],)


def eltwise(attrs: Attrs, inputs: Shapes) -> Shapes:
    return (broadcast(*inputs),)


def binary(attrs: Attrs, inputs: Shapes) -> Shapes:
    """Two operands, or one and attribute `scalar`."""
    _need((len(inputs) == 2) is (attrs["scalar"] is None), "takes either a second operand or attribute 'scalar'")
    return eltwise(attrs, inputs)


def where(attrs: Attrs, inputs: Shapes) -> Shapes:
    """A condition and two to choose from, each an operand or a number (attributes `x` and `y`)."""
    numbers = sum(attrs[name] is not None for name in ("x", "y"))
    _need(len(inputs) + numbers == 3, "takes a condition and two to choose from: operands, or attributes 'x' and 'y'")
    return eltwise(attrs, inputs)


def matmul(attrs: Attrs, inputs: Shapes) -> Shapes:
    a, b = inputs[0], inputs[1]
    _need(len(a) >= 2 and len(b) >= 2, "matmul operands need rank 2 or more")
    if attrs.get("transpose_a"):
        a = (*a[:-2], a[-1], a[-2])
    if attrs.get("transpose_b"):
        b = (*b[:-2], b[-1], b[-2])
    _need(a[-1] == b[-2], f"inner dims differ: {a[-1]} and {b[-2]}")
    out = (*broadcast(a[:-2] or (1,), b[:-2] or (1,)), a[-2], b[-1])
    rank = max(len(a), len(b))
    if len(inputs) > 2:
        bias = inputs[2]
        _need(bias[-1] in (1, b[-1]), f"bias width {bias[-1]} is not {b[-1]}")
    return (out[-rank:],)


def _conv_output(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool = False) -> int:
    span = size + pad - dilation * (kernel - 1) - 1
    return (-(-span // stride) if ceil else span // stride) + 1


def _check_window(attrs: Attrs, channels: int) -> None:
    """LimitError where the input with the padding that its windows see, which is made, is larger than any tensor."""
    top, bottom, left, right = attrs["padding"]
    _need(min(top, bottom, left, right) >= 0, f"padding {[top, bottom, left, right]} is negative")
    height, width = attrs["input_height"] + top + bottom, attrs["input_width"] + left + right
    check_shape("padded input", (attrs["batch_size"], height, width, channels))


def _check_flat(attrs: Attrs, x: Shape, channels: int) -> None:
    n, h, w = attrs["batch_size"], attrs["input_height"], attrs["input_width"]
    want = (1, 1, n * h * w, channels)
    _need(x == want, f"input must be [1, 1, N*H*W, C] = {list(want)}")


def conv2d(attrs: Attrs, inputs: Shapes) -> Shapes:
    weight = inputs[1]
    cin, cout, groups = attrs["in_channels"], attrs["out_channels"], attrs["groups"]
    _check_window(attrs, cin)
    _check_flat(attrs, inputs[0], cin)
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    top, bottom, left, right = attrs["padding"]
    _need(groups > 0 and cin % groups == 0 and cout % groups == 0, f"groups {groups} do not divide {cin} and {cout}")
    _need(weight == (cout, cin // groups, kh, kw), f"weight must be {[cout, cin // groups, kh, kw]}")
    oh = _conv_output(attrs["input_height"], kh, sh, top + bottom, dh)
    ow = _conv_output(attrs["input_width"], kw, sw, left + right, dw)
    _need(oh > 0 and ow > 0, f"kernel {[kh, kw]} is larger than the padded input")
    return ((1, 1, attrs["batch_size"] * oh * ow, cout),)


def conv_transpose2d(attrs: Attrs, inputs: Shapes) -> Shapes:
    weight = inputs[1]
    cin, cout, groups = attrs["in_channels"], attrs["out_channels"], attrs["groups"]
    _check_window(attrs, cin)
    _check_flat(attrs, inputs[0], cin)
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    top, bottom, left, right = attrs["padding"]
    eh, ew = attrs["output_padding"]
    _need(weight == (cin, cout // groups, kh, kw), f"weight must be {[cin, cout // groups, kh, kw]}")
    oh = (attrs["input_height"] - 1) * sh - top - bottom + dh * (kh - 1) + eh + 1
    ow = (attrs["input_width"] - 1) * sw - left - right + dw * (kw - 1) + ew + 1
    _need(oh > 0 and ow > 0, "output is empty")
    return ((1, 1, attrs["batch_size"] * oh * ow, cout),)


def pool2d(attrs: Attrs, inputs: Shapes) -> Shapes:
    _check_window(attrs, attrs["channels"])
    _check_flat(attrs, inputs[0], attrs["channels"])
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs.get("dilation", (1, 1))
    top, bottom, left, right = attrs["padding"]
    ceil = bool(attrs.get("ceil_mode"))
    height, width = attrs["input_height"], attrs["input_width"]
    oh = _conv_output(height, kh, sh, top + bottom, dh, ceil)
    ow = _conv_output(width, kw, sw, left + right, dw, ceil)
    if ceil:  # a window must start inside the input or its leading padding
        oh -= (oh - 1) * sh >= height + top
        ow -= (ow - 1) * sw >= width + left
    _need(oh > 0 and ow > 0, f"window {[kh, kw]} is larger than the padded input")
    return ((1, 1, attrs["batch_size"] * oh * ow, attrs["channels"]),)


def global_avg_pool2d(attrs: Attrs, inputs: Shapes) -> Shapes:
    n, _, _, c = inputs[0]
    return ((n, 1, 1, c),)


def grid_sample(attrs: Attrs, inputs: Shapes) -> Shapes:
    """[N, H, W, C] sampled at [N, OH, OW, 2] pairs (x, y)."""
    image, grid = inputs
    _need(len(image) == len(grid) == 4, "the image and the grid have four dims each")
    _need(grid[-1] == 2, f"the grid has {grid[-1]} numbers per point, not 2")
    _need(image[0] == grid[0], f"{image[0]} images, {grid[0]} grids")
    return ((*grid[:3], image[-1]),)


def upsample(attrs: Attrs, inputs: Shapes) -> Shapes:
    n, h, w, c = inputs[0]
    sh, sw = attrs["scale_factor"]
    _need(sh > 0 and sw > 0, f"scale {[sh, sw]} must be positive")
    return ((n, h * sh, w * sw, c),)


def reduce(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = inputs[0]
    dim = attrs.get("dim")
    dims = range(len(x)) if dim is None else (dim if isinstance(dim, tuple) else (dim,))
    axes = {_axis(int(d), len(x)) for d in dims}
    if attrs.get("keepdim", True):
        return (tuple(1 if i in axes else s for i, s in enumerate(x)),)
    return (tuple(s for i, s in enumerate(x) if i not in axes),)


def reshape(attrs: Attrs, inputs: Shapes) -> Shapes:
    shape = tuple(int(s) for s in attrs["shape"])
    _need(prod(shape) == prod(inputs[0]), f"cannot reshape {prod(inputs[0])} elements to {list(shape)}")
    return (shape,)


def permute(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = inputs[0]
    dims = tuple(_axis(d, len(x)) for d in attrs["dims"])
    _need(sorted(dims) == list(range(len(x))), f"dims {list(dims)} are no permutation of rank {len(x)}")
    return (tuple(x[d] for d in dims),)


def transpose(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = list(inputs[0])
    a, b = _axis(attrs["dim0"], len(x)), _axis(attrs["dim1"], len(x))
    x[a], x[b] = x[b], x[a]
    return (tuple(x),)


def concat(attrs: Attrs, inputs: Shapes) -> Shapes:
    first = inputs[0]
    axis = _axis(attrs["dim"], len(first))
    for x in inputs[1:]:
        fits = len(x) == len(first) and all(i == axis or a == b for i, (a, b) in enumerate(zip(x, first, strict=True)))
        _need(fits, f"shapes differ outside dim {axis}")
    return ((*first[:axis], sum(x[axis] for x in inputs), *first[axis + 1 :]),)


def slice_(attrs: Attrs, inputs: Shapes) -> Shapes:
    """`begins`/`ends`/`steps` per dimension, non-negative, ends exclusive, steps positive."""
    x = inputs[0]
    begins, ends = attrs["begins"], attrs["ends"]
    steps = attrs.get("steps") or (1,) * len(x)
    _need(len(begins) == len(ends) == len(steps) == len(x), f"begins, ends and steps need {len(x)} entries")
    for size, b, e, s in zip(x, begins, ends, steps, strict=True):
        _need(0 <= b < e <= size and s > 0, f"range [{b}:{e}:{s}] is outside size {size}")
    return (tuple(-(-(e - b) // s) for b, e, s in zip(begins, ends, steps, strict=True)),)


def split(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = inputs[0]
    axis = _axis(attrs["dim"], len(x))
    sizes = attrs["sizes"]
    _need(sum(sizes) == x[axis], f"sizes {list(sizes)} do not add up to {x[axis]}")
    return tuple((*x[:axis], s, *x[axis + 1 :]) for s in sizes)


def pad(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = inputs[0]
    padding = attrs["padding"]
    _need(len(padding) == len(x), f"padding needs {len(x)} pairs")
    return (tuple(s + lo + hi for s, (lo, hi) in zip(x, padding, strict=True)),)


def repeat(attrs: Attrs, inputs: Shapes) -> Shapes:
    x, reps = inputs[0], attrs["repeats"]
    _need(len(reps) == len(x), f"repeats needs {len(x)} entries")
    return (tuple(s * r for s, r in zip(x, reps, strict=True)),)


def repeat_interleave(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = list(inputs[0])
    axis = _axis(attrs["dim"], len(x))
    x[axis] *= attrs["repeats"]
    return (tuple(x),)


def embedding(attrs: Attrs, inputs: Shapes) -> Shapes:
    ids, table = inputs
    _need(len(table) == 2, "the table must have rank 2")
    return ((*ids, table[1]),)


def gather(attrs: Attrs, inputs: Shapes) -> Shapes:
    """`torch.gather`: the result has the shape of the index."""
    x, index = inputs
    _need(len(x) == len(index), "input and index ranks differ")
    _axis(attrs["dim"], len(x))
    return (index,)


def scatter(attrs: Attrs, inputs: Shapes) -> Shapes:
    """`torch.scatter`: x, index and source of one rank, index and source of one shape that fits into x."""
    x, index, source = inputs
    _need(len(x) == len(index) and index == source, "index and source must have one shape, of the input's rank")
    axis = _axis(attrs["dim"], len(x))
    fits = all(i == axis or a >= b for i, (a, b) in enumerate(zip(x, index, strict=True)))
    _need(fits, f"index {list(index)} does not fit into {list(x)} outside dim {axis}")
    return (x,)


def topk(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = list(inputs[0])
    axis = _axis(attrs["dim"], len(x))
    _need(0 < attrs["k"] <= x[axis], f"k {attrs['k']} exceeds {x[axis]}")
    x[axis] = attrs["k"]
    return (tuple(x), tuple(x))


def sort(attrs: Attrs, inputs: Shapes) -> Shapes:
    return (inputs[0], inputs[0])


def argmax(attrs: Attrs, inputs: Shapes) -> Shapes:
    return reduce(attrs, inputs)


def norm(attrs: Attrs, inputs: Shapes) -> Shapes:
    x = inputs[0]
    for scale in inputs[1:3]:
        _need(prod(scale) == x[-1], f"scale of {prod(scale)} elements for width {x[-1]}")
    return (x,)


def group_norm(attrs: Attrs, inputs: Shapes) -> Shapes:
    """Input [N, 1, H*W, C]."""
    x = inputs[0]
    _need(len(x) == 4 and x[1] == 1, "input must be [N, 1, H*W, C]")
    _need(x[3] % attrs["num_groups"] == 0, f"{attrs['num_groups']} groups do not divide {x[3]} channels")
    return (x,)


def sdpa(attrs: Attrs, inputs: Shapes) -> Shapes:
    """Q [B, H, Sq, D], K and V [B, Hkv, Sk, D], optional mask [B|1, H|1, Sq, Sk]."""
    q, k, v = inputs[:3]
    _need(len(q) == len(k) == len(v) == 4, "q, k and v need rank 4")
    _need(q[0] == k[0] == v[0] and k[1] == v[1] and k[2] == v[2] and q[3] == k[3], "q, k and v do not fit")
    _need(q[1] % k[1] == 0, f"{k[1]} key/value heads do not divide {q[1]} query heads")
    return ((*q[:3], v[3]),)


def sdpa_decode(attrs: Attrs, inputs: Shapes) -> Shapes:
    """Q [1, B, H, D], K and V caches [B, Hkv, S, D]."""
    q, k, v = inputs[:3]
    _need(len(q) == 4 and q[0] == 1 and q[1] == k[0] and q[3] == k[3] and k == v, "q and caches do not fit")
    return (q,)


def split_qkv_heads(attrs: Attrs, inputs: Shapes) -> Shapes:
    """[B, S, (H + 2*Hkv)*D] -> Q [B, H, S, D], K [B, Hkv, S, D] ([B, Hkv, D, S] if transposed), V."""
    b, s, width = inputs[0]
    heads = attrs["num_heads"]
    kv = attrs.get("num_kv_heads") or heads
    _need(width % (heads + 2 * kv) == 0, f"width {width} is not divisible by {heads + 2 * kv} heads")
    d = width // (heads + 2 * kv)
    k = (b, kv, d, s) if attrs.get("transpose_key") else (b, kv, s, d)
    return ((b, heads, s, d), k, (b, kv, s, d))


def nlp_create_qkv_heads(attrs: Attrs, inputs: Shapes) -> Shapes:
    """[B, 1, S, (H + 2*Hkv)*D] -> as `split_qkv_heads`; without key/value heads (Hkv = 0) Q alone.

    TTNN 0.81 takes other head sizes than multiples of 32 too, and returns rows of them rounded up: refused.
    """
    b, one, s, width = inputs[0]
    heads = attrs["num_heads"]
    kv = attrs.get("num_kv_heads")
    kv = heads if kv is None else kv
    _need(one == 1, f"dim 1 must be 1, not {one}")
    _need(width % (heads + 2 * kv) == 0, f"width {width} is not divisible by {heads + 2 * kv} heads")
    size = width // (heads + 2 * kv)
    _need(size % 32 == 0, f"head size {size} is no multiple of 32")
    if kv == 0:
        return ((b, heads, s, size),)
    return split_qkv_heads({**attrs, "num_kv_heads": kv}, ((b, s, width),))


def concatenate_heads(attrs: Attrs, inputs: Shapes) -> Shapes:
    """[B, H, S, D] -> [B, S, H*D]."""
    b, h, s, d = inputs[0]
    return ((b, s, h * d),)


def nlp_concat_heads(attrs: Attrs, inputs: Shapes) -> Shapes:
    """[B, H, S, D] -> [B, 1, S, H*D]."""
    b, h, s, d = inputs[0]
    return ((b, 1, s, h * d),)


def rotary_embedding(attrs: Attrs, inputs: Shapes) -> Shapes:
    """x [B, H, S, D] with cos and sin caches whose last two dims are [>= S, D]."""
    x = inputs[0]
    for table in inputs[1:]:
        _need(table[-1] == x[-1] and table[-2] >= x[-2], f"table {list(table)} does not cover {list(x)}")
    return (x,)


def attr_shape(attrs: Attrs, inputs: Shapes) -> Shapes:
    return (tuple(int(s) for s in attrs["shape"]),)


def arange(attrs: Attrs, inputs: Shapes) -> Shapes:
    return ((steps(attrs["start"], attrs["end"], attrs["step"]),),)


def steps(start: float, end: float, step: float) -> int:
    """Values of a range, its end left out (ONNX `Range`)."""
    return max(0, ceil((end - start) / step))
