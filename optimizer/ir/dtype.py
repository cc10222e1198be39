"""Element types, spelled as TTNN's tools spell them (`bf16`, `bfp8_b`, ...)."""

from __future__ import annotations

from enum import StrEnum


class DType(StrEnum):
    """Device element types. The value is the spelling used in JSON, on the command line and in tables."""

    F32 = "f32"
    BF16 = "bf16"
    BFP8_B = "bfp8_b"
    BFP4_B = "bfp4_b"
    U32 = "u32"
    I32 = "i32"
    U16 = "u16"
    U8 = "u8"

    @property
    def tile_bytes(self) -> int:
        """Bytes of one 32x32 tile (tt-metal `data_formats.md`: block formats add 64 shared exponents)."""
        return _TILE_BYTES[self]

    @property
    def element_bytes(self) -> int:
        """Bytes of one row-major element; block formats exist only in tiles and raise ValueError."""
        if self in (DType.BFP8_B, DType.BFP4_B):
            raise ValueError(f"{self.value} has no row-major form")
        return _TILE_BYTES[self] // 1024

    @property
    def is_block_float(self) -> bool:
        return self in (DType.BFP8_B, DType.BFP4_B)

    @property
    def is_float(self) -> bool:
        return self in (DType.F32, DType.BF16, DType.BFP8_B, DType.BFP4_B)

    def holds(self, element: float) -> bool:
        """Whether a number is one of this type: integer types hold whole numbers of their range, others any number."""
        bounds = _WHOLE_NUMBERS.get(self)
        return bounds is None or (bounds[0] <= element <= bounds[1] and float(element).is_integer())


_WHOLE_NUMBERS = {
    DType.U8: (0, 2**8 - 1),
    DType.U16: (0, 2**16 - 1),
    DType.U32: (0, 2**32 - 1),
    DType.I32: (-(2**31), 2**31 - 1),
}
_TILE_BYTES = {
    DType.F32: 4096,
    DType.BF16: 2048,
    DType.BFP8_B: 1088,
    DType.BFP4_B: 576,
    DType.U32: 4096,
    DType.I32: 4096,
    DType.U16: 2048,
    DType.U8: 1024,
}

FLOATS = frozenset(dtype for dtype in DType if dtype.is_float)
WIDE_FLOATS = FLOATS - {DType.BFP4_B}
"""Those that most kernels beside element-wise ones take."""
WORDS = frozenset({DType.U32, DType.I32})
INTEGERS = WORDS | {DType.U16}
