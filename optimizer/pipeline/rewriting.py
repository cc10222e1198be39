"""Parts of the graph are computed in another way; then every op has a TTNN call, or is refused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from optimizer.errors import OpModelError, UnsupportedOpError
from optimizer.importers.passes.fed_inputs import feed_channels_last
from optimizer.ir.graph import Graph
from optimizer.ir.vocabulary import opdef
from optimizer.limit.predictions import Predictor
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.pipeline.alternatives import Alternatives, applied, shares
from optimizer.pipeline.other_ways import refused_convolutions, rewritten
from optimizer.pipeline.work import Stage, Work, run
from optimizer.result.summary import Rewritten

CHOOSING = 0.5
"""Share of a time limit that may go by before parts are left as they are."""


@dataclass(frozen=True)
class Rewrite(Stage):
    """Prepares the graph again with what runs in no config, or faster so, computed in another way."""

    name: ClassVar[str] = "rewrite"
    takes: ClassVar[tuple[str, ...]] = ("imported", "problem", "origin", "overrides")
    gives: ClassVar[tuple[str, ...]] = ("problem", "rewritten")

    again: tuple[Stage, ...]
    """What prepares the rewritten graph."""
    alone: tuple[Stage, ...]
    """What prepares a part in another way, to see whether it runs and how fast."""
    estimated: tuple[Stage, ...]
    """What plans it fast, to see whether it may be worth it."""
    planned: tuple[Stage, ...]
    """What plans it as the whole graph is planned."""
    rewrites: bool
    channels_last_inputs: bool

    def apply(self, work: Work) -> None:
        graph, notes = work.imported, tuple[Rewritten, ...]()
        refused = refused_convolutions(work.problem)
        if refused:
            graph, notes = self.rewrite(work, refused)
        if work.stated is not None:
            chosen = tuple(note for note in work.stated if not note.is_needed)
            graph, notes = applied(self._fed(graph), chosen), (*notes, *chosen)
        elif self.rewrites and not work.origin.is_result:
            alternatives = self._alternatives(work)
            graph, chosen = alternatives.applied(self._fed(graph))
            notes += chosen
            work.clock.cut_short = work.clock.cut_short or alternatives.is_over
        work.rewritten = notes
        if notes:
            other = work.fork()
            other.imported = graph
            run(self.again, other)
            work.problem = other.problem

    def again_as(self, work: Work, notes: Sequence[Rewritten]) -> Graph:
        """The imported graph rewritten as a result says."""
        needed = {note.op: note.because for note in notes if note.is_needed}
        graph = self.rewrite(work, needed)[0] if needed else work.imported
        return applied(self._fed(graph), [note for note in notes if not note.is_needed])

    def _fed(self, graph: Graph) -> Graph:
        """A copy with its inputs as they are fed: permutes that the caller spares are no parts."""
        graph = graph.copy()
        if self.channels_last_inputs:
            feed_channels_last(graph)
        return graph

    def rewrite(self, work: Work, refused: Mapping[str, str]) -> tuple[Graph, tuple[Rewritten, ...]]:
        """The imported graph with these convolutions (id -> why) in another way, and what was done."""
        return rewritten(work.imported, refused, lambda graph: self._trial(work, graph, 1.0).problem)

    def _trial(self, work: Work, graph: Graph, share: float) -> Work:
        trial = work.fork()
        trial.imported, trial.clock = graph, work.clock.apart(share)
        run(self.alone, trial)
        return trial

    def _alternatives(self, work: Work) -> Alternatives:
        def time_ns(planned: tuple[Stage, ...], graph: Graph) -> int:
            trial = self._trial(work, graph, CHOOSING)
            run(planned, trial)
            predictor = Predictor(trial.result.graph, trial.result.layouts, work.opmodel)
            return predictor.totals(trial.result.records).time_ns

        price_ns = partial(time_ns, self.planned)
        estimate_ns = price_ns if self.estimated == self.planned else partial(time_ns, self.estimated)
        return Alternatives(estimate_ns, price_ns, shares(work.problem), frozenset(work.overrides.op_ids))


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
