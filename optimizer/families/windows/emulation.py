"""Convolutions, pools and sampling as a device computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from optimizer.families.movement.emulation import kept
from optimizer.families.products.emulation import finished, kept_between, sums_of
from optimizer.families.windows.reference import RULES as EXACT
from optimizer.families.windows.reference import averaged_windows, flat, image, sample_points, spread, windows
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.formats import in_source, truncated
from optimizer.kernels.tensix.rounding import Array
from optimizer.layouts.conv_configs import is_pointwise
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.precision.blocks import Blocks, conv_blocks
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.products import DEPTH, Sums, passes
from optimizer.values.emulation.registers import NarrowSums
from optimizer.values.emulation.units import Units, converted
from optimizer.values.reference.kinds import Computed


def _weights(step: Step, weight: Array) -> tuple[Array, DType]:
    """[O, C/groups, kh, kw] as the op prepares it."""
    stated = step.config.weights_dtype if isinstance(step.config, Conv2dConfig) else None
    dtype = DType(stated) if stated else step.dtypes[1]
    groups = int(step.attrs.get("groups", 1)) if step.op == "ttnn.conv2d" else 1
    return prepared_weights(weight, dtype, groups), dtype


def prepared_weights(weight: Array, dtype: DType, groups: int) -> Array:
    """[O, C/groups, kh, kw] in an element type; block formats share exponents along O.

    The groups of a convolution become one matrix with zeros between them, so that only outputs of one group share.
    """
    rows = weight.transpose(1, 2, 3, 0)
    each = converted(rows.reshape(*rows.shape[:3], groups, -1), dtype)
    return each.reshape(rows.shape).transpose(3, 0, 1, 2)


def _convolved(step: Step, x: Array, weight: Array, dtypes: tuple[DType, DType], sums: Sums) -> Array:
    """[N, H, W, C], padded already, as [N, Ho, Wo, O] in destination registers."""
    attrs, units = step.attrs, step.units
    groups, outs = attrs["groups"], weight.shape[0]
    found = windows(x, attrs["kernel_size"], attrs["stride"], attrs["dilation"])
    n, ho, wo, *_, channels = found.shape
    if channels == groups == outs:
        return _depthwise(units, found, weight[:, 0], dtypes)
    each_in, each_out = channels // groups, outs // groups
    parts = []
    for g in range(groups):
        columns = found[..., g * each_in : (g + 1) * each_in].reshape(n * ho * wo, -1)
        matrix = weight[g * each_out : (g + 1) * each_out].transpose(2, 3, 1, 0).reshape(-1, each_out)
        parts.append(units.matmul(columns, np.ascontiguousarray(matrix), dtypes, sums).reshape(-1, each_out))
    joined: Array = np.concatenate(parts, axis=-1)
    return joined.reshape(n, ho, wo, outs)


def _depthwise(units: Units, found: Array, weight: Array, dtypes: tuple[DType, DType]) -> Array:
    """Windows [N, Ho, Wo, kh, kw, C] times weights [C, kh, kw], added up position by position."""
    a = in_source(found, dtypes[0], units.wide)
    b = in_source(np.ascontiguousarray(weight.transpose(1, 2, 0)), dtypes[1], units.wide)
    parts = passes(a, b, units.fidelity)
    shape = (*found.shape[:3], found.shape[-1])
    registers, total = NarrowSums(shape), np.zeros(shape, np.float32)
    for i, j in np.ndindex(*found.shape[3:5]):
        for x, y in parts:
            term = x[:, :, :, i, j] * y[i, j]
            if units.wide:
                total += term
            else:
                registers.add(term)
    return total if units.wide else registers.held


def _conv2d(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    top, bottom, left, right = step.attrs["padding"]
    x, of_x = _tilized(step, image(step.attrs, in_f32(operands[0])))
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    weight, dtype = _weights(step, in_f32(operands[1]))
    shards = step.config.shard_layout if isinstance(step.config, Conv2dConfig) else None
    each_in = x.shape[-1] // int(step.attrs["groups"])
    blocks = conv_blocks(step.attrs["kernel_size"], each_in, shards, step.packer_adds, len(operands) > 2)
    held = flat(_convolved(step, x, weight, (of_x, dtype), sums_of(step, blocks)))
    return [finished(_with_bias_type(step, dtype), held, _with_flat_bias(operands, dtype), kept_between(step, blocks))]


def _tilized(step: Step, x: Array) -> tuple[Array, DType]:
    """The image [N, H, W, C] as it is multiplied: windows are tilized into the result's element type."""
    given, result = step.dtypes[0], step.results[0]
    if not result.is_block_float or given.is_block_float or is_pointwise(step.attrs):
        return x, given
    return step.units.packed(x.reshape(-1, x.shape[-1]), result).reshape(x.shape), result


def _with_bias_type(step: Step, dtype: DType) -> Step:
    """The bias is prepared in the weights' element type."""
    return replace(step, dtypes=(step.dtypes[0], dtype, dtype), attrs={**step.attrs, "activation": _activation(step)})


def _activation(step: Step) -> object:
    return step.attrs.get("activation") or getattr(step.config, "activation", None)


def _with_flat_bias(operands: Sequence[AnyArray], dtype: DType) -> Sequence[AnyArray]:
    if len(operands) < 3:
        return operands
    return [*operands[:2], converted(in_f32(operands[2]).reshape(-1), dtype)]


def _conv_transpose2d(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """Every pass by itself, added up in f32: such an op's sums have 32 bits in every plan."""
    weight = in_f32(operands[1])
    rows, dtype = _weights(step, weight.swapaxes(0, 1))
    weight, units = rows.swapaxes(0, 1), step.units
    x = image(step.attrs, in_source(in_f32(operands[0]), step.dtypes[0], units.wide))
    made = [spread(a, b, step.attrs) for a, b in passes(x, in_source(weight, dtype, units.wide), units.fidelity)]
    held = flat(np.sum(made, axis=0).astype(np.float32))
    blocks = Blocks(0, step.packer_adds, last_reloads=False)
    return [finished(_with_bias_type(step, dtype), held, _with_flat_bias(operands, dtype), kept_between(step, blocks))]


# -- pools and sampling -------------------------------------------------------------------------------------------
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


EMULATIONS: Mapping[str, Rule] = {
    **dict.fromkeys(EXACT, _rounded_once),
    "ttnn.conv2d": _conv2d,
    "ttnn.conv_transpose2d": _conv_transpose2d,
    "ttnn.max_pool2d": _selected,
    "ttnn.avg_pool2d": _avg_pool2d,
    "ttnn.grid_sample": _grid_sample,
    "ttnn.upsample": _upsample,
}
