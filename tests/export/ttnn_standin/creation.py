"""Tensors from nothing."""

from __future__ import annotations

import numpy as np

from ttnn_standin.context import Context, Op
from ttnn_standin.errors import Refused
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Tensor
from ttnn_standin.values import BFLOAT16, DRAM, FLOATS, ROW_MAJOR


def _filled(value: float | None) -> Op:
    """A tensor of one number: the given one, or that of the call."""

    def op(c: Context, a: Arguments) -> Tensor:
        device, memory = a["device"], a["memory_config"]
        if device is None and memory is not None:
            raise Refused(f"ttnn.{a.function}: a memory config and no device")
        dtype = a["dtype"] or BFLOAT16
        chosen = a["fill_value"] if value is None else value
        made = np.full(tuple(a["shape"]), chosen, np.float32 if dtype in FLOATS else np.int64)
        place = None if device is None else memory or DRAM
        return c.make(made, dtype, a["layout"] or ROW_MAJOR, place)

    return op


def _arange(c: Context, a: Arguments) -> Tensor:
    start, step = a.get("start", 0), a.get("step", 1)
    made = np.arange(start, a["end"], step)
    place = None if a["device"] is None else a["memory_config"] or DRAM
    return c.make(made, a["dtype"], a["layout"], place)


def _full_like(c: Context, a: Arguments) -> Tensor:
    x = a.first
    made = np.full(x.shape, a["fill_value"], x.read().dtype)
    return c.result(a, made, a.get("dtype") or x.dtype, a.get("layout") or x.layout, x.memory)


OPS: dict[str, Op] = {
    "full": _filled(None),
    "zeros": _filled(0.0),
    "ones": _filled(1.0),
    "empty": _filled(float("nan")),
    "arange": _arange,
    "full_like": _full_like,
}
"""Function of `ttnn` -> what it does. Uninitialised elements are NaN, which shows."""
