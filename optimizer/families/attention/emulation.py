"""Attention, chunk of keys by chunk, as `sdpa_inner_loop` has it (`sdpa/device/kernels/compute`, ttnn 0.81.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.families.attention.rows import ROWS
from optimizer.families.movement.emulation import moved
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.formats import truncated
from optimizer.kernels.tensix.rounding import Array, packer_sum
from optimizer.layouts.op_config import SDPAProgramConfig
from optimizer.values.emulation.functions import applied, exp_approximate, exponential
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.units import Units, converted

_TILE = 32
_USUAL_CHUNK = 32
"""Keys of a chunk of a call without a program config."""
_MASKED = np.float32(-3.3895314e38)
"""What a mask puts in the place of minus infinity: bf16's lowest number."""


@dataclass
class _Running:
    """What is kept from chunk to chunk: largest scores [..., 1], tiles of sums [..., 32], weighted values."""

    most: Array
    sums: Array
    values: Array


_KEPT = DType.BF16
"""Element type of what is kept of maxima, corrections and weighted values, whatever the registers are; scores, weights
and their sums are f32 where registers have 32 bits (of all ways to have it, the one nearest to the simulator)."""


@dataclass(frozen=True)
class _Attention:
    units: Units
    dtypes: tuple[DType, ...]
    scale: np.float32
    approximate: bool = False
    """The compute config's mode, which leaves rounding reciprocals to the register."""

    def attended(self, q: Array, k: Array, v: Array, bias: Array | None, chunk: int) -> Array:
        """softmax(q k^T * scale + bias) v in destination registers."""
        running: _Running | None = None
        for start in range(0, k.shape[-2], chunk):
            keys = slice(start, start + chunk)
            mask = None if bias is None else bias[..., keys]
            running = self._chunk(q, k[..., keys, :], v[..., keys, :], mask, running)
        assert running is not None
        between = self.units.between
        total = self.units.total(running.sums, between)
        share = self.units.packed(
            self.units.function(applied(np.reciprocal, total), nearest=not self.approximate), between
        )
        return self.units.times(running.values, share, (_KEPT, between))

    def _chunk(self, q: Array, k: Array, v: Array, mask: Array | None, before: _Running | None) -> _Running:
        units, between = self.units, self.units.between
        held = self._product(q, k.swapaxes(-1, -2), (self.dtypes[0], self.dtypes[1]))
        scores = units.packed(held, between)
        if mask is not None:
            hidden = np.maximum(mask, _MASKED)
            scores = units.packed(units.plus(scores, hidden, (between, DType.BF16)), between)
        most = units.packed(scores.max(axis=-1, keepdims=True), _KEPT)
        if before is not None:
            most = np.maximum(most, before.most)
        weights = self._powers(scores, most)
        values = units.packed(self._product(weights, v, (between, self.dtypes[2])), _KEPT)
        made = _Running(most, self._tile_sums(weights), values)
        if before is not None:  # the packer adds what is corrected in L1
            factor = self._correction(before.most, most)
            made.sums = packer_sum(made.sums, units.times(before.sums, factor, (between, _KEPT)), between)
            made.values = packer_sum(made.values, units.times(before.values, factor, (_KEPT, _KEPT)), _KEPT)
        return made

    def _product(self, a: Array, b: Array, dtypes: tuple[DType, DType]) -> Array:
        found = self.units.matmul(a, b, dtypes)
        return found.reshape(*a.shape[:-1], b.shape[-1])

    def _powers(self, x: Array, most: Array) -> Array:
        """exp((x - most) * scale) by the approximate exponential, into which the scale goes; what would be below zero
        is zero (packer ReLU)."""
        lowered = self.units.minus(x, most, (self.units.between, _KEPT))
        made = applied(lambda v: exp_approximate(v * float(self.scale)), lowered)
        return self.units.packed(self.units.function(made, nearest=False), self.units.between)

    def _correction(self, before: Array, most: Array) -> Array:
        """exp((before - most) * scale), exact as of other kernels; the scale is cut off at 16 bits."""
        lowered = self.units.minus(before, most, (_KEPT, _KEPT))
        return self.units.packed(exponential(self.units, lowered * truncated(np.asarray([self.scale]))), _KEPT)

    def _tile_sums(self, weights: Array) -> Array:
        """The packer adds the tiles of a row in L1."""
        total = weights[..., :_TILE]
        for start in range(_TILE, weights.shape[-1], _TILE):
            total = packer_sum(total, weights[..., start : start + _TILE], self.units.between)
        return total


