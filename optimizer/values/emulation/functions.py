"""Functions of the vector unit: their exact values, rounded as the kernels round them; where a kernel's polynomial is
seen in 16 bits, that (`ckernel_sfpu_exp.h`, `..._sigmoid.h`, `..._tanh.h`, ttnn 0.81.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.families.elementwise.reference import activated
from optimizer.ir.opdef import short_name
from optimizer.kernels.tensix.device.formats import bits_of, truncated
from optimizer.kernels.tensix.rounding import Array
from optimizer.values.emulation.units import Units

Doubles = NDArray[np.float64]
Function = Callable[[Doubles], Any]

CUT_OFF = frozenset(
    {"hardsigmoid", "softsign", "clamp", "leaky_relu", "acosh", "atanh", "erf", "erfc", "fmod", "pow_scalar"}
)
"""Functions whose kernels leave the rounding to a destination register, which cuts off at 16 bits."""
_FEW = 1 << 12
"""Elements below which a table of all bf16 numbers costs more than it saves."""
_TANH = (5.876733921468257904e-3, -6.6649019718170166e-2, 0.2819176316261292, -0.48906597495079, 3.0897438526153565e-2,
         0.999004364013671875, 0.0)  # fmt: skip
"""Coefficients of |x|^6, |x|^5, ..."""
_ERF = ((7.4481184425e-4, 4.5400281738e-2, 2.7609212279e-1, 1.1280932447),
        (2.4813862145e-5, 8.2844606784e-3, 1.3675764810e-1, 5.7439188334e-1, 1.0))  # fmt: skip
"""Of x^2 from the highest power down, above and below."""


def exp_of_16_bits(x: Doubles) -> Doubles:
    """2^n times a polynomial of second degree in what is left of x / ln 2 (Moroz et al. 2022, section 5), 0.17 % off at
    most."""
    power = np.clip(x * 1.4426950216293335 + 127, 0, 255)
    whole = np.floor(power)
    part = np.floor((power - whole) * 2.0**23)
    found: Doubles = np.ldexp(
        1.0017248 + part * (7.839635491371155e-08 + part * 4.791750143340323e-15), whole.astype(np.int64) - 127
    )
    return found


def exp_approximate(x: Doubles) -> Doubles:
    """The bits of a line through exp(x): whole 256ths of a power of two (`calculate_exponential`, approximate mode)."""
    line = np.rint(np.clip(np.maximum(x, -88.5) * 369.329925537109375 + 32500.818359375, 0, 65535))
    found: Doubles = (line.astype(np.uint32) << np.uint32(15)).view(np.float32).astype(np.float64)
    return found


def rsqrt_approximate(x: Doubles) -> Doubles:
    """One step from a guess of the bits (`ckernel_sfpu_sqrt.h`, approximate mode), 0.09 % off at most."""
    guess = np.uint32(0x5F0B3892) - (x.astype(np.float32).view(np.uint32) >> np.uint32(1))
    y = guess.view(np.float32).astype(np.float64)
    return y * (1.89099014875 - y * x * y)


def _sigmoid(x: Doubles) -> Doubles:
    found: Doubles = 1 / (1 + exp_of_16_bits(-x))
    return found


def _tanh(x: Doubles) -> Doubles:
    found: Doubles = np.copysign(np.minimum(np.polyval(_TANH, np.abs(x)), 1), x)
    return found


def _erf(x: Doubles) -> Doubles:
    x = np.clip(x, -10, 10)
    found: Doubles = np.clip(x * np.polyval(_ERF[0], x * x) / np.polyval(_ERF[1], x * x), -1, 1)
    return found


def _mish(x: Doubles) -> Doubles:
    power = exp_of_16_bits(x)
    raised = power * (power + 2)
    found: Doubles = x * raised / (raised + 2)
    return found


def _hardswish(x: Doubles) -> Doubles:
    """x times hardsigmoid(x) as a register of 16 bits has it."""
    share = np.clip(x / 6 + 0.5, 0, 1).astype(np.float32)
    found: Doubles = x * truncated(share).astype(np.float64)
    return found


IN_16_BITS: Mapping[str, Function] = MappingProxyType(
    {
        "exp": exp_of_16_bits,
        "sigmoid": _sigmoid,
        "silu": lambda x: x * _sigmoid(x),
        "tanh": _tanh,
        "erf": _erf,
        "mish": _mish,
        "hardswish": _hardswish,
    }
)
"""Kernels that take a coarser way while destination registers have 16 bits."""


def applied(function: Function, x: Array) -> Array:
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


def computed(units: Units, x: Array, name: str, exact: Function) -> Array:
    """A function of what a destination register holds, in one."""
    function = exact if units.wide else IN_16_BITS.get(name, exact)
    return units.function(applied(function, x), name not in CUT_OFF)


def exponential(units: Units, x: Array, approximate: bool = False) -> Array:
    """`approximate`: the kernel is set to its fast mode, which leaves the rounding to the register."""
    if approximate:
        return units.function(applied(exp_approximate, x), nearest=False)
    return computed(units, x, "exp", np.exp)


def activation(units: Units, x: Array, name: object) -> Array:
    """An activation that a kernel applies to what a destination register holds."""
    if not name:
        return x
    called = short_name(str(name)).partition("(")[0]
    return computed(units, x, called, lambda v: activated(v, name))
