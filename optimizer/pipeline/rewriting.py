"""Convolutions that run in no config are computed in another way; then every op has a TTNN call, or is refused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from optimizer.errors import OpModelError, UnsupportedOpError
from optimizer.ir.graph import Graph
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.pipeline.other_ways import refused_convolutions, rewritten
from optimizer.pipeline.work import Stage, Work, run
from optimizer.result.summary import Rewritten
from optimizer.sharding.base import PolicyInput


@dataclass(frozen=True)
class RewriteConvolutions(Stage):
    """Prepares the graph again with the convolutions that run in no config computed in another way."""

    name: ClassVar[str] = "rewrite-convolutions"
    takes: ClassVar[tuple[str, ...]] = ("imported", "problem")
    gives: ClassVar[tuple[str, ...]] = ("problem", "rewritten")

    again: tuple[Stage, ...]
    """What prepares the rewritten graph."""
    alone: tuple[Stage, ...]
    """What prepares one convolution in another way, to see whether it runs."""

    def apply(self, work: Work) -> None:
        refused = refused_convolutions(work.problem)
        work.rewritten = ()
        if refused:
            other = work.fork()
            other.imported, work.rewritten = self.rewrite(work, refused)
            run(self.again, other)
            work.problem = other.problem

    def rewrite(self, work: Work, refused: Mapping[str, str]) -> tuple[Graph, tuple[Rewritten, ...]]:
        """The imported graph with these convolutions (id -> why) in another way, and what was done."""

        def prepared(graph: Graph) -> PolicyInput:
            trial = work.fork()
            trial.imported, trial.clock = graph, work.clock.apart()
            run(self.alone, trial)
            return trial.problem

        return rewritten(work.imported, refused, prepared)


@dataclass(frozen=True)
class CheckCalls(Stage):
    """Refuses ops that cannot be said as a TTNN call with their attributes, before anything is solved."""

    name: ClassVar[str] = "calls"
    takes: ClassVar[tuple[str, ...]] = ("problem",)
    gives: ClassVar[tuple[str, ...]] = ()

    def apply(self, work: Work) -> None:
        problem = work.problem
        said: set[Hashable] = set()
        for op in problem.graph.run_ops():
            signature = problem.pricer.signature(op)
            if opdef(op.op).opaque or signature in said:
                continue
            said.add(signature)
            way = problem.legal[op.id].dram[0]
            query = problem.pricer.query(op, problem.pricer.default_operands(op), way.config, way.request)
            try:
                call_text(query, [f"operand_{k}" for k in range(len(op.inputs))])
            except OpModelError as error:
                message = f"'{op.id}' ({op.op}) has no TTNN call: {error.message}"
                raise UnsupportedOpError(message, node=op.id) from error
