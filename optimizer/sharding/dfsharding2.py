"""DFSharding2Policy: DFSharding 2.0, chains whose results stay in L1 (the design's section 4.1).

    build chains, each concat one of its own -> set concat preferences -> resolve chains (as dfsharding does)
    -> resolve concats -> reservations for reshapes -> for forks -> chain merges
    -> chains that do not pay even so back to DRAM -> other results L1 interleaved

Every step proposes to keep some results in L1, validates everything that is scheduled while they are held, replays the
allocator, and takes the proposal only if the plan's predicted time falls. Chains that do not pay while spilled take
part. The plan of `dfsharding` is made from the same resolved chains and returned where merging gains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.errors import TimeLimitError
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.chain_plan import ChainPlan
from optimizer.sharding.chain_resolution import Resolution, failures, resolve_chains
from optimizer.sharding.concat_chains import resolve_concat_chains, set_concat_chain_preferences
from optimizer.sharding.dfsharding import isolated_chains
from optimizer.sharding.forks import apply_l1_reservations_for_fork_ops
from optimizer.sharding.interleaved_results import keep_interleaved_results
from optimizer.sharding.merges import apply_chain_merges
from optimizer.sharding.overriding import separate_copies
from optimizer.sharding.plan_replay import PlanProgram
from optimizer.sharding.plan_report import PlanReport
from optimizer.sharding.refusals import Cause
from optimizer.sharding.reshape_reservations import apply_l1_reservations_for_reshapes


@dataclass(frozen=True)
class DFSharding2Policy:
    """Chains along operand 0, merged where their results can stay in L1."""

    name: str = "dfsharding2"

    def run(self, problem: PolicyInput) -> Plan:
        resolution = resolve_chains(problem, prepare=set_concat_chain_preferences)
        isolated = isolated_chains(problem, resolution)
        merged = merged_chains(problem, resolution)
        time_ns, merged_ns = (clean_time_ns(problem, plan) for plan in (isolated, merged))
        if merged_ns is None or (time_ns is not None and time_ns <= merged_ns):
            warning = "merging chains gains nothing: the plan is that of dfsharding"
            return reserved(problem, replace(isolated, warnings=(*isolated.warnings, warning)))
        return reserved(problem, merged)


def merged_chains(problem: PolicyInput, resolution: Resolution) -> Plan:
    """The plan with everything kept in L1 that fits there and pays; as far as it got once the run shall end."""
    plan = ChainPlan(problem, resolution)
    status = "fallback" if resolution.cut_off else "feasible"
    try:
        resolve_concat_chains(plan)
        apply_l1_reservations_for_reshapes(plan)
        apply_l1_reservations_for_fork_ops(plan)
        apply_chain_merges(plan)
        leave_chains_that_do_not_pay(plan)
        if problem.options.l1_interleaved_fallback:
            keep_interleaved_results(plan)
    except TimeLimitError:
        problem.say(f"stopped: {problem.stopped_because()}")
        status = "fallback"
    decisions = plan.finish()
    separate_copies(problem, resolution.schedule, decisions)
    warnings = (*failures(plan.chains), *_short_of_l1(plan, decisions))
    return Plan(resolution.schedule, decisions, tuple(c.record() for c in plan.chains), (), warnings, status)


def leave_chains_that_do_not_pay(plan: ChainPlan) -> None:
    """Chains that are slower than DRAM when spilled go back there, unless what was merged with them makes up for it."""
    for chain in reversed(plan.resolved):
        resolver = plan.resolution.resolver(chain)
        in_dram = {op_id: plan.resolution.dram[op_id] for op_id in chain.ops}
        if not resolver.pays and plan.trials.keep("leave", in_dram, dram_too=True).taken:
            plan.leave_in_dram(chain, resolver.slow_reason())


def clean_time_ns(problem: PolicyInput, plan: Plan) -> int | None:
    """Predicted time of a plan; None if the allocator would not take it."""
    replay = PlanProgram(problem.pricer, plan.schedule, plan.decisions).replay()
    return None if replay.overflows else replay.time_ns


def reserved(problem: PolicyInput, plan: Plan) -> Plan:
    """The plan with what it keeps in L1 when."""
    return replace(plan, reservations=PlanReport(problem.pricer, plan.schedule, plan.decisions).reservations())


def _short_of_l1(plan: ChainPlan, decisions: dict[str, OpDecision]) -> list[str]:
    """One line for the results that are spilled because L1 does not hold them."""
    kept = {op_id for trial in plan.trials.log if trial.taken for op_id in trial.ops}
    short = [
        trial
        for trial in plan.trials.log
        if trial.refusal is not None and trial.refusal.cause is Cause.L1 and not kept.intersection(trial.ops)
    ]
    if not short:
        return []
    ops = dict.fromkeys(op_id for trial in short for op_id in trial.ops)
    first = short[0].refusal
    assert first is not None
    return [f"{len(ops)} result(s) go to DRAM because L1 is taken, the first at {first.describe()}"]
