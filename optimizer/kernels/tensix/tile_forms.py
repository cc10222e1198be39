"""How the hardware runs a tile op: which unit, where it wants its operands, which init and call.

unit   operands                    result
SFPU   DST                         in place for one operand, any slot for two or more
FPU    circular buffers            any slot; `accumulates`: added to what the slot holds, so the slot must be clear
reuse  one DST, one circular buffer    in the DST operand's slot (`binary_dest_reuse_tiles`)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """Where a form reads an operand."""

    DST = "dst"
    CB = "cb"


class Unit(StrEnum):
    """What computes, and thereby which init state an op needs."""

    SFPU = "sfpu"
    FPU = "fpu"
    REUSE = "reuse"
    UNPACK = "unpack"


@dataclass(frozen=True)
class Call:
    """A function of the kernel API with its arguments.

    Arguments: `a`, `b`, `c` DST slots of operands, `a_cb`, `a_tile` circular buffer and tile of an operand read from
    one, `d` slot of the result, `out_cb` the buffer it will be packed to, `$name` an attribute (floats as their bits;
    `:reciprocal` those of 1 / the number, `:float` as a number, `:format` as a `DataFormat`), `$data_format` the format
    of DST, anything else literally.
    """

    function: str
    args: tuple[str, ...] = ()
    template: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """One way to run an op."""

    unit: Unit
    places: tuple[Place, ...]
    init: Call
    call: Call
    in_place: int | None = None
    """Operand whose slot the result takes; None: any slot, a dying operand's or a clear one."""
    accumulates: bool = False
    dtypes: tuple[str, ...] = ()
    """Element types it takes, empty for all. The FPU reads circular buffers at 19 bits: f32 loses precision.

    Matmuls and reductions take f32 nevertheless, for there is no other way to do them; `pipeline.read_short` tells.
    """
    narrow: tuple[str, ...] = ()
    """Element types of its circular buffer that it brings right to a DST of 16 bits only; in one of 32 bits it writes
    to other rows than it should. Source: tenstorrent/tt-llk issue 1680, the LLK of ttnn 0.81.1 (`MOVB2D`), ttsim 1.10.
    """
    reversed_sources: bool = False
    """Operand a is unpacked to source register B, b to A; otherwise a to A."""
