"""The passes that turn a freshly lowered graph into TTNN's own ops, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.importers.passes.activation_patterns import gelu, gelu_tanh, hardswish, log_sigmoid, quick_gelu, silu
from optimizer.importers.passes.attention_pattern import attention, repeat_heads
from optimizer.importers.passes.channels_last_rules import channels_last
from optimizer.importers.passes.conv_patterns import conv_batch_norm, pad_into_window, scale_into_batch_norm
from optimizer.importers.passes.exact_values import exact_selection, exact_values
from optimizer.importers.passes.heads import concat_heads, rotary, split_heads, unbind_heads
from optimizer.importers.passes.linear import fuse_activation, linear, linear_rank, scale_into_weights
from optimizer.importers.passes.movement import merge_movement, pick_columns, stack_rows
from optimizer.importers.passes.narrow_channels import convolve_parts, cut_convolutions, split_joined
from optimizer.importers.passes.norm_patterns import (
    centred_variance,
    group_norm,
    kept_dims,
    layer_norm,
    mean_of_sum,
    rms_norm,
    shift_first,
    spell_out_group_norm,
    variance_above_zero,
    weight_last,
)
from optimizer.importers.passes.projections import lone_heads, merge_qkv, pad_heads
from optimizer.importers.passes.rewriting import Pass
from optimizer.importers.passes.simplify import common_subexpressions, drop_repeat, index_types, simplify
from optimizer.importers.passes.weight_rows import weight_rows
from optimizer.ir.graph import Graph
from optimizer.process import logs

_log = logs.room("importers")


def passes(causal: frozenset[str] = frozenset()) -> tuple[Pass, ...]:
    """All passes in order; `causal` names the parameters known to be causal masks."""
    return (
        simplify,
        common_subexpressions,
        drop_repeat,
        repeat_heads,
        unbind_heads,
        merge_movement,
        gelu,
        gelu_tanh,
        hardswish,
        silu,
        quick_gelu,
        log_sigmoid,
        mean_of_sum,
        shift_first,
        centred_variance,
        variance_above_zero,
        kept_dims,
        weight_last,
        common_subexpressions,
        layer_norm,
        rms_norm,
        group_norm,
        attention(causal),
        merge_movement,
        rotary,
        concat_heads,
        split_heads,
        stack_rows,
        pick_columns,
        linear_rank,
        merge_movement,
        pad_into_window,
        scale_into_batch_norm,
        conv_batch_norm,
        linear,
        scale_into_weights,
        pad_heads,
        merge_qkv,
        lone_heads,
        concat_heads,
        spell_out_group_norm,
        channels_last,
        merge_movement,
        exact_values,
        exact_selection,
        weight_rows,
        common_subexpressions,
        fuse_activation,
        cut_convolutions,
        convolve_parts,
        split_joined,
        index_types,
    )


REQUIRED = ("spell-out-group-norm", "channels-last", "exact-values", "weight-rows")
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
