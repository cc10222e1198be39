"""The pipeline: one straight list of stages from a model to a verified, priced result.

Progress events, timings and the table in docs/architecture.md are made of this list.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.options import Options
from optimizer.pipeline.finishing import FuseKernels, Predict, Summarise, Verify
from optimizer.pipeline.graph_edits import DtypeOverrides, MathFidelity, ParseOverrides, Prune, WeightDtypes
from optimizer.pipeline.importing import CheckSupport, Import
from optimizer.pipeline.legal import DecideOverridden, LegalConfigs, PageLayouts, ScalarDtypes
from optimizer.pipeline.planning import Baseline, NoteReasons, Search, Transform
from optimizer.pipeline.repair import Replay
from optimizer.pipeline.rewriting import CheckCalls, RewriteConvolutions
from optimizer.pipeline.work import Stage


def stages(options: Options) -> tuple[Stage, ...]:
    """The whole data flow: from the model to its result."""
    solve = (
        *problem_stages(options),
        CheckCalls(),
        baseline(),
        Search.of(options),
        NoteReasons(),
        Transform(),
        Verify(),
        Predict(),
        Summarise(),
    )
    return (Import.of(options), CheckSupport.of(options), *solve, Replay(solve), FuseKernels.of(options))


def baseline() -> Baseline:
    """The same graph with everything in DRAM, planned and written as the result is."""
    return Baseline((Search("dram"), Transform()))


def problem_stages(options: Options) -> tuple[Stage, ...]:
    """From the imported graph to the problem that a policy is given."""
    return (*_preparation(options), rewriting(options))


def rewriting(options: Options) -> RewriteConvolutions:
    """Prepares the graph again where a convolution runs in no config; single ones are tried without overrides."""
    free = replace(options, override_output_layout="", override_conv2d_config="", insert_memreconfig="")
    return RewriteConvolutions(again=_preparation(options), alone=_preparation(free))


def _preparation(options: Options) -> tuple[Stage, ...]:
    return (
        *edits(options),
        PageLayouts.of(options),
        ScalarDtypes(),
        LegalConfigs.of(options),
        DecideOverridden(),
    )


def edits(options: Options) -> tuple[Stage, ...]:
    """From the imported graph to the one that computes the model as the options change it."""
    return (
        Prune(),
        ParseOverrides.of(options),
        DtypeOverrides(),
        WeightDtypes.of(options),
        MathFidelity.of(options),
    )


NAMES = tuple(stage.name for stage in stages(Options()))
"""The same whatever the options: a stage that has nothing to do does nothing."""
