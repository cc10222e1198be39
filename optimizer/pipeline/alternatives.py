"""Parts of the graph computed in another way where that is faster (`optimizer.rewrites`).

Ways are planned in a window of the part and what is next to it: all by a fast policy, those that promise most as the
whole graph is, by the policy of the run. Parts that are alike, with what is next to them, are planned once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from optimizer.errors import InfeasibleError, TimeLimitError, TtoptError, VerificationError
from optimizer.importers.finishing import follow_movement
from optimizer.importers.passes.rewriting import origins
from optimizer.importers.passes.tile_padding import with_filled_padding
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import RESHAPE
from optimizer.process import logs
from optimizer.result.summary import Rewritten
from optimizer.rewrites.rules import RULES
from optimizer.rewrites.way import Rule, Site
from optimizer.rewrites.windows import signature, window
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.dram import dram_decision

WORTH = 0.03
"""Share of a window's time that a way has to save."""
MUCH = 0.002
"""Share of the time of a run, everything in DRAM, from which on a part (of all that are alike) is looked at."""

MUCH_SLOWER = 1.25
"""From there on a way is not tried in more parts."""
SLOWER = 1.1
"""Up to there, by the estimate, it is planned by the policy of the run, in that many parts that are best."""
LEAST_NS = 1500
"""Less than any device program takes; most start in 3,000."""

PriceNs = Callable[[Graph], int | None]
"""Plans a graph and says how long it takes; None: it has no plan."""

_log = logs.room("pipeline")


@dataclass
class Alternatives:
    """Chooses ways for one run."""

    estimate_ns: PriceNs
    """By a policy that is fast: decides what is looked at by that of the run."""
    price_ns: PriceNs
    shares: Mapping[str, float]
    """Of ops in the time of a run; those that are not there are looked at."""
    fixed: frozenset[str]
    """Ops that the user has decided about."""
    is_over: bool = False
    """Whether there was no time left for it."""
    _known: dict[Hashable, int | None] = field(default_factory=dict)

    def applied(self, graph: Graph) -> tuple[Graph, tuple[Rewritten, ...]]:
        """A copy of the graph with every part in its fastest way, and what was done."""
        graph, notes = graph.copy(), list[Rewritten]()
        for rule in RULES:
            for op in graph.run_ops():
                if graph.has_op(op.id):
                    notes += self._rewritten(graph, rule, op)
        follow_movement(graph)
        return with_filled_padding(graph), tuple(notes)

    def _rewritten(self, graph: Graph, rule: Rule, op: Op) -> Iterator[Rewritten]:
        sites = [site for site in rule(graph, op) if self._is_open(site)]
        if not sites or self.is_over:
            return
        around = window(graph, {op_id for site in sites for op_id in site.ops})
        before_ns, times = self._compared(around, sites)
        _log.debug("ways", op=op.id, ns=before_ns, ways={f"{s.way.name} {s.parts}": ns for s, ns in times.items()})
        best = min(times, key=times.__getitem__, default=None)
        if best is None or self.is_over or times[best] > (1 - WORTH) * before_ns:
            return
        origin = origins(graph.op(op_id) for op_id in best.ops)
        best.apply(graph)
        yield Rewritten(
            op=op.id,
            way=best.way.name,
            parts=best.parts,
            origin=origin,
            because=f"{times[best]} ns instead of {before_ns} ns with what is next to it",
            saved_ns=before_ns - times[best],
        )

    def _compared(self, around: Graph, sites: Sequence[Site]) -> tuple[int, dict[Site, int]]:
        """What a window takes as it is, and by those ways that promise something by the estimate."""
        estimate_ns = self._priced(around, self.estimate_ns)
        promising: dict[str, tuple[int, Site, Graph]] = {}
        too_many: set[str] = set()
        for site in sites:
            other, name = around.copy(), site.way.name
            if estimate_ns is None or name in too_many or not site.apply(other):
                continue
            if _least_ns(other) >= estimate_ns:
                too_many.add(name)
                continue
            ns = self._priced(other, self.estimate_ns)
            if ns is None:
                continue
            if ns > MUCH_SLOWER * estimate_ns:
                too_many.add(name)
            elif ns < SLOWER * estimate_ns and (name not in promising or ns < promising[name][0]):
                promising[name] = ns, site, other
        before_ns = self._priced(around, self.price_ns) if promising else None
        if before_ns is None:
            return 0, {}
        tried = ((site, self._priced(other, self.price_ns)) for _, site, other in promising.values())
        return before_ns, {site: ns for site, ns in tried if ns is not None}

    def _is_open(self, site: Site) -> bool:
        is_much = sum(self.shares.get(op_id, MUCH) for op_id in site.ops) >= MUCH
        return is_much and self.fixed.isdisjoint(site.ops)

    def _priced(self, graph: Graph, price_ns: PriceNs) -> int | None:
        key = price_ns, signature(graph)
        if key not in self._known:
            try:
                self._known[key] = price_ns(graph)
            except TimeLimitError:
                self.is_over = True
                return None
            except TtoptError as error:
                _log.debug("no plan", because=error.message)
                self._known[key] = None
        return self._known[key]


def _least_ns(graph: Graph) -> int:
    """Less than the ops of a graph take whatever their layouts are."""
    return LEAST_NS * sum(op.op != RESHAPE for op in graph.run_ops())


def shares(problem: PolicyInput) -> dict[str, float]:
    """Share of every op, together with those that are alike, in the time of a run with everything in DRAM."""
    alike: dict[Hashable, list[str]] = defaultdict(list)
    for op in problem.graph.run_ops():
        alike[problem.pricer.signature(op)].append(op.id)
    times, total = dict[str, int](), 0
    for ops in alike.values():
        op = problem.graph.op(ops[0])
        try:
            decision = dram_decision(problem, op, "")
        except InfeasibleError:
            continue
        chosen = decision.candidate
        ns = problem.pricer.cost(op, decision.operands, chosen.config, chosen.request).time_ns
        times.update(dict.fromkeys(ops, ns * len(ops)))
        total += ns * len(ops)
    return {op_id: ns / max(total, 1) for op_id, ns in times.items()}


def applied(graph: Graph, notes: Collection[Rewritten]) -> Graph:
    """A copy of the graph rewritten as a result says, whatever is faster. VerificationError for unknown ways."""
    graph = graph.copy()
    for note in notes:
        sites = [site for rule in RULES for site in rule(graph, graph.op(note.op))] if graph.has_op(note.op) else []
        found = [site for site in sites if (site.way.name, site.parts) == (note.way, note.parts)]
        if not found or not found[0].apply(graph):
            raise VerificationError(f"'{note.op}' has no way '{note.way}'", node=note.op)
    follow_movement(graph)
    return with_filled_padding(graph)
