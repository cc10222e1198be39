"""GlobalPolicy: all ops and values of the graph decided together, for the least predicted time.

    plans of the other policies (incumbents) -> per schedule order: options of every op -> whole-graph problem
    -> GlobalSearch (bounds, plans that the allocator takes) -> the fastest plan, with the proven bound

The plan is never slower than those of the other policies, whose choices are always among the options. The bound holds
for every plan over the options in the orders that were searched. Our kernels, where they are wanted, are options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from optimizer.errors import TimeLimitError
from optimizer.layouts.op_config import overwritten_operand
from optimizer.process import logs
from optimizer.sharding.base import OpDecision, Plan, PolicyInput, SearchState
from optimizer.sharding.chains.chain_resolution import resolve_chains
from optimizer.sharding.dfsharding import isolated_chains
from optimizer.sharding.dfsharding2 import merged_chains
from optimizer.sharding.dram import DramPolicy
from optimizer.sharding.merging.concat_chains import set_concat_chain_preferences
from optimizer.sharding.plan_report import reported
from optimizer.sharding.whole_graph.budgeted import within_budget
from optimizer.sharding.whole_graph.global_reasons import with_reasons
from optimizer.sharding.whole_graph.global_search import GOOD_ENOUGH, GlobalSearch
from optimizer.sharding.whole_graph.incumbent import Incumbent
from optimizer.sharding.whole_graph.orders import schedules

WORTH_AN_ORDER = 0.01
"""Share of the best time that room in L1 would save, from which other orders are searched too."""
WORTH_RESTRICTING = 0.01
"""Gap from which plans with nothing in place are searched for too."""
ORDERED_OPS = 600
"""Ops of the largest graph for which they are."""
UNFINISHED = "fallback"
"""Status of a plan whose policy was stopped before it had looked at everything."""


_log = logs.room("policy")


class GlobalPolicy:
    """The whole graph at once, proven against a bound."""

    name = "global"

    def run(self, problem: PolicyInput) -> Plan:
        if problem.budget is not None:
            exact = problem.exact or self.run(replace(problem, budget=None))
            return within_budget(problem, exact)
        searches = {} if problem.searches is None else problem.searches
        if self.name not in searches:
            searches[self.name] = _searched(replace(problem, kernels=None))
        found: _Searched = searches[self.name]
        incumbent, plans = found.incumbent, found.plans
        bound = min((search.bound_ns for search in found.searches if search.considered), default=0)
        if problem.kernels is not None and incumbent.plan is not None:
            try:
                incumbent, bound = _with_kernels(problem, plans, incumbent.plan)
            except TimeLimitError:  # before it was known what they would save of the best plan
                problem.say(f"stopped: {problem.stopped_because()}")
        plan = _finished(problem, incumbent, plans[0], bound, found.baselines)
        if not found.searches:
            return plan
        return with_reasons(problem, found.searches[0].table, plan, plans[0].decisions)


@dataclass(frozen=True)
class _Searched:
    """What the search without our kernels and error budget found."""

    incumbent: Incumbent
    plans: list[Plan]
    """Of the other policies, that in DRAM first."""
    baselines: Mapping[str, int]
    searches: list[GlobalSearch]
    """Per order."""


def _searched(problem: PolicyInput) -> _Searched:
    incumbent = Incumbent(problem)
    plans, baselines = _other_plans(problem, incumbent)
    searches: list[GlobalSearch] = []
    try:
        _search(problem, plans, incumbent, searches)
    except TimeLimitError:
        problem.say(f"stopped: {problem.stopped_because()}")
    return _Searched(incumbent, plans, baselines, searches)


def _search(problem: PolicyInput, plans: list[Plan], incumbent: Incumbent, searches: list[GlobalSearch]) -> None:
    """Search the orders as far as they promise something; `searches` gets each as soon as it has a bound."""
    problem.poll()
    seeds = [plan.decisions for plan in plans]
    orders = schedules(problem.pricer)
    for number, schedule in enumerate(orders):
        if number:
            if incumbent.gap(searches[0].roomy_bound_ns) <= WORTH_AN_ORDER or len(schedule) > ORDERED_OPS:
                break
            problem.say(f"order {number + 1} of {len(orders)}")
            incumbent.begin_order()
        searches.append(GlobalSearch(problem, schedule, seeds, incumbent))
        searches[-1].find()
        searches[-1].improve()
        if number == 0 and _is_worth_restricting(searches[0], incumbent):
            problem.say("nothing in place")
            restricted = replace(problem, options=replace(problem.options, in_place_ops=False))
            apart = GlobalSearch(restricted, schedule, seeds, incumbent, searches[0].unproven_options)
            apart.find()
            apart.improve()


def _with_kernels(problem: PolicyInput, plans: list[Plan], best: Plan) -> tuple[Incumbent, int]:
    """The search again in the order of the best plan, with kernels among the options; and the bound of that.

    It begins with the best plan with nothing in place too: what is in place is in no kernel.
    """
    problem.say("kernels")
    incumbent, bound_ns = Incumbent(problem), 0
    incumbent.offer_unproven(best)
    if len(best.schedule) > ORDERED_OPS or problem.time_is_up():
        return incumbent, 0
    try:
        starts = [best]
        if problem.options.in_place_ops and any(map(_is_in_place, best.decisions.values())):
            starts += _nothing_in_place(problem, plans, best.schedule)
            incumbent.offer_unproven(starts[-1])
        search = GlobalSearch(problem, best.schedule, [plan.decisions for plan in (*plans, *starts)], incumbent)
        search.find()
        bound_ns = search.bound_ns
        search.improve(worth=GOOD_ENOUGH)
        bound_ns = search.bound_ns
    except TimeLimitError:
        problem.say(f"stopped: {problem.stopped_because()}")
    return incumbent, bound_ns


def _nothing_in_place(problem: PolicyInput, plans: list[Plan], schedule: Sequence[str]) -> list[Plan]:
    """The best plan of that kind in an order, as far as one is found; `plans` are other policies'."""
    restricted = replace(problem, options=replace(problem.options, in_place_ops=False), kernels=None)
    incumbent = Incumbent(restricted)
    for plan in plans:
        incumbent.offer_unproven(plan)
    search = GlobalSearch(restricted, schedule, [plan.decisions for plan in plans], incumbent)
    search.find()
    search.improve()
    return [] if incumbent.plan is None else [incumbent.plan]


