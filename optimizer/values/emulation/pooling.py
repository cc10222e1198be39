"""Pools and upsampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from optimizer.kernels.tensix.device.formats import in_source, truncated
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.movement import kept
from optimizer.values.emulation.products import DEPTH, passes
from optimizer.values.emulation.registers import NarrowSums
from optimizer.values.reference.contraction import flat
from optimizer.values.reference.kinds import Computed
from optimizer.values.reference.pooling import RULES as EXACT
from optimizer.values.reference.pooling import averaged_windows, sample_points


def _selected(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    return [kept(np.asarray(x, np.float32), step.dtypes[0], step.results[0]) for x in _exact(step, operands)]


def _exact(step: Step, operands: Sequence[AnyArray]) -> list[AnyArray]:
    found = EXACT[step.op](step.attrs, [in_f32(x).astype(np.float64) for x in operands])
    return [np.asarray(r.value if isinstance(r, Computed) else r) for r in found]


def _avg_pool2d(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """A sum over the window's positions, each times 1/N as bf16 has it, cut off (`avg_pool2d`, ttnn 0.81.1).

    Sixteen positions are one instruction of the matrix unit, with the scalars in source register B.
    """
    units = step.units
    found, share = averaged_windows(step.attrs, in_f32(operands[0]))
    scalars = truncated(share.astype(np.float32))
    values = in_source(found, step.dtypes[0], units.wide).reshape(*found.shape[:3], -1, found.shape[-1])
    parts = passes(np.broadcast_to(scalars[..., None, :], (*values.shape[:-1], 1)), values, units.fidelity)
    total, registers = np.zeros(values.shape[:3] + values.shape[4:], np.float32), None
    for first in range(0, values.shape[3], DEPTH):
        for scalar, value in parts:
            taken = slice(first, first + DEPTH)
            term = (scalar[..., taken, :] * value[..., taken, :]).sum(axis=3)
            if units.wide:
                total += term
            else:
                registers = registers or NarrowSums(total.shape)
                registers.add(term)
    return [units.packed(flat(total if registers is None else registers.held), step.results[0])]


def _grid_sample(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """The four elements around a point, each times its share as bf16 has it, cut off (`grid_sample`, ttnn 0.81.1)."""
    units, (image, grid) = step.units, (in_f32(x) for x in operands)
    values = in_source(image, step.dtypes[0], units.wide)
    index = np.arange(len(values))[:, None, None]
    total = np.zeros((*grid.shape[:-1], values.shape[-1]), np.float32)
    for corner in sample_points(step.attrs, values, grid):
        shares = truncated(corner.weight.astype(np.float32))[..., None]
        for share, value in passes(shares, values[index, corner.rows, corner.columns], units.fidelity):
            total += share * value
    return [units.packed(total, step.results[0])]


def _rounded_once(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    units = step.units
    return [units.packed(units.function(x), step.results[0]) for x in _exact(step, operands)]


def _upsample(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    nearest = str(step.attrs.get("mode", "nearest")) == "nearest"
    return (_selected if nearest else _rounded_once)(step, operands)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(EXACT, _rounded_once),
    "ttnn.max_pool2d": _selected,
    "ttnn.avg_pool2d": _avg_pool2d,
    "ttnn.grid_sample": _grid_sample,
    "ttnn.upsample": _upsample,
}
