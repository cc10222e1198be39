"""What tile ops mean: functions of numpy on tiles of 32 x 32 elements, where numpy has none of that name.

They compute in whatever precision their operands have.
"""

from __future__ import annotations

from math import erf as _erf
from math import erfc as _erfc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.rounding import FORMAT_NUMBERS, round_bf16

EXTENDED = np.longdouble
"""What meanings are evaluated in, and the C++ of `executor/` as well: `long double`.

Functions of the C library differ between implementations in the last bit, in float32 visibly so. Rounded once from
64 bits, two implementations give the same float32 but in one of 2^38 cases, and `longdouble` functions of numpy are the
C library's, so that both witnesses agree bit for bit.
"""


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """1 / (1 + exp(-x))."""
    found: NDArray[Any] = 1 / (1 + np.exp(-x))
    return found


_ROOT_2_OVER_PI = EXTENDED("0.79788456080286535587989")


def gelu_tanh(x: NDArray[Any]) -> NDArray[Any]:
    """0.5 x (1 + tanh(u)) as x times the sigmoid of 2u, which does not cancel out below zero."""
    u = _ROOT_2_OVER_PI * (x + EXTENDED("0.044715") * x**3)
    found: NDArray[Any] = x * sigmoid(2 * u)
    return found


erf = np.vectorize(_erf, otypes=[np.float64])
erfc = np.vectorize(_erfc, otypes=[np.float64])


def larger(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The maximum; NaN if one is. Of two zeros the second: `np.maximum` takes either."""
    return np.where((a > b) | np.isnan(a), a, b)


def smaller(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The minimum, in the same way."""
    return np.where((a < b) | np.isnan(a), a, b)


def repeated(which: str, x: NDArray[Any]) -> NDArray[Any]:
    """A tile's first row, column or element (`scalar`), all over it."""
    part = {"row": x[:1, :], "col": x[:, :1], "scalar": x[:1, :1]}[which]
    return np.asarray(np.broadcast_to(part, x.shape))


def typecast(x: NDArray[Any], source: float, target: float) -> NDArray[Any]:
    """DST has no block formats: their exponents are shared when they are packed. Formats by `FORMAT_NUMBERS`."""
    return x if int(target) == FORMAT_NUMBERS[DType.F32] else round_bf16(x)


def reduced(kind: str, axis: str, total: NDArray[Any], x: NDArray[Any], scaler: NDArray[Any]) -> NDArray[Any]:
    """`total` with the reduction of one more tile: in the first column, row or element, zero elsewhere.

    The scaler tile holds one number everywhere; its first element is taken. A sum over the whole tile is pooled twice,
    down the columns and along the row of their sums, and scaled twice (`reduce.h`: a mean of N takes 1/sqrt(N)).
    Sums are taken element after element.
    """
    lines = {"row": x, "col": x.T, "scalar": x.reshape(1, -1)}[axis]
    part = np.add.accumulate(lines, axis=1)[:, -1] if kind == "sum" else np.max(lines, axis=1)
    part = (part + 0.0) * scaler[0, 0]  # a sum of zeros begins at +0, and a maximum of zeros is +0
    part = part * scaler[0, 0] if (kind, axis) == ("sum", "scalar") else part
    made = np.zeros_like(x)
    before, after = ({"row": t[:, 0], "col": t[0], "scalar": t[0, :1]}[axis] for t in (total, made))
    after[...] = before + part if kind == "sum" else larger(before, part)
    return made


def product(total: NDArray[Any], a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """`total + a @ b`, over the depth one after the other: sums in another order round differently."""
    terms = (a[:, k : k + 1] * b[k : k + 1] for k in range(a.shape[1]))
    return np.asarray(total + sum(terms, np.zeros_like(total)))
