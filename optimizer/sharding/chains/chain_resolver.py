"""Takes one built chain to Resolved or Failed: solve, replay in L1, compare with DRAM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from optimizer.ir.graph import Op
from optimizer.l1.run import Run
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.chains.chain_oracle import ChainOracle
from optimizer.sharding.chains.l1_chain import ChainChoice, L1Chain
from optimizer.sharding.merging.window_validation import fits_the_allocator
from optimizer.sharding.overriding import AloneDecision
from optimizer.sharding.plan_program import PlanSteps, bank_of
from optimizer.solver.chains.bitset import indices_of
from optimizer.solver.chains.chain_cuts import cuttable, paying_stretches
from optimizer.solver.chains.chain_engines import engine
from optimizer.solver.chains.chain_problem import ChainInfeasible, ChainProblem, ChainResult, ChainSolution
from optimizer.solver.chains.materialise import MaterialisedChain, materialise

NO_FASTER = "predicted no faster than in DRAM"
"""How the reason of a chain begins that was resolved but does not pay."""
ONLY_PARTS_PAY = "as a whole no faster than in DRAM"
"""How the reason of a chain begins that is cut where it does not pay."""
CLEARLY_FASTER = 0.95
"""Where the solution with the most cores takes more than this share of the time in DRAM, least time is solved for; that
is taken where it takes less than this share of the other's time, too: what reads DRAM directly may find it in L1."""
SHOWN_ALTERNATIVES = 5
"""Alternatives kept per op for `ttopt explain`."""
SHOWN_REJECTIONS = 4
"""Distinct OpModel messages kept per op."""


@dataclass(frozen=True)
class Clash:
    """The first op of a chain at which the runtime would run out of L1."""

    position: int
    message: str


@dataclass(frozen=True)
class Attempt:
    """A solved chain, priced and replayed."""

    solution: ChainSolution
    choices: tuple[ChainChoice, ...]
    time_ns: int
    """Ops, copies in between, entry copy and final spill."""
    clash: Clash | None
    """Where the chain's tensors and circular buffers do not fit together, if they do not."""


