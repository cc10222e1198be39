"""What an error of a tensor is relative to, and what a correlation sees of it at an output.

Errors are relative to the root mean square of 16 neighbouring elements, which share an exponent where tensors are
stored in blocks; elements that are zero stay zero. A correlation sees the part of an output's error that is no multiple
of the output around its mean. An output of few numbers, or of equal ones,
is judged by the whole error, relative to the output as it is.
"""

from __future__ import annotations

import numpy as np

from optimizer.errors import ExecutionError
from optimizer.values.compare import has_correlation
from optimizer.values.reference.kinds import Array

_BLOCK = 16
_MASKING = 1e18
"""Elements as large as that only say that others do not count: they have no errors."""


def error_sizes(x: Array) -> Array:
    """What the errors of the elements are relative to, in the shape of x."""
    width = x.shape[-1] if x.ndim else 1
    rows = np.where(np.abs(x) < _MASKING, x, 0).reshape(-1, width)
    blocks = np.pad(rows, ((0, 0), (0, -width % _BLOCK))).reshape(len(rows), -1, _BLOCK)
    size = np.sqrt((blocks**2).sum(axis=-1) / min(_BLOCK, width)).repeat(_BLOCK, axis=-1)[:, :width]
    return np.where(rows == 0, rows.dtype.type(0), size).reshape(x.shape)


def centred(value_id: str, array: Array) -> Array:
    """An output, flat, in float64 and `around_mean`. ExecutionError where it is no number."""
    flat = array.astype(np.float64).ravel()
    if not np.isfinite(flat).all():
        raise ExecutionError(f"output '{value_id}' is not a number for these inputs and weights", node=value_id)
    return around_mean(flat)


def around_mean(flat: Array) -> Array:
    """Numbers of an output less their mean; few of them, and equal ones, as they are."""
    found: Array = flat - flat.mean() if has_correlation(flat) else flat
    return found


def unlike(wanted: Array, array: Array) -> Array:
    """The part of an array that is no multiple of what is wanted; of few numbers, and equal ones, all of it. Both are
    `around_mean`."""
    if not has_correlation(wanted):
        return array
    rest: Array = array - wanted * (float(array @ wanted) / float(wanted @ wanted))
    return rest