def _is_in_place(decision: OpDecision) -> bool:
    return overwritten_operand(decision.candidate.config) is not None


def _is_worth_restricting(search: GlobalSearch, incumbent: Incumbent) -> bool:
    """Whether plans with nothing in place are searched for too: with fewer options, the prices of L1 lead elsewhere.

    What is proven of those alone is no bound.
    """
    options = (option for row in search.table.options.values() for option in row)
    in_place = any(overwritten_operand(option.candidate.config) is not None for option in options)
    return in_place and len(search.schedule) <= ORDERED_OPS and incumbent.gap(search.bound_ns) > WORTH_RESTRICTING


def _other_plans(problem: PolicyInput, incumbent: Incumbent) -> tuple[list[Plan], Mapping[str, int]]:
    """Plans of the other policies, everything in DRAM first, and what they take; the first alone once time is up."""
    plans, times = [], {}
    try:
        for name, plan in _each_plan(problem):
            plans.append(plan)
            time_ns = incumbent.offer_unproven(plan)
            _log.info("plan", of=name, status=plan.status, time_ns=time_ns)
            if time_ns is not None and plan.status != UNFINISHED:
                times[f"{name}_ns"] = time_ns
                problem.say(f"{name}: {time_ns} ns", SearchState(incumbent.time_ns, None))
    except TimeLimitError:
        problem.say(f"stopped: {problem.stopped_because()}")
    return plans, times


def _each_plan(problem: PolicyInput) -> Iterator[tuple[str, Plan]]:
    """Plans of dram, dfsharding and dfsharding2, the last two from one resolution of the chains."""
    yield "dram", DramPolicy().run(problem)
    problem.poll()
    silent = replace(problem, report=None)
    resolution = resolve_chains(silent, prepare=set_concat_chain_preferences)
    yield "dfsharding", isolated_chains(silent, resolution)
    problem.poll()
    yield "dfsharding2", merged_chains(silent, resolution)


def _finished(
    problem: PolicyInput, incumbent: Incumbent, in_dram: Plan, bound_ns: int, baselines: Mapping[str, int]
) -> Plan:
    """The best plan as the policy's answer."""
    best = incumbent.plan
    if best is None:
        warning = "no plan fits L1 with the runtime's first-fit placement: everything stays in DRAM"
        return replace(in_dram, status="fallback", warnings=(*in_dram.warnings, warning), baselines=baselines)
    plan = reported(problem.pricer, best)
    if incumbent.time_ns < bound_ns:  # by kernels that are no options: what is proven says nothing of them
        bound_ns = 0
    status = "optimal" if incumbent.time_ns <= bound_ns else "feasible"
    return replace(plan, status=status, lower_bound_ns=bound_ns or None, warnings=(), baselines=baselines)
