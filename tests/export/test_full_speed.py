"""Programs captured as traces and run on two queues: the order of the calls, on a stand-in of ttnn that checks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from program_witness import case
from ttnn_standin import Array, Refused, Standin, Tensor
from witnessed_models import MODELS

from optimizer.export.ttnn_py import full_speed, render, ttnn_program
from optimizer.export.ttnn_py.full_speed import Runner, Settings, SpeedError, Times
from optimizer.options import Options
from tests.plans import planned_file

Feed = Mapping[str, Any]


class Bench:
    """A program loaded into a stand-in, its device open, its parameters made."""

    def __init__(self, model: str = "encoder", queues: int = 2, region: int = 1 << 20, text: str | None = None) -> None:
        proto = MODELS[model]()
        self.case = case(proto)
        self.standin = Standin()
        self.ttnn = self.standin.ttnn
        result = planned_file(proto.SerializeToString(), Options(policy="global", board="n150"), name=model)
        self.loaded = self.standin.load(render(ttnn_program(result)) if text is None else text)
        self.program = SimpleNamespace(**self.loaded.names)
        self.device = self.ttnn.open_device(
            device_id=0, l1_small_size=32768, num_command_queues=queues, trace_region_size=region
        )
        weights = {name: np.array(self.case.weights[name], np.float32) for name in self._wanted()}
        self.parameters = self.program.make_parameters(self.device, weights)

    def _wanted(self) -> list[str]:
        return [e["name"] for e in self.program.PARAMETERS if e["name"] not in self.program.CONSTANTS]

    def inputs(self, seed: int) -> dict[str, Array]:
        random = np.random.default_rng(seed)
        return {e["name"]: random.standard_normal(e["shape"]).astype(np.float32) for e in self.program.INPUTS}

    def feed(self, seed: int) -> Feed:
        made: Feed = self.program.make_host_inputs(self.inputs(seed))
        return made

    def runner(self, kind: type[Runner] = Runner, **settings: Any) -> Runner:
        return kind(self.ttnn, self.device, self.program, self.parameters, Settings(**settings))

    def captured(self, kind: type[Runner] = Runner, **settings: Any) -> Runner:
        runner = self.runner(kind, **settings)
        runner.plain(self.feed(0), read)
        runner.capture()
        return runner


def read(tensor: Tensor) -> Array:
    return tensor.read().copy()


# -- what it gives -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("settings", [{}, {"queues": 1}, {"trace": False}, {"trace": False, "queues": 1}])
@pytest.mark.slow
def test_runs_at_full_speed_give_what_a_plain_program_gives(model: str, settings: dict[str, Any]) -> None:
    bench = Bench(model, queues=settings.get("queues", 2))
    runner = bench.runner(**settings)
    inputs = [bench.inputs(seed) for seed in (1, 2)]

    made = full_speed.executed(runner, inputs, read, 5, check=True)

    wanted = Bench(model).loaded.run(inputs[0], bench.case.weights)
    np.testing.assert_array_equal(made.outputs[0], wanted.outputs[0])
    lines = [line for line in full_speed.told(made, runner.settings, {"traced": 2000}) if "bytes of DRAM" not in line]
    assert lines[0] == "checked: the outputs of 8 runs, 2 inputs by turns, are those of plain runs, bit for bit"
    assert "runs a second" in lines[1]
    assert "p50" in lines[2]
    assert "p99" in lines[2]
    assert (made.trace_bytes is None) == (settings.get("trace") is False)
    assert [line for line in lines if line.startswith("predicted: 0.002 ms")] == lines[
        3 : 3 + (settings.get("trace") is not False)
    ]


def test_outputs_of_a_capture_are_none_before_its_first_replay() -> None:
    bench = Bench()
    runner = bench.captured()

    assert np.isnan(runner._outputs[0].read()).all()
    assert np.isfinite(runner.finish(runner.submit(bench.feed(3)))[0].read()).all()


def test_a_replay_takes_the_inputs_of_its_own_run() -> None:
    bench = Bench()
    runner = bench.runner()
    plain = {seed: runner.plain(bench.feed(seed), read)[0] for seed in range(4)}
    runner.capture()

    found = list(full_speed.in_flight(runner, [bench.feed(seed) for seed in range(4)], 4))

    for seed, outputs in enumerate(found):
        np.testing.assert_array_equal(outputs[0].read(), plain[seed])
    assert (plain[0] != plain[1]).any()


def test_predicted_times_are_those_of_the_plan() -> None:
    result = planned_file(
        MODELS["encoder"]().SerializeToString(), Options(policy="global", board="n150"), name="encoder"
    )
    summary = result.summary_json()

    found = Bench().program.PREDICTED_NS

    assert found == {
        "kernels": summary["predicted_time_ns"],
        "traced": summary["traced_ns"],
        "untraced": summary["untraced_ns"],
    }


def test_percentiles_are_of_the_nearest_rank() -> None:
    times = Times(2.0, tuple(float(n) for n in range(100, 0, -1)))

    assert [times.percentile(share) for share in (0.5, 0.9, 0.99, 1.0)] == [50.0, 90.0, 99.0, 100.0]
    assert Times(1.0, (3.0,)).percentile(0.01) == 3.0
    assert times.runs_per_second == 50.0


# -- what is refused ---------------------------------------------------------------------------------------------
def test_a_region_that_is_too_small_names_what_is_needed() -> None:
    bench = Bench(region=4096)
    runner = bench.runner()
    runner.plain(bench.feed(0), read)

    with pytest.raises(SpeedError, match=r"takes (\d+) bytes, its region has 4096: .* --trace-region-size \1$"):
        runner.capture()


def test_ops_on_the_host_are_refused() -> None:
    program = SimpleNamespace(HOST_OPS={})

    with pytest.raises(SpeedError, match="ops of this program run on the host"):
        full_speed.refuse_host_ops(program)


def test_tensors_that_go_to_the_device_in_every_run_are_refused_with_a_trace_only() -> None:
    bench = Bench()
    name = next(iter(bench.parameters))
    bench.parameters[name] = bench.parameters[name].cpu()

    with pytest.raises(
        SpeedError, match=f"1 tensors of this program are on the host .*: {name}: run it without --trace"
    ):
        bench.runner()
    bench.runner(trace=False)


def test_slow_dispatch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_METAL_SLOW_DISPATCH_MODE", "1")

    with pytest.raises(SpeedError, match="slow dispatch has neither traces nor a second queue"):
        Settings()


def test_a_mock_device_captures_nothing_waits_for_nothing_and_says_so() -> None:
    bench = Bench()
    runner = bench.runner(mock=True)
    for name in ("begin_trace_capture", "end_trace_capture", "execute_trace", "wait_for_event"):
        setattr(bench.ttnn, name, lambda *_, **__: pytest.fail("a mock device dies of this"))
    bench.standin.queues.command = lambda *_: (0, 0, 0)  # type: ignore[method-assign]

    made = full_speed.executed(runner, [bench.inputs(0)], read, 3, check=True)

    assert full_speed.told(made, runner.settings, {}) == [
        "a mock device captures no trace and waits for no event: plain runs in order, and no times",
        "not checked: a mock device computes no values for 8 runs to be compared by",
    ]


def test_a_capture_without_a_run_before_it_is_refused() -> None:
    with pytest.raises(SpeedError, match="captured after a run, which compiles its kernels"):
        Bench().runner().capture()


def test_an_allocation_after_the_capture_is_noticed() -> None:
    bench = Bench()
    runner = bench.captured()
    runner.finish(runner.submit(bench.feed(1)))

    kept = bench.feed(1)
    held = [tensor.to(bench.device, bench.ttnn.DRAM_MEMORY_CONFIG) for tensor in kept.values()]

    with pytest.raises(SpeedError, match="allocated or freed after the capture"):
        runner.unmoved()
    assert held


# -- runners that break the protocol: the stand-in tells ---------------------------------------------------------
class Overwriting(Runner):
    """Writes the staging tensors without waiting until they are copied."""

    def _wait(self, queue: int, event: Any) -> None:
        if queue != full_speed.WRITES:
            super()._wait(queue, event)


class Impatient(Runner):
    """Copies the staging tensors without waiting until they are written."""

    def _wait(self, queue: int, event: Any) -> None:
        if queue != full_speed.OPS:
            super()._wait(queue, event)


class Direct(Runner):
    """Writes the inputs themselves, once the copies of the run before are done, but not its replay."""

    def _write(self, host_inputs: Feed) -> None:
        self._wait(full_speed.WRITES, self._free)
        for name, tensor in host_inputs.items():
            self._ttnn.copy_host_to_device_tensor(tensor, self._inputs[name], full_speed.WRITES)
        self._wait(full_speed.OPS, self._ttnn.record_event(self._device, full_speed.WRITES))
        self._free = self._ttnn.record_event(self._device, full_speed.OPS)


class Unsaid(Runner):
    """Reads outputs on the queue of the writes, which waits for no replay."""

    def submit(self, host_inputs: Feed) -> full_speed.Run:
        self._write(host_inputs)
        self._run()
        found = tuple(tensor.cpu(blocking=False, cq_id=full_speed.WRITES) for tensor in self._outputs)
        return full_speed.Run(found, self._ttnn.record_event(self._device, full_speed.WRITES))


class Hasty(Runner):
    """Takes outputs without waiting for them."""

    def finish(self, run: full_speed.Run) -> tuple[Any, ...]:
        return run.outputs


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Overwriting, r"copy_host_to_device_tensor on queue 1 writes what ttnn.to on queue 0 touches"),
        (Impatient, r"ttnn.copy on queue 0 reads what ttnn.copy_host_to_device_tensor on queue 1 touches"),
        (Direct, r"copy_host_to_device_tensor on queue 1 writes what a replay on queue 0 touches"),
        (Unsaid, r"a read on queue 1 reads what a replay on queue 0 touches"),
        (Hasty, r"reads a host tensor before its queue is done with it"),
    ],
)
def test_a_missing_wait_is_refused(kind: type[Runner], message: str) -> None:
    bench = Bench()
    feeds = [bench.feed(0), bench.feed(1)]

    with pytest.raises(Refused, match=message):
        _ = [read(outputs[0]) for outputs in full_speed.in_flight(bench.captured(kind), feeds, 4)]


class Cold(Runner):
    """Captures what never ran."""

    def capture(self) -> None:
        self.place(self.first)
        self._warm = True
        super().capture()

    first: Feed = {}


def test_a_capture_of_programs_that_were_not_compiled_is_refused() -> None:
    bench = Bench()
    runner = bench.runner(Cold)
    runner.first = bench.feed(0)  # type: ignore[attr-defined]

    with pytest.raises(SpeedError, match=r"not into a trace: ttnn\.\w+: its program is not compiled"):
        runner.capture()


def disturbed(runner: Runner, bench: Bench, how: str) -> object:
    """Something done between the capture and a replay; what it returns stays."""
    if how == "allocates":
        return bench.feed(1)["x"].to(bench.device, bench.ttnn.DRAM_MEMORY_CONFIG)
    victim = runner._outputs[0] if how == "frees an output" else runner._inputs["x"]
    return bench.ttnn.deallocate(victim)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("allocates", r"a replay may overwrite what ttnn.to allocated after the capture"),
        ("frees an output", r"a replay uses what ttnn.\w+ made and ttnn.deallocate freed"),
        ("frees an input", r"reads what ttnn.to made and ttnn.deallocate freed"),
    ],
)
def test_a_replay_over_moved_tensors_is_refused(how: str, message: str) -> None:
    bench = Bench()
    runner = bench.captured()
    kept = disturbed(runner, bench, how)

    with pytest.raises(Refused, match=message):
        runner.submit(bench.feed(2))
    assert kept is None or how == "allocates"


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.ttnn.record_event(b.device, 0),
        lambda b: b.feed(0)["x"].to(b.device, b.ttnn.DRAM_MEMORY_CONFIG),
        lambda b: next(iter(b.parameters.values())).cpu(),
        lambda b: b.ttnn.begin_trace_capture(b.device, cq_id=0),
    ],
)
def test_events_reads_and_writes_are_refused_within_a_capture(call: Callable[[Bench], object]) -> None:
    bench = Bench()
    bench.ttnn.begin_trace_capture(bench.device, cq_id=0)

    with pytest.raises(Refused, match="not supported during trace capture"):
        call(bench)


def test_a_second_queue_has_to_be_opened() -> None:
    bench = Bench(queues=1)

    with pytest.raises(Refused, match="queue 1 of 1"):
        bench.runner(queues=2).plain(bench.feed(0), read)
