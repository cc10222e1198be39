"""Convolutions, pools and upsampling over images [1, 1, N H W, C] or [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttnn_standin.context import Context, Op, on_device
from ttnn_standin.eltwise import activation
from ttnn_standin.errors import Refused, Unmodelled
from ttnn_standin.placement import EDGE, cores
from ttnn_standin.signatures import RECORD, Arguments, bound
from ttnn_standin.tensor import Array, Tensor
from ttnn_standin.values import (
    CHOSEN,
    DRAM,
    ROW_MAJOR,
    TILE,
    BufferType,
    Member,
    Value,
    is_chosen,
    is_sharded,
    memory_config,
)

_GEOMETRY = ("in_channels", "out_channels", "batch_size", "input_height", "input_width", "groups")
_PAIRS = ("kernel_size", "stride", "dilation", "output_padding")
_SLICES = ("slice_config", "dram_slice_config")
_ANY_DTYPE = "weights_dtype"
"""The field of a conv config that preparing names and a convolution may leave to its weights."""


@dataclass(frozen=True)
class Prepared:
    """What a weight or bias was prepared for."""

    kind: str
    facts: Mapping[str, Any]


def _four(a: Arguments) -> tuple[int, int, int, int]:
    """Padding (top, bottom, left, right)."""
    padding = tuple(a["padding"])
    if len(padding) not in (2, 4) or min(padding) < 0:
        raise Refused(f"ttnn.{a.function}: padding {padding}")
    return padding if len(padding) == 4 else (padding[0], padding[0], padding[1], padding[1])


def _pair(a: Arguments, name: str) -> tuple[int, int]:
    pair = tuple(a[name])
    if len(pair) != 2 or min(pair) < (0 if name == "output_padding" else 1):
        raise Refused(f"ttnn.{a.function}: {name} {pair}")
    return pair


def _facts(a: Arguments, transposed: bool) -> dict[str, Any]:
    """Everything that decides the form of prepared weights, as a convolution and its preparation both say it."""
    pairs = _PAIRS if "output_padding" in a else _PAIRS[:3]
    config = a["conv_config"] or Value("Conv2dConfig", bound("Conv2dConfig", RECORD["types"]["Conv2dConfig"], (), {}))
    return {
        "transposed": transposed,
        **{name: a[name] for name in _GEOMETRY},
        **{name: _pair(a, name) for name in pairs},
        "padding": _four(a),
        "config": {name: value for name, value in config.fields.items() if name != _ANY_DTYPE},
        "compute": a["compute_config"],
        "slices": next(a[name] for name in _SLICES if name in a),
    }


def _prepare(kind: str, transposed: bool) -> Op:
    def op(c: Context, a: Arguments) -> Tensor:
        raw = a["weight_tensor" if kind == "weight" else "bias_tensor"]
        if raw.on_device or raw.layout != ROW_MAJOR:
            raise Refused(f"ttnn.{a.function}: {kind} on the device, or tiled")
        facts = _facts(a, transposed)
        if kind == "weight":
            if a["weights_format"] != ("IOHW" if transposed else "OIHW"):
                raise Refused(f"ttnn.{a.function}: weights in {a['weights_format']}")
            facts["has_bias"] = a["has_bias"]
        else:
            facts.pop("output_padding", None)
        _check_raw(a, raw, kind, transposed)
        facts |= {"memory": a["input_memory_config"], "layout": a["input_layout"], "dtype": a["input_dtype"]}
        facts |= {"output_dtype": a["output_dtype"]}
        config = a["conv_config"]
        dtype = None if config is None else config.fields[_ANY_DTYPE]
        if dtype is None:
            raise Refused(f"ttnn.{a.function}: conv_config.weights_dtype is missing")
        made = c.make(raw.read(), dtype, TILE, DRAM)
        made.prepared = Prepared(kind, facts)
        return made

    return op


def _check_raw(a: Arguments, raw: Tensor, kind: str, transposed: bool) -> None:
    """The shape of unprepared weights and biases."""
    outputs, groups = a["out_channels"], a["groups"]
    inputs = a["in_channels"]
    if kind == "bias":
        wanted: tuple[int, ...] = (1, 1, 1, outputs)
    elif transposed:
        wanted = (inputs, outputs // groups, *_pair(a, "kernel_size"))
    else:
        wanted = (outputs, inputs // groups, *_pair(a, "kernel_size"))
    if raw.shape != wanted:
        raise Refused(f"ttnn.{a.function}: {kind} {raw.shape}, {wanted} is needed")


def _weight(a: Arguments, given: Tensor, kind: str, facts: dict[str, Any], transposed: bool) -> Array:
    """The elements of a weight or bias, prepared for this very convolution or raw on the host."""
    if given.prepared is None:
        if given.on_device:
            raise Refused(f"ttnn.{a.function}: {kind} on the device that was not prepared")
        _check_raw(a, given, kind, transposed)
        return given.read()
    wanted = dict(facts)
    if kind == "bias":
        for name in ("has_bias", "output_padding"):
            wanted.pop(name, None)
    if given.prepared.kind != kind:
        raise Refused(f"ttnn.{a.function}: a {given.prepared.kind} in the place of a {kind}")
    wrong = [name for name, value in wanted.items() if given.prepared.facts.get(name) != value]
    if wrong == ["memory"] and not works_on(a, wanted["memory"]) and works_on(a, given.prepared.facts["memory"]):
        wrong = []  # prepared for where TTNN spreads the input to by itself
    if wrong or set(wanted) != set(given.prepared.facts):
        raise Refused(f"ttnn.{a.function}: {kind} prepared for another {', '.join(wrong)}")
    return given.raw()


def works_on(a: Arguments, memory: Value | None) -> bool:
    """Whether a convolution computes on an input where it lies; else TTNN spreads its shards again first.

    `shard_or_reshard_tensor_if_required` in ttnn 0.81.1's `conv2d_utils.cpp`: for what it computes as a plain product
    it wants shards of whole rows of tiles, block shards that add up to the channels, and no width shards.
    """
    if memory is None or not is_sharded(memory) or is_chosen(memory):
        return True
    rows, columns = memory.shard_spec.shard_shape
    product = _pair(a, "kernel_size") == _pair(a, "stride") == (1, 1) and not any(_four(a))
    if columns % 8:
        return False
    if not product:
        return True
    across = len({x for x, _ in cores(memory.shard_spec)})
    even = memory.memory_layout.name != "BLOCK_SHARDED" or across * columns == a["in_channels"]
    return rows % EDGE == 0 and even and memory.memory_layout.name != "WIDTH_SHARDED"


def _image(a: Arguments, x: Tensor, height: int, width: int, channels: int) -> Array:
    """[N, H, W, C]."""
    batch = a["batch_size"]
    if x.shape not in ((1, 1, batch * height * width, channels), (batch, height, width, channels)):
        raise Refused(f"ttnn.{a.function}: {x.shape} are not {batch} images of {height}x{width}x{channels}")
    return x.read().reshape(batch, height, width, channels)


def _taps(
    padded: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], size: tuple[int, int]
) -> Iterator[tuple[int, int, Array]]:
    """(row, column, what that tap sees for every output position) of a padded image."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(i * dilation[0], i * dilation[0] + (size[0] - 1) * stride[0] + 1, stride[0])
            columns = slice(j * dilation[1], j * dilation[1] + (size[1] - 1) * stride[1] + 1, stride[1])
            yield i, j, padded[:, rows, columns]


