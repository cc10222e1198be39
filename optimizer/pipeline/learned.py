"""What runs for one board and OpModel learn from each other: a process that plans many graphs keeps it between them.

Layers that graphs have in common are asked about, laid out and resolved once. Everything is kept by its content, names
left out, so a result is the same whatever ran before it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.layouts.legal_op_configs import LegalConfigs
from optimizer.opmodel.cached import Answers

KEPT_ANSWERS = 100_000
"""Of the OpModel, of each kind."""
KEPT_LEGAL = 2_000
"""Ops whose legal configs are kept, 5 KB each when pickled."""
KEPT_CHAINS = 5_000
KEPT_BOARDS = 4


@dataclass
class Learned:
    """Of one board, OpModel and `l1_small_bytes`."""

    answers: Answers = field(default_factory=lambda: Answers(KEPT_ANSWERS))
    """Of the OpModel."""
    legal: dict[Hashable, LegalConfigs] = field(default_factory=dict)
    """What ops may do, by `Legality`'s keys."""
    chains: dict[Hashable, Any] = field(default_factory=dict)
    """What chains were resolved to, by `ChainResolver`'s keys, which contain what is in `legal`."""

    def make_room(self) -> None:
        """Begin again with legal configs and chains where they have become many."""
        if len(self.legal) > KEPT_LEGAL or len(self.chains) > KEPT_CHAINS:
            self.legal.clear()
            self.chains.clear()


@lru_cache(maxsize=KEPT_BOARDS)
def learned_here(_opmodel: str, _device: DeviceSpec, _l1_small_bytes: int) -> Learned:
    """What this process has learned; for processes that run one job at a time."""
    return Learned()
