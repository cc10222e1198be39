"""Matrix products as the matrix unit makes them: operands cut to what its passes take, sums rounded as registers round.

With destination registers of 32 bits rounding in them is far below that of any result, so a product is one BLAS call
per part of the operands. Those of 16 bits round after every 16 products of a pass, with ties away from zero, which
makes results larger: there every such addition is made by itself (docs/tensix-values.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.formats import in_source, truncated
from optimizer.kernels.tensix.device.fpu import PHASES
from optimizer.kernels.tensix.rounding import Array, packer_sum
from optimizer.precision.blocks import TILE, Blocks
from optimizer.values.emulation.registers import NarrowSums

DEPTH = 16
"""Products that one instruction adds to a destination register."""
ONE_BLOCK = Blocks(0, packer_adds=False, last_reloads=True)
_FIRST_B, _ALL_B = 7, 11
"""Bits that a pass takes of source register B (a matmul's operand A), and that all passes take."""
_FIRST_A, _ALL_A = 5, 10
"""The same of source register A (operand B)."""
_CHUNK = 1 << 15
"""Elements of a result that are summed up together, so that they stay in the processor's cache."""
_COLUMNS = 1024
"""Columns of a result that are made together, so that those of the operand stay in it too."""


@dataclass(frozen=True)
class Sums:
    """How a product is summed up."""

    fidelity: str
    """As tt-metal spells it."""
    wide: bool
    """Destination registers have 32 bits."""
    blocks: Blocks = ONE_BLOCK


def kept(values: Array, bits: int) -> Array:
    """The upper bits of every significand."""
    return truncated(values, np.uint32((0xFFFFFFFF << (24 - bits)) & 0xFFFFFFFF))


def passes(a: Array, b: Array, fidelity: str) -> list[tuple[Array, Array]]:
    """Operands of the passes: upper bits of both, then the rest of B, the rest of A, the rests of both."""
    first_a, first_b = kept(a, _FIRST_B), kept(b, _FIRST_A)
    rest_a, rest_b = kept(a, _ALL_B) - first_a, kept(b, _ALL_A) - first_b
    parts = [(first_a, first_b), (first_a, rest_b), (rest_a, first_b), (rest_a, rest_b)]
    return parts[: PHASES[fidelity]]


def product(a: Array, b: Array, dtypes: tuple[DType, DType], sums: Sums) -> Array:
    """a @ b in f32, as destination registers hold it; `dtypes` are those of the operands' circular buffers."""
    a, b = in_source(a, dtypes[0], sums.wide), in_source(b, dtypes[1], sums.wide)
    if sums.wide:
        return _wide(a, b, sums.fidelity)
    a, b = _alike(a, b)
    made = np.empty((a.shape[0], a.shape[1], b.shape[2]), np.float32)
    for index in range(a.shape[0]):
        _narrow(a[index], b[index], sums, made[index])
    return made


def _alike(a: Array, b: Array) -> tuple[Array, Array]:
    """Both as [batch, rows, columns]."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    return a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])


def _wide(a: Array, b: Array, fidelity: str) -> Array:
    """All passes at once."""
    if fidelity == "LoFi":
        return kept(a, _FIRST_B) @ kept(b, _FIRST_A)
    whole = kept(b, _ALL_A)
    if fidelity == "HiFi2":
        return kept(a, _FIRST_B) @ whole
    if fidelity == "HiFi4":
        return kept(a, _ALL_B) @ whole
    rest = kept(a, _ALL_B) - kept(a, _FIRST_B)
    found: Array = kept(a, _FIRST_B) @ whole
    return found + rest @ kept(b, _FIRST_A) if rest.any() else found


def _narrow(a: Array, b: Array, sums: Sums, into: Array) -> None:
    """One product, part by part of its result."""
    columns = min(b.shape[1], _COLUMNS)
    rows = max(1, _CHUNK // columns)
    for left in range(0, b.shape[1], columns):
        parts = [(x, y) for x, y in passes(a, b[:, left : left + columns], sums.fidelity) if x.any() and y.any()]
        for top in range(0, a.shape[0], rows):
            these = [(np.ascontiguousarray(x[top : top + rows]), y) for x, y in parts]
            part = into[top : top + rows, left : left + columns]
            part[:] = _rows(these, part.shape, a.shape[1], sums)


def _rows(parts: list[tuple[Array, Array]], shape: tuple[int, ...], depth: int, sums: Sums) -> Array:
    """Block after block; with the packer all but the last are added in L1 in bf16, and the last one on top of that."""
    blocks = sums.blocks
    block = blocks.tiles * TILE or depth
    packed: Array | None = None
    registers = NarrowSums(shape)
    for start in range(0, depth, block):
        if blocks.packer_adds and start:
            packed = registers.held if packed is None else packer_sum(packed, registers.held, DType.BF16)
            registers = NarrowSums(shape)
            if blocks.last_reloads and start + block >= depth:
                registers.held, packed = packed, None
        for tile in range(start, min(start + block, depth), TILE):
            for x, y in parts:
                for first in range(tile, min(tile + TILE, depth), DEPTH):
                    taken = slice(first, first + DEPTH)
                    registers.add(x[:, taken] @ y[taken])
    return registers.held if packed is None else packer_sum(packed, registers.held, DType.BF16)
