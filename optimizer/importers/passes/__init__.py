"""The passes that turn a freshly lowered graph into TTNN's own ops, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.importers.passes import (
    activation_patterns,
    attention_pattern,
    before_movement,
    channels_last_rules,
    conv_patterns,
    exact_values,
    heads,
    linear,
    movement,
    narrow_channels,
    norm_patterns,
    projections,
    simplify,
    weight_rows,
)
from optimizer.importers.passes.rewriting import Pass
from optimizer.ir.graph import Graph
from optimizer.ir.watching import tell
from optimizer.process import logs

_log = logs.room("importers")


def passes(causal: frozenset[str] = frozenset()) -> tuple[Pass, ...]:
    """All passes in order; `causal` names the parameters known to be causal masks."""
    return (
        simplify.simplify,
        simplify.common_subexpressions,
        simplify.drop_repeat,
        attention_pattern.repeat_heads,
        before_movement.cut_before_movement,
        heads.unbind_heads,
        movement.merge_movement,
        activation_patterns.gelu,
        activation_patterns.gelu_tanh,
        activation_patterns.hardswish,
        activation_patterns.silu,
        activation_patterns.quick_gelu,
        activation_patterns.log_sigmoid,
        norm_patterns.mean_of_sum,
        norm_patterns.shift_first,
        norm_patterns.centred_variance,
        norm_patterns.variance_above_zero,
        norm_patterns.kept_dims,
        norm_patterns.weight_last,
        simplify.common_subexpressions,
        norm_patterns.layer_norm,
        norm_patterns.rms_norm,
        norm_patterns.group_norm,
        norm_patterns.scale_into_norm,
        attention_pattern.attention(causal),
        before_movement.norm_after_heads,
        before_movement.scalar_before_movement,
        before_movement.sequence_rows,
        before_movement.row_before_reshape,
        movement.merge_movement,
        heads.rotary,
        heads.concat_heads,
        heads.split_heads,
        movement.stack_rows,
        movement.pick_columns,
        linear.linear_rank,
        movement.merge_movement,
        conv_patterns.pad_into_window,
        conv_patterns.scale_into_batch_norm,
        conv_patterns.conv_batch_norm,
        linear.linear,
        linear.scale_into_weights,
        projections.pad_heads,
        projections.merge_qkv,
        projections.lone_heads,
        heads.concat_heads,
        norm_patterns.spell_out_group_norm,
        channels_last_rules.channels_last,
        movement.merge_movement,
        exact_values.exact_values,
        exact_values.exact_selection,
        weight_rows.weight_rows,
        simplify.common_subexpressions,
        linear.fuse_activation,
        narrow_channels.cut_convolutions,
        narrow_channels.convolve_parts,
        narrow_channels.split_joined,
        simplify.index_types,
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
                tell(step.name, graph)
    return counts
