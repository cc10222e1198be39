"""What a plan costs, in cycles of a Wormhole core: the sum over unpacker, math unit and packer, nothing overlapped.

Plans are compared by it, so the order of the terms is what matters. Where the analytical OpModel has a term, it is that
one, rounded (`opmodel/analytical/constants/wormhole_b0.json`: fitted to measured ops); the last three are estimates
after the LLK of ttnn 0.81.1, which nobody has measured.

    unpack      2048 bytes at 58.4 bytes per cycle (`matmul.unpack_bytes_per_cycle`), twice that for f32
    FPU op      `tile_cycles.sum`, 76, with its operands unpacked
    SFPU op     `tile_cycles.simple`, 281, or `tile_cycles.transcendental`, 2004, less an unpack and a pack
    pack        2048 bytes by four packers at 16 bytes per cycle each
    copy_dst    as a simple SFPU op, which it is
    init        addresses, a macro-op and counters of two threads
    section     four semaphores, the sides of DST swapped, one cleared
    sync        a circular buffer handed from packer to unpacker: counters in L1, read by polling
"""

from __future__ import annotations

from optimizer.kernels.tensix.tile_forms import Unit

UNPACK, PACK = 36, 32
FPU, SFPU, LONG_SFPU = 76, 210, 1930
COPY = SFPU
INIT, SECTION, SYNC = 40, 120, 100

_SHORT = frozenset((
    "abs", "add", "add_scalar", "ceil", "clamp", "div_scalar", "eq", "eqz", "fill", "floor", "frac", "ge", "gez",
    "gt", "gtz", "identity", "isinf", "isnan", "le", "leaky_relu", "lez", "lt", "ltz", "max", "max_scalar", "min",
    "min_scalar", "mul", "mul_scalar", "ne", "neg", "nez", "relu", "rsub", "rsub_scalar", "sign", "signbit",
    "square", "sub", "sub_scalar", "trunc", "typecast", "where",
))  # fmt: skip
"""Ops that take a few SFPU instructions per row."""


def load_cycles(dtype: str) -> int:
    """A tile brought from its circular buffer to DST."""
    return UNPACK * (2 if dtype == "f32" else 1)


def op_cycles(name: str, unit: Unit) -> int:
    """One tile of an op, with the operands unpacked that it takes from circular buffers."""
    match unit:
        case Unit.FPU | Unit.REUSE:
            return FPU
        case Unit.UNPACK:
            return UNPACK
        case Unit.SFPU:
            return SFPU if name in _SHORT else LONG_SFPU
