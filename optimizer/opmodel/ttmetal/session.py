"""A whole program under way in a child of its own: what backends that run programs hand out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from optimizer.errors import OpModelError
from optimizer.opmodel.base import Rejection, StepAnswer
from optimizer.opmodel.rows import tensor_from_row
from optimizer.opmodel.ttmetal.child import Child, ChildDiedError, ChildKey, Message, OverdueError
from optimizer.opmodel.ttmetal.pool import MAX_CRASHES, MAX_EXTERNAL_KILLS, START_SECONDS
from optimizer.process.json_document import Node


class TTMetalSession:
    """Statements run in order; tensors stay where the real allocator put them.

    A refused step changes nothing: where it left something behind, or ended the process, the program is begun
    again and the accepted steps are run once more.
    """

    def __init__(self, key: ChildKey, source: str, timeout_seconds: float, check: Callable[[Message], None]) -> None:
        self._key = key
        self._source = source
        self._timeout_seconds = timeout_seconds
        self._check = check
        self._accepted: list[str] = []
        self._child: Child | None = None
        self._begin()

    def step(self, code: str, results: Sequence[str] = ()) -> StepAnswer:
        """Run statements. OpModelError when their text itself is wrong."""
        answer = self._survive({"kind": "step", "code": code, "results": list(results)})
        before, after = answer.get("l1_before", 0), answer.get("l1_after", 0)
        if not answer["valid"]:
            if after != before:
                self._again()
            kind, error = Rejection(answer["kind"]), answer["error"]
            return StepAnswer(False, kind, error, l1_before_bytes=before, l1_after_bytes=before)
        self._accepted.append(code)
        records = [record for name in results for record in answer["outputs"][name]]
        return StepAnswer(
            True,
            results=tuple(tensor_from_row(Node(record, "answer")) for record in records),
            addresses=tuple(record.get("address") for record in records),
            l1_before_bytes=before,
            l1_after_bytes=after,
            cb_bytes=answer["peak_cb"],
            peak_bytes=answer["peak_total"],
        )

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _survive(self, message: Message) -> Message:
        """An answer in any case: a step on which the process dies twice is refused, as is one that takes too long."""
        crashes = kills = 0
        while True:
            try:
                if self._child is None:
                    self._again()
                return self._exchange(message)
            except OverdueError:
                self.close()
                error = f"tt-metal did not answer within {self._timeout_seconds:g} s"
                return {"valid": False, "kind": "timeout", "error": error}
            except ChildDiedError as death:
                self._child = None
                kills, crashes = (kills + 1, crashes) if death.external else (kills, crashes + 1)
                if crashes >= MAX_CRASHES or kills >= MAX_EXTERNAL_KILLS:
                    return {"valid": False, "kind": "abort", "error": f"tt-metal dies of {death.reason} on this step"}

    def _exchange(self, message: Message) -> Message:
        assert self._child is not None
        answer = self._child.exchange({**message, "id": 0, "seconds": self._timeout_seconds}, self._timeout_seconds)
        if "bad_request" in answer:
            raise OpModelError(f"the program's text is wrong: {answer['bad_request']}")
        return answer

    def _begin(self) -> None:
        """A fresh child with the program's module loaded."""
        self.close()
        self._child = Child(self._key)
        try:
            hello = self._child.exchange(None, START_SECONDS)
            if "failed" in hello:
                raise OpModelError(f"tt-metal does not start for board '{self._key.board}': {hello['failed']}")
            self._check(hello)
            begun = self._exchange({"kind": "begin", "source": self._source})
        except (ChildDiedError, OverdueError) as error:
            self.close()
            raise OpModelError(f"tt-metal does not load the program: {error}") from error
        except OpModelError:
            self.close()
            raise
        if not begun["valid"]:
            self.close()
            raise OpModelError(f"the program does not load: {begun['error']}")

    def _again(self) -> None:
        """The program in a fresh child up to its last accepted step."""
        self._begin()
        for code in self._accepted:
            answer = self._exchange({"kind": "step", "code": code, "results": [], "measure": False})
            if not answer["valid"]:
                raise OpModelError(f"a step that was accepted is refused when run again: {code}: {answer['error']}")


@contextmanager
def open_session(
    key: ChildKey, source: str, timeout_seconds: float, check: Callable[[Message], None]
) -> Iterator[TTMetalSession]:
    """A session in a fresh child, which ends with the block. OpModelError when the module itself fails."""
    session = TTMetalSession(key, source, timeout_seconds, check)
    try:
        yield session
    finally:
        session.close()