def _extent(size: int, kernel: int, stride: int, dilation: int) -> int:
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def _conv(c: Context, a: Arguments) -> Tensor:
    transposed = a.function == "conv_transpose2d"
    x, raw_bias = a["input_tensor"], a["bias_tensor"]
    on_device(a, x)
    if a["return_output_dim"] or a["return_weights_and_bias"]:
        raise Unmodelled(f"ttnn.{a.function} returning more than its result")
    if transposed and not a["mirror_kernel"]:
        raise Unmodelled("ttnn.conv_transpose2d of mirrored weights")
    image = _image(a, x, a["input_height"], a["input_width"], a["in_channels"])
    facts = _facts(a, transposed)
    facts |= {"memory": x.memory, "layout": x.layout, "dtype": x.dtype, "has_bias": raw_bias is not None}
    facts |= {"output_dtype": a["dtype"]}
    weight = _weight(a, a["weight_tensor"], "weight", facts, transposed)
    bias = None if raw_bias is None else _weight(a, raw_bias, "bias", facts, transposed)
    _check_config(a, transposed)
    made = (_transposed if transposed else _convolved)(image, weight, facts)
    if bias is not None:
        made = made + bias.reshape(-1)
    config = facts["config"]
    made = activation(config["activation"])(made).reshape(1, 1, -1, a["out_channels"])
    if config["deallocate_activation"] and x.in_l1 and not _is_read_in_place(x, config["shard_layout"], facts):
        x.buffer.free(a.function)
    memory = a["memory_config"] or _own_memory(a, x, config["shard_layout"])
    return c.make(made, a["dtype"] or x.dtype, config["output_layout"], memory)


