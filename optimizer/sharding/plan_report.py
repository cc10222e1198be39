"""What a person wants to know of a plan that was found as a whole: its L1 chains, and what is kept in L1 when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.result import ChainRecord, Reservation
from optimizer.sharding.base import OpDecision, Plan
from optimizer.sharding.l1_chain import ChainState, SpillLocation
from optimizer.sharding.plan_replay import result_layout_of, shared_operand, weights_in_l1


class PlanReport:
    """Reads chains and reservations off a complete set of decisions."""

    def __init__(self, pricer: OpPricer, schedule: Sequence[str], decisions: Mapping[str, OpDecision]) -> None:
        self._pricer = pricer
        self._schedule = tuple(schedule)
        self._decisions = decisions
        self._layouts: dict[str, TensorLayout] = {}
        """Results of the schedule's ops, as produced."""
        self._last_read: dict[str, int] = {}
        """Value -> last position that reads it in L1, or copies from there."""
        self._spilled = set(pricer.graph.outputs)
        self._read()

    def _read(self) -> None:
        graph = self._pricer.graph
        for t, op_id in enumerate(self._schedule):
            op, decision = graph.op(op_id), self._decisions[op_id]
            for v, wanted in zip(op.inputs, decision.operands, strict=True):
                if v in self._layouts and wanted.is_l1:
                    self._last_read[v] = t
                elif v in self._layouts:
                    self._spilled.add(v)
            for v in op.outputs:
                self._layouts[v] = result_layout_of(self._pricer, op, v, decision.candidate.output)

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
        """Where the chain's last result goes: nowhere if it is written to DRAM directly, or read from its shards."""
        value = self._pricer.graph.op(op_id).outputs[0]
        layout = self._layouts[value]
        if layout.is_l1 and value in self._spilled:
            return SpillLocation.DRAM
        return SpillLocation.NONE if layout.is_dram or layout.is_sharded else SpillLocation.L1_INTERLEAVED

    def reservations(self) -> tuple[Reservation, ...]:
        """Weights that stay in L1, then values, in the order they come to life; positions are of the schedule.

        A value whose buffer a later result takes, as a view or in place, stays until that is read for the last time.
        """
        ends = dict(self._last_read)
        for t in range(len(self._schedule) - 1, -1, -1):
            op, decision = self._pricer.graph.op(self._schedule[t]), self._decisions[self._schedule[t]]
            shared = shared_operand(self._pricer, op, decision)
            if shared is not None:
                source, result = op.inputs[shared], op.outputs[0]
                if self._layouts.get(source) == decision.operands[shared] and decision.operands[shared].is_l1:
                    ends[source] = max(ends[source], ends.get(result, t))
        kept = weights_in_l1(self._pricer, self._schedule, self._decisions)
        found = [Reservation(v, 0, len(self._schedule) - 1, size) for (v, _), size in kept.items()]
        for t, op_id in enumerate(self._schedule):
            for v in self._pricer.graph.op(op_id).outputs:
                if self._layouts[v].is_l1:
                    size = self._pricer.value_bytes(v, self._layouts[v])
                    found.append(Reservation(v, t, ends.get(v, t), size))
        return tuple(found)


def reported(pricer: OpPricer, plan: Plan) -> Plan:
    """The plan with its chains and reservations, and every op with the chain that it belongs to."""
    report = PlanReport(pricer, plan.schedule, plan.decisions)
    chains = report.chains()
    chain_of = {op_id: chain.id for chain in chains for op_id in chain.ops}
    decisions = {op_id: replace(d, chain=chain_of.get(op_id)) for op_id, d in plan.decisions.items()}
    return replace(plan, decisions=decisions, chains=chains, reservations=report.reservations())
