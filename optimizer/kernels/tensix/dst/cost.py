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

Which inits the instructions of a body need, and how many of them run, is `insert_inits` on plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.kernels.tensix.tile_forms import Unit
from optimizer.kernels.tensix.tile_ops import TILE_OPS

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


# -- inits ------------------------------------------------------------------------------------------------
InitKey = tuple[object, ...]
"""Inits of equal keys are one call with the same arguments."""
_OF_INIT = ("source", "target")
"""Attributes that an init takes."""


def init_key(op: str, form: int, sources: Sequence[int], attrs: tuple[tuple[str, float], ...] = ()) -> InitKey:
    """The init of an op; `sources` as `slots.Instruction` has them: inputs read from circular buffers are negative."""
    buffers = tuple(s for s in sources if s < 0)
    return TILE_OPS[op].forms[form].init, buffers, tuple(item for item in attrs if item[0] in _OF_INIT)


@dataclass
class InitCount:
    """Inits that run, and the one that holds after them."""

    count: int = 0
    holds: InitKey | None = None

    def section(self, keys: Sequence[InitKey], tiles: int, grouped: bool) -> None:
        """The ops of a section, each over all tiles or all for one tile after the other."""
        if grouped or tiles == 1 or len(set(keys)) == 1:
            for key in keys:
                self.count += key != self.holds
                self.holds = key
        elif keys:
            self.count += tiles * runs(keys)
            self.holds = keys[-1]


def runs(keys: Sequence[InitKey]) -> int:
    """Inits that a sequence of ops needs from no known state."""
    return sum(n == 0 or key != keys[n - 1] for n, key in enumerate(keys))


def inits_run(stages: Sequence[Sequence[InitKey]], tiles: int, unroll: int, grouped: bool) -> int:
    """Inits of a body over a block: sections of `unroll` tiles in a loop, then the rest, all stages in each."""
    found = InitCount()
    whole, rest = divmod(tiles, unroll)
    if whole > 1 and len({key for stage in stages for key in stage}) == 1:
        found.count, found.holds = 1, stages[0][0]
    elif whole > 1:
        inside = InitCount()
        for keys in stages:
            inside.section(keys, unroll, grouped)
        found.count, found.holds = whole * inside.count, inside.holds
    elif whole == 1:
        for keys in stages:
            found.section(keys, unroll, grouped)
    for keys in stages if rest else ():
        found.section(keys, rest, grouped)
    return found.count
