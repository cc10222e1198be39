"""What a person wants to know of a plan that was found as a whole: its L1 chains, and what is kept in L1 when."""

from __future__ import annotations

from dataclasses import replace

from optimizer.l1.timeline import timeline
from optimizer.opmodel.pricing import OpPricer
from optimizer.result import ChainRecord, Reservation
from optimizer.sharding.base import Plan
from optimizer.sharding.chains.l1_chain import ChainState, SpillLocation
from optimizer.sharding.plan_program import plan_program


def reported(pricer: OpPricer, plan: Plan) -> Plan:
    """The plan with its chains and reservations, and every op with the chain that it belongs to."""
    chains = _chains(pricer, plan)
    chain_of = {op_id: chain.id for chain in chains for op_id in chain.ops}
    decisions = {op_id: replace(d, chain=chain_of.get(op_id)) for op_id, d in plan.decisions.items()}
    return replace(plan, decisions=decisions, chains=chains, reservations=reservations(pricer, plan))


def reservations(pricer: OpPricer, plan: Plan) -> tuple[Reservation, ...]:
    """Weights that stay in L1, then values, in the order they come to life; positions are of the schedule."""
    held = timeline(plan_program(pricer, plan.schedule, plan.decisions))
    return tuple(Reservation(r.value, r.start, r.end, r.bytes_per_core) for r in held.reservations)


def _chains(pricer: OpPricer, plan: Plan) -> tuple[ChainRecord, ...]:
    """Maximal runs of two or more ops in which each reads a result of the one before it in L1."""
    graph, spilled = pricer.graph, set(pricer.graph.outputs)
    runs: list[list[str]] = []
    in_l1: set[str] = set()
    for op_id in plan.schedule:
        op, decision = graph.op(op_id), plan.decisions[op_id]
        reads = list(zip(op.inputs, decision.operands, strict=True))
        spilled |= {v for v, layout in reads if not layout.is_l1}
        if any(v in in_l1 and layout.is_l1 for v, layout in reads):
            runs[-1].append(op_id)
        else:
            runs.append([op_id])
        in_l1 = {v for v in op.outputs if pricer.result_layout(op, v, decision.candidate.output).is_l1}
    records: list[ChainRecord] = []
    for run in (run for run in runs if len(run) > 1):
        last = graph.op(run[-1])
        layout = pricer.result_layout(last, last.outputs[0], plan.decisions[last.id].candidate.output)
        end = SpillLocation.of(layout, last.outputs[0] in spilled)
        records.append(ChainRecord(f"chain_{len(records)}", tuple(run), ChainState.COMPLETED.value, end.value))
    return tuple(records)