def _is_read_in_place(x: Tensor, shards: Member | None, facts: Mapping[str, Any]) -> bool:
    """Rows in width shards that need no halo, which a convolution leaves to its caller whatever it is told."""
    width = shards is not None and shards.name == "WIDTH_SHARDED" and not facts["transposed"]
    return width and x.layout == ROW_MAJOR and not any(facts["padding"])


def _own_memory(a: Arguments, x: Tensor, shards: Member | None) -> Value:
    """Where a convolution leaves its result when nobody says: in shards of its own, if it works on all of L1 at once.

    One that slices DRAM, or may do so, gives DRAM for DRAM.
    """
    slices = next(a[name] for name in _SLICES if name in a)
    whole = slices is not None and slices.slice_type.name == "L1Full"
    if not whole and not x.in_l1:
        return DRAM
    layout = shards or (x.memory_config().memory_layout if is_sharded(x.memory_config()) else None)
    if layout is None:
        raise Unmodelled(f"ttnn.{a.function} without a memory config or a shard layout")
    return memory_config(layout, BufferType.L1, CHOSEN)


def _check_config(a: Arguments, transposed: bool) -> None:
    config, weight = a["conv_config"], a["weight_tensor"]
    dtype = None if config is None else config.fields[_ANY_DTYPE]
    if dtype not in (None, weight.dtype) and weight.prepared is not None:
        raise Refused(f"ttnn.{a.function}: weights of {weight.dtype}, its config says {dtype}")
    if config is not None and config.fields["padding_mode"].name != "Zeros":
        raise Unmodelled(f"ttnn.{a.function} with {config.fields['padding_mode']}")


def _convolved(image: Array, weight: Array, facts: Mapping[str, Any]) -> Array:
    """[N, OH, OW, CO] by matrix products over all windows at once; depthwise ones tap by tap."""
    kernel, stride, dilation = (facts[name] for name in _PAIRS[:3])
    top, bottom, left, right = facts["padding"]
    padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0))) if any(facts["padding"]) else image
    size = tuple(_extent(padded.shape[k + 1], kernel[k], stride[k], dilation[k]) for k in range(2))
    batch, groups = image.shape[0], facts["groups"]
    inputs, outputs = image.shape[3] // groups, weight.shape[0] // groups
    if inputs == outputs == 1:
        made = np.zeros((batch, *size, groups), image.dtype)
        for i, j, seen in _taps(padded, kernel, stride, dilation, size):
            made += seen * weight[:, 0, i, j]
        return made
    made = np.empty((batch, *size, groups * outputs), image.dtype)
    columns = np.empty((*made.shape[:3], kernel[0] * kernel[1], inputs), image.dtype)
    for g in range(groups):
        for i, j, seen in _taps(padded[..., g * inputs : (g + 1) * inputs], kernel, stride, dilation, size):
            columns[:, :, :, i * kernel[1] + j] = seen
        part = weight[g * outputs : (g + 1) * outputs].transpose(2, 3, 1, 0).reshape(-1, outputs)
        made[..., g * outputs : (g + 1) * outputs] = (columns.reshape(-1, part.shape[0]) @ part).reshape(
            *made.shape[:3], outputs
        )
    return made


def _transposed(image: Array, weight: Array, facts: Mapping[str, Any]) -> Array:
    """[N, OH, OW, CO]: every input position adds its patch."""
    kernel, stride, dilation, more = (facts[name] for name in _PAIRS)
    batch, height, width, channels = image.shape
    full = [(n - 1) * stride[k] + dilation[k] * (kernel[k] - 1) + 1 + more[k] for k, n in enumerate((height, width))]
    groups, outputs = facts["groups"], weight.shape[1]
    inputs = channels // groups
    made = np.zeros((batch, *full, groups * outputs), image.dtype)
    for i, j, target in _taps(made, kernel, stride, dilation, (height, width)):
        for g in range(groups):
            part = weight[g * inputs : (g + 1) * inputs, :, i, j]
            target[..., g * outputs : (g + 1) * outputs] += image[..., g * inputs : (g + 1) * inputs] @ part
    top, bottom, left, right = facts["padding"]
    return made[:, top : full[0] - bottom, left : full[1] - right]


