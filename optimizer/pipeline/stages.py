"""The pipeline: one straight list of stages from a model to a verified, priced result.

Progress events, timings and the table in docs/architecture.md are made of this list.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.options import Options
from optimizer.pipeline.error_budget import BudgetErrors, MeasureErrors
from optimizer.pipeline.finishing import FuseKernels, Predict, Summarise, Verify
from optimizer.pipeline.graph_edits import (
    DtypeOverrides,
    FeedInputs,
    InputOverrides,
    MathFidelity,
    ParseOverrides,
    Prune,
    WeightDtypes,
)
from optimizer.pipeline.importing import CheckSupport, Import
from optimizer.pipeline.legal import ActivationDtypes, DecideOverridden, LegalConfigs, PageLayouts, ScalarDtypes
from optimizer.pipeline.pareto import ParetoFront
from optimizer.pipeline.planning import Baseline, NoteReasons, PlainPlan, Search, Transform
from optimizer.pipeline.replay_rounds import Replay
from optimizer.pipeline.rewriting import CheckCalls, Rewrite
from optimizer.pipeline.work import Stage


def edits(options: Options) -> tuple[Stage, ...]:
    """From the imported graph to the one that computes the model as the options change it."""
    return (
        Prune(),
        FeedInputs.of(options),
        InputOverrides.of(options),
        ParseOverrides.of(options),
        DtypeOverrides(),
        WeightDtypes.of(options),
        MathFidelity.of(options),
    )


def preparation(options: Options) -> tuple[Stage, ...]:
    """From the imported graph to the problem that a policy is given."""
    return (
        *edits(options),
        PageLayouts.of(options),
        ActivationDtypes.of(options),
        ScalarDtypes(),
        LegalConfigs.of(options),
        DecideOverridden(),
    )


def rewriting(options: Options) -> Rewrite:
    """What prepares the graph again where it has to, or where that is faster; parts are tried by themselves, without
    the user's overrides."""
    free = replace(
        options,
        override_output_layout="",
        override_conv2d_config="",
        insert_memreconfig="",
        channels_last_inputs=False,
    )
    fast = "dfsharding2" if options.policy == "global" else options.policy
    return Rewrite(
        again=preparation(options),
        alone=preparation(free),
        estimated=(Search(fast), Transform()),
        planned=(Search(options.policy), Transform()),
        rewrites=options.rewrites,
        channels_last_inputs=options.channels_last_inputs,
    )


CLOSED = (Verify(), Predict(), Summarise())
"""From a written plan to a result."""


def baseline() -> Baseline:
    """What plans everything in DRAM, and writes that plan as the result is written."""
    return Baseline(written=(Search("dram"), Transform()), closed=CLOSED)


def stages(options: Options) -> tuple[Stage, ...]:
    """The whole data flow, from the model to its result."""
    written = (Search.of(options), NoteReasons(), Transform())
    solve = (
        *preparation(options),
        rewriting(options),
        CheckCalls(),
        baseline(),
        PlainPlan(
            options.fuse_kernels, options.least_pcc, (Search(options.policy), NoteReasons(), Transform(), *CLOSED)
        ),
        BudgetErrors.of(options),
        *written,
        MeasureErrors(prepared=(*preparation(options), rewriting(options)), again=written),
        ParetoFront(pareto=options.pareto, least_pcc=options.least_pcc, again=written),
        Verify(),
        Predict(),
        FuseKernels.of(options),
        Summarise(),
    )
    return (
        Import.of(options),
        CheckSupport.of(options),
        *solve,
        Replay(again=solve),
    )


NAMES = tuple(stage.name for stage in stages(Options()))
"""The same whatever the options: a stage that has nothing to do does nothing."""
