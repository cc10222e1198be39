"""Cuts the schedule into L1 chains by tt-mlir's four rules.

An op joins a chain if it can be sharded and has sharded candidates. The chain goes on with the next
scheduled op if that op reads the current op's result as operand 0 and nothing else reads it; otherwise the
current op is the chain's last. A concat is a chain of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_op_configs import LegalConfigs
from optimizer.sharding.chains.l1_chain import L1Chain


def build_chains(
    graph: Graph,
    schedule: Sequence[str],
    legal: Mapping[str, LegalConfigs],
    apart: Collection[str] = (),
    never_first: Collection[str] = (),
) -> list[L1Chain]:
    """Chains in schedule order, in state Built. Ops in no chain, `apart` among them, stay in DRAM."""
    chains: list[L1Chain] = []
    current: L1Chain | None = None
    for position, op_id in enumerate(schedule):
        op = graph.op(op_id)
        if op_id in apart or not is_shardable(op, legal) or (current is None and op_id in never_first):
            continue
        if current is None:
            current = L1Chain(f"chain_{len(chains)}")
            chains.append(current)
        current.add(op_id)
        following = graph.op(schedule[position + 1]) if position + 1 < len(schedule) else None
        if following is None or following.id in apart or not continues(graph, op, following, legal):
            current.build()
            current = None
    return chains


def is_shardable(op: Op, legal: Mapping[str, LegalConfigs]) -> bool:
    """Whether an op may be a link of a chain: its kind allows it and a sharded candidate exists."""
    return opdef(op.op).shardable and bool(legal[op.id].sharded) and bool(op.inputs)


def continues(graph: Graph, op: Op, following: Op, legal: Mapping[str, LegalConfigs]) -> bool:
    """Whether `following`, scheduled right after `op`, belongs to the same chain."""
    return (
        is_shardable(following, legal)
        and following.inputs[0] == op.outputs[0]
        and graph.use_count(op.outputs[0]) == 1
        and not any(opdef(neighbour.op).operands_sharded_alike for neighbour in (op, following))
    )
