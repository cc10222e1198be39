"""The list of stages: what each says of itself is what it does, and what the documentation shows."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import DTypeError, InfeasibleError, TimeLimitError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.pipeline.clock import Clock, ProgressEvent
from optimizer.pipeline.stages import NAMES, stages
from optimizer.pipeline.work import Stage, Work, run

N150 = DeviceSpec.preset("n150")
GIVEN = ("source", "options", "opmodel", "clock", "name", "judge", "learned", "given", "stated")
HANDED_ON = {f.name for f in fields(Work)} - set(GIVEN)
EVERY_OPTION = {
    "policy": "dfsharding",
    "row_major_enabled": True,
    "weights_dtype": "bfp8_b",
    "activations_dtype": "bfp8_b",
    "math_fidelity": "hifi2",
    "fuse_kernels": True,
    "override_output_layout": "last=dram",
}


def network() -> Graph:
    """A depthwise row that no config runs without a bias, then a product."""
    b = GraphBuilder("network")
    x, w = b.input("x", (1, 1, 100, 64)), b.parameter("w", (64, 1, 1, 7))
    attrs = {"batch_size": 1, "input_height": 1, "input_width": 100, "kernel_size": (1, 7), "groups": 64}
    attrs |= {"dilation": (1, 2), "in_channels": 64, "out_channels": 64}
    v = b.op("ttnn.conv2d", x, w, name="conv", **attrs)  # type: ignore[arg-type]
    return b.finish(b.op("ttnn.relu", b.op("ttnn.linear", v, b.parameter("v", (64, 64)), name="last")))


def product() -> Graph:
    b = GraphBuilder("product")
    return b.finish(b.op("ttnn.linear", b.input("x", (1, 1, 64, 64)), b.parameter("w", (64, 64))))


class Watched(Work):
    """A run that notes what the stage at work reads and sets of what stages hand on; forks count for their stage."""

    def __init__(self, *given: Any) -> None:
        self.__dict__["own"], self.__dict__["stage"] = set(), ""
        self.__dict__["reads"], self.__dict__["writes"] = defaultdict(set), defaultdict(set)
        super().__init__(*given)

    def fork(self) -> Watched:
        other = super().fork()
        other.__dict__["own"], other.__dict__["writes"] = set(), defaultdict(set)
        return other

    def __getattribute__(self, name: str) -> Any:
        if name in HANDED_ON and name not in self.__dict__["own"]:
            self.__dict__["reads"][self.__dict__["stage"]].add(name)
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in HANDED_ON:
            self.__dict__["own"].add(name)
            self.__dict__["writes"][self.__dict__["stage"]].add(name)
        super().__setattr__(name, value)


def watched(options: Options) -> Watched:
    """A whole run; each stage begins with nothing of its own."""
    model = CachedOpModel(create(options.opmodel, N150, options.l1_small_bytes))
    work = Watched(network(), options, model, Clock(NAMES, time_limit=1000.0))
    for stage in stages(options):
        work.__dict__["stage"], work.__dict__["own"] = stage.name, set()
        run((stage,), work)
    return work


def test_every_stage_reads_and_sets_what_it_says() -> None:
    options = Options.from_mapping(EVERY_OPTION)

    missed = Options(least_pcc=0.9999999)
    runs = (watched(options), watched(Options(least_pcc=0.9, pareto=True)), watched(missed))

    for stage in stages(options):
        if stage.name == "replay":  # nothing was asked of it
            continue
        reads, writes = (
            set().union(*(found[stage.name] for found in each)) for each in zip(*map(_noted, runs), strict=True)
        )
        assert (stage.name, reads) == (stage.name, set(stage.takes))
        assert (stage.name, writes) == (stage.name, set(stage.gives))


def _noted(work: Watched) -> tuple[Any, Any]:
    return work.reads, work.writes


def test_what_a_stage_takes_another_has_given() -> None:
    known: set[str] = set()
    for stage in stages(Options()):
        assert set(stage.takes) <= known, stage.name
        known |= set(stage.gives)
    assert known == HANDED_ON


def test_the_fields_of_a_stage_are_options_and_stages() -> None:
    options = {f.name for f in fields(Options)}
    for stage in stages(Options()):
        for f in fields(stage):  # type: ignore[arg-type]
            value = getattr(stage, f.name)
            inner = isinstance(value, tuple) and value and all(isinstance(item, Stage) for item in value)
            assert inner or f.name in options, (stage.name, f.name)
        with pytest.raises(FrozenInstanceError):
            setattr(stage, "name", "another")  # noqa: B010 - an assignment is an error of types


def test_names_are_unique_and_the_same_whatever_the_options() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert tuple(stage.name for stage in stages(Options.from_mapping(EVERY_OPTION))) == NAMES


def test_events_and_timings_are_those_of_the_list() -> None:
    events: list[ProgressEvent] = []

    result = optimize(product(), N150, Options(policy="dfsharding"), events.append)

    begun = [event for event in events if not event.detail]
    assert [(event.stage, event.index) for event in begun] == [(name, n) for n, name in enumerate(NAMES)]
    assert {event.count for event in events} == {len(NAMES)}
    assert tuple(result.timings["stages_s"]) == NAMES


def test_the_documentation_shows_the_list(project_root: Path) -> None:
    text = (project_root / "docs" / "architecture.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)

    assert rows == [_row(stage) for stage in stages(Options())]


def _row(stage: Stage) -> tuple[str, str, str, str]:
    """As a line of the table: name, fields that it takes, fields that it gives, the first line of its docstring."""
    says = (type(stage).__doc__ or "").partition("\n")[0].rstrip(".")
    return stage.name, ", ".join(stage.takes), ", ".join(stage.gives), says[0].lower() + says[1:]


# -- the clock ---------------------------------------------------------------------------------------------------
@contextmanager
def passing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock that stands still unless it is told to go on."""
    now = [100.0]
    monkeypatch.setattr("optimizer.pipeline.clock.time.perf_counter", lambda: now[0])
    yield now


