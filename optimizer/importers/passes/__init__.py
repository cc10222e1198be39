"""The passes that turn a freshly lowered graph into TTNN's own ops, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from optimizer import logs
from optimizer.importers.passes.activation_patterns import Gelu, GeluTanh, HardSwish, QuickGelu, Silu
from optimizer.importers.passes.attention_pattern import Attention, RepeatHeads
from optimizer.importers.passes.channels_last import ChannelsLast
from optimizer.importers.passes.conv_patterns import ConvBatchNorm, PadIntoWindow, ScaleIntoBatchNorm
from optimizer.importers.passes.group_norm import GroupNorm, SpellOutGroupNorm
from optimizer.importers.passes.head_padding import PadHeads
from optimizer.importers.passes.heads import ConcatHeads, Rotary, SplitHeads, UnbindHeads
from optimizer.importers.passes.indices import IndexTypes
from optimizer.importers.passes.linear import FuseActivation, Linear, LinearRank
from optimizer.importers.passes.log_sigmoid import LogSigmoid
from optimizer.importers.passes.movement import MergeMovement
from optimizer.importers.passes.norm_patterns import LayerNorm, RmsNorm
from optimizer.importers.passes.projections import LoneHeads, MergeQKV
from optimizer.importers.passes.scales import ScaleIntoWeights
from optimizer.importers.passes.simplify import CommonSubexpressions, DropRepeat, Simplify
from optimizer.importers.passes.stacking import PickColumns, StackRows
from optimizer.importers.passes.variance import CentredVariance
from optimizer.importers.passes.weight_rows import WeightRows
from optimizer.ir.graph import Graph

_log = logs.room("importers")


class Pass(Protocol):
    """One rewrite of the graph; near-linear in its size."""

    @property
    def name(self) -> str: ...

    def apply(self, graph: Graph) -> int:
        """Rewrite the graph in place; returns the number of rewrites."""


def passes(causal: frozenset[str] = frozenset()) -> tuple[Pass, ...]:
    """All passes in order; `causal` names the parameters known to be causal masks."""
    return (
        Simplify(),
        CommonSubexpressions(),
        DropRepeat(),
        RepeatHeads(),
        UnbindHeads(),
        MergeMovement(),
        Gelu(),
        GeluTanh(),
        HardSwish(),
        Silu(),
        QuickGelu(),
        LogSigmoid(),
        CentredVariance(),
        LayerNorm(),
        RmsNorm(),
        GroupNorm(),
        Attention(causal),
        MergeMovement(),
        Rotary(),
        ConcatHeads(),
        SplitHeads(),
        StackRows(),
        PickColumns(),
        LinearRank(),
        MergeMovement(),
        PadIntoWindow(),
        ScaleIntoBatchNorm(),
        ConvBatchNorm(),
        Linear(),
        ScaleIntoWeights(),
        PadHeads(),
        MergeQKV(),
        LoneHeads(),
        ConcatHeads(),
        SpellOutGroupNorm(),
        ChannelsLast(),
        MergeMovement(),
        WeightRows(),
        CommonSubexpressions(),
        FuseActivation(),
        IndexTypes(),
    )


REQUIRED = ("spell-out-group-norm", "channels-last", "weight-rows")
"""Passes that run even when fusion is off: without them the graph holds ops that TTNN lacks, or weights that take more
than a board's DRAM."""


def run_passes(
    graph: Graph,
    *,
    causal: frozenset[str] = frozenset(),
    fuse: bool = True,
    checkpoint: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Run the passes (only the required ones without `fuse`); returns rewrites by pass name, zeros left out.

    `checkpoint` is called before each pass; what it raises ends the run.
    """
    counts: dict[str, int] = {}
    for step in passes(causal):
        checkpoint()
        if fuse or step.name in REQUIRED:
            done = step.apply(graph)
            _log.debug("pass", name=step.name, rewrites=done, ops=len(graph))
            if done:
                counts[step.name] = counts.get(step.name, 0) + done
    return counts
