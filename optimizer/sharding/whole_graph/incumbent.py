"""The best plan so far, from whichever search it came."""

from __future__ import annotations

from optimizer.process import logs
from optimizer.sharding.base import Plan, PolicyInput, SearchState
from optimizer.sharding.plan_program import replay_plan
from optimizer.solver.graphs.graph_problem import FORBIDDEN

_log = logs.room("policy")


class Incumbent:
    """Keeps the fastest plan that runs."""

    def __init__(self, problem: PolicyInput) -> None:
        self._problem = problem
        self.plan: Plan | None = None
        self.time_ns = FORBIDDEN
        """Of the plan, kernels included; more than any plan takes if there is none."""
        self.alone_ns = FORBIDDEN
        """Of the plan without kernels."""
        self._proven_ns: int | None = None
        """What no plan goes below in the orders searched so far."""
        self._other_orders_ns: int | None = None
        """The same of the orders before the present one."""

    def offer(self, plan: Plan, time_ns: int, promised_ns: int = 0) -> bool:
        """A plan that fits L1, and what it takes without kernels; True if it is the best now.

        What kernels save of it is asked if it would be the best by what they are expected to save, `promised_ns`.
        """
        if time_ns - promised_ns >= self.time_ns:
            return False
        fused_ns = self._fused_ns(plan, time_ns)
        if fused_ns >= self.time_ns:
            return False
        self.plan, self.time_ns, self.alone_ns = plan, fused_ns, time_ns
        _log.info("incumbent", time_ns=fused_ns)
        return True

    def offer_unproven(self, plan: Plan) -> int | None:
        """A plan of another policy: its time without kernels if it fits, None if the replay finds that it does not."""
        replay = replay_plan(self._problem.pricer, plan.schedule, plan.decisions)
        if replay.overflows:
            return None
        self.offer(plan, replay.time_ns, replay.time_ns)
        return replay.time_ns

    def _fused_ns(self, plan: Plan, time_ns: int) -> int:
        """What a plan takes with the kernels that pay, if they are wanted."""
        kernels = self._problem.kernels
        return time_ns if kernels is None else time_ns - kernels.saved_ns(plan)

    def gap(self, bound_ns: int) -> float:
        """Share of the best time that is not proven necessary."""
        if self.plan is None:
            return 1.0
        return max(0.0, 1 - bound_ns / max(1, self.time_ns))

    def prove(self, problem: PolicyInput, bound_ns: int) -> None:
        """A bound of the present order; what is proven of a problem with fewer options is none."""
        if problem is self._problem:
            self._proven_ns = bound_ns if self._other_orders_ns is None else min(bound_ns, self._other_orders_ns)

    def begin_order(self) -> None:
        """Another order is searched: what is proven of it counts together with the others."""
        self._other_orders_ns = self._proven_ns

    def say_progress(self, bound_ns: int, how: str) -> None:
        """One line of progress: best plan, bound, gap."""
        _log.info("bound", bound_ns=bound_ns, by=how, time_ns=None if self.plan is None else self.time_ns)
        best = "none" if self.plan is None else f"{self.time_ns} ns"
        line = f"{how}: plan {best}, bound {bound_ns} ns, gap {100 * self.gap(bound_ns):.2f} %"
        self._problem.say(line, SearchState(None if self.plan is None else self.time_ns, self._proven_ns))
