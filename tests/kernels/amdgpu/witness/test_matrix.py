"""MFMA: where the elements of A, B, C and D lie, and what is computed."""

from __future__ import annotations

import numpy as np
import pytest
from launches import Array, run_body

from optimizer.kernels.amdgpu.witness.interpreter.mfma import TABLE, Shape, input_places, multiply, output_places

RANDOM = np.random.default_rng(5)
SHAPES = {shape: name for name, shape in TABLE.items()}


def packed(shape: Shape, matrix: Array) -> Array:
    """The registers of one operand: (blocks, size, depth) elements in the layout of the lanes, as uint32."""
    block, place, k = input_places(shape)
    elements = matrix[block, place, k]
    if shape.kind == "bf16":
        return np.ascontiguousarray(elements.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
    types = {"f32": np.float32, "f16": np.float16, "i8": np.int8}
    return np.ascontiguousarray(elements.astype(types[shape.kind])).view(np.uint32)


@pytest.mark.parametrize("shape", SHAPES, ids=SHAPES.get)
def test_product_and_accumulation(shape: Shape) -> None:
    # Small integers: exact in every input type and every order of accumulation.
    a, b = (RANDOM.integers(-8, 9, (shape.blocks, shape.size, shape.depth)) for _ in range(2))
    c = RANDOM.integers(-100, 100, (shape.blocks, shape.size, shape.size))
    places = output_places(shape)
    kind = np.int32 if shape.kind == "i8" else np.float32

    d = multiply(shape, packed(shape, a), packed(shape, b), c[places].astype(kind).view(np.uint32)).view(kind)

    assert (d == (a @ b.transpose(0, 2, 1) + c)[places]).all()


@pytest.mark.parametrize("shape", SHAPES, ids=SHAPES.get)
def test_every_element_has_one_place(shape: Shape) -> None:
    inputs = set(zip(*(part.ravel().tolist() for part in input_places(shape)), strict=True))
    outputs = set(zip(*(part.ravel().tolist() for part in output_places(shape)), strict=True))

    assert len(inputs) == shape.blocks * shape.size * shape.depth == 64 * shape.group
    assert len(outputs) == shape.blocks * shape.size * shape.size == 64 * shape.output_words


# Places as AMD's calculator prints them: instruction, lane, register (and half) -> row or column, and k.
DOCUMENTED_INPUTS = (
    ("v_mfma_f32_16x16x16_f16", 0, 3, (0, 0, 3)),
    ("v_mfma_f32_16x16x16_f16", 37, 1, (0, 5, 9)),
    ("v_mfma_f32_32x32x8_f16", 37, 1, (0, 5, 5)),
    ("v_mfma_f32_4x4x4_16b_f16", 37, 2, (9, 1, 2)),
    ("v_mfma_f32_16x16x4_f32", 37, 0, (0, 5, 2)),
    ("v_mfma_f32_32x32x2_f32", 37, 0, (0, 5, 1)),
    ("v_mfma_i32_16x16x32_i8", 37, 7, (0, 5, 23)),
)
DOCUMENTED_OUTPUTS = (
    ("v_mfma_f32_16x16x16_f16", 37, 1, (0, 9, 5)),
    ("v_mfma_f32_32x32x8_f16", 37, 0, (0, 4, 5)),
    ("v_mfma_f32_32x32x8_f16", 37, 6, (0, 14, 5)),
    ("v_mfma_f32_32x32x8_f16", 5, 15, (0, 27, 5)),
    ("v_mfma_f32_4x4x4_16b_f16", 37, 2, (9, 2, 1)),
)


@pytest.mark.parametrize(("name", "lane", "element", "place"), DOCUMENTED_INPUTS)
def test_place_of_an_input_element(name: str, lane: int, element: int, place: tuple[int, int, int]) -> None:
    assert tuple(int(part[lane, element]) for part in input_places(TABLE[name])) == place


@pytest.mark.parametrize(("name", "lane", "register", "place"), DOCUMENTED_OUTPUTS)
def test_place_of_an_output_element(name: str, lane: int, register: int, place: tuple[int, int, int]) -> None:
    assert tuple(int(part[lane, register]) for part in output_places(TABLE[name])) == place


def test_accumulation_in_agprs() -> None:
    shape = TABLE["v_mfma_f32_32x32x8_bf16"]
    a, b = (RANDOM.integers(-8, 9, (1, 32, 8)) for _ in range(2))
    body = """
      v_lshlrev_b32_e32 v1, 3, v0
      global_load_dwordx2 v[2:3], v1, s[4:5]
      global_load_dwordx2 v[4:5], v1, s[6:7]
      s_waitcnt vmcnt(0)
      v_mfma_f32_32x32x8_bf16 a[0:15], v[2:3], v[4:5], 1.0
      v_mfma_f32_32x32x8_bf16 a[0:15], v[2:3], v[4:5], a[0:15]
      v_lshlrev_b32_e32 v1, 2, v0
      s_nop 9
      v_accvgpr_read_b32 v6, a5
      global_store_dword v1, v6, s[8:9]
    """
    buffers = {"a": packed(shape, a), "b": packed(shape, b), "target": np.zeros(64, np.float32)}

    run = run_body(body, buffers, agprs=16)

    wanted = (2 * a @ b.transpose(0, 2, 1) + 1)[output_places(shape)][:, 5]
    assert run.buffers["target"].tolist() == wanted.tolist()