@dataclass(frozen=True)
class ResolvedChain:
    """What is the same for all chains whose ops ask the same questions: op ids occur nowhere."""

    solved: ChainResult
    """What the chain solver found for the most cores."""
    attempt: Attempt | None
    """The solution to adopt; None if there is none."""
    objective: str
    """What it was found for."""
    rejections: tuple[Counter[str], ...]
    """Per position, what the OpModel refused on the way."""
    cuts: tuple[int, ...] = ()
    """Positions between stretches that pay and such that do not; none where the solution pays, or no stretch does."""
    quickest: list[Attempt | None] = field(default_factory=list)
    """One entry once asked for: the least time of what is alive after propagation."""
    reasons: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Position -> what `ttopt explain` says of the op, filled in when asked for."""


class _Itself:
    """An object as part of a key: equal to itself only, and kept as long as the key is."""

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._thing is other._thing

    def __hash__(self) -> int:
        return id(self._thing)


class ChainResolver:
    """Resolves one chain; `cuts` tells where a failed one may be split.

    Chains that are alike are resolved once, be they of one graph or of several (`PolicyInput.chains`).
    """

    def __init__(
        self,
        problem: PolicyInput,
        chain: L1Chain,
        dram: Mapping[str, OpDecision],
        preferred: TensorMemoryLayout | None = None,
    ) -> None:
        """`preferred` is the only sharding that the chain's result may have; None allows all."""
        self._problem = problem
        self._chain = chain
        self.oracle = ChainOracle(problem, chain.ops, preferred)
        self._engine = engine(problem.options.chain_solver)
        self._preferred = preferred
        self._dram = dram
        self._dram_ns = sum(self._dram_op_ns(op_id, dram[op_id]) for op_id in chain.ops)
        self._resolved: ResolvedChain | None = None
        self._adopted: Attempt | None = None
        self.cuts: tuple[int, ...] = ()
        """Positions at which a failed chain of several ops may be cut."""

    def resolve(self) -> ChainResult:
        """The chain ends Resolved, whether it pays or not, or Failed; returns what the chain solver found."""
        key, known, pricer = self._content(), self._problem.chains, self._problem.pricer
        if key not in known:
            with pricer.counted_apart():
                known[key] = self._solve()
        self._resolved = known[key]
        for i, op in enumerate(self.oracle.ops):
            pricer.rejections[op.id] = self._refused(i)
        solved, attempt = self._resolved.solved, self._resolved.attempt
        if isinstance(solved, ChainInfeasible):
            names = [op.id for op in self.oracle.ops]
            self._fail(solved.describe(names), solved.op)
            return solved
        assert attempt is not None
        self._chain.resolve(attempt.choices)
        if attempt.clash is not None:
            self._fail(f"{self._chain.ops[attempt.clash.position]}: {attempt.clash.message}", attempt.clash.position)
        elif self._resolved.cuts:
            self._cut(attempt, self._resolved.cuts)
        else:
            self._adopt(attempt)
        return solved

    def _content(self) -> Hashable:
        """All that the outcome depends on, on one board with one OpModel; names left out, candidates by object."""
        problem, pricer, ops = self._problem, self._problem.pricer, self.oracle.ops
        options = problem.options
        content: list[Hashable] = [self._preferred, options.chain_solver, options.chain_objective]
        content += [options.max_legal_layouts, pricer.l1_limit_bytes]
        for op in ops:
            result, plain = problem.graph.value(op.outputs[0]), self._dram[op.id]
            content += [pricer.signature(op), _Itself(problem.legal[op.id].sharded), plain.operands, plain.candidate]
            content += [result.shape, result.dtype, pricer.pages[result.id]]
            content.append(tuple(problem.forced_reshards.get(op.id, ())))
        return tuple(content)

    def _solve(self) -> ResolvedChain:
        solved, objective = self._engine.solve(self._shape, self.oracle), self._problem.options.chain_objective
        if isinstance(solved, ChainInfeasible):
            return ResolvedChain(solved, None, objective, self._rejections())
        attempt = None if objective == "time" else self._attempt(solved)
        if attempt is None or attempt.clash is not None or attempt.time_ns > CLEARLY_FASTER * self._dram_ns:
            fastest = self._fastest()
            if fastest is not None and self._is_worth(fastest, attempt):
                attempt, objective = fastest, "time"
        assert attempt is not None
        return ResolvedChain(solved, attempt, objective, self._rejections(), self._cuts(attempt))

    def _rejections(self) -> tuple[Counter[str], ...]:
        known = self._problem.pricer.rejections
        return tuple(known.get(op.id, Counter()).copy() for op in self.oracle.ops)

    def _refused(self, i: int) -> Counter[str]:
        """What the OpModel refused of one op, when its legal configs were listed and when the chain was resolved."""
        return Counter(self._problem.legal[self.oracle.ops[i].id].refused) + self._resolution.rejections[i]

    @cached_property
    def _shape(self) -> ChainProblem:
        return self.oracle.chain_problem()

    @property
    def pays(self) -> bool:
        """Whether the resolved chain is predicted faster than its ops in DRAM, spilled at its end."""
        return self._adopted is not None and self._adopted.time_ns < self._dram_ns

    def slow_reason(self) -> str:
        """Why a resolved chain that does not pay fails."""
        assert self._adopted is not None
        return f"{NO_FASTER}: {self._adopted.time_ns} ns against {self._dram_ns} ns"

    def decisions(self) -> dict[str, OpDecision]:
        """Decisions for the ops of a resolved chain; empty if it failed."""
        return {} if self._adopted is None else self._decided(self._adopted)

    def quickest(self) -> dict[str, OpDecision]:
        """Decisions of the least time among the configs that are compatible, where `decisions` have the most cores."""
        resolved = self._resolved
        if self._adopted is None or resolved is None or resolved.objective == "time":
            return {}
        if not resolved.quickest:
            with self._problem.pricer.counted_apart():
                resolved.quickest.append(self._alive_in_least_time(resolved.solved))
        attempt = resolved.quickest[0]
        return {} if attempt is None else self._decided(attempt)

    def _decided(self, attempt: Attempt) -> dict[str, OpDecision]:
        result = {}
        for i, op in enumerate(self.oracle.ops):
            choice = attempt.choices[i]
            operands = self.oracle.operands(i, choice.operand0)
            result[op.id] = OpDecision(choice.candidate, operands, self._chain.id, self._reason(i))
        return result

    # -- attempts ----------------------------------------------------------------------------------
    def _fastest(self) -> Attempt | None:
        """The time-optimal solution, with a reshard allowed on every edge and not only where one is needed."""
        result = self._engine.fastest(self._table)
        return self._attempt(result) if isinstance(result, ChainSolution) else None

    def _alive_in_least_time(self, solved: ChainResult) -> Attempt | None:
        """The time-optimal solution over what propagation left, reshards where the chain solver allowed them."""
        if isinstance(solved, ChainInfeasible) or not solved.live:
            return None
        table = materialise(self._shape, self.oracle, modes=solved.modes, live=solved.live)
        result = self._engine.fastest(table)
        return self._attempt(result) if isinstance(result, ChainSolution) else None

    def _is_good(self, attempt: Attempt) -> bool:
        """Whether an attempt fits and is faster than DRAM."""
        return attempt.clash is None and attempt.time_ns < self._dram_ns

    def _is_worth(self, fastest: Attempt, other: Attempt | None) -> bool:
        """Whether the fastest attempt replaces one that is not good, or is clearly slower."""
        if other is None or not self._is_good(other):
            return True
        return fastest.clash is None and fastest.time_ns < CLEARLY_FASTER * other.time_ns

    def _cuts(self, attempt: Attempt) -> tuple[int, ...]:
        """Where to cut a chain that does not pay, so that the stretches of it that do are left."""
        if (
            attempt.clash is not None
            or self._is_good(attempt)
            or self._preferred is not None
            or len(self.oracle.ops) == 1
        ):
            return ()
        forced = self._problem.forced_reshards
        closed = frozenset(i for i, op in enumerate(self.oracle.ops) if i and op.id in forced)
        plain_ns = tuple(self._dram_op_ns(op.id, self._dram[op.id]) for op in self.oracle.ops)
        leave_ns = tuple(self.oracle.leave_ns(i) for i in range(len(self.oracle.ops)))
        stretches = paying_stretches(cuttable(self._table, self.oracle, plain_ns, leave_ns, closed))
        ends = {position for stretch in stretches for position in (stretch.start, stretch.stop)}
        return tuple(sorted(ends - {0, len(self.oracle.ops)}))

    @cached_property
    def _table(self) -> MaterialisedChain:
        """The chain with a reshard allowed on every edge."""
        return materialise(self._shape, self.oracle)

    def _attempt(self, solution: ChainSolution) -> Attempt:
        choices = self._choices(solution)
        decisions = {
            op.id: OpDecision(choice.candidate, self.oracle.operands(i, choice.operand0))
            for i, (op, choice) in enumerate(zip(self.oracle.ops, choices, strict=True))
        }
        clash = _clash(self._problem.pricer, self.oracle.ops, decisions)
        return Attempt(solution, choices, solution.time_ns, clash)

    def _choices(self, solution: ChainSolution) -> tuple[ChainChoice, ...]:
        entry = dict(solution.entry_reshards)[0]
        choices = []
        for i, config in enumerate(solution.configs):
            reshard = entry if i == 0 else solution.edge_reshards[i - 1]
            if reshard is not None:
                operand0 = self.oracle.reshard_layout(i, reshard)
            elif i == 0:
                operand0 = self.oracle.default_operand0(0)
            else:
                operand0 = self.oracle.candidates[i - 1][solution.configs[i - 1]].output
            choices.append(ChainChoice(self.oracle.candidates[i][config], operand0))
        return tuple(choices)

    def _dram_op_ns(self, op_id: str, decision: OpDecision) -> int:
        """Time of an op outside any chain; an overridden one may need copies even there."""
        return AloneDecision(self._problem, self._problem.graph.op(op_id)).time_ns(decision)

    # -- outcomes ----------------------------------------------------------------------------------
    def _fail(self, reason: str, position: int | None) -> None:
        self._chain.fail(reason)
        self._chain.statistics = {"dram_ns": self._dram_ns}
        if position is not None and len(self._chain.ops) > 1:
            self.cuts = (max(position, 1),)

    def _cut(self, attempt: Attempt, cuts: tuple[int, ...]) -> None:
        """The chain fails as a whole, with the positions between stretches that pay and others."""
        before = ", ".join(f"'{self._chain.ops[position]}'" for position in cuts)
        self._chain.fail(f"{ONLY_PARTS_PAY}: {attempt.time_ns} ns against {self._dram_ns} ns; cut before {before}")
        self._chain.statistics = {"time_ns": attempt.time_ns, "dram_ns": self._dram_ns}
        self.cuts = cuts

    def _adopt(self, attempt: Attempt) -> None:
        self._adopted = attempt
        stats = attempt.solution.stats
        self._chain.statistics = {
            "objective": self._resolution.objective,
            "core_usage": attempt.solution.core_usage,
            "time_ns": attempt.time_ns,
            "dram_ns": self._dram_ns,
            "paths_built": stats.paths_built,
            "paths_left": stats.paths_left,
        }

    @property
    def _resolution(self) -> ResolvedChain:
        assert self._resolved is not None
        return self._resolved

    def _reason(self, i: int) -> dict[str, Any]:
        """What `ttopt explain` says of one op of the chain."""
        resolved = self._resolution
        if i not in resolved.reasons:
            with self._problem.pricer.counted_apart():
                resolved.reasons[i] = self._alternatives(i)
        return {
            "chosen": f"{resolved.objective} over {self._chain.id} ({len(self._chain.ops)} ops)",
            **resolved.reasons[i],
        }

    def _alternatives(self, i: int) -> dict[str, Any]:
        """What else one op could have done, and what kept it from more."""
        assert self._adopted is not None
        op, solution = self.oracle.ops[i], self._adopted.solution
        operand0 = self._adopted.choices[i].operand0
        live = list(indices_of(solution.live[i])) if solution.live else []
        others = [c for c in live if c != solution.configs[i]]
        others.sort(key=lambda c: (-self._shape.core_usage[i][c], self._shape.tie_key(i, c)))
        common = sorted(self._refused(i).items(), key=lambda r: (-r[1], r[0]))
        return {
            "dram_time_ns": self._dram_op_ns(op.id, self._dram[op.id]),
            "legal_configs": len(self.oracle.candidates[i]),
            "compatible_configs": len(live),
            "alternatives": [self._shown(i, c, operand0) for c in others[:SHOWN_ALTERNATIVES]],
            "excluded": [{"error": error, "count": count} for error, count in common[:SHOWN_REJECTIONS]],
        }

    def _shown(self, i: int, config: int, operand0: TensorLayout) -> dict[str, Any]:
        """An alternative, with its time if the op takes its present operand that way."""
        candidate = self.oracle.candidates[i][config]
        return {
            "layout": candidate.output.describe(),
            "cores": candidate.output.num_shard_cores,
            "time_ns": self.oracle.time_with(i, operand0, config),
            "config": None if candidate.config is None else candidate.config.to_json(),
        }


def _clash(pricer: OpPricer, ops: Sequence[Op], decisions: Mapping[str, OpDecision]) -> Clash | None:
    """Where a chain does not run from DRAM to DRAM in an L1 that holds nothing else.

    A feasible sum of bytes is not enough: holes between operands, copies and results can still push circular buffers
    into a tensor.
    """
    have = {op.outputs[0]: decisions[op.id].candidate.output for op in ops}
    readers = {op.inputs[0]: at for at, op in enumerate(ops)}
    steps = PlanSteps(pricer, have.get, lambda v: v == ops[-1].outputs[0])
    run = Run(bank_of(pricer))
    for at, op in enumerate(ops):
        overflow = run.position(at, steps.row(op.id, decisions[op.id]), lambda v: readers.get(v, 0))
        refusal = fits_the_allocator(overflow)
        if refusal is not None:
            return Clash(at, refusal.message)
    return None
