"""DFSharding2Policy: DFSharding 2.0, chains whose results stay in L1 (docs/solver.md).

    build chains, each concat one of its own -> set concat preferences -> resolve chains (as dfsharding does)
    -> resolve concats -> reservations for reshapes -> for forks -> chain merges
    -> chains that do not pay even so back to DRAM -> other results L1 interleaved -> groups of what has been merged

Every step proposes to keep some results in L1, validates everything that is scheduled while they are held, replays the
allocator, and takes the proposal only if the plan's predicted time falls. Chains that do not pay while spilled take
part. The plan of `dfsharding` is made from the same resolved chains and returned where merging gains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.errors import TimeLimitError
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.chains.chain_resolution import Resolution, failures, resolve_chains
from optimizer.sharding.dfsharding import isolated_chains
from optimizer.sharding.merging.concat_chains import resolve_concat_chains, set_concat_chain_preferences
from optimizer.sharding.merging.forks import apply_l1_reservations_for_fork_ops, propose_ends_of_chains
from optimizer.sharding.merging.interleaved_results import keep_interleaved_results
from optimizer.sharding.merging.merged_groups import MOST_OPS, solve_groups
from optimizer.sharding.merging.merges import apply_chain_merges
from optimizer.sharding.merging.reshape_reservations import apply_l1_reservations_for_reshapes
from optimizer.sharding.overriding import separate_copies
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.plan_report import reservations
from optimizer.sharding.refusals import Cause


@dataclass(frozen=True)
class DFSharding2Policy:
    """Chains along operand 0, merged where their results can stay in L1."""

    name: str = "dfsharding2"

    def run(self, problem: PolicyInput) -> Plan:
        resolution = resolve_chains(problem, prepare=set_concat_chain_preferences)
        isolated = isolated_chains(problem, resolution)
        limit_ns = clean_time_ns(problem, isolated)
        for slow_too in (True, False):
            merged = merged_chains(problem, resolution, slow_too)
            merged_ns = clean_time_ns(problem, merged)
            if merged_ns is not None and (limit_ns is None or merged_ns < limit_ns):
                return _finished(problem, merged)
        return _finished(problem, _not_merged(isolated, merged))


def merged_chains(problem: PolicyInput, resolution: Resolution, slow_too: bool = True) -> Plan:
    """The plan with everything kept in L1 that fits there and pays; as far as it got once the run has to end.

    `slow_too`: chains that do not pay by themselves take part until it is clear that merging does not help them.
    """
    plan = ChainPlan(problem, resolution, slow_too)
    status = "fallback" if resolution.cut_off else "feasible"
    try:
        resolve_concat_chains(plan)
        apply_l1_reservations_for_reshapes(plan)
        apply_l1_reservations_for_fork_ops(plan)
        apply_chain_merges(plan)
        leave_chains_that_do_not_pay(plan)
        if problem.options.l1_interleaved_fallback:
            keep_interleaved_results(plan)
        propose_ends_of_chains(plan)
        solve_groups(plan)
    except TimeLimitError:
        problem.say(f"stopped: {problem.stopped_because()}")
        status = "fallback"
    decisions = plan.finish()
    separate_copies(problem, resolution.schedule, decisions)
    warnings = failures(plan.chains)
    if len(resolution.schedule) > MOST_OPS:
        warnings.append(f"more than {MOST_OPS} ops: what was merged is as the trials left it, not chosen together")
    return Plan(resolution.schedule, decisions, tuple(c.record() for c in plan.chains), (), tuple(warnings), status)


def leave_chains_that_do_not_pay(plan: ChainPlan) -> None:
    """Chains that are slower than DRAM when spilled go back there, unless what was merged with them makes up for it."""
    for chain in reversed(plan.resolved):
        resolver = plan.resolution.resolver(chain)
        if resolver.pays:
            continue
        in_dram = {op_id: plan.resolution.dram[op_id] for op_id in chain.ops}
        ways = (plan.trials.keep("leave", in_dram, (), True, as_wanted) for as_wanted in (False, True))
        if any(trial.taken for trial in ways):
            plan.leave_in_dram(chain, resolver.slow_reason())


def _not_merged(isolated: Plan, merged: Plan) -> Plan:
    """The plan of isolated chains, with why merging did not do better."""
    decisions = dict(isolated.decisions)
    for op_id, decision in merged.decisions.items():
        refused = [trial for trial in decision.reason.get("residency", ()) if not trial["taken"]]
        if refused:
            reason = {**decisions[op_id].reason, "residency": refused}
            decisions[op_id] = replace(decisions[op_id], reason=reason)
    warning = "merging chains gains nothing: the plan is that of dfsharding"
    return replace(isolated, decisions=decisions, warnings=(*isolated.warnings, warning))


def clean_time_ns(problem: PolicyInput, plan: Plan) -> int | None:
    """Predicted time of a plan; None if the allocator would not take it."""
    replay = replay_plan(problem.pricer, plan.schedule, plan.decisions)
    return None if replay.overflows else replay.time_ns


def _finished(problem: PolicyInput, plan: Plan) -> Plan:
    """The plan with what it keeps in L1 when, and a warning if L1 was too small for more."""
    kept = reservations(problem.pricer, plan)
    return replace(plan, reservations=kept, warnings=(*plan.warnings, *_short_of_l1(plan)))


def _short_of_l1(plan: Plan) -> list[str]:
    """One line for the results that are spilled because L1 does not hold them."""
    reasons = []
    for op_id in plan.schedule:
        trials = plan.decisions[op_id].reason.get("residency", ())
        refused = [trial["because"] for trial in trials if trial.get("cause") == Cause.L1.value]
        if refused and not any(trial["taken"] for trial in trials):
            reasons.append(refused[0])
    return [f"{len(reasons)} result(s) go to DRAM because L1 is taken, the first at {reasons[0]}"] if reasons else []
