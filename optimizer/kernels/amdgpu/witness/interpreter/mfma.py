"""Matrix instructions: D = A x B + C with A, B, C, D spread over the 64 lanes of a wave.

Register layout (AMD Instinct MI300 (CDNA3) ISA reference, section "Matrix Arithmetic Instructions"; the same as
printed by AMD's amd_matrix_instruction_calculator). For an M x N x K instruction with `blocks` independent products
and `g` consecutive k per lane:
* A: lane l holds A[i][k] with i = l mod M, block = l // M mod blocks, k = g * (l // (M * blocks)) + j, where j counts
  the elements packed in the lane's registers, low half first; B likewise with n = l mod N.
* C, D: lane l holds column n = l mod N; rows come in groups of four registers: register r holds row
  8 * (r // 4) + 4 * (l // 32) + r mod 4 for 32 x 32, row 4 * (l // 16) + r for 16 x 16 and row r of block l // 4 for
  4 x 4.
Exec is ignored. The hardware's order of accumulation is not documented: sums are formed in float64 here and rounded
once, so that results agree within the usual tolerance of the input type, not to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .decode import Decoder, Step, is_constant
from .floats import Array, bfloat16_to_float32
from .hazards import Matrix, Traits
from .operands import VGPR, Register, constant_bits
from .state import ALL_LANES, Wave


@dataclass(frozen=True, slots=True)
class Shape:
    """One instruction: `size` is M and N, `depth` K, `group` consecutive k per lane, `kind` the input type."""

    size: int
    depth: int
    blocks: int
    group: int
    kind: str
    passes: int

    @property
    def input_words(self) -> int:
        return max(1, self.group * {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}[self.kind] // 4)

    @property
    def output_words(self) -> int:
        return self.size * self.size * self.blocks // 64


def _shapes() -> dict[str, Shape]:
    table: dict[str, Shape] = {}
    for kind, old in (("f16", "f16"), ("bf16", "bf16_1k")):
        for size, depth, blocks, passes in ((16, 16, 1, 4), (32, 8, 1, 8), (4, 4, 16, 2)):
            shape = Shape(size, depth, blocks, 4, kind, passes)
            stem = f"v_mfma_f32_{size}x{size}x{depth}"
            table[f"{stem}{old}"] = table[f"{stem}_{'16b' if blocks > 1 else ''}{'_' if blocks > 1 else ''}{kind}"] = (
                shape
            )
        for size, depth, passes in ((16, 32, 4), (32, 16, 8)):  # gfx950
            table[f"v_mfma_f32_{size}x{size}x{depth}_{kind}"] = Shape(size, depth, 1, 8, kind, passes)
    for size, depth, passes in ((16, 4, 8), (32, 2, 16)):
        stem = f"v_mfma_f32_{size}x{size}x{depth}"
        table[f"{stem}f32"] = table[f"{stem}_f32"] = Shape(size, depth, 1, 1, "f32", passes)
    for size, depth, passes in ((16, 32, 4), (32, 16, 8)):
        stem = f"v_mfma_i32_{size}x{size}x{depth}"
        table[f"{stem}i8"] = table[f"{stem}_i8"] = Shape(size, depth, 1, 8, "i8", passes)
    return table


TABLE = _shapes()
MNEMONICS = frozenset(TABLE)


def input_places(shape: Shape) -> tuple[Array, Array, Array]:
    """Block, row (column for B) and k of every element: three (64 lanes, group) arrays."""
    lane = np.arange(64)[:, None]
    element = np.arange(shape.group)[None, :]
    block = lane // shape.size % shape.blocks + 0 * element
    k = shape.group * (lane // (shape.size * shape.blocks)) + element
    return block, lane % shape.size + 0 * element, k


def output_places(shape: Shape) -> tuple[Array, Array, Array]:
    """Block, row and column of every element: three (64 lanes, output_words) arrays."""
    lane = np.arange(64)[:, None]
    register = np.arange(shape.output_words)[None, :]
    column = lane % shape.size + 0 * register
    if shape.size == 4:
        return lane // 4 + 0 * register, register + 0 * lane, column
    groups = 64 // shape.size
    row = 4 * groups * (register // 4) + 4 * (lane // shape.size) + register % 4
    return 0 * row, row, column


def decode(d: Decoder) -> Step:
    """v_mfma_*: destination, A, B, and C (registers or an inline constant)."""
    d.modifiers()
    d.arity(4)
    shape = TABLE[d.instruction.mnemonic]
    result = d.register(0, shape.output_words, "va")
    a, b = (d.register(n, shape.input_words, "va") for n in (1, 2))
    c: Register | None = None
    constant = 0
    third = d.instruction.operands[3]
    if is_constant(third):
        constant = constant_bits(third.value, "f32", d.instruction.line)  # type: ignore[arg-type]
    else:
        c = d.register(third, shape.output_words, "va")
        if set(result.keys) & set(c.keys) and result != c and shape.output_words > 4:
            raise d.text_error("C overlaps the destination in part; it may be the same or apart")
    inputs = (*a.keys, *b.keys)
    matrix = Matrix(shape.passes, shape.kind != "f32", result, c, inputs)

    def execute(wave: Wave) -> None:
        accumulator = np.full((64, shape.output_words), constant, np.uint32) if c is None else _inputs(wave, c)
        bits = multiply(shape, _inputs(wave, a), _inputs(wave, b), accumulator)
        for register in range(shape.output_words):
            wave.set_vector(result.base + register, bits[:, register], ALL_LANES)

    return d.step(Traits("mfma", (*inputs, *(c.keys if c else ())), tuple(result.keys), matrix), execute, "all")


def _inputs(wave: Wave, register: Register) -> Array:
    first = register.base - VGPR
    return np.ascontiguousarray(wave.vectors[first : first + register.count].T)


def multiply(shape: Shape, a_bits: Array, b_bits: Array, c_bits: Array) -> Array:
    """(64, input_words) bits of A and B, (64, output_words) bits of C: the bits of D, all uint32."""
    block, place, k = input_places(shape)
    left = np.zeros((shape.blocks, shape.size, shape.depth))
    right = np.zeros((shape.blocks, shape.depth, shape.size))
    left[block, place, k] = _values(shape.kind, a_bits)
    right[block, k, place] = _values(shape.kind, b_bits)
    out_block, row, column = output_places(shape)
    products = (left @ right)[out_block, row, column]
    if shape.kind == "i8":
        total = products.astype(np.int64) + c_bits.view(np.int32)
        return (total & 0xFFFFFFFF).astype(np.uint32)
    return (products + c_bits.view(np.float32)).astype(np.float32).view(np.uint32)


def _values(kind: str, bits: Array) -> Array:
    """The packed elements of every lane, low half first, as float64 (exact)."""
    if kind == "bf16":
        return bfloat16_to_float32(bits.view(np.uint16)).astype(np.float64)
    types = {"f32": np.float32, "f16": np.float16, "i8": np.int8}
    return bits.view(types[kind]).astype(np.float64)
