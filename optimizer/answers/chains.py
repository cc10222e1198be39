"""`ttopt chains`: the L1 chains of a finished graph.json, and what the chain solver did to one of them.

The document states what became of every chain. How it came about is not stored: the chain is solved again from the
document (`solving_again`), with every step of the solver kept (`solver.shard_trace`). Chains of a policy that decides
the graph as a whole are runs of ops in L1; no chain solver made them, and what the document says of them is all there
is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from optimizer.answers.solving_again import rebuilt
from optimizer.errors import FormatError, TtoptError, UnknownNameError
from optimizer.export.reader import read_result
from optimizer.pipeline import Clock, Progress
from optimizer.pipeline.stages import NAMES
from optimizer.result import ChainRecord, OptimizedGraph, Role
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.chains.chain_oracle import ChainOracle
from optimizer.sharding.chains.chain_resolution import is_part
from optimizer.sharding.chains.chain_resolver import ChainResolver
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.dram import dram_decision
from optimizer.sharding.merging.concat_chains import set_concat_chain_preferences
from optimizer.solver.chains.bitset import contains, indices_of
from optimizer.solver.chains.chain_engines import engine
from optimizer.solver.chains.chain_problem import ChainInfeasible, ReshardOption
from optimizer.solver.chains.shard_trace import ChainTrace, EdgeStep

BY_CHAIN = ("dfsharding", "dfsharding2")
"""Policies whose chains a chain solver resolves."""
SHOWN_ALTERNATIVES = 5
"""Live configs of an op that are described beside the chosen one."""

Record = dict[str, Any]


def overview(result: OptimizedGraph) -> list[Record]:
    """Every chain of a result in schedule order, as its document states it. FormatError if one names no ops of it."""
    return [_stated(result, chain) for chain in _sound(result)]


def details(path: Path, chain_id: str, members: bool = False, progress: Progress | None = None) -> Record:
    """One chain: what the document states (`overview`), its ops as placed, trials, and the solve step by step.

    `solved` is null and `note` says why where there is nothing to solve again. `members` lists the configs and pairs
    behind every count. UnknownNameError for a chain that the document does not have.
    """
    result = read_result(path)
    found = {chain.id: chain for chain in _sound(result)}
    if chain_id not in found:
        raise UnknownNameError("chain", chain_id, found)
    chain = found[chain_id]
    record = {
        **_stated(result, chain),
        "placed": [_placed(result, op_id) for op_id in chain.ops],
        "trials": _trials(result, chain),
        "note": None,
        "solved": None,
    }
    if result.options.policy not in BY_CHAIN:
        record["note"] = f"policy {result.options.policy} decides all ops together: no chain solver made this chain"
        return record
    if (result.summary_json().get("check") or {}).get("repaired"):
        record["note"] = "the plan was repaired after a replay: solved again without what was refused then"
    try:
        problem = rebuilt(path, result, Clock(NAMES, progress))
        record["solved"] = Solved(problem, _built(problem, result.chains, chain), members).record()
    except TtoptError as error:
        record["note"] = f"this document cannot be solved again: {error}"
    return record


# -- what the document states ----------------------------------------------------------------------------
def _sound(result: OptimizedGraph) -> tuple[ChainRecord, ...]:
    for chain in result.chains:
        if not chain.ops or not set(chain.ops) <= set(result.records):
            raise FormatError("the chain names no ops, or some that do not exist", node=chain.id)
    return result.chains


def _stated(result: OptimizedGraph, chain: ChainRecord) -> Record:
    statistics, by_chain = chain.statistics, result.options.policy in BY_CHAIN
    time_ns = statistics.get("time_ns")
    if time_ns is None and chain.state == "completed":
        time_ns = sum(r.predicted.time_ns for r in result.records.values() if r.chain == chain.id and r.predicted)
    return {
        "id": chain.id,
        "state": chain.state,
        "ops": list(chain.ops),
        "policy": result.options.policy,
        "engine": result.options.chain_solver if by_chain else None,
        "objective": statistics.get("objective"),
        "core_usage": statistics.get("core_usage"),
        "time_ns": time_ns,
        "dram_ns": statistics.get("dram_ns"),
        "spill_location": chain.spill_location,
        "end_layout": result.layouts[result.graph.op(chain.ops[-1]).outputs[0]].describe(),
        "reason": chain.reason,
        "parts": [c.id for c in result.chains if is_part(c.id, chain.id) and set(c.ops) <= set(chain.ops)],
    }


def _placed(result: OptimizedGraph, op_id: str) -> Record:
    """An op of the plan: how it gets operand 0, and what it gives."""
    op, record = result.graph.op(op_id), result.records[op_id]
    maker = result.graph.producer(op.inputs[0]) if op.inputs else None
    role = None if maker is None else result.records[maker.id].role
    given = result.layouts[op.outputs[0]]
    return {
        "op": op_id,
        "call": op.op,
        "reads": None if not op.inputs else result.layouts[op.inputs[0]].describe(),
        "through": role.value if role in (Role.RESHARD, Role.LOAD, Role.SPILL) else None,
        "layout": given.describe(),
        "cores": given.num_shard_cores if given.is_sharded else None,
        "config": None if record.config is None else record.config.to_json(),
        "time_ns": None if record.predicted is None else record.predicted.time_ns,
        "chain": record.chain,
    }


def _trials(result: OptimizedGraph, chain: ChainRecord) -> list[Record]:
    """Attempts to keep results of the chain's ops in L1 beyond their op, in the order in which they were made."""
    found: list[Record] = []
    for op_id in chain.ops:
        found += (dict(trial) for trial in result.records[op_id].reason.get("residency", ()) if trial not in found)
    return found