def test_a_stage_inside_another_is_charged_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with passing(monkeypatch) as now:
        clock = Clock()
        with clock.stage("outer"):
            now[0] += 1
            with clock.stage("inner"):
                now[0] += 10
            now[0] += 2

    assert clock.seconds() == {"outer": 3.0, "inner": 10.0}


def test_after_a_failed_stage_the_outer_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with passing(monkeypatch) as now:
        clock = Clock()
        with clock.stage("outer"):
            with suppress(InfeasibleError), clock.stage("inner"):
                now[0] += 5
                raise InfeasibleError("no plan")
            now[0] += 1

    assert clock.seconds() == {"outer": 1.0, "inner": 5.0}


def test_past_the_limit_only_what_closes_a_run_begins() -> None:
    clock = Clock(interrupted=lambda: True)

    with clock.stage("transform", closing=True):
        pass
    with (
        pytest.raises(TimeLimitError, match="interrupted in stage 'baseline': nothing to return"),
        clock.stage("baseline"),
    ):
        pass


def test_block_floats_in_rows_are_refused_by_name() -> None:
    graph = {
        "model": {"name": "rows", "inputs": ["x"], "outputs": ["y"]},
        "values": {"x": {"shape": [3, 32, 1, 2], "dtype": "bfp8_b", "kind": "input"}, "y": {"kind": "activation"}},
        "ops": [
            {"id": "op0", "op": "ttnn.to_layout", "inputs": ["x"], "outputs": ["y"], "attrs": {"layout": "row_major"}}
        ],
    }
    with pytest.raises(DTypeError, match=r"'op0' .* works on rows, and bfp8_b of '[xy]' has tiles only"):
        optimize_file(json.dumps(graph).encode(), Options(policy="dram"))
