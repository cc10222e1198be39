"""The user's overrides as constraints that every policy starts from.

Each overridden op gets a decision of its own: the cheapest way to run it as the override says, with what it reads in
DRAM before it and what it gives written to DRAM after it. A policy may find a better way to honour the override; it
always has this one. Where there is none, the override is refused with the rule that forbids it and what comes nearest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from optimizer.errors import OptionError
from optimizer.ir.graph import Op, ValueKind
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_op_configs import ACT_BLOCK_H_OVERRIDES, LegalConfigs, OpCandidate, may_free_operand
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.layouts.nearest import SHOWN, nearest
from optimizer.layouts.overrides import LayoutOverride, Overrides
from optimizer.opmodel.base import Rejection
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.legality import Legality

Layouts = tuple[TensorLayout, ...]

VARIED_OPERANDS = 8
"""Of one op, brought to other grids than the result's one at a time."""
NOTHING_TO_COPY = "the operand has the layout of the result already, and the op takes no other"
CONV2D_VALUES: Mapping[str, tuple[Any, ...]] = {
    "shard_layout": ("height_sharded", "block_sharded", "width_sharded"),
    "act_block_h_override": ACT_BLOCK_H_OVERRIDES,
    "act_block_w_div": (1, 2, 4),
    "slice": ("auto", "l1"),
}
"""Values proposed instead of one that is refused; for flags the other one."""


def decide_overridden(problem: PolicyInput, overrides: Overrides, legality: Legality) -> dict[str, OpDecision]:
    """A decision for every op whose place, config or copies the user fixed; OptionError names the first that cannot be.

    Overrides of pages and element types alone are in the graph already.
    """
    decisions: dict[str, OpDecision] = {}
    named = set(overrides.op_ids)
    for op_id in (op.id for op in problem.graph.run_ops() if op.id in named):
        output = overrides.output(op_id)
        if op_id not in overrides.conv2d_configs and (output is None or not output.places):
            continue
        op = problem.graph.op(op_id)
        _check_freed_operand(problem, op, overrides)
        alone = AloneDecision(problem, op, produced_layouts(problem, op, decisions))
        found = alone.of(problem.legal[op_id])
        if found is None:
            raise _refusal(problem, op, overrides, legality, alone)
        decisions[op_id] = replace(found, reason={"chosen": "as overridden", "override": _shown(op_id, overrides)})
    return decisions


def note_overrides(problem: PolicyInput, plan: Plan) -> Plan:
    """The plan with every overridden op's reason naming the override, whoever decided the op."""
    decisions = dict(plan.decisions)
    for op_id, override in problem.noted.items():
        reason = {**decisions[op_id].reason, "override": override}
        decisions[op_id] = replace(decisions[op_id], reason=reason)
    return replace(plan, decisions=decisions)


def noted(overrides: Overrides) -> dict[str, dict[str, str]]:
    """Every override, by op, as reasons state it."""
    return {op_id: _shown(op_id, overrides) for op_id in overrides.op_ids}


def laid_out_alike(copy: TensorLayout, result: TensorLayout) -> bool:
    """Whether an operand's copy is what insert-memreconfig asks for: in L1, in the memory layout of the result."""
    return copy.is_l1 and result.is_l1 and copy.memory_layout is result.memory_layout


def produced_layouts(problem: PolicyInput, op: Op, decisions: Mapping[str, OpDecision]) -> Layouts:
    """Layouts in which an op's operands come into being, those of undecided producers in DRAM."""
    layouts = []
    for v in op.inputs:
        producer = problem.graph.producer(v)
        decided = None if producer is None else decisions.get(producer.id)
        if producer is None or decided is None or opdef(producer.op).opaque:
            layouts.append(problem.pricer.default_layout(problem.graph.value(v)))
        else:
            layouts.append(problem.pricer.result_layout(producer, v, decided.candidate.output))
    return tuple(layouts)


def apart_from_chains(problem: PolicyInput) -> set[str]:
    """Ops that chains along operand 0 cannot carry: a copy of another operand is demanded.

    Nor may an op with a demanded copy be the first of a chain: its copy depends on where its operand is produced.
    """
    return {op_id for op_id, positions in problem.forced_reshards.items() if any(k != 0 for k in positions)}


def separate_copies(problem: PolicyInput, schedule: Sequence[str], decisions: dict[str, OpDecision]) -> None:
    """Where a demanded copy would have the layout that its value has already, another layout for the copy."""
    for op_id in schedule:
        op, decision = problem.graph.op(op_id), decisions[op_id]
        have = produced_layouts(problem, op, decisions)
        if not any(have[k] == decision.operands[k] for k in problem.forced_reshards.get(op_id, ())):
            continue
        found = AloneDecision(problem, op, have).of(problem.legal[op_id])
        if found is None:
            raise OptionError(f"insert-memreconfig: {NOTHING_TO_COPY}", node=op_id)
        decisions[op_id] = replace(decision, candidate=found.candidate, operands=found.operands)


