"""Functions of the vector unit: their exact values, rounded as the kernels round them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from optimizer.ir.vocabulary import short_name
from optimizer.kernels.tensix.device.formats import bits_of
from optimizer.kernels.tensix.rounding import Array
from optimizer.values.emulation.units import Units
from optimizer.values.reference.eltwise import activated

CUT_OFF = frozenset({"hardsigmoid", "softsign", "clamp", "leaky_relu", "acosh", "atanh", "erf", "erfc", "fmod"})
"""Functions whose kernels leave the rounding to a destination register, which cuts off at 16 bits."""
_FEW = 1 << 12
"""Elements below which a table of all bf16 numbers costs more than it saves."""


def applied(function: Callable[[Any], Any], x: Array) -> Array:
    """A function in float64, rounded to f32. Of bf16 numbers, of which there are 65,536, by a table."""
    bits = bits_of(x)
    with np.errstate(all="ignore"):
        if x.size < _FEW or (bits & np.uint32(0xFFFF)).any():
            return np.asarray(function(x.astype(np.float64)), np.float32)
        index = (bits >> np.uint32(16)).astype(np.uint16)
        present, where = np.unique(index, return_inverse=True) if x.size < 1 << 16 else (None, index)
        numbers = np.arange(1 << 16, dtype=np.uint32) if present is None else present.astype(np.uint32)
        table = np.asarray(function((numbers << np.uint32(16)).view(np.float32).astype(np.float64)), np.float32)
    return table[where].reshape(x.shape)


def activation(units: Units, x: Array, name: object) -> Array:
    """An activation that a kernel applies to what a destination register holds."""
    if not name:
        return x
    called = short_name(str(name)).partition("(")[0]
    return units.function(applied(lambda v: activated(v, name), x), called not in CUT_OFF)
