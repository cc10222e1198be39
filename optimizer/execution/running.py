"""One run of a result's program in a child process, on a mock device, a simulator or a board."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from optimizer.errors import OptionError, UnsupportedOpError
from optimizer.execution.arrays import as_fed, as_the_model_has_it, inputs_of
from optimizer.execution.comparing import Bounds, OpComparison, outputs_compared, standing_values
from optimizer.execution.reference import Reference
from optimizer.export.ttnn_py import ProgramStep, TTNNProgram, render, ttnn_program
from optimizer.export.ttnn_py.full_speed import CHECKED_RUNS, Settings, Times
from optimizer.export.ttnn_py.rendering import FULL_SPEED, RUNNER
from optimizer.export.ttnn_py.run_model import Array
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.pipeline.replay import module_source
from optimizer.result import OptimizedGraph
from optimizer.values.given import require

Record = dict[str, Any]
Report = Callable[[int, int, str], None]
"""Called before every step with its number, how many there are, and the op."""

_WEIGHTS, _INPUTS, _OTHERS = "given_weights", "given_inputs", "other_inputs"
_MODULE = """\
import sys, types
{name} = types.ModuleType("{name}")
sys.modules["{name}"] = {name}
exec(compile({text!r}, "{name}.py", "exec"), {name}.__dict__)
"""
_FULL_SPEED = """\
for name in [n for n, held in globals().items() if isinstance(held, ttnn.Tensor)]:
    del globals()[name]
inputs = None
device.enable_program_cache()
settings = full_speed.Settings({trace}, {queues}, full_speed.is_mock())
runner = full_speed.Runner(ttnn, device, types.SimpleNamespace(**globals()), parameters, settings)
outcome = full_speed.executed(runner, {feeds}, lambda tensor: run_model.host_array(ttnn, tensor), {runs}, True)
times = [] if outcome.times is None else [outcome.times.total, *outcome.times.each]
seconds_at_full_speed = ttnn.Tensor(times or [0.0], [1, len(times) or 1], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT)
bytes_of_trace = ttnn.Tensor([outcome.trace_bytes or 0], [1, 1], ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)
outcome = runner = None
"""
"""What the steps have left goes first: a run at full speed finds the room that a run of the program has."""
_TIMING = """\
import time
device.enable_program_cache()
seconds = []
for _ in range({runs}):
    outputs = None
    ttnn.synchronize_device(device)
    start = time.perf_counter()
    outputs = run(device, inputs, parameters)
    ttnn.synchronize_device(device)
    seconds.append(time.perf_counter() - start)