class AloneDecision:
    """Decisions for one op that depend on no other op: operands come from DRAM, the result goes there."""

    def __init__(self, problem: PolicyInput, op: Op, have: Layouts | None = None) -> None:
        self._problem = problem
        self._pricer = problem.pricer
        self._op = op
        self._default = problem.pricer.default_operands(op)
        self._have = self._default if have is None else have
        """Layouts in which the operands are produced: a copy has another one."""
        self._copied = problem.forced_reshards.get(op.id, ())
        self.refusals: Counter[tuple[str, Rejection | None]] = Counter()
        """How often the OpModel refused what was tried, by message and kind; as far as operands in DRAM were tried,
        only of those: what it says of others is about our choice of operands."""
        self.asked = 0
        """Questions put to the OpModel."""

    def of(self, legal: LegalConfigs) -> OpDecision | None:
        """The first candidate for DRAM that runs from there, if DRAM is allowed, else the cheapest of all."""
        if not legal.forced:
            for candidate in legal.dram:
                if self._gives(self._default, candidate):
                    return OpDecision(candidate, self._default)
        return self.cheapest((*legal.l1_interleaved, *legal.sharded))

    def cheapest(self, candidates: Sequence[OpCandidate]) -> OpDecision | None:
        """The candidate that takes least time with its loads and its spill; None if none runs."""
        found: list[OpDecision] = []
        if not self._copied:
            found = [OpDecision(c, self._default) for c in candidates if self._gives(self._default, c)]
        if not found:
            direct = self.refusals.copy()
            found = [d for d in (self._loaded(c) for c in candidates) if d is not None]
            self.refusals = direct or self.refusals
        return min(found, key=self.time_ns, default=None)

    def time_ns(self, decision: OpDecision) -> int:
        """Op, loads of its operands, and the spill of its result."""
        candidate, op = decision.candidate, self._op
        total = self._pricer.cost(op, decision.operands, candidate.config, candidate.request).time_ns
        for v, source, wanted in dict.fromkeys(zip(op.inputs, self._default, decision.operands, strict=True)):
            total += self._pricer.copy_ns(v, source, wanted)
        if candidate.output.is_l1 and len(op.outputs) == 1:
            total += self._pricer.copy_ns(op.outputs[0], candidate.output, self._in_dram(op.outputs[0]))
        return total

    @property
    def main_refusal(self) -> tuple[str, Rejection | None]:
        """Message and kind of what was refused most often, the first by alphabet of as many; empty if nothing was."""
        return min(self.refusals, key=lambda r: (-self.refusals[r], r[0]), default=("", None))

    def runs(self, candidate: OpCandidate) -> bool:
        """Whether a candidate runs at all, with its operands in DRAM or loaded."""
        return self.cheapest([candidate]) is not None

    def _in_dram(self, value_id: str) -> TensorLayout:
        return self._pricer.default_layout(self._problem.graph.value(value_id))

    def _gives(self, operands: Layouts, candidate: OpCandidate) -> bool:
        self.asked += 1
        answer = self._pricer.constraints(self._op, operands, candidate.config, candidate.request)
        if answer.valid and answer.outputs[0].layout == candidate.output:
            return True
        wrong = f"gives {answer.outputs[0].layout.describe()}" if answer.valid else answer.error or "refused"
        self.refusals[wrong, answer.kind] += 1
        return False

    def _loaded(self, candidate: OpCandidate) -> OpDecision | None:
        """The candidate with operands brought to L1 first, in the first way that the op accepts."""
        for operands in self.operands_in_l1(candidate):
            if any(operands[k] == self._have[k] for k in self._copied):
                self.refusals[NOTHING_TO_COPY, None] += 1
                continue
            copies = dict.fromkeys(zip(self._op.inputs, self._default, operands, strict=True))
            accepted = all(have == want or self._pricer.copy_accepted(v, have, want) for v, have, want in copies)
            if accepted and self._gives(operands, candidate):
                return OpDecision(candidate, operands)
        return None

    def operands_in_l1(self, candidate: OpCandidate) -> Iterator[Layouts]:
        """Operands in DRAM but for the resharded ones (operand 0 if none is, all where none may be sharded unless all
        are), those in the result's memory layout.

        All on the result's grid first; then one of them on every other grid, of operands that are alike the first, and
        of no more than `VARIED_OPERANDS`.
        """
        output = candidate.output
        together = opdef(self._op.op).operands_sharded_alike
        positions = self._activations() if together else self._copied or self._activations()[:1]
        if not output.is_l1 or not positions:
            return
        alike = {k: self._pricer.sharded_like(self._op.inputs[k], output) for k in positions}
        yield self._with(alike)
        for k in self._unlike(positions)[:VARIED_OPERANDS]:
            for layout in self._pool(self._op.inputs[k], output.memory_layout):
                if layout != alike[k]:
                    yield self._with({**alike, k: layout})

    def _unlike(self, positions: Sequence[int]) -> list[int]:
        """The first of these operands of every shape, element type and page."""
        values, pages = self._problem.graph.values, self._pricer.pages
        first: dict[Hashable, int] = {}
        for k in positions:
            value = values[self._op.inputs[k]]
            first.setdefault((value.shape, value.dtype, pages[value.id]), k)
        return list(first.values())

    def _activations(self) -> tuple[int, ...]:
        values = self._problem.graph.values
        fed = (ValueKind.ACTIVATION, ValueKind.INPUT)
        return tuple(k for k, v in enumerate(self._op.inputs) if values[v].kind in fed)

    def _with(self, changed: Mapping[int, TensorLayout]) -> Layouts:
        return tuple(changed.get(k, layout) for k, layout in enumerate(self._default))

    def _pool(self, value_id: str, kind: TensorMemoryLayout) -> Layouts:
        value = self._problem.graph.value(value_id)
        pool = self._problem.pools.pool(value.shape, value.dtype, self._pricer.pages[value_id])
        alike = tuple(layout for layout in pool.sharded if layout.memory_layout is kind)
        return alike[: self._problem.options.max_legal_layouts]


