"""Emitted programs executed by the stand-in of ttnn, against onnxruntime on the same model and the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from ttnn_standin import Array, Refused, Standin, Tensor
from ttnn_standin.module import Run
from ttnn_standin.placement import check_placement
from ttnn_standin.values import is_chosen
from witness import random_inputs, random_weights, run_onnx, to_float32

from optimizer.export.ttnn_py import TTNNProgram, render, ttnn_program
from optimizer.opmodel.ttnn_calls import dtype_text, layout_text, memory_config_text
from optimizer.result import OptimizedGraph


@dataclass(frozen=True)
class Case:
    """A model with data, and what onnxruntime makes of it."""

    weights: Mapping[str, Array]
    """Initializers and elements of Constant nodes, by name."""
    inputs: Mapping[str, Array]
    expected: list[Array]
    others: list[Array]
    """What onnxruntime makes of other inputs. Outputs are compared by how they differ from these: biases, anchors and
    the like make most of some outputs, and would hide what depends on the input."""

    @property
    def spread(self) -> float:
        """Least distance of an output from that of other inputs, relative to its length."""
        return min(agreement(*outputs).error for outputs in zip(self.expected, self.others, strict=True))

    def compared(self, found: list[Array]) -> list[Agreement]:
        """How found outputs agree with the expected ones, beyond what all inputs have in common."""
        return [agreement(*outputs) for outputs in zip(self.expected, found, self.others, strict=True)]


def case(
    proto: onnx.ModelProto,
    *,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    inputs: Mapping[str, Array] | None = None,
) -> Case:
    """Random data for a model: initializers without data get weights that keep activations near unit variance."""
    generator = np.random.default_rng(seed)
    original = to_float32(proto)
    made = random_weights(original.graph, generator)
    feeds = {**random_inputs(original.graph, generator, shapes), **(inputs or {})}
    expected = run_onnx(original, made, feeds)
    others = run_onnx(original, made, {**random_inputs(original.graph, generator, shapes), **(inputs or {})})
    held = {t.name: numpy_helper.to_array(t) for t in original.graph.initializer if t.name not in made}
    for node in original.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            held[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return Case({**held, **made}, feeds, expected, others)


@dataclass(frozen=True)
class Agreement:
    """One output against what it should be."""

    pcc: float
    """Pearson correlation; does not see a gain or an offset."""
    error: float
    """Length of the difference relative to the length of the expected output."""
    ratio: float
    """Factor that fits the output to the expected one best: does not see what is not proportional."""

    @property
    def good(self) -> bool:
        """Whether float32 arithmetic in another order explains the difference."""
        return self.pcc >= 0.999 and self.error <= 1e-2 and abs(self.ratio - 1) <= 1e-3

    def __str__(self) -> str:
        return f"PCC {self.pcc:.6f}, relative error {self.error:.2e}, ratio {self.ratio:.5f}"


def agreement(expected: Array, found: Array, other: Array | None = None) -> Agreement:
    """How an output, less another one, agrees with what it should be; of another shape, or with NaN, not at all."""
    if expected.shape != found.shape and (expected.shape, found.shape) != ((), (1,)):  # TTNN keeps numbers as [1]
        return Agreement(0.0, float("inf"), 0.0)
    want, got = (values.astype(np.float64).reshape(-1) for values in (expected, found))
    if np.array_equal(want, got, equal_nan=True):
        return Agreement(1.0, 0.0, 1.0)
    finite = ~((np.isnan(want) & np.isnan(got)) | (np.isinf(want) & (want == got)))
    want, got = want[finite], got[finite]
    if other is not None and not np.array_equal(other, expected):
        base = np.nan_to_num(other.astype(np.float64).reshape(-1)[finite])
        want, got = want - base, got - base
    length = float(want @ want)
    error = float(np.linalg.norm(got - want)) / max(length**0.5, 1e-30)
    a, b = want - want.mean(), got - got.mean()
    spread = float(np.linalg.norm(a) * np.linalg.norm(b))
    pcc = float(a @ b) / spread if spread > 0 else float(error < 1e-6)
    return Agreement(pcc, error, float(want @ got) / max(length, 1e-30))


@dataclass(frozen=True)
class Execution:
    """A program's run, compared."""

    run: Run
    outputs: list[Agreement]
    calls: Mapping[str, int]

    @property
    def good(self) -> bool:
        """Whether every output is right and no buffer leaked."""
        return all(output.good for output in self.outputs) and not self.run.leaks

    def __str__(self) -> str:
        worst = min(self.outputs, key=lambda a: (a.pcc, -a.error))
        return f"{worst}, {len(self.run.leaks)} leaks"


@dataclass(frozen=True)
class Planned:
    """Where a plan says that the program's variables lie."""

    result: OptimizedGraph
    values: Mapping[str, str]
    """Variable of `run` -> value."""

    @classmethod
    def of(cls, result: OptimizedGraph, program: TTNNProgram) -> Planned:
        """The variables of a program of this result."""
        return cls(result, {name: value for step in program.run_steps for name, value in step.results})

    def watch(self, standin: Standin, function: str, variable: str, tensor: object) -> None:
        """Refused where an assigned tensor is not what and where it was planned.

        Shards that an op chose by itself are taken to be the planned ones, if those are such as it may choose.
        """
        if function != "run" or variable not in self.values or not isinstance(tensor, Tensor):
            return
        name = self.values[variable]
        value, layout = self.result.graph.value(name), self.result.layouts[name]
        shown = f"'{variable}' is {tensor.dtype} {list(tensor.shape)} {tensor.layout} in {tensor.memory}"
        at = {"ttnn": standin.ttnn}
        memory = None if layout.is_host else eval(memory_config_text(layout.memory), at)
        kind, page = eval(dtype_text(value.dtype), at), eval(layout_text(layout.page_layout), at)
        if (tensor.shape, tensor.dtype, tensor.layout, tensor.memory) != (tuple(value.shape), kind, page, memory):
            raise Refused(f"{shown}; planned: {kind} {list(value.shape)} {page} in {memory}")
        if is_chosen(tensor.memory):
            check_placement(tensor.shape, tensor.layout, memory, standin.machine.grid_xy)
            tensor.memory = memory


def execute(text: str, given: Case, board: str = "n150", planned: Planned | None = None, **how: Any) -> Execution:
    """The text of a program on a case's data; `how`: the stand-in's arithmetic and aliasing."""
    standin = Standin(board, **how)
    observer = None if planned is None else partial(planned.watch, standin)
    run = standin.load(text, observer).run(given.inputs, given.weights)
    return Execution(run, given.compared(run.outputs), standin.calls)


def executed(
    result: OptimizedGraph, given: Case, change: Callable[[str], str] = lambda text: text, **how: Any
) -> Execution:
    """The program of a result, watched against its plan; `change` is what is done to its text."""
    program = ttnn_program(result)
    return execute(change(render(program)), given, result.options.board, Planned.of(result, program), **how)
