"""The passes that turn a freshly lowered graph into TTNN's own ops, in the order in which they run."""

from __future__ import annotations

from typing import Protocol

from optimizer.importers.passes.channels_last import ChannelsLast
from optimizer.ir.graph import Graph


class Pass(Protocol):
    """One rewrite of the graph; near-linear in its size."""

    @property
    def name(self) -> str: ...

    def apply(self, graph: Graph) -> int:
        """Rewrite the graph in place; returns the number of rewrites."""


def passes(causal: frozenset[str]) -> tuple[Pass, ...]:
    return (ChannelsLast(),)


REQUIRED = ("channels-last",)


def run_passes(graph: Graph, *, causal: frozenset[str] = frozenset(), fuse: bool = True) -> dict[str, int]:
    """Run the passes (only the required ones without `fuse`); returns rewrites by pass name, zeros left out."""
    counts: dict[str, int] = {}
    for step in passes(causal):
        if fuse or step.name in REQUIRED:
            done = step.apply(graph)
            if done:
                counts[step.name] = counts.get(step.name, 0) + done
    return counts
