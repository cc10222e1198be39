"""Softmax and norms."""

from __future__ import annotations

import numpy as np

from ttnn_standin.context import Context, Op, axis_of, on_device, tiled
from ttnn_standin.errors import Refused, Unmodelled
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Array, Tensor
from ttnn_standin.values import DRAM, ROW_MAJOR, is_sharded


def softmax(values: Array, axis: int = -1) -> Array:
    """Softmax of finite or minus infinite elements."""
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    made: Array = powers / powers.sum(axis=axis, keepdims=True)
    return made


def _softmax(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    tiled(a, x)
    return c.alike(a, softmax(x.read(), axis_of(a, a["dim"], x.rank)), x)


def _scaled(a: Arguments, values: Array, channels: int) -> Array:
    """Scale and shift of the last dimension."""
    for name, apply in (("weight", np.multiply), ("bias", np.add)):
        given = a.get(name)
        if given is not None:
            on_device(a, given)
            if given.read().size != channels:
                raise Refused(f"ttnn.{a.function}: {name} {given.shape} for {channels} channels")
            values = apply(values, given.read().reshape(-1))
    return values


def _over_rows(centre: bool) -> Op:
    """Layer norm, and RMS norm, which does not centre."""

    def op(c: Context, a: Arguments) -> Tensor:
        x = a["input_tensor"]
        residual = a["residual_input_tensor"]
        tiled(a, x, residual)
        values = x.read() if residual is None else x.read() + residual.read()
        if centre:
            values = values - values.mean(axis=-1, keepdims=True)
        made = values / np.sqrt(np.square(values).mean(axis=-1, keepdims=True) + a["epsilon"])
        made = _scaled(a, made, x.shape[-1])
        config = a["program_config"]
        if config is None or not config.fields.get("inplace"):
            return c.alike(a, made, x)
        if a["memory_config"] not in (None, x.memory) or not is_sharded(x.memory_config()):
            raise Refused(f"ttnn.{a.function}: in place, from one memory config into another")
        return x.write(made)

    return op


def _group_norm(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    on_device(a, x)
    groups = a["num_groups"]
    if x.rank != 4 or x.shape[1] != 1 or x.shape[-1] % groups:
        raise Refused(f"ttnn.group_norm: {groups} groups of {x.shape}")
    if a["input_mask"] is not None or a["negative_mask"] is not None:
        raise Unmodelled("ttnn.group_norm with a mask")
    for name in ("weight", "bias"):
        given = a[name]
        rows = (1, 1, x.shape[-1] // 32, 32)
        if given is not None and (given.shape != rows or given.layout != ROW_MAJOR):
            raise Refused(f"ttnn.group_norm: {name} {given.shape}, row-major {rows} is needed")
    n, _, rows_of, channels = x.shape
    grouped = x.read().reshape(n, rows_of, groups, channels // groups)
    centred = grouped - grouped.mean(axis=(1, 3), keepdims=True)
    made = centred / np.sqrt(np.square(centred).mean(axis=(1, 3), keepdims=True) + a["epsilon"])
    made = _scaled(a, made.reshape(x.shape), channels)
    if a["inplace"] and is_sharded(x.memory_config()):
        return x.write(made)
    return c.result(a, made, a["dtype"] or x.dtype, a["output_layout"] or x.layout, DRAM)


def _batch_norm(c: Context, a: Arguments) -> Tensor:
    x = a["input"]
    tiled(a, x)
    if a["training"]:
        raise Unmodelled("ttnn.batch_norm in training")
    mean, variance = a["running_mean"].read(), a["running_var"].read()
    made = (x.read() - mean) / np.sqrt(variance + a["eps"])
    made = made if a["weight"] is None else made * a["weight"].read()
    made = made if a["bias"] is None else made + a["bias"].read()
    return c.alike(a, made, x)


OPS: dict[str, Op] = {
    "softmax": _softmax,
    "layer_norm": _over_rows(centre=True),
    "rms_norm": _over_rows(centre=False),
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
}
"""Function of `ttnn` -> what it does."""