def _scale(step: Step, size: int) -> np.float32:
    scale = step.attrs.get("scale")
    return np.float32(1 / math.sqrt(size) if scale is None else scale)


def _whole_tiles(x: Array, axis: int) -> Array:
    """With zeros, so that the dim is whole tiles."""
    pads = [(0, 0)] * x.ndim
    pads[axis] = (0, -x.shape[axis] % _TILE)
    return np.pad(x, pads)


def _sdpa(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    q, k, v = (in_f32(x) for x in operands[:3])
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat(shared, axis=1), v.repeat(shared, axis=1)
    keys = k.shape[-2]
    bias = in_f32(operands[3]) if len(operands) > 3 else None
    if bias is not None:  # TTNN divides the mask by what the kernel multiplies scores and mask with
        share = np.float32(1) / _scale(step, q.shape[-1])
        bias = converted(np.clip(bias * share, _MASKED, -_MASKED), step.dtypes[3])
    if step.attrs.get("is_causal"):
        bias = np.triu(np.full((q.shape[-2], keys), _MASKED, np.float32), 1)
    if keys % _TILE:
        bias = np.zeros((1, 1, 1, keys), np.float32) if bias is None else bias
        width = -keys % _TILE
        bias = np.pad(bias, [(0, 0)] * (bias.ndim - 1) + [(0, width)], constant_values=_MASKED)
    k, v = _whole_tiles(k, -2), _whole_tiles(v, -2)
    chunk = step.config.k_chunk_size if isinstance(step.config, SDPAProgramConfig) else _USUAL_CHUNK
    held = _Attention(step.units, step.dtypes, _scale(step, q.shape[-1]), step.approximate).attended(
        q, k, v, bias, chunk
    )
    return [step.units.packed(held, step.results[0])]


def _sdpa_decode(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """Q [1, B, H, D]: one position each, caches [B, Hkv, S, D] valid up to and including `cur_pos`."""
    q, k, v = (in_f32(x) for x in operands[:3])
    shared = q.shape[2] // k.shape[1]
    k, v = k.repeat(shared, axis=1), v.repeat(shared, axis=1)
    bias = in_f32(operands[3]).swapaxes(1, 2) if len(operands) > 3 else None
    if step.attrs.get("is_causal", True):
        last = np.broadcast_to(np.asarray(step.attrs["cur_pos"]), (q.shape[1],))
        valid = np.arange(k.shape[2])[None, :] <= last[:, None]
        bias = np.where(valid, np.float32(0), _MASKED)[:, None, None, :]
    chunk = step.config.k_chunk_size if isinstance(step.config, SDPAProgramConfig) else _USUAL_CHUNK
    made = _Attention(step.units, step.dtypes, _scale(step, q.shape[-1]), step.approximate)
    held = made.attended(q.transpose(1, 2, 0, 3), k, v, bias, chunk).transpose(2, 0, 1, 3)
    return [step.units.packed(held, step.results[0])]


def _rotary(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """x * cos + rotate_half(x) * sin; both products are kept in circular buffers (`rotary_embedding.cpp`).

    Operands of 16 bits are added in registers of 16 bits, whatever the compute config says.
    """
    units, kept = Units("HiFi4", DType.F32 in step.dtypes), step.results[0]
    x, cos, sin = (in_f32(a) for a in operands)
    cos, sin = cos[..., : x.shape[-2], :], sin[..., : x.shape[-2], :]
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    first = units.packed(units.times(x, cos, (step.dtypes[0], step.dtypes[1])), kept)
    second = units.packed(units.times(turned, sin, (step.dtypes[0], step.dtypes[2])), kept)
    return [units.packed(units.plus(first, second, (kept, kept)), kept)]


EMULATIONS: Mapping[str, Rule] = {
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.scaled_dot_product_attention_decode": _sdpa_decode,
    "ttnn.rotary_embedding": _rotary,
    **dict.fromkeys((name for name, row in ROWS.items() if row.moves_elements), moved),
}
