"""The best plan so far, from whichever search it came."""

from __future__ import annotations

from optimizer import logs
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.solver.graphs.graph_problem import FORBIDDEN

_log = logs.room("policy")


class Incumbent:
    """Keeps the fastest plan that runs."""

    def __init__(self, problem: PolicyInput) -> None:
        self._problem = problem
        self.plan: Plan | None = None
        self.time_ns = FORBIDDEN
        """Of the plan; more than any plan takes if there is none."""

    def offer(self, plan: Plan, time_ns: int) -> bool:
        """A plan that fits L1; True if it is the best now."""
        if time_ns >= self.time_ns:
            return False
        self.plan, self.time_ns = plan, time_ns
        _log.info("incumbent", time_ns=time_ns)
        return True

    def offer_unproven(self, plan: Plan) -> int | None:
        """A plan of another policy: its time if it fits, None if the replay finds that it does not."""
        replay = replay_plan(self._problem.pricer, plan.schedule, plan.decisions)
        if replay.overflows:
            return None
        self.offer(plan, replay.time_ns)
        return replay.time_ns

    def gap(self, bound_ns: int) -> float:
        """Share of the best time that is not proven necessary."""
        if self.plan is None:
            return 1.0
        return max(0.0, 1 - bound_ns / max(1, self.time_ns))

    def say_progress(self, bound_ns: int, how: str) -> None:
        """One line of progress: best plan, bound, gap."""
        _log.info("bound", bound_ns=bound_ns, by=how, time_ns=None if self.plan is None else self.time_ns)
        best = "none" if self.plan is None else f"{self.time_ns} ns"
        self._problem.say(f"{how}: plan {best}, bound {bound_ns} ns, gap {100 * self.gap(bound_ns):.2f} %")