# -- pools -----------------------------------------------------------------------------------------------
def _pool(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    on_device(a, x)
    image = _image(a, x, a["input_h"], a["input_w"], a["channels"])
    kernel, stride = _pair(a, "kernel_size"), _pair(a, "stride")
    dilation = _pair(a, "dilation") if "dilation" in a else (1, 1)
    if a.get("return_indices") or a.get("divisor_override") is not None:
        raise Unmodelled(f"ttnn.{a.function} with indices or a divisor")
    padding = _four(a)
    sizes, more = _pooled_sizes(image.shape[1:3], kernel, stride, dilation, padding, a["ceil_mode"])
    top, bottom, left, right = padding
    frame = ((0, 0), (top, bottom), (left, right), (0, 0))
    rest = ((0, 0), (0, more[0]), (0, more[1]), (0, 0))
    if a.function == "max_pool2d":
        padded = np.pad(np.pad(image, frame, constant_values=-np.inf), rest, constant_values=-np.inf)
        made = np.full((image.shape[0], *sizes, image.shape[3]), -np.inf, image.dtype)
        for _, _, seen in _taps(padded, kernel, stride, dilation, sizes):
            np.maximum(made, seen, out=made)
    else:
        ones = np.pad(np.ones_like(image[..., :1]), frame, constant_values=float(a["count_include_pad"]))
        padded, counted = np.pad(np.pad(image, frame), rest), np.pad(ones, rest)
        total = sum(seen for _, _, seen in _taps(padded, kernel, stride, dilation, sizes))
        made = total / sum(seen for _, _, seen in _taps(counted, kernel, stride, dilation, sizes))
    memory = a["memory_config"]
    if memory is None:
        raise Unmodelled(f"ttnn.{a.function} without a memory config")
    sliced = not x.in_l1 and memory.buffer_type == BufferType.DRAM
    shaped = made if sliced else made.reshape(1, 1, -1, a["channels"])
    result = c.result(a, shaped, a["dtype"], a["output_layout"], None)
    if a["deallocate_input"]:
        x.buffer.free(a.function)
    return result


def _pooled_sizes(
    image: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], ceil: bool,
) -> tuple[tuple[int, int], tuple[int, int]]:  # fmt: skip
    """(output sizes, rows and columns beyond the padding that the last windows see)."""
    sizes, more = [], []
    for k in range(2):
        before, after = padding[2 * k], padding[2 * k + 1]
        whole = image[k] + before + after
        span = dilation[k] * (kernel[k] - 1) + 1
        count = -(-(whole - span) // stride[k]) + 1 if ceil else (whole - span) // stride[k] + 1
        if ceil and (count - 1) * stride[k] >= image[k] + before:
            count -= 1  # a window that starts beyond the image and its leading padding is none
        sizes.append(count)
        more.append(max(0, (count - 1) * stride[k] + span - whole))
    return (sizes[0], sizes[1]), (more[0], more[1])


def _global_average(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    on_device(a, x)
    return c.alike(a, x.read().mean(axis=(1, 2), keepdims=True), x, a["dtype"])


def _upsample(c: Context, a: Arguments) -> Tensor:
    x, scale = a["input_tensor"], a["scale_factor"]
    on_device(a, x)
    high, wide = (scale, scale) if isinstance(scale, (int, float)) else scale
    if x.rank != 4 or x.layout != ROW_MAJOR or int(high) != high or int(wide) != wide:
        raise Refused(f"ttnn.upsample: {x.shape} in {x.layout} by {scale}")
    values = x.read()
    if a["mode"] == "nearest":
        return c.alike(a, values.repeat(int(high), axis=1).repeat(int(wide), axis=2), x)
    if a["mode"] != "bilinear":
        raise Refused(f"ttnn.upsample: mode {a['mode']!r}")
    for axis, factor in ((1, int(high)), (2, int(wide))):
        size = values.shape[axis]
        place = np.clip((np.arange(size * factor) + 0.5) / factor - 0.5, 0, size - 1)
        low = np.floor(place).astype(np.int64)
        share = (place - low).reshape([-1 if k == axis else 1 for k in range(4)]).astype(values.dtype)
        upper = values.take(np.minimum(low + 1, size - 1), axis)
        values = values.take(low, axis) * (1 - share) + upper * share
    return c.alike(a, values, x)


OPS: dict[str, Op] = {
    "conv2d": _conv,
    "conv_transpose2d": _conv,
    "prepare_conv_weights": _prepare("weight", transposed=False),
    "prepare_conv_bias": _prepare("bias", transposed=False),
    "prepare_conv_transpose2d_weights": _prepare("weight", transposed=True),
    "prepare_conv_transpose2d_bias": _prepare("bias", transposed=True),
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
    "global_avg_pool2d": _global_average,
    "upsample": _upsample,
}
"""Function of `ttnn` -> what it does."""
