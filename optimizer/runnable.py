"""Convolutions that no config runs on a board, computed in another way instead.

tt-metal refuses some convolutions in every form: a long kernel whose weights and windows do not fit the L1 of a core,
and for which no slicing of DRAM exists ("DRAM Auto slice could not find valid slice configuration"). Of the ways in
`WAYS` the first takes its place of which the OpModel accepts every op; the result says so in `summary.rewritten`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from optimizer.errors import InfeasibleError, TtoptError
from optimizer.importers.passes.convolution_ways import SplitChannels, UnfoldConvolution, Way
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.dram import dram_decision
from optimizer.sharding.pricing import OpPricer

FEW_TAPS = 16
"""Slices per convolution up to which windows are put together before its channels are split."""
WAYS: tuple[Callable[[str], Way], ...] = (
    lambda op_id: UnfoldConvolution(op_id, FEW_TAPS),
    lambda op_id: SplitChannels(op_id, 2),
    lambda op_id: SplitChannels(op_id, 4),
    lambda op_id: SplitChannels(op_id, 8),
    UnfoldConvolution,
)
"""Preferred first."""
ProblemOf = Callable[[Graph], PolicyInput]
"""Prepares a graph for policies."""


def refused_convolutions(problem: PolicyInput) -> dict[str, str]:
    """Convolutions that run in no config, with what the OpModel says; those that the user configures left out."""
    known = problem.pricer
    pricer = OpPricer(problem.graph, known.pages, known.model, known.l1_limit_bytes)  # whose refusals nobody counts
    problem = replace(problem, pricer=pricer)
    found: dict[str, str] = {}
    answers: dict[Hashable, str | None] = {}
    for op in problem.graph.run_ops():
        if op.op != "ttnn.conv2d" or op.id in problem.overridden:
            continue
        key = problem.pricer.signature(op)
        if key not in answers:
            answers[key] = _refusal(problem, op)
        why = answers[key]
        if why is not None:
            found[op.id] = why
    return found


def rewritten(graph: Graph, refused: Mapping[str, str], problem_of: ProblemOf) -> tuple[Graph, list[dict[str, Any]]]:
    """A copy of the graph in which refused convolutions run in another way, and what was done: `{op, pass, because}`.

    A convolution that no way helps stays as it is. Equal ones are done alike.
    """
    graph = graph.copy()
    notes = []
    chosen: dict[Hashable, Callable[[str], Way] | None] = {}
    for op_id, why in refused.items():
        op = graph.op(op_id)
        key = (op.attrs_key, tuple((graph.value(v).shape, graph.value(v).dtype) for v in op.inputs))
        if key not in chosen:
            alone = _alone(graph, op)
            chosen[key] = next((way for way in WAYS if _runs(alone, way(op_id), problem_of)), None)
        way = chosen[key]
        if way is not None:
            step = way(op_id)
            step.apply(graph)
            notes.append({"op": op_id, "pass": step.name, "because": why})
    return graph, notes


def warnings(notes: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    """What a person is told."""
    for note in notes:
        yield f"'{note['op']}' runs in another way ({note['pass']}): {note['because']}"


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


def _runs(alone: Graph, way: Way, problem_of: ProblemOf) -> bool:
    """Whether every op of a way runs."""
    graph = alone.copy()
    if not way.apply(graph):
        return False
    try:
        problem = problem_of(graph)
        for op in problem.graph.run_ops():
            dram_decision(problem, op, "")
    except TtoptError:
        return False
    return True
