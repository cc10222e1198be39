"""The time limit of a run, on a clock that jumps when a stage begins."""

import itertools
import time

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import TimeLimitError
from optimizer.ir.builder import GraphBuilder
from optimizer.options import Options
from optimizer.pipeline import clock, optimize, planning

LIMIT_S = 50.0


def network():
    builder = GraphBuilder("net")
    value = builder.input("x", (256, 512))
    for k in range(4):
        value = builder.op("ttnn.relu", value, name=f"relu{k}")
        value = builder.op("ttnn.matmul", value, builder.parameter(f"w{k}", (512, 512)), name=f"mm{k}")
    return builder.finish(value)


def run(monkeypatch, late_from_stage, policy="global", **options):
    """Optimise `network`; every look at the clock takes 1 ms, and all time is gone once the stage begins."""
    begin, ticks = time.monotonic(), itertools.count()
    state = {"jump": 0.0}
    monkeypatch.setattr(clock.time, "monotonic", lambda: begin + next(ticks) * 1e-3 + state["jump"])

    def progress(event):
        if event.stage == late_from_stage:
            state["jump"] = 2 * LIMIT_S

    return optimize(
        network(), DeviceSpec.preset("n150"), Options(policy=policy, time_limit=LIMIT_S, **options), progress
    )


@pytest.mark.parametrize("policy", ["dfsharding", "dfsharding2", "global"])
def test_a_policy_without_time_returns_a_plan_and_says_so(monkeypatch, policy):
    result = run(monkeypatch, "policy", policy)

    assert result.summary.baselines.dram_ns == result.summary.predicted_time_ns
    assert any("time limit of 50 s reached: this is the best plan" in w for w in result.summary.warnings)


@pytest.mark.parametrize("stage", ["page-layouts", "legal-configs"])
def test_a_run_without_a_plan_ends_in_the_stage_that_it_is_in(monkeypatch, stage):
    with pytest.raises(TimeLimitError, match=r"time limit of 50 s reached in stage .*: nothing to return"):
        run(monkeypatch, stage)


def test_a_run_in_time_warns_of_nothing(monkeypatch):
    result = run(monkeypatch, None)

    assert not any("time limit" in w for w in result.summary.warnings)


def test_a_plan_that_is_not_closed_in_time_gives_way_to_the_one_before(monkeypatch):
    result = run(monkeypatch, "verify")

    assert result.summary.predicted_time_ns == result.summary.baselines.dram_ns
    assert result.summary.stopped == "time limit of 50 s reached"


@pytest.mark.parametrize(
    ("stage", "options", "lacks"),
    [
        ("fuse-kernels", {"fuse_kernels": True}, "without kernels of ours"),
        ("error-budget", {"least_pcc": 0.99}, "in the model's own element types: an error budget was not planned for"),
        (
            "measured-error",
            {"least_pcc": 0.99},
            "in the model's own element types: an error budget was not planned for",
        ),
    ],
)
@pytest.mark.slow
def test_what_a_mode_adds_is_left_out_and_that_is_said(monkeypatch, stage, options, lacks):
    result = run(monkeypatch, stage, **options)

    assert result.summary.predicted_time_ns < result.summary.baselines.dram_ns  # the plain plan was closed in time
    assert result.summary.warnings[0] == f"time limit of 50 s reached: this is the best plan found until then, {lacks}"


def test_a_policy_that_never_asks_is_interrupted(monkeypatch):
    class Endless:
        def run(self, _problem):
            while True:
                time.sleep(0.01)

    known = planning.create_policy
    monkeypatch.setattr(planning, "create_policy", lambda name: known(name) if name == "dram" else Endless())

    result = optimize(network(), "n150", Options(time_limit=0.2))

    assert result.summary.predicted_time_ns == result.summary.baselines.dram_ns
