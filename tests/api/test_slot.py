"""A worker waits for a store that is away."""

from __future__ import annotations

import pytest

from api.problems import GoneError, StoreError
from api.workers import slot


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "STORE_PAUSE_SECONDS", 0.0)


def test_what_a_worker_has_to_say_is_said_when_the_store_is_back() -> None:
    answers = iter([StoreError("away"), StoreError("away"), "kept"])

    def use(what: str) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return f"{what} {answer}"

    assert slot.patiently(slot.Orders(), use, "result") == "result kept"


@pytest.mark.parametrize(("error", "stop"), [(StoreError("away"), True), (GoneError("deleted"), False)])
def test_a_worker_does_not_wait_for_what_will_not_come(error: Exception, stop: bool) -> None:
    calls = []

    def use() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        slot.patiently(slot.Orders(stop=stop), use)
    assert calls == [1]