# -- solved again ------------------------------------------------------------------------------------------
def _built(problem: PolicyInput, chains: Sequence[ChainRecord], wanted: ChainRecord) -> L1Chain:
    """The chain before it was resolved, with the sharding that a concat after it could take."""
    built = [L1Chain(chain.id, list(chain.ops)) for chain in chains]
    if problem.options.policy == "dfsharding2":
        set_concat_chain_preferences(problem.graph, built)
    chosen = next(chain for chain in built if chain.id == wanted.id)
    chosen.build()
    return chosen


@dataclass
class Solved:
    """One chain solved again, and described."""

    problem: PolicyInput
    chain: L1Chain
    members: bool

    def __post_init__(self) -> None:
        graph, options = self.problem.graph, self.problem.options
        dram = {op_id: dram_decision(self.problem, graph.op(op_id), "outside any chain") for op_id in self.chain.ops}
        self.resolver = ChainResolver(self.problem, self.chain, dram)
        self.oracle: ChainOracle = self.resolver.oracle
        self.trace = ChainTrace.of(engine(options.chain_solver).solve, self.oracle.chain_problem(), self.oracle)
        self.resolver.resolve()
        self.adopted: Mapping[str, OpDecision] = self.resolver.decisions()

    def record(self) -> Record:
        """`{state, because, cut_at, preferred, most_cores, entry, ops, edges}`."""
        chain, trace = self.chain, self.trace
        return {
            "state": chain.state.value,
            "because": chain.reason or (None if self.resolver.pays else self.resolver.slow_reason()),
            "cut_at": [chain.ops[cut] for cut in self.resolver.cuts],
            "preferred": None if chain.preferred is None else chain.preferred.value,
            "statistics": dict(chain.statistics),
            "most_cores": self._outcome(),
            "entry": self._entry(),
            "ops": [self._op(i) for i in range(len(chain.ops))],
            "edges": [self._edge(step) for step in trace.edges]
            + [
                {"producer": a, "consumer": b, "mode": None, "note": "not reached"}
                for a, b in list(pairwise(chain.ops))[len(trace.edges) :]
            ],
        }

    def _outcome(self) -> Record:
        """What the engine found for the most cores, before L1 is replayed and DRAM compared with."""
        found = self.trace.result
        if isinstance(found, ChainInfeasible):
            return {"status": found.status.value, "because": found.describe(self.chain.ops)}
        return {"status": found.status.value, "core_usage": found.core_usage, "bound": found.bound}

    def _entry(self) -> Record | None:
        """How operand 0 of the first op may come into the chain."""
        step = next(iter(self.trace.entries), None)
        if step is None:
            return None
        taken = None
        if not isinstance(self.trace.result, ChainInfeasible):
            taken = dict(self.trace.result.entry_reshards)[step.op]
        return {
            "op": self.chain.ops[step.op],
            "operand": self.oracle.default_operand0(step.op).describe(),
            "before": step.before.bit_count(),
            "direct": step.direct.bit_count(),
            "after": step.after.bit_count(),
            "reshards": [self._reshard(step.op, option, 1, step.before) for option in step.reshards],
            "taken": None if taken is None else self.oracle.reshard_layout(step.op, taken).describe(),
        }

    def _op(self, i: int) -> Record:
        trace = self.trace
        ranked, decision = trace.ranked(i), self.adopted.get(self.chain.ops[i])
        solution = None if isinstance(trace.result, ChainInfeasible) else trace.result.configs[i]
        record: Record = {
            "op": self.chain.ops[i],
            "legal": len(self.oracle.candidates[i]),
            "before": trace.initial[i].bit_count(),
            "after": trace.left(i).bit_count(),
            "eliminated": [
                {"by": self._name(step), "configs": step.eliminated(i).bit_count()}
                for step in trace.edges
                if step.eliminated(i)
            ],
            "most_cores": None if solution is None else self._config(i, solution),
            "adopted": None if decision is None else _decided(decision),
            "alternatives": [self._config(i, c) for c in ranked if c != solution][:SHOWN_ALTERNATIVES],
        }
        if self.members:
            record["members"] = [self._config(i, c) for c in indices_of(trace.left(i))]
        return record

    def _edge(self, step: EdgeStep) -> Record:
        trace, result, edge = self.trace, self.trace.result, step.edge
        taken = None if isinstance(result, ChainInfeasible) else result.edge_reshards[step.index]
        both = step.before[edge.producer], step.before[edge.consumer]
        record: Record = {
            "producer": self.chain.ops[edge.producer],
            "consumer": self.chain.ops[edge.consumer],
            "mode": None if step.mode is None else step.mode.value,
            "pairs_built": step.pairs_built,
            "pairs_left": None if trace.resolved is None else trace.resolved.pairs_left(step.index),
            "reshards": [self._reshard(edge.consumer, option, *both) for option in step.reshards],
            "taken": None if taken is None else self.oracle.reshard_layout(edge.consumer, taken).describe(),
            "failure": None if step.failure is None else step.failure.value,
        }
        if self.members and trace.resolved is not None:
            paths = trace.resolved.path_sets[step.index]
            record["pairs"] = [[producer, list(indices_of(row))] for producer, row in sorted(paths.items())]
        return record

    def _name(self, step: EdgeStep) -> str:
        return f"{self.chain.ops[step.edge.producer]} -> {self.chain.ops[step.edge.consumer]}"

    def _reshard(self, op: int, option: ReshardOption, producers: int, consumers: int) -> Record:
        """A layout that may be inserted before an op: from how many configs, for how many."""
        return {
            "layout": self.oracle.reshard_layout(op, option.layout_id).describe(),
            "producers": (option.producers & producers).bit_count(),
            "enables": (option.enables & consumers).bit_count(),
        }

    def _config(self, i: int, config: int) -> Record:
        """A config with the cores it uses, and the most that the chain can use from there on."""
        candidate, resolved = self.oracle.candidates[i][config], self.trace.resolved
        reached = None
        if resolved is not None and contains(resolved.live[i], config):
            reached = int(resolved.usage.exact(i, config))
        return {
            "index": config,
            "layout": candidate.output.describe(),
            "cores": candidate.output.num_shard_cores,
            "usage": reached,
            "config": None if candidate.config is None else candidate.config.to_json(),
        }


def _decided(decision: OpDecision) -> Record:
    output, config = decision.candidate.output, decision.candidate.config
    return {
        "layout": output.describe(),
        "cores": output.num_shard_cores,
        "operand": decision.operands[0].describe(),
        "config": None if config is None else config.to_json(),
    }
