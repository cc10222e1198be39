"""L1 interleaved fallback: results that no chain keeps may still skip DRAM.

A value written to DRAM by an op outside the chains, read once, and read by the very next scheduled op, is
kept L1 interleaved instead when both ops accept that, everything fits, and the OpModel predicts a gain
(tt-mlir `L1InterleavedFallbackAnalysis`, which does not look at time). Nothing else is alive between two
neighbours in the schedule of this policy, so the check is local: the operands of the producer, the value
and the peak of the reader, all at once. If the reader begins a chain, the whole chain is replayed with the
value as its operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import BufferType, TensorLayout, interleaved
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.chain_replay import replay_chain
from optimizer.sharding.l1_chain import ChainChoice, ChainState, L1Chain


class L1InterleavedFallback:
    """Upgrades decisions in place."""

    def __init__(
        self, problem: PolicyInput, schedule: Sequence[str], decisions: dict[str, OpDecision], chains: Sequence[L1Chain]
    ) -> None:
        self._problem = problem
        self._pricer = problem.pricer
        self._schedule = schedule
        self._decisions = decisions
        self._chain_of = {op: c for c in chains if c.state is ChainState.COMPLETED for op in c.ops}

    def apply(self) -> int:
        """Number of values moved from DRAM to L1 interleaved."""
        return sum(self._upgrade(a, b) for a, b in zip(self._schedule, self._schedule[1:], strict=False))

    def _upgrade(self, producer_id: str, reader_id: str) -> bool:
        graph = self._problem.graph
        producer, reader = graph.op(producer_id), graph.op(reader_id)
        before = self._decisions[producer_id], self._decisions[reader_id]
        if before[0].chain is not None or len(producer.outputs) != 1 or not before[0].candidate.output.is_dram:
            return False
        value_id = producer.outputs[0]
        if graph.use_count(value_id) != 1 or value_id not in reader.inputs:
            return False
        wanted = interleaved(BufferType.L1, before[0].candidate.output.page_layout)
        if before[1].operands[reader.inputs.index(value_id)] != before[0].candidate.output:
            return False
        for candidate in self._problem.legal[producer_id].l1_interleaved:
            after = self._changed(before, candidate, reader.inputs.index(value_id), wanted)
            if (
                candidate.output == wanted
                and self._fits(producer_id, reader_id, after)
                and self._gains(producer_id, reader_id, before, after)
            ):
                self._decisions[producer_id], self._decisions[reader_id] = after
                return True
        return False

    @staticmethod
    def _changed(
        before: tuple[OpDecision, OpDecision], candidate: OpCandidate, index: int, wanted: TensorLayout
    ) -> tuple[OpDecision, OpDecision]:
        producer, reader = before
        operands = (*reader.operands[:index], wanted, *reader.operands[index + 1 :])
        reason = {"chosen": "L1 interleaved: the only reader comes next", "because": producer.reason.get("because")}
        return replace(producer, candidate=candidate, reason=reason), replace(reader, operands=operands)

    def _fits(self, producer_id: str, reader_id: str, after: tuple[OpDecision, OpDecision]) -> bool:
        """Both ops accept the layouts, and producer operands + value + reader peak stay within the limit."""
        held = 0
        for op_id, decision in zip((producer_id, reader_id), after, strict=True):
            op, candidate = self._problem.graph.op(op_id), decision.candidate
            answer = self._pricer.constraints(op, decision.operands, candidate.config, candidate.request)
            if not answer.valid or answer.outputs[0].layout != candidate.output:
                return False
            own = self._pricer.operand_bytes(op, decision.operands)
            if held + own + answer.peak_bytes > self._pricer.l1_limit_bytes:
                return False
            held = own
        return self._chain_still_fits(reader_id, after[1])

    def _chain_still_fits(self, reader_id: str, reader: OpDecision) -> bool:
        """Replays the chain that the reader begins, if it does."""
        chain = self._chain_of.get(reader_id)
        if chain is None:
            return True
        if chain.ops[0] != reader_id:
            return False
        first = ChainChoice(reader.candidate, reader.operands[0])
        ops = [self._problem.graph.op(op_id) for op_id in chain.ops]
        operands = [reader.operands, *(self._decisions[op_id].operands for op_id in chain.ops[1:])]
        value_id = next(v for v, layout in zip(ops[0].inputs, reader.operands, strict=True) if layout.is_l1)
        return replay_chain(self._pricer, ops, (first, *chain.choices[1:]), operands, entry_value=value_id) is None

    def _gains(
        self,
        producer_id: str,
        reader_id: str,
        before: tuple[OpDecision, OpDecision],
        after: tuple[OpDecision, OpDecision],
    ) -> bool:
        def time_ns(decisions: tuple[OpDecision, OpDecision]) -> int:
            total = 0
            for op_id, d in zip((producer_id, reader_id), decisions, strict=True):
                op = self._problem.graph.op(op_id)
                total += self._pricer.cost(op, d.operands, d.candidate.config, d.candidate.request).time_ns
            return total

        return time_ns(after) < time_ns(before)