# -- refusals ------------------------------------------------------------------------------------------
def _shown(op_id: str, overrides: Overrides) -> dict[str, str]:
    """The overrides of one op as a reason states them."""
    found: dict[str, str] = {}
    if op_id in overrides.output_layouts:
        found["output_layout"] = overrides.output_layouts[op_id].describe()
    if op_id in overrides.conv2d_configs:
        found["conv2d_config"] = _conv2d_text(overrides.conv2d_configs[op_id])
    if op_id in overrides.memreconfigs:
        found["insert_memreconfig"] = ":".join(map(str, overrides.memreconfigs[op_id]))
    return found


def _conv2d_text(fields: Mapping[str, Any]) -> str:
    return ":".join(_field_text(k, v) for k, v in fields.items())


def _field_text(key: str, value: Any) -> str:
    return f"{key}#{'none' if value is None else str(value).lower() if isinstance(value, bool) else value}"


def _check_freed_operand(problem: PolicyInput, op: Op, overrides: Overrides) -> None:
    """A conv may free its operand only if nothing else needs it."""
    if overrides.conv2d_configs.get(op.id, {}).get("deallocate_activation") and not may_free_operand(problem.graph, op):
        readers = [o.id for o in problem.graph.consumers(op.inputs[0]) if o.id != op.id]
        who = f"'{readers[0]}' reads too" if readers else "the caller or a view of it still needs"
        message = f"override-conv2d-config: 'deallocate_activation#true' frees '{op.inputs[0]}', which {who}"
        raise OptionError(message, node=op.id, alternatives=["deallocate_activation#false"])


def _refusal(
    problem: PolicyInput, op: Op, overrides: Overrides, legality: Legality, alone: AloneDecision
) -> OptionError:
    """What forbids the override, and what the op would accept instead."""
    wanted = ", ".join(f"{k.replace('_', '-')} {v}" for k, v in _shown(op.id, overrides).items())
    message, kind = alone.main_refusal
    near = _nearest_layouts(problem, op, overrides, legality) or _nearest_configs(problem, op, overrides, legality)
    limit = problem.pricer.l1_limit_bytes if kind is Rejection.OOM_L1 else None
    copied = overrides.memreconfigs.get(op.id)
    rule = message or (
        f"operand {copied[0]} cannot be copied into the memory layout of the result" if copied else "no config gives it"
    )
    return OptionError(f"override {wanted}: {op.op} refuses: {rule}", node=op.id, limit=limit, alternatives=near)


def _nearest_layouts(problem: PolicyInput, op: Op, overrides: Overrides, legality: Legality) -> tuple[str, ...]:
    """Output layouts that the op accepts with everything else as the user wants it, nearest first."""
    asked = overrides.output_layouts.get(op.id, LayoutOverride())
    if not asked.places:
        return ()
    others = {k: v for k, v in overrides.output_layouts.items() if k != op.id}
    legal = legality.of(op, replace(overrides, output_layouts=others))
    candidates = (*(() if legal.forced else legal.dram), *legal.l1_interleaved, *legal.sharded)
    alone = AloneDecision(problem, op)
    accepted = [c.output for c in candidates if alone.runs(c)]
    return nearest(asked, accepted)


def _nearest_configs(problem: PolicyInput, op: Op, overrides: Overrides, legality: Legality) -> tuple[str, ...]:
    """Values of single conv config fields with which the op runs, all others as the user wants them."""
    fixed = overrides.conv2d_configs.get(op.id, {})
    found = []
    for key, value in fixed.items():
        others = (not value,) if isinstance(value, bool) else CONV2D_VALUES.get(key, ())
        for other in (o for o in others if o != value):
            configs = {**overrides.conv2d_configs, op.id: {**fixed, key: other}}
            changed = replace(overrides, conv2d_configs=configs)
            try:
                legal = legality.of(op, changed)
            except OptionError:
                continue
            if AloneDecision(problem, op).of(legal) is not None:
                found.append(_field_text(key, other))
    return tuple(found[:SHOWN])
