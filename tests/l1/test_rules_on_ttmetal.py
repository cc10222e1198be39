"""Every rule of L1 put to `Run`, to the verifier and to tt-metal, and every rule left out.

Each case has a value beside the op under test that is made larger until `Run` refuses the plan. There the verifier and
tt-metal must do the same; a run that lacks the rule does not: it takes what tt-metal refuses (the rule is needed for
plans that run), or it refuses what tt-metal takes (the rule is needed for plans that use all of L1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest
from rule_cases import (
    N150,
    OPTIONS,
    UNIT_BYTES,
    Case,
    beside,
    convolution,
    split,
    viewed,
    viewed_rows,
    weighted,
    written_over,
)

from optimizer.l1.events import OPERAND, Freed, plain_allocations
from optimizer.l1.program import Program, Step
from optimizer.l1.rules import PLACEMENT, ROOM_RULES, SHARING_RULES
from optimizer.l1.run import Bank, replay
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.registry import create
from optimizer.pipeline.replay import ReplayReport
from optimizer.pipeline.replay import replay as replay_on
from optimizer.sharding.plan_program import bank_of, plan_program
from optimizer.verify import verify

Mutant = Callable[[Program], Program]


def _each(change: Callable[[Step], Step], program: Program) -> Program:
    return replace(program, rows=[tuple(change(step) for step in row) for row in program.rows])


def _nothing_on_the_way(step: Step) -> Step:
    """An op makes nothing but its results."""
    sizes = tuple(size for _, size in step.writes) if step.shares is None else ()
    happens = plain_allocations(sizes, 0, step.peak_bytes - sum(sizes))
    return replace(step, events=happens.events, made=tuple(enumerate(b for b, _ in step.writes if sizes)))


def _operand_stays(step: Step) -> Step:
    return replace(step, events=tuple(e for e in step.events if e != Freed(OPERAND)))


def _own_buffer(step: Step) -> Step:
    """Nothing shares a buffer."""
    return step if step.shares is None else _nothing_on_the_way(replace(step, shares=None))


def _no_program(step: Step) -> Step:
    """Circular buffers are left out of the placement."""
    return replace(step, events=tuple(e for e in step.events if not hasattr(e, "cb_bytes")))


def _second_result_in_dram(step: Step) -> Step:
    return _nothing_on_the_way(replace(step, writes=step.writes[:1], peak_bytes=step.peak_bytes // 2))


def _freed_too_soon(program: Program) -> Program:
    return replace(program, last_reads={v: at - 1 for v, at in program.last_reads.items()})


def _weights_go(program: Program) -> Program:
    return replace(program, kept=())


@dataclass(frozen=True)
class RuleCase:
    """A rule, a plan whose fit depends on it, and the same program judged without it."""

    name: str
    rule: str
    case: Callable[[int], Case]
    mutant: Mutant
    unsafe: bool
    """Whether the program without the rule takes more than fits; else it wastes."""


CASES = (
    RuleCase("circular buffers", "placement", beside, partial(_each, _no_program), unsafe=True),
    RuleCase("halo", "temporaries", partial(convolution, 17), partial(_each, _nothing_on_the_way), unsafe=True),
    RuleCase("operand freed", "temporaries", partial(convolution, 24), partial(_each, _operand_stays), unsafe=False),
    RuleCase("in place", "in place", written_over, partial(_each, _own_buffer), unsafe=False),
    RuleCase("view", "view", viewed, partial(_each, _own_buffer), unsafe=False),
    RuleCase("view of rows", "view", viewed_rows, partial(_each, _own_buffer), unsafe=False),
    RuleCase("last read", "last read", beside, _freed_too_soon, unsafe=True),
    RuleCase("weights", "weights stay", weighted, _weights_go, unsafe=True),
    RuleCase("second result", "result layout", split, partial(_each, _second_result_in_dram), unsafe=True),
)


@cache
def tt_metal() -> OpModel:
    return create("ttmetal", N150, OPTIONS.l1_small_bytes)


def asked(case: Case) -> tuple[Program, Bank]:
    problem = case.problem()
    plan = case.plan(problem)
    return plan_program(problem.pricer, plan.schedule, plan.decisions), bank_of(problem.pricer)


def unlimited(bank: Bank) -> Bank:
    """Sums are left to the placement, as in tt-metal."""
    return replace(bank, limit_bytes=1 << 30)


def fits(case: Case, mutant: Mutant = lambda program: program) -> bool:
    program, bank = asked(case)
    return not replay(mutant(program), unlimited(bank)).overflows


def verifies(case: Case) -> bool:
    problem = case.problem()
    return not verify(case.result(problem), problem.pricer.model).errors


def on_tt_metal(case: Case) -> ReplayReport:
    return replay_on(case.result(case.problem()), tt_metal(), {})


def largest(case: Callable[[int], Case]) -> int:
    """Units of the largest filler beside which the plan fits: as many more as are spare beside the smallest."""
    program, bank = asked(case(1))
    edge = 1 + replay(program, unlimited(bank)).spare_bytes // UNIT_BYTES
    assert fits(case(edge))
    assert not fits(case(edge + 1))
    return edge


@pytest.mark.parametrize("ruled", CASES, ids=[case.name for case in CASES])
@pytest.mark.slow
def test_run_verifier_and_tt_metal_agree_where_the_rule_decides(needs_ttnn: None, ruled: RuleCase) -> None:
    edge = largest(ruled.case)
    inside, beyond = ruled.case(edge), ruled.case(edge + 1)

    assert (verifies(inside), verifies(beyond)) == (True, False)
    assert (on_tt_metal(inside).ok, on_tt_metal(beyond).ok) == (True, False)
    if ruled.unsafe:
        assert fits(beyond, ruled.mutant)
    else:
        assert not fits(inside, ruled.mutant)


def test_every_rule_of_tt_metal_has_a_case() -> None:
    apart = {"choice room"}  # tests/opmodel/test_choice_room.py: it decides which program TTNN chooses, not what fits
    rules = {rule.name for rule in (*SHARING_RULES, *ROOM_RULES)}

    assert rules - apart == {case.rule for case in CASES}
    assert PLACEMENT in ROOM_RULES