outputs = None
measured_seconds = ttnn.Tensor(seconds[1:], [1, {runs} - 1], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT)
"""
"""The first run compiles the kernels and is not counted."""


def _quiet(number: int, count: int, op: str) -> None:
    """Report nothing."""


EMULATED = "emulate"


@dataclass(frozen=True)
class RunOptions:
    """What to run on, and what to find out."""

    device: str = "mock"
    """`mock`: shapes, types and places, no values; `emulate`: values by our emulation of every op; `sim`; `real`."""
    seed: int = 0
    """Of inputs that are not given."""
    iterations: int = 0
    """Runs to time, on a real device."""
    bounds: Bounds = field(default_factory=Bounds)
    step_seconds: float | None = None
    """How long one step may take; None: as the device needs."""
    trace: bool = False
    """Also run it captured as a trace, and compare with plain runs."""
    queues: int = 1
    """Command queues: with 2 inputs are written while a run computes."""

    def __post_init__(self) -> None:
        if self.queues not in (1, 2):
            raise OptionError(f"tt-metal has 1 or 2 command queues, not {self.queues}", node="queues")
        if self.iterations and self.device != "real":
            raise OptionError(f"a {self.device} device has no times to measure", node="iterations")
        if self.device == EMULATED and self.at_full_speed:
            raise OptionError("an emulation has no traces and no queues", node="device", alternatives=("mock", "real"))

    @property
    def at_full_speed(self) -> bool:
        """Whether the program is also run as `full_speed` does."""
        return self.trace or self.queues > 1


@dataclass
class Outcome:
    """What a run gave."""

    record: Record
    outputs: dict[str, Array] = field(default_factory=dict)
    """By name; empty on a mock device."""

    @property
    def ok(self) -> bool:
        return bool(self.record["ok"])


def run_result(
    result: OptimizedGraph,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array] | None = None,
    options: RunOptions | None = None,
    *,
    reference: Reference | None = None,
    expected: Mapping[str, Array] | None = None,
    per_op: bool = False,
    report: Report | None = None,
) -> Outcome:
    """Run a result's program once with these weights and inputs (None: random ones), and compare what it computes.

    With a `reference`, outputs are compared with the model's, and with `per_op` results of ops too; `expected` holds
    outputs by name instead. All arrays are checked before a device is opened. Raises InputError for arrays that do not
    fit, ExecutionError when the device refuses a step, dies or hangs.
    """
    options = options or RunOptions()
    if options.device == "mock" and (reference is not None or expected is not None):
        raise OptionError("a mock device computes no values to compare", node="device", alternatives=("sim", "real"))
    program = ttnn_program(result)
    refuse_host_ops(result, options)
    given = inputs_of(program.inputs, inputs, options.seed)
    fed_inputs = {e.name: as_fed(e, given[e.name], "input") for e in program.inputs}
    wanted = [entry for entry in program.parameters if entry.data is None]
    require([entry.name for entry in wanted], weights, "weights")
    values = {}
    if reference is not None:
        values = reference.run({v: as_the_model_has_it(result.graph.value(v), x) for v, x in given.items()})
    comparison = None
    if per_op:
        if reference is None:
            raise OptionError("results of ops are compared with a reference, which is not given", node="per_op")
        standing = {v: held for v, held in standing_values(result.graph).items() if held.name in values}
        comparison = OpComparison(options.bounds, standing, values)
    expected_outputs = _expected_outputs(result, reference, values, expected)
    run = _Run(result, program, options, comparison, report or _quiet)
    fed = {entry.name: as_fed(entry, weights[entry.name], "weight") for entry in wanted}
    found = (run.emulate if options.device == EMULATED else run.execute)(fed, fed_inputs)
    record: Record = {
        "model": program.name,
        "board": result.device.name,
        "device": options.device,
        "inputs": "given" if inputs is not None else f"random, seed {options.seed}",
        "steps": run.done,
        "weights": len(wanted),
        "outputs": [{"name": name, "shape": list(array.shape)} for name, array in found.items()],
        "per_op": None,
        "time": None if not run.seconds else _times(result, run.seconds),
        "full_speed": run.full_speed,
    }
    if expected_outputs is not None:
        names = list(result.output_names)
        record["outputs"] = outputs_compared(names, [found[n] for n in names], expected_outputs, options.bounds)
    if comparison is not None:
        record["per_op"] = comparison.record()
    record["ok"] = all(entry.get("ok", True) for entry in record["outputs"])
    return Outcome(record, found if options.device != "mock" else {})


def taps(result: OptimizedGraph) -> tuple[str, ...]:
    """Tensors of the model that a reference has to give besides its outputs for a comparison op by op."""
    return tuple(dict.fromkeys(held.name for held in standing_values(result.graph).values()))


def refuse_host_ops(result: OptimizedGraph, options: RunOptions) -> None:
    """UnsupportedOpError where ops run in functions of the user's, which no device but a mock one does without."""
    names = [op.name or op.id for op in result.graph.ops() if opdef(op.op).opaque]
    if names and (options.device != "mock" or options.at_full_speed):
        raise UnsupportedOpError(
            f"{len(names)} ops of the result run on the host, in functions of yours (HOST_OPS in model_ttnn.py); "
            f"the first is '{names[0]}'",
            node=names[0],
        )


def _expected_outputs(
    result: OptimizedGraph,
    reference: Reference | None,
    values: Mapping[str, Array],
    expected: Mapping[str, Array] | None,
) -> list[Array] | None:
    if reference is not None:
        return [values[name] for name in reference.outputs]
    if expected is None:
        return None
    require(result.output_names, expected, "expected outputs")
    return [expected[name] for name in result.output_names]


