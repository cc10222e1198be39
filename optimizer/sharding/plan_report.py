"""What a person wants to know of a plan that was found as a whole: its L1 chains, and what is kept in L1 when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from optimizer.l1.timeline import timeline
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.result import ChainRecord, Reservation
from optimizer.sharding.base import OpDecision, Plan
from optimizer.sharding.chains.l1_chain import ChainState, SpillLocation
from optimizer.sharding.plan_program import plan_program


class PlanReport:
    """Reads chains and reservations off a complete set of decisions."""

    def __init__(self, pricer: OpPricer, schedule: Sequence[str], decisions: Mapping[str, OpDecision]) -> None:
        self._pricer = pricer
        self._schedule = tuple(schedule)
        self._decisions = decisions
        self._layouts: dict[str, TensorLayout] = {}
        """Results of the schedule's ops, as produced."""
        self._spilled = set(pricer.graph.outputs)
        self._read()

    def _read(self) -> None:
        graph = self._pricer.graph
        for op_id in self._schedule:
            op, decision = graph.op(op_id), self._decisions[op_id]
            self._spilled |= {v for v, wanted in zip(op.inputs, decision.operands, strict=True) if not wanted.is_l1}
            for v in op.outputs:
                self._layouts[v] = self._pricer.result_layout(op, v, decision.candidate.output)

    def chains(self) -> tuple[ChainRecord, ...]:
        """Maximal runs of two or more ops in which each reads a result of the one before it in L1."""
        runs: list[list[str]] = []
        for t, op_id in enumerate(self._schedule):
            if t and self._follows(self._schedule[t - 1], op_id):
                runs[-1].append(op_id)
            else:
                runs.append([op_id])
        whole = [run for run in runs if len(run) > 1]
        return tuple(
            ChainRecord(f"chain_{n}", tuple(run), ChainState.COMPLETED.value, self._end_of(run[-1]).value)
            for n, run in enumerate(whole)
        )

    def _follows(self, before: str, op_id: str) -> bool:
        results = {v for v in self._pricer.graph.op(before).outputs if self._layouts[v].is_l1}
        op, operands = self._pricer.graph.op(op_id), self._decisions[op_id].operands
        return any(v in results and layout.is_l1 for v, layout in zip(op.inputs, operands, strict=True))

    def _end_of(self, op_id: str) -> SpillLocation:
        """Where the chain's last result goes: nowhere if it is read from its shards."""
        value = self._pricer.graph.op(op_id).outputs[0]
        layout = self._layouts[value]
        if layout.is_dram or value in self._spilled:
            return SpillLocation.DRAM
        return SpillLocation.NONE if layout.is_sharded else SpillLocation.L1_INTERLEAVED

    def reservations(self) -> tuple[Reservation, ...]:
        """Weights that stay in L1, then values, in the order they come to life; positions are of the schedule."""
        held = timeline(plan_program(self._pricer, self._schedule, self._decisions))
        return tuple(Reservation(r.value, r.start, r.end, r.bytes_per_core) for r in held.reservations)


def reported(pricer: OpPricer, plan: Plan) -> Plan:
    """The plan with its chains and reservations, and every op with the chain that it belongs to."""
    report = PlanReport(pricer, plan.schedule, plan.decisions)
    chains = report.chains()
    chain_of = {op_id: chain.id for chain in chains for op_id in chain.ops}
    decisions = {op_id: replace(d, chain=chain_of.get(op_id)) for op_id, d in plan.decisions.items()}
    return replace(plan, decisions=decisions, chains=chains, reservations=report.reservations())
