"""Which inits the instructions of a body need, and how many of them run: `insert_inits` on plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.kernels.tensix.tile_ops import TILE_OPS

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
