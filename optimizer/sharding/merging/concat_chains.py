"""Concats: all operands in L1, sharded alike, and the result too.

A concat along the last dimension joins height shards, along the one before it width shards; it takes no block shards.
Before chains are resolved, those that feed a concat, and the chain that reads it, are told which sharding it needs; the
resolver then solves them that way as well. Afterwards each concat is put together with all its sources: those whose
result has the sharding as it is, those that were also solved for it, and copies for the rest. What the concat's
readers cannot take in place, they copy or read from DRAM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import sharded_layout
from optimizer.sharding.base import OpDecision
from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.merging.window_validation import stretch


def required_sharding(graph: Graph, op: Op) -> TensorMemoryLayout | None:
    """Sharding in which a concat takes its operands in place; None if there is none."""
    rank = len(graph.value(op.inputs[0]).shape)
    dim = int(op.attrs["dim"]) % rank  # type: ignore[arg-type]
    if dim == rank - 1:
        return TensorMemoryLayout.HEIGHT_SHARDED
    return TensorMemoryLayout.WIDTH_SHARDED if dim == rank - 2 else None


def set_concat_chain_preferences(graph: Graph, chains: Sequence[L1Chain]) -> None:
    """Tell chains that end in a concat, and those that begin at one, which sharding it needs."""
    ends = {graph.op(chain.ops[-1]).outputs[0]: chain for chain in chains}
    for chain in chains:
        op = graph.op(chain.ops[0])
        if not opdef(op.op).operands_sharded_alike:
            continue
        wanted = required_sharding(graph, op)
        readers = {reader.id for reader in graph.consumers(op.outputs[0])}
        for other in (*(ends[v] for v in op.inputs if v in ends), *(c for c in chains if c.ops[0] in readers)):
            apart = not opdef(graph.op(other.ops[0]).op).operands_sharded_alike
            if wanted is not None and apart:
                other.preferred = wanted


def resolve_concat_chains(plan: ChainPlan) -> None:
    """Put every concat together with its sources, in schedule order, where that fits and is faster."""
    for op_id in plan.state.schedule:
        op = plan.state.op(op_id)
        kind = required_sharding(plan.graph, op) if opdef(op.op).operands_sharded_alike else None
        if kind is not None and op_id not in plan.problem.overridden:
            _resolve(plan, op, kind)


def _resolve(plan: ChainPlan, op: Op, kind: TensorMemoryLayout) -> None:
    producers = [p for v in dict.fromkeys(op.inputs) if (p := plan.state.producer(v)) is not None]
    readers = plan.state.readers(op.outputs[0])
    if producers:
        first = min(producers, key=lambda p: plan.state.position[p])
        window = stretch(plan.state, first, readers[-1] if readers else op.id)
        plan.trials.keep_best("concat", _proposals(plan, op, kind), window, (*producers, op.id))


def _proposals(plan: ChainPlan, op: Op, kind: TensorMemoryLayout) -> Iterator[dict[str, OpDecision]]:
    """Decisions of the concat, and of sources that change: one for each shard grid that a source has or could have,
    and one in which the sources are read from L1 in any way."""
    legal = plan.problem.legal[op.id]
    for candidate in (*legal.l1_interleaved[:1], *legal.dram[:1]):
        yield {op.id: replace(plan.state.decisions[op.id], candidate=candidate)}
    for grid_yx in dict.fromkeys(_grids(plan, op, kind)):
        shards = {v: _sharded(plan, v, kind, grid_yx) for v in op.inputs}
        sources: dict[str, OpDecision] = {}
        for v, layout in shards.items():
            sources.update(_source(plan, v, layout))
        operands = tuple(shards[v] for v in op.inputs)
        joined = _sharded(plan, op.outputs[0], kind, grid_yx)
        for candidate in (
            *(c for c in legal.sharded if c.output == joined),
            *legal.l1_interleaved[:1],
            *legal.dram[:1],
        ):
            yield {**sources, op.id: replace(plan.state.decisions[op.id], candidate=candidate, operands=operands)}


def _grids(plan: ChainPlan, op: Op, kind: TensorMemoryLayout) -> Iterator[tuple[int, int]]:
    for v in dict.fromkeys(op.inputs):
        given = [plan.state.layout(v)]
        preferred = _preferred(plan, v)
        given += [list(preferred.values())[-1].candidate.output] if preferred else []
        for layout in given:
            if layout.memory_layout is kind and layout.shard_spec is not None:
                yield layout.shard_spec.grid_yx


def _source(plan: ChainPlan, value: str, layout: TensorLayout) -> dict[str, OpDecision]:
    """Decisions that give a value this layout; none if it has it, or must be copied."""
    if plan.state.layout(value) == layout:
        return {}
    preferred = _preferred(plan, value)
    return preferred if preferred and list(preferred.values())[-1].candidate.output == layout else {}


def _preferred(plan: ChainPlan, value: str) -> dict[str, OpDecision]:
    """The chain that ends in a value as it was solved for the concat; empty if it was not."""
    producer = plan.state.producer(value)
    chain = None if producer is None else plan.chain_of(producer)
    if chain is None or plan.state.op(chain.ops[-1]).outputs[0] != value:
        return {}
    resolver = plan.resolution.preferred.get(chain.id)
    return {} if resolver is None else resolver.decisions()


def _sharded(plan: ChainPlan, value: str, kind: TensorMemoryLayout, grid_yx: tuple[int, int]) -> TensorLayout:
    pricer = plan.problem.pricer
    return sharded_layout(plan.graph.value(value).shape, kind, grid_yx, pricer.model.device, pricer.pages[value])
