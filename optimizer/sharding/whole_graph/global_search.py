"""The search over one schedule: a bound, plans near it, and the one of them that the runtime's allocator takes.

    elimination without capacity          bound; often its choice fits already
    prices on bytes (Lagrangian dual)     bound with capacity, and choices that fit by their sums
    weights                               of every choice, those kept in L1 chosen again in what the rest leaves free
    replay                                holes and circular buffers: where a choice clashes the capacity of that step
                                          shrinks by what is missing, and the nodes around it are chosen again
    pruning, CP-SAT                       the gap that is left, on problems small enough for it
    windows                               stretches of the schedule chosen again within what the rest leaves

The bound is always that of the problem as stated; only plans are searched for within shrunken capacities. Work limits
are counts of rounds, never seconds, so the same input ends in the same plan on a fast and on a slow machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from optimizer.l1.run import Outcome
from optimizer.process import logs
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph.error_choice import ErrorChoice
from optimizer.sharding.whole_graph.global_options import OptionTable, Seeds
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.incumbent import Incumbent
from optimizer.sharding.whole_graph.plan_choice import choice_of_plan
from optimizer.sharding.whole_graph.weight_choice import WeightChoice
from optimizer.solver.graphs.elimination import eliminate, priced_costs
from optimizer.solver.graphs.graph_cpsat import solve_cpsat
from optimizer.solver.graphs.lagrangian import maximise
from optimizer.solver.graphs.neighbourhood import Neighbourhoods
from optimizer.solver.graphs.option_pruning import Pruned, prune, whole
from optimizer.solver.graphs.price_ascent import fit_by_prices

_log = logs.room("policy")

Choice = tuple[int, ...]

GOOD_ENOUGH = 0.003
"""Gap at which the search ends: the predictions are not that exact."""
WORTH_IMPROVING = 0.01
"""Gap from which the best plan is worked on."""
DUAL_ROUNDS = 30
"""Most rounds of prices on the whole graph."""
DUAL_OPS = 20_000
"""Ops looked at in all these rounds; the first of them close most of the gap of a large graph."""
LEAST_DUAL_ROUNDS = 6
"""Rounds for a graph of any size."""
FIRST_DUAL_ROUNDS = 10
"""Rounds for a problem that is certain to be put to CP-SAT."""
FITTING_ROUNDS = 12
"""Rounds of dearer prices, at most, until a choice fits."""
SETTLED = 5
"""Choices of the dual from which clash after clash is removed."""
PRICE_FACTORS = (0.8, 0.9, 1.1, 1.25)
"""Prices at which more choices are looked at, relative to the best; each takes an elimination."""
PRICED_OPS = 2_000
"""In graphs of more ops these are looked at only while the gap is worth improving."""
SETTLING_ROUNDS = 40
"""Clashes that are removed from one choice, one after the other."""
BALLS = ((2, 24), (3, 60), (4, 160))
"""Neighbourhoods of a clash, tried in turn: hops, and nodes at most."""
PROVEN_OPTIONS = 10_000
"""A problem of no more options is put to CP-SAT whatever its gap."""
TRIED_OPTIONS = 20_000
"""A problem of no more options is put to CP-SAT where its gap is not good enough."""
HOPED_OPTIONS = 30_000
"""A problem of no more options is put to CP-SAT where its gap is large and nothing else has helped."""
WORTH_ANOTHER = 0.8
"""CP-SAT gets another try with this share of the options that it did not get done with before, or fewer."""
PROOF_WORK_PER_OP = 0.02
"""Deterministic seconds of CP-SAT per op; one of them takes one to two on the clock."""
WINDOW_OPS = 6
"""Ops of a stretch of the schedule that is chosen again."""
WINDOW_PASSES = 2
"""Passes over all such stretches, at most."""


class GlobalSearch:
    """Searches one schedule; plans go to the incumbent, the bound stays here."""

    def __init__(
        self,
        problem: PolicyInput,
        schedule: Sequence[str],
        seeds: Seeds,
        incumbent: Incumbent,
        unproven_options: float = math.inf,
    ) -> None:
        self._problem = problem
        self._incumbent = incumbent
        self.schedule = tuple(schedule)
        self._model = GlobalProblem(problem, schedule, seeds, kernels=problem.kernels)
        problem.poll()
        self._integers = self._model.integers
        self._weights = WeightChoice(self._model, problem.pricer)
        self._errors = None if problem.budget is None else ErrorChoice(self._model, problem.budget)
        self._around = Neighbourhoods(self._integers)
        self._capacity = np.asarray(self._integers.capacity, dtype=np.int64)
        """What plans are searched within: shrinks where the allocator needs room for holes."""
        self._step = {op_id: t for t, op_id in enumerate(self.schedule)}
        self._replayed: dict[Choice, Outcome] = {}
        self._candidates: list[Choice] = []
        """Of the bound, those that promise most first."""
        self._prices: tuple[float, ...] = ()
        """Per step of the memory, where L1 is short."""
        self.unproven_options = unproven_options
        """Of the smallest problem in this order that CP-SAT did not get done with."""
        self._best: tuple[int, Choice] | None = None
        """Time and choice of the fastest plan of this search."""
        self.bound_ns = 0
        """No plan over the options in this order takes less; 0 until that is proven."""
        self.roomy_bound_ns = 0
        """The same if L1 had no limit, where the order makes no difference."""

    @property
    def table(self) -> OptionTable:
        """What every op could choose from."""
        return self._model.table

    @property
    def considered(self) -> bool:
        """Whether plans in this order count: its bound is known, or one of them was found."""
        return self.bound_ns > 0 or self._best is not None

    def find(self) -> None:
        """The bound, and plans near it. TimeLimitError at any point once the run has to end."""
        self._candidates = self._bounded()
        for chosen in chain(self._candidates, self._at_other_prices()):
            if self._closed(GOOD_ENOUGH):
                return
            self._fill(chosen)

    def improve(self, worth: float = WORTH_IMPROVING) -> None:
        """The proof, if the best plan is of this search or that is small, and better plans if such a gap is left."""
        self._adopt()
        if (self._is_ahead or self._is_small) and not self._closed(0.0):
            self._prove(PROVEN_OPTIONS if self._closed(GOOD_ENOUGH) else TRIED_OPTIONS)
        if self._closed(worth):
            return
        for chosen in chain(self._fitting(), self._candidates[:SETTLED]):
            self._settle(chosen)
            if self._closed(worth):
                return
        self._windows()
        if self._is_ahead and not self._closed(worth):
            self._prove(HOPED_OPTIONS)

    @property
    def _is_small(self) -> bool:
        """Whether CP-SAT is certain to see it: then only what it needs is worth the time."""
        return sum(self._integers.sizes) <= PROVEN_OPTIONS

    @property
    def _is_ahead(self) -> bool:
        """Whether the best plan of all comes from this search, or was adopted by it."""
        return self._best is not None and self._best[0] <= self._incumbent.time_ns

    # -- bounds --------------------------------------------------------------------------------------
    def _bounded(self) -> list[Choice]:
        """Sets the bound, and prices of L1 if it is short; the choices that they come from."""
        solution = eliminate(self._integers, stop=self._problem.time_is_up, start=self._best_known())
        self._raise_bound(solution.lower_bound, "elimination")
        self.roomy_bound_ns = self.bound_ns
        if solution.chosen is None:
            return []
        if self._integers.fits(solution.chosen):
            return [solution.chosen]
        rounds = min(DUAL_ROUNDS, max(LEAST_DUAL_ROUNDS, DUAL_OPS // len(self.schedule)))
        if self._is_small:
            rounds = min(rounds, FIRST_DUAL_ROUNDS)
        dual = maximise(
            self._integers,
            rounds,
            upper_bound=self._incumbent.time_ns + self._model.added_ns,
            known=solution.chosen,
            stop=self._problem.time_is_up,
        )
        self._prices = dual.prices
        self._raise_bound(dual.lower_bound, "prices")
        best = [] if dual.best is None or dual.best.chosen is None else [dual.best.chosen]
        others = [chosen for chosen in dual.candidates if chosen not in best]
        return best + others

    def _best_known(self) -> Choice | None:
        """The best plan so far, whoever found it, as a choice of this problem."""
        self._problem.poll()
        plan = self._incumbent.plan
        return None if plan is None else choice_of_plan(self._model, self._problem.pricer, plan.decisions)

    def _at_other_prices(self) -> Iterator[Choice]:
        """Choices at prices that are all a little lower or higher than those of the bound."""
        for factor in PRICE_FACTORS if self._prices and not self._is_small else ():
            if len(self.schedule) > PRICED_OPS and self._closed(WORTH_IMPROVING):
                return
            costs = priced_costs(self._integers, [factor * price for price in self._prices])
            start = self._candidates[0] if self._candidates else None
            found = eliminate(self._integers, costs, stop=self._problem.time_is_up, start=start)
            if found.chosen is not None:
                yield found.chosen

    def _fitting(self) -> Iterator[Choice]:
        """A choice that fits by its sums, by prices that rise where one does not."""
        if self._prices:
            chosen = fit_by_prices(self._integers, FITTING_ROUNDS, self._prices, self._problem.time_is_up).chosen
            if chosen is not None:
                yield chosen

    def _raise_bound(self, value: int, how: str) -> None:
        """What the integers are proven to be worth at least, as a bound of plans."""
        bound_ns = value - self._model.added_ns - self._model.left_out_ns
        if bound_ns > self.bound_ns:
            self.bound_ns = bound_ns
            self._incumbent.prove(self._problem, bound_ns)
            self._incumbent.say_progress(bound_ns, how)

    def _closed(self, gap: float) -> bool:
        return self._incumbent.gap(self.bound_ns) <= gap

    # -- plans that the allocator takes --------------------------------------------------------------
    def _replay(self, chosen: Choice) -> Outcome:
        """The choice as a program; a clean one is offered as a plan."""
        self._problem.poll()
        if chosen not in self._replayed:
            decisions = self._model.decisions(chosen, {"chosen": "least time over the whole graph"})
            replay = replay_plan(self._problem.pricer, self.schedule, decisions)
            self._replayed[chosen] = replay
            plan, promised_ns = Plan(self.schedule, decisions), self._model.promised_ns(chosen)
            fits = not replay.overflows and self._model.within_budget(chosen)
            if fits and self._incumbent.offer(plan, replay.time_ns, promised_ns):
                self._best = self._incumbent.time_ns, chosen
                self._incumbent.say_progress(self.bound_ns, "plan")
        return self._replayed[chosen]

    def _fill(self, chosen: Choice) -> None:
        """The choice with the weights that fit best beside its tensors, and whatever clashes without any removed."""
        self._problem.poll()
        settled = self._settle(self._within_budget(self._weights.without(chosen)))
        filled = None if settled is None else self._weights.filled(settled)
        if filled is not None:
            self._replay(filled)
        if self._errors is not None and settled is not None:
            self._replay(self._within_budget(settled if filled is None else filled))

    def _within_budget(self, chosen: Choice) -> Choice:
        """The choice with the error budget spent best; itself where there is none, or none of its kind is within it."""
        found = None if self._errors is None else self._errors.filled(chosen)
        return chosen if found is None else found

    def _settle(self, start: Choice) -> Choice | None:
        """The choice with clash after clash removed; None if one cannot be removed."""
        chosen: Choice | None = start
        for _ in range(SETTLING_ROUNDS):
            assert chosen is not None
            replay = self._replay(chosen)
            if not replay.overflows:
                if not self._model.within_budget(chosen):
                    self._replay(self._within_budget(chosen))
                return chosen
            chosen = self._without_clash(chosen, replay)
            if chosen is None:
                break
        return None

    def _without_clash(self, chosen: Choice, replay: Outcome) -> Choice | None:
        """The nodes around the first clash chosen again, with less capacity there. None if that is not possible."""
        overflow = replay.overflows[0]
        _log.debug("clash", op=overflow.op_id, excess=overflow.excess_bytes, rule=overflow.rule.name)
        t = self._step[overflow.op_id]
        load = self._integers.loads(chosen)
        steps = (2 * t, 2 * t + 1)
        before = self._capacity.copy()
        for s in steps:
            self._capacity[s] = min(self._capacity[s], load[s] - overflow.excess_bytes)
        for hops, limit in BALLS:
            self._problem.poll()
            seeds = {t, *self._around.holders(chosen, 2 * t), *self._around.holders(chosen, 2 * t + 1)}
            free = self._around.around(seeds, hops, limit)
            found = self._around.rechosen(chosen, free, self._capacity, steps, self._problem.time_is_up)
            if found is not None:
                return found
        self._capacity = before
        return None

    # -- improvement ---------------------------------------------------------------------------------
    def _adopt(self) -> None:
        """Goes on from the best plan, if that is another policy's in this order."""
        plan = self._incumbent.plan
        chosen = None if plan is None or self._is_ahead or plan.schedule != self.schedule else self._best_known()
        if chosen is None:
            return
        replay = self._replay(chosen)
        if not replay.overflows and replay.time_ns <= self._incumbent.alone_ns:
            self._best = self._incumbent.time_ns, chosen

    def _windows(self) -> None:
        """Stretches of the schedule chosen again, while that makes the best plan faster."""
        for _ in range(WINDOW_PASSES):
            before = self._incumbent.time_ns
            for first in range(0, len(self.schedule), WINDOW_OPS // 2):
                if self._best is None or not self._is_ahead:
                    return
                self._improve(self._best[1], range(first, min(first + WINDOW_OPS, len(self.schedule))))
            if self._incumbent.time_ns >= before or self._closed(GOOD_ENOUGH):
                return

    def _improve(self, chosen: Choice, ops: range) -> None:
        self._problem.poll()
        free = self._around.around(ops, 1, len(self._integers.costs))
        found = self._around.rechosen(chosen, free, self._capacity, range(len(self._capacity)))
        if found is not None and self._integers.value(found) < self._integers.value(chosen):
            self._settle(found)

    def _pruned(self) -> Pruned:
        """The problem without options that are in no plan as fast as the best one; the bound profits too."""
        self._problem.poll()
        prices = self._prices or [0.0] * len(self._integers.capacity)
        value = self._incumbent.time_ns + self._model.added_ns
        pruned = prune(whole(self._integers), prices, value + 1, self._problem.time_is_up)
        self._raise_bound(min(pruned.lower_bound, value), "pruning")
        return pruned

    def _prove(self, most_options: int) -> None:
        """CP-SAT on what pruning leaves, if that is few options: faster plans, or the proof that there are none."""
        if len(self._integers.costs) > most_options:
            return  # every node keeps an option
        pruned = self._pruned()
        options = sum(pruned.problem.sizes)
        if self._closed(0.0) or options > min(most_options, WORTH_ANOTHER * self.unproven_options):
            return
        self.unproven_options = options
        self._problem.poll()
        work = PROOF_WORK_PER_OP * len(self.schedule)
        below = self._incumbent.time_ns + self._model.added_ns
        solution = solve_cpsat(pruned.problem, work, upper_bound=below, stop=self._problem.time_is_up)
        self._raise_bound(solution.lower_bound, "CP-SAT")
        if solution.chosen is not None:
            self._settle(pruned.restore(solution.chosen))
