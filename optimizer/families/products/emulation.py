"""Matrix products as a device computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.rounding import Array
from optimizer.layouts.stated_compute import in0_block_w
from optimizer.precision.blocks import Blocks, matmul_blocks
from optimizer.values.emulation.functions import activation
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.products import Sums


def sums_of(step: Step, blocks: Blocks) -> Sums:
    return Sums(step.units.fidelity, step.units.wide, blocks)


def finished(step: Step, held: Array, operands: Sequence[AnyArray], between: DType) -> Array:
    """Bias and activation on what destination registers hold, and the result packed."""
    units = step.units
    if len(operands) > 2:
        bias = in_f32(operands[2])
        row = bias.reshape(bias.shape[-2:] if bias.ndim > 1 else bias.shape)
        dtypes = (between, step.dtypes[2])
        held = units.plus(units.packed(held, between), row, dtypes)
    named = step.attrs.get("activation") or getattr(step.config, "fused_activation", None)
    return units.packed(activation(units, held, named), step.results[0])


def kept_between(step: Step, blocks: Blocks) -> DType:
    """What partial sums are kept in before a bias is added."""
    units = step.units
    return units.between if units.wide or blocks.packer_adds else step.results[0]


def _matmul(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    a, b = in_f32(operands[0]), in_f32(operands[1])
    a = a.swapaxes(-1, -2) if step.attrs.get("transpose_a") else a
    b = b.swapaxes(-1, -2) if step.attrs.get("transpose_b") else b
    blocks = matmul_blocks(a.shape[-1], in0_block_w(step.config), step.packer_adds, len(operands) > 2)
    held = step.units.matmul(a, b, (step.dtypes[0], step.dtypes[1]), sums_of(step, blocks))
    held = held.reshape(*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    return [finished(step, held, operands, kept_between(step, blocks))]


EMULATIONS: Mapping[str, Rule] = dict.fromkeys(("ttnn.matmul", "ttnn.linear"), _matmul)