def _times(result: OptimizedGraph, seconds: Sequence[float]) -> Record:
    predicted = result.summary_json().get("predicted_time_ns")
    best = min(seconds) * 1e9
    return {
        "iterations": len(seconds),
        "predicted_ns": predicted,
        "best_ns": round(best),
        "median_ns": round(sorted(seconds)[len(seconds) // 2] * 1e9),
        "best_to_predicted": None if not predicted else best / predicted,
    }


class _Run:
    def __init__(
        self,
        result: OptimizedGraph,
        program: TTNNProgram,
        options: RunOptions,
        comparison: OpComparison | None,
        report: Report,
    ) -> None:
        self.result, self.program, self.options = result, program, options
        self.comparison, self.report = comparison, report
        self.done = 0
        self.seconds: list[float] = []
        """Of plain runs that were timed."""
        self.full_speed: Record | None = None

    def emulate(self, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, every op and rounding emulated on the CPU."""
        from optimizer.values.emulation.graph import emulated_result

        graph = self.result.graph

        def seen(op: Op, results: list[Array]) -> None:
            self.done += 1
            self.report(self.done, len(graph), op.name or op.id)
            if not graph.is_const_eval(op):
                for value, found in zip(op.outputs, results, strict=True):
                    self._compare(op, value, partial(np.asarray, found))

        outputs = emulated_result(self.result, {**weights, **inputs}, seen)
        return dict(zip(self.result.output_names, outputs, strict=True))

    def execute(self, weights: dict[str, Array], inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, of the program on a device; of the weights, which may be gigabytes, none is left."""
        result, program, options = self.result, self.program, self.options
        with (
            module_source(program, render(program)) as source,
            open_execution(
                result.device,
                result.options.l1_small_bytes,
                options.device,
                options.step_seconds,
                options.queues,
                program.trace_region_bytes if options.trace else 0,
            ) as session,
        ):
            session.load(source)
            self._feed(session, _WEIGHTS, weights)
            weights.clear()
            session.run(f"tensors = make_tensors(device, PARAMETERS, {_WEIGHTS})", "loading the weights")
            session.run(f"del {_WEIGHTS}")
            self._steps(session, program.parameter_steps, "preparing the weights")
            self._feed(session, _INPUTS, inputs)
            session.run(f"inputs = make_inputs(device, {_INPUTS})", "loading the inputs")
            self._steps(session, program.run_steps, "the program")
            fetched = session.fetch(list(dict.fromkeys(program.outputs)))
            outputs = {
                name: fetched[variable] for name, variable in zip(result.output_names, program.outputs, strict=True)
            }
            if options.at_full_speed:
                self.full_speed = self._at_full_speed(session, inputs)
            elif options.iterations:
                self.seconds = self._timed(session)
            return outputs

    def _feed(self, session: ExecutionSession, name: str, arrays: Mapping[str, Array]) -> None:
        """Arrays under their own names, which may be such as no archive takes."""
        session.feed(name, {str(k): array for k, array in enumerate(arrays.values())})
        session.run(f"{name} = dict(zip({list(arrays)!r}, {name}.values(), strict=True))", name)

    def _steps(self, session: ExecutionSession, steps: Sequence[ProgramStep], where: str) -> None:
        for step in steps:
            if step.printed:  # the others make placeholders in the place of what was fed
                self._step(session, step, where)

    def _step(self, session: ExecutionSession, step: ProgramStep, where: str) -> None:
        place = where
        if step.op is not None:
            op = self.result.graph.op(step.op)
            place = f"op '{op.name or op.id}' ({op.op})"
            self.done += 1
            self.report(self.done, len(self.result.graph), op.name or op.id)
        session.run(step.code, place)
        if step.op is not None and not self.result.graph.is_const_eval(op):
            for variable, value in step.results:
                self._compare(op, value, partial(_fetched, session, variable))
        for line in step.frees:
            session.run(line, place)

    def _compare(self, op: Op, value: str, found: Callable[[], Array]) -> None:
        """A result of an op beside the model's tensor that it stands for, if results of ops are compared."""
        if self.comparison is None:
            return
        if value in self.comparison.standing:
            self.comparison.take(op.name or op.id, op.op, value, found())
        else:
            self.comparison.skipped += 1

    def _timed(self, session: ExecutionSession) -> list[float]:
        session.run(_TIMING.format(runs=self.options.iterations + 1), "the timed runs")
        return [float(s) for s in np.asarray(session.fetch(["measured_seconds"])["measured_seconds"]).reshape(-1)]

    def _at_full_speed(self, session: ExecutionSession, inputs: Mapping[str, Array]) -> Record:
        """Runs from a trace or on two queues, compared with plain ones; their inputs, and random others by turns."""
        options, entries = self.options, self.program.inputs
        others = inputs_of(entries, None, options.seed + 1)
        self._feed(session, _INPUTS, inputs)
        self._feed(session, _OTHERS, {e.name: as_fed(e, others[e.name], "input") for e in entries})
        for script in (RUNNER, FULL_SPEED):
            session.run(_MODULE.format(name=script.stem, text=script.read_text("utf-8")), script.name)
        feeds = f"[{_INPUTS}, {_OTHERS}]"
        text = _FULL_SPEED.format(trace=options.trace, queues=options.queues, feeds=feeds, runs=options.iterations)
        session.run(text, "the program at full speed")
        figures = session.fetch(["seconds_at_full_speed", "bytes_of_trace"])
        seconds = [float(s) for s in np.asarray(figures["seconds_at_full_speed"]).reshape(-1)]
        times = Times(seconds[0], tuple(seconds[1:])) if options.iterations else None
        return full_speed_record(self.result, options, times, int(np.asarray(figures["bytes_of_trace"]).reshape(-1)[0]))


def _fetched(session: ExecutionSession, variable: str) -> Array:
    return session.fetch([variable])[variable]


def full_speed_record(result: OptimizedGraph, options: RunOptions, times: Times | None, trace_bytes: int) -> Record:
    """What `ttopt run` says of runs at full speed. Times are null where none were asked for."""
    summary = result.summary_json()
    return {
        "trace": options.trace,
        "queues": options.queues,
        "trace_bytes": trace_bytes or None,
        "checked_runs": None if options.device == "mock" else CHECKED_RUNS,
        "remarks": list(Settings(options.trace, options.queues, options.device == "mock").remarks),
        "iterations": options.iterations,
        "predicted_ns": summary.get("traced_ns" if options.trace else "untraced_ns"),
        "per_run_ns": None if times is None else round(times.total * 1e9 / len(times.each)),
        "latency_ns": None
        if times is None
        else {f"p{share}": round(times.percentile(share / 100) * 1e9) for share in (50, 90, 99)},
    }
