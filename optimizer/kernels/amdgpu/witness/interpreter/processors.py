"""What differs between the processors whose text the witness reads.

Sources: AMD's CDNA3 and CDNA4 ISA references for instructions and LDS; for the wait states behind matrix instructions
LLVM 22's GCNHazardRecognizer, which gives gfx950 one more where the producer is an XDL instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Processor:
    """One of them."""

    name: str
    lds_bytes: int
    """Of a compute unit, and the most that one workgroup may have."""
    xdl_delay: int
    """Wait states behind an XDL matrix instruction, beyond those of gfx942."""


PROCESSORS: Mapping[str, Processor] = MappingProxyType({
    "gfx942": Processor("gfx942", 65536, 0),
    "gfx950": Processor("gfx950", 163840, 1),
})  # fmt: skip
ONLY_GFX950 = frozenset((
    "v_mfma_f32_16x16x32_f16", "v_mfma_f32_16x16x32_bf16", "v_mfma_f32_32x32x16_f16", "v_mfma_f32_32x32x16_bf16",
    "v_cvt_pk_bf16_f32", "v_cvt_pk_f16_f32", "v_minimum3_f32", "v_maximum3_f32",
))  # fmt: skip
"""Mnemonics that gfx942 lacks. `buffer_load_dwordx4 ... lds`, which has none of its own, is another."""
