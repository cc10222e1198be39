"""Convolutions that no config runs on a board, computed in another way instead.

tt-metal refuses some convolutions in every form: a long kernel whose weights and windows do not fit the L1 of a core,
and for which no slicing of DRAM exists ("DRAM Auto slice could not find valid slice configuration"), groups whose
weights are spread over all channels, images too large. Of the ways in `WAYS` the first takes its place of which the
OpModel accepts every op; the result says so in `summary.rewritten`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

from optimizer.errors import InfeasibleError, TtoptError
from optimizer.importers.passes.convolution_parts import (
    MOST_PARTS,
    Both,
    SplitBatch,
    SplitGroups,
    SplitImage,
    SplitKernel,
    ZeroBias,
)
from optimizer.importers.passes.convolution_ways import SplitChannels, UnfoldConvolution, Way
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.vocabulary import CONV2D
from optimizer.result.summary import Rewritten
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.dram import dram_decision

FEW_TAPS = 16
"""Slices per convolution up to which windows are put together before its channels are split."""
MOST_OPS = 600
"""Ops that may take the place of one convolution."""
MakesWay = Callable[[str], Way]
"""A way for the op of that id."""


def _in(parts: int, kind: Callable[..., Way], *more: str) -> MakesWay:
    return lambda op_id: kind(op_id, *more, parts)


def _then(first: MakesWay, second: MakesWay) -> MakesWay:
    return lambda op_id: Both(first(op_id), second)


_AXES = ("height", "width")
_PARTS = (2, 4, 8, 16, 32)
_UNFOLD_FEW: MakesWay = partial(UnfoldConvolution, most_taps=FEW_TAPS)
_UNFOLD_MANY: MakesWay = UnfoldConvolution
_CHANNELS = tuple(_in(n, SplitChannels) for n in (2, 4, 8))
_EVERY_GROUP, _EVERY_IMAGE = _in(MOST_PARTS, SplitGroups), _in(MOST_PARTS, SplitBatch)
_SOME_STRIPS = tuple(_in(n, SplitImage, axis) for n in (4, 16) for axis in _AXES)
_SOME_KERNEL_PARTS = tuple(_in(n, SplitKernel, axis) for n in (4, 16) for axis in _AXES)
_KERNEL_PARTS = tuple(_in(n, SplitKernel, axis) for n in _PARTS for axis in _AXES)
_IN_PARTS = (_in(8, SplitGroups), _EVERY_GROUP, _EVERY_IMAGE)
WAYS: tuple[MakesWay, ...] = (
    ZeroBias,
    _UNFOLD_FEW,
    *_CHANNELS,
    *(_in(n, SplitGroups) for n in (*_PARTS, MOST_PARTS)),
    _UNFOLD_MANY,
    *(_in(n, SplitBatch) for n in (2, 4, 8, MOST_PARTS)),
    *(_in(n, SplitImage, axis) for n in _PARTS for axis in _AXES),
    *(_then(_EVERY_GROUP, way) for way in (_UNFOLD_FEW, *_CHANNELS)),
    *(_then(first, second) for first, second in product(_IN_PARTS, _SOME_STRIPS)),
    _then(_in(4, SplitImage, "height"), _in(4, SplitImage, "width")),
    *_KERNEL_PARTS,
    *(_then(first, ZeroBias) for first in (*_IN_PARTS, *_SOME_STRIPS, *_KERNEL_PARTS)),
    *(_then(*both) for both in product((*_IN_PARTS, *_CHANNELS, *_SOME_STRIPS), _SOME_KERNEL_PARTS)),
)
"""Preferred first: what is exact before what adds rounded sums, one way before two.

An unfolding into many slices gives way to parts of the kernel where those are predicted to be faster.
"""
ProblemOf = Callable[[Graph], PolicyInput]
"""Prepares a graph for policies."""


def refused_convolutions(problem: PolicyInput) -> dict[str, str]:
    """Convolutions that run in no config, with what the OpModel says; those that the user configures left out."""
    with problem.pricer.counted_apart():
        return _refused_convolutions(problem)


def _refused_convolutions(problem: PolicyInput) -> dict[str, str]:
    found: dict[str, str] = {}
    answers: dict[Hashable, str | None] = {}
    for op in problem.graph.run_ops():
        if op.op != CONV2D or op.id in problem.overridden:
            continue
        key = problem.pricer.signature(op)
        if key not in answers:
            answers[key] = _refusal(problem, op)
        why = answers[key]
        if why is not None:
            found[op.id] = why
    return found


def rewritten(graph: Graph, refused: Mapping[str, str], problem_of: ProblemOf) -> tuple[Graph, tuple[Rewritten, ...]]:
    """A copy of the graph in which refused convolutions run in another way, and what was done.

    A convolution that no way helps stays as it is. Equal ones are done alike.
    """
    graph = graph.copy()
    notes = []
    chosen: dict[Hashable, MakesWay | None] = {}
    for op_id, why in refused.items():
        op = graph.op(op_id)
        key = (op.attrs_key, tuple((graph.value(v).shape, graph.value(v).dtype) for v in op.inputs))
        if key not in chosen:
            chosen[key] = _way(_alone(graph, op), op_id, problem_of)
        way = chosen[key]
        if way is not None:
            step = way(op_id)
            step.apply(graph)
            notes.append(Rewritten(op=op_id, way=step.name, because=why))
    return graph, tuple(notes)


def _refusal(problem: PolicyInput, op: Op) -> str | None:
    try:
        dram_decision(problem, op, "")
    except InfeasibleError as error:
        return error.message
    return None


def _alone(graph: Graph, op: Op) -> Graph:
    """A graph of nothing but this op."""
    alone = Graph("alone", [op.inputs[0]], [op.outputs[0]])
    for k, v in enumerate(op.inputs):
        kind = ValueKind.PARAMETER if k else ValueKind.INPUT
        alone.add_value(replace(graph.value(v), kind=kind, data=None))
    alone.add_value(graph.value(op.outputs[0]))
    alone.add_op(op)
    return alone


def _way(alone: Graph, op_id: str, problem_of: ProblemOf) -> MakesWay | None:
    """The first way of which every op runs; of an unfolding into many slices and parts of the kernel the fastest."""
    found = next((way for way in WAYS if _time_ns(alone, way(op_id), problem_of) is not None), None)
    if found is not _UNFOLD_MANY:
        return found
    asked = ((way, _time_ns(alone, way(op_id), problem_of)) for way in (found, *_KERNEL_PARTS))
    times = {way: time_ns for way, time_ns in asked if time_ns is not None}
    return min(times, key=times.__getitem__)


def _time_ns(alone: Graph, way: Way, problem_of: ProblemOf) -> int | None:
    """Predicted time of a way with everything in DRAM; None if it is not open, or one of its ops does not run."""
    graph = alone.copy()
    if not way.apply(graph) or sum(1 for _ in graph.ops()) > MOST_OPS:
        return None
    total = 0
    try:
        problem = problem_of(graph)
        for op in problem.graph.run_ops():
            decision = dram_decision(problem, op, "")
            chosen = decision.candidate
            total += problem.pricer.cost(op, decision.operands, chosen.config, chosen.request).time_ns
    except TtoptError:
        return None
    return total
