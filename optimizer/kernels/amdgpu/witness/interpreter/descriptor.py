"""Processors, and kernel descriptors (`.amdhsa_*` directives): limits, and which registers hold something at entry.

Sources: LLVM's "User Guide for AMDGPU Backend", sections "Kernel Descriptor", "Initial Kernel Execution State" and
"AMDHSA kernel directives"; AMD's CDNA3 and CDNA4 ISA references for instructions and LDS; for the wait states behind
matrix instructions LLVM 22's GCNHazardRecognizer, which gives gfx950 one more where the producer is an XDL instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import TextError


@dataclass(frozen=True)
class Processor:
    """What differs between the processors whose text the witness reads."""

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

# Value of a directive that is not written, for the directives whose value the witness uses.
_DEFAULTS = {
    "group_segment_fixed_size": 0, "private_segment_fixed_size": 0, "kernarg_size": 0, "user_sgpr_count": -1,
    "user_sgpr_dispatch_ptr": 0, "user_sgpr_queue_ptr": 0, "user_sgpr_kernarg_segment_ptr": 0,
    "user_sgpr_dispatch_id": 0, "user_sgpr_private_segment_size": 0, "user_sgpr_kernarg_preload_length": 0,
    "enable_private_segment": 0, "system_sgpr_workgroup_id_x": 1, "system_sgpr_workgroup_id_y": 0,
    "system_sgpr_workgroup_id_z": 0, "system_sgpr_workgroup_info": 0, "system_vgpr_workitem_id": 0,
    "next_free_vgpr": -1, "next_free_sgpr": -1, "accum_offset": -1, "reserve_vcc": 1, "float_round_mode_32": 0,
    "float_denorm_mode_32": 0,
}  # fmt: skip
# Directives that change nothing the witness computes.
_NEUTRAL = frozenset((
    "uses_dynamic_stack", "reserve_xnack_mask", "float_round_mode_16_64", "float_denorm_mode_16_64", "dx10_clamp",
    "ieee_mode", "fp16_overflow", "tg_split", "exception_fp_ieee_invalid_op", "exception_fp_denorm_src",
    "exception_fp_ieee_div_zero", "exception_fp_ieee_overflow", "exception_fp_ieee_underflow",
    "exception_fp_ieee_inexact", "exception_int_div_zero", "user_sgpr_kernarg_preload_offset",
))  # fmt: skip
_REQUIRED = ("next_free_vgpr", "next_free_sgpr", "accum_offset")
_USER_SGPRS = (
    ("user_sgpr_dispatch_ptr", 2),
    ("user_sgpr_queue_ptr", 2),
    ("user_sgpr_kernarg_segment_ptr", 2),
    ("user_sgpr_dispatch_id", 2),
    ("user_sgpr_private_segment_size", 1),
)
_LIMITS = {
    **{name: 1 for name, _ in _USER_SGPRS}, **{f"system_sgpr_workgroup_id_{letter}": 1 for letter in "xyz"},
    "user_sgpr_count": 16, "system_vgpr_workitem_id": 2, "kernarg_size": 65536, "enable_private_segment": 1,
    "private_segment_fixed_size": 1 << 20, "reserve_vcc": 1, "float_denorm_mode_32": 3,
}  # fmt: skip
_UNSUPPORTED = ("user_sgpr_kernarg_preload_length", "system_sgpr_workgroup_info", "float_round_mode_32")


@dataclass(frozen=True)
class Descriptor:
    """The directives of one kernel; `values` holds every one of them, `line` is where the block starts."""

    name: str
    line: int
    values: Mapping[str, int]

    def __getitem__(self, directive: str) -> int:
        return self.values[directive]

    @property
    def kernarg_sgpr(self) -> int | None:
        """First of the two SGPRs with the address of the kernel's arguments, None when it is not asked for."""
        position = 0
        for name, count in _USER_SGPRS:
            if name == "user_sgpr_kernarg_segment_ptr":
                return position if self[name] else None
            position += count * self[name]
        return None

    @property
    def user_sgprs(self) -> int:
        implied = sum(count * self[name] for name, count in _USER_SGPRS)
        return implied if self["user_sgpr_count"] < 0 else self["user_sgpr_count"]

    @property
    def workgroup_id_sgprs(self) -> dict[int, int]:
        """SGPR of each enabled dimension (0 x, 1 y, 2 z) of the workgroup id."""
        position = self.user_sgprs
        found = {}
        for dimension, letter in enumerate("xyz"):
            if self[f"system_sgpr_workgroup_id_{letter}"]:
                found[dimension] = position
                position += 1
        return found

    @property
    def arch_vgprs(self) -> int:
        return min(self["accum_offset"], self["next_free_vgpr"])

    @property
    def acc_vgprs(self) -> int:
        return max(0, self["next_free_vgpr"] - self["accum_offset"])


def parse_descriptor(name: str, body: list[tuple[int, str]], line: int, lds_bytes: int) -> Descriptor:
    """Read the lines between `.amdhsa_kernel` and `.end_amdhsa_kernel`; `lds_bytes`: the most there may be."""
    values = dict(_DEFAULTS)
    seen: set[str] = set()
    for number, text in body:
        word, _, rest = text.partition(" ")
        directive = word.removeprefix(".amdhsa_")
        if directive in seen:
            raise TextError(f"{word} given twice", number)
        seen.add(directive)
        if directive in _NEUTRAL:
            continue
        if not word.startswith(".amdhsa_") or directive not in values:
            raise TextError(f"unknown directive '{word}'", number)
        try:
            values[directive] = int(rest.strip(), 0)
        except ValueError:
            raise TextError(f"{word}: '{rest.strip()}' is not a number", number) from None
        if directive in _UNSUPPORTED and values[directive]:
            raise TextError(f"{word} {values[directive]}: the witness knows only 0", number)
    _check(values, seen, line)
    size = values["group_segment_fixed_size"]
    if not 0 <= size <= lds_bytes:
        raise TextError(f".amdhsa_group_segment_fixed_size {size}: at most {lds_bytes}", line)
    return Descriptor(name, line, values)


def _check(values: Mapping[str, int], seen: set[str], line: int) -> None:
    for directive in _REQUIRED:
        if directive not in seen:
            raise TextError(f".amdhsa_{directive} is missing", line)
    if not 4 <= values["accum_offset"] <= 256 or values["accum_offset"] % 4:
        raise TextError(f".amdhsa_accum_offset {values['accum_offset']}: a multiple of 4 from 4 to 256", line)
    if not 0 <= values["next_free_vgpr"] <= 512:
        raise TextError(f".amdhsa_next_free_vgpr {values['next_free_vgpr']}: at most 512", line)
    if not 0 <= values["next_free_sgpr"] <= 102:
        raise TextError(f".amdhsa_next_free_sgpr {values['next_free_sgpr']}: at most 102", line)
    for directive, most in _LIMITS.items():
        low = -1 if directive == "user_sgpr_count" else 0
        if not low <= values[directive] <= most:
            raise TextError(f".amdhsa_{directive} {values[directive]}: 0 to {most}", line)
