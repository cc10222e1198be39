"""The chain's states: every legal path works, everything else is a StateError."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimizer.errors import StateError
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE
from optimizer.sharding.chains.l1_chain import ChainChoice, ChainState, L1Chain, SpillLocation

CHOICE = ChainChoice(OpCandidate(L1_TILE), DRAM_TILE)


def in_state(state: ChainState) -> L1Chain:
    chain = L1Chain("c", ["a"])
    if state is ChainState.IN_BUILD:
        return chain
    chain.build()
    if state is ChainState.RESOLVED or state is ChainState.COMPLETED:
        chain.resolve((CHOICE,))
    if state is ChainState.COMPLETED:
        chain.complete(SpillLocation.DRAM)
    if state is ChainState.FAILED:
        chain.fail("because")
    return chain


ACTIONS: dict[str, tuple[Callable[[L1Chain], None], set[ChainState]]] = {
    "add": (lambda c: c.add("b"), {ChainState.IN_BUILD}),
    "build": (lambda c: c.build(), {ChainState.IN_BUILD}),
    "resolve": (lambda c: c.resolve((CHOICE,)), {ChainState.BUILT}),
    "fail": (lambda c: c.fail("no"), {ChainState.BUILT, ChainState.RESOLVED}),
    "complete": (lambda c: c.complete(SpillLocation.DRAM), {ChainState.RESOLVED}),
}


@pytest.mark.parametrize("state", list(ChainState))
@pytest.mark.parametrize("action", list(ACTIONS))
def test_every_transition_is_legal_or_an_error(state: ChainState, action: str) -> None:
    do, allowed = ACTIONS[action]
    chain = in_state(state)
    if state in allowed:
        do(chain)
    else:
        with pytest.raises(StateError, match="chain 'c' cannot"):
            do(chain)
        assert chain.state is state


def test_a_failed_chain_keeps_its_reason_and_drops_its_choices() -> None:
    chain = in_state(ChainState.RESOLVED)
    chain.fail("too large")
    assert chain.choices == ()
    assert chain.record().to_json() == {
        "id": "c", "ops": ["a"], "state": "failed", "spill_location": "none", "reason": "too large", "statistics": {},
    }  # fmt: skip


def test_an_empty_chain_cannot_be_built() -> None:
    with pytest.raises(StateError, match="no ops to build"):
        L1Chain("c").build()


def test_choices_must_cover_the_ops() -> None:
    chain = in_state(ChainState.BUILT)
    with pytest.raises(StateError, match="has 1 ops, got 2 choices"):
        chain.resolve((CHOICE, CHOICE))
