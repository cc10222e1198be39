"""`Pool`: children of one board that answer queries in order, whatever happens to them.

A child works through a short queue of its own, so that it never waits for the parent. When it dies, the
query at the head of its queue was being worked on:

* tt-metal died by itself (a signal such as SIGFPE, or an exit): the query is asked once more, first thing in a
  fresh child; when that dies as well, the answer is `abort`.
* somebody else ended it (kill -9, the kernel short of memory): the query is asked again, so that it changes no
  answer; after `MAX_EXTERNAL_KILLS` times on the same query the answer is `abort`, not to be remembered.
* it took longer than the limit: it is ended, the answer is `timeout`.

Whatever else was in the queue is asked again. Every query is answered exactly once.
"""

from __future__ import annotations

import atexit
import itertools
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.errors import OpModelError
from optimizer.opmodel.ttmetal.child import Child, ChildDiedError, ChildKey, Message

DEFAULT_TIMEOUT_SECONDS = 60
START_SECONDS = 180
QUEUE_LENGTH = 16
QUEUE_BYTES = 32_768
"""Below a pipe's room, so that handing over a request never waits for the child."""
MAX_CRASHES = 2
MAX_EXTERNAL_KILLS = 5
QUERIES_PER_CHILD = 16
"""A batch starts another child for this many queries only."""


@dataclass
class _Asked:
    """One query of a batch and what it has been through."""

    index: int
    request: Message
    size: int
    crashes: int = 0
    kills: int = 0


class _Lane:
    """One child, its queue, and the wish to restart it."""

    def __init__(self, key: ChildKey, timeout: float) -> None:
        self.key = key
        self.timeout = timeout
        self.child: Child | None = None
        self.hello: Message | None = None
        self.queue: deque[_Asked] = deque()
        self.sent = 0
        self.deadline = 0.0
        self.failed_starts = 0
        self._ids = itertools.count()
        self._expected: deque[int] = deque()

    @property
    def started(self) -> bool:
        return self.child is not None and self.hello is not None

    def start(self) -> None:
        self.child = Child(self.key)
        self.hello = None
        self.sent = 0
        self._expected.clear()
        self.deadline = time.monotonic() + START_SECONDS

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
        self.child = self.hello = None
        self.sent = 0

    def has_room(self, size: int) -> bool:
        if not self.queue:
            return True
        return len(self.queue) < QUEUE_LENGTH and sum(a.size for a in self.queue) + size <= QUEUE_BYTES

    def hand_over(self) -> None:
        """Send what the queue holds and the child has not got yet."""
        assert self.child is not None
        while self.sent < len(self.queue):
            number = next(self._ids)
            self._expected.append(number)
            self.child.send({**self.queue[self.sent].request, "id": number, "seconds": self.timeout})
            self.sent += 1
            if self.sent == 1:
                self.deadline = time.monotonic() + self.timeout

    def take(self) -> list[tuple[_Asked, Message]]:
        """Answers that have arrived. Raises ChildDiedError; OpModelError when the child cannot start."""
        assert self.child is not None
        done = []
        for message in self.child.receive():
            if self.hello is None:
                self._started(message)
                continue
            number = message.pop("id")
            if not self._expected or number != self._expected.popleft():
                raise OpModelError(f"the ttmetal child answered out of turn ({number})")
            done.append((self.queue.popleft(), message))
            self.sent -= 1
            self.deadline = time.monotonic() + self.timeout
        return done

    def _started(self, message: Message) -> None:
        if "failed" in message:
            self.stop()
            place = self.key.location
            raise OpModelError(
                f"tt-metal does not start for board '{self.key.board}' ({place.describe()}, {place.python}): "
                f"{message['failed']}"
            )
        self.hello = message
        self.failed_starts = 0

    def died(self, death: ChildDiedError) -> tuple[_Asked, Message] | None:
        """Note a death; the answer that it is for the query at the head, if it is one."""
        working = self.started and self.sent > 0
        self.child = self.hello = None
        self.sent = 0
        if not working:
            self.failed_starts += 1
            if self.failed_starts >= MAX_EXTERNAL_KILLS:
                raise OpModelError(
                    f"the ttmetal child for board '{self.key.board}' died {self.failed_starts} times before it could "
                    f"answer ({death.reason}); it printed last: {death.stderr or 'nothing'}"
                )
            return None
        head = self.queue[0]
        if death.external:
            head.kills += 1
            if head.kills < MAX_EXTERNAL_KILLS:
                return None
            error = f"the process was ended with {death.reason} {head.kills} times on this query (out of memory?)"
            return self.queue.popleft(), _rejected("abort", error, passing=True)
        head.crashes += 1
        if head.crashes < MAX_CRASHES:
            return None
        return self.queue.popleft(), _rejected("abort", f"tt-metal dies of {death.reason} on this query")

    def overdue(self) -> tuple[_Asked, Message] | None:
        """End a child past its deadline; the `timeout` answer of the query it hung on."""
        working = self.started and self.sent > 0
        if time.monotonic() < self.deadline or (self.started and not working):
            return None
        self.stop()
        if not working:
            raise OpModelError(f"the ttmetal child for board '{self.key.board}' did not start in {START_SECONDS} s")
        error = f"tt-metal did not answer within {self.timeout:g} s"
        return self.queue.popleft(), {**_rejected("timeout", error), "seconds": self.timeout}


def _rejected(kind: str, error: str, *, passing: bool = False) -> Message:
    answer: Message = {"valid": False, "stage": "crash", "kind": kind, "error": error}
    return {**answer, "passing": True} if passing else answer


class Pool:
    """Children for one key. Any thread may ask; questions of several threads take turns."""

    def __init__(self, key: ChildKey, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self.key = key
        self.timeout_seconds = timeout_seconds
        self.restarts = 0
        """Children that had to be replaced so far."""
        self._lanes: list[_Lane] = []
        self._lock = threading.Lock()

    def ask(self, requests: Sequence[Message], jobs: int = 1) -> list[Message]:
        """One answer per request, in their order, by up to `jobs` children."""
        with self._lock:
            return self._ask(requests, jobs)

    def hello(self) -> Message:
        """What the first child says of its device; starts it."""
        with self._lock:
            lane = self._lanes_for(1)[0]
            if not lane.started:
                self._run([lane], deque(), [])
            assert lane.hello is not None
            return lane.hello

    def pids(self) -> list[int]:
        """Process ids of the children that run now."""
        return [lane.child.pid for lane in self._lanes if lane.child is not None]

    def close(self) -> None:
        """End the children; asking again starts new ones."""
        with self._lock:
            for lane in self._lanes:
                if lane.child is not None:
                    lane.child.close()
            self._lanes.clear()

    def forget(self) -> None:
        """Drop the children without touching them (after a fork, in the new process)."""
        for lane in self._lanes:
            if lane.child is not None:
                lane.child.forget()
        self._lanes.clear()

    def _lanes_for(self, jobs: int) -> list[_Lane]:
        while len(self._lanes) < jobs:
            self._lanes.append(_Lane(self.key, self.timeout_seconds))
        return self._lanes[:jobs]

    def _ask(self, requests: Sequence[Message], jobs: int) -> list[Message]:
        if not requests:
            return []
        lanes = self._lanes_for(max(1, min(jobs, -(-len(requests) // QUERIES_PER_CHILD))))
        answers: list[Message | None] = [None] * len(requests)
        waiting = deque(_Asked(i, request, _size(request)) for i, request in enumerate(requests))
        self._run(lanes, waiting, answers)
        return [answer for answer in answers if answer is not None]

    def _run(self, lanes: list[_Lane], waiting: deque[_Asked], answers: list[Message | None]) -> None:
        """Until nothing waits and no queue holds anything and every lane used has started once."""
        left = len(waiting)
        for lane in lanes:
            lane.timeout = self.timeout_seconds
        try:
            while left or not lanes[0].started:
                for lane in lanes:
                    self._supply(lane, waiting)
                for asked, answer in self._arrived(lanes):
                    answers[asked.index] = answer
                    left -= 1
        finally:
            for lane in lanes:
                if lane.queue:  # interrupted: answers that come later must not be taken for others'
                    lane.queue.clear()
                    lane.stop()

    def _supply(self, lane: _Lane, waiting: deque[_Asked]) -> None:
        """Start or restart a lane, fill its queue and hand it over."""
        while waiting and lane.has_room(waiting[0].size):
            lane.queue.append(waiting.popleft())
        if lane.child is None:
            lane.start()
        if lane.started:
            lane.hand_over()

    def _arrived(self, lanes: list[_Lane]) -> Iterator[tuple[_Asked, Message]]:
        """Wait for answers, deaths or deadlines."""
        running = [lane for lane in lanes if lane.child is not None and (lane.queue or not lane.started)]
        with selectors.DefaultSelector() as selector:
            for lane in running:
                assert lane.child is not None
                selector.register(lane.child, selectors.EVENT_READ, lane)
            patience = min(lane.deadline for lane in running) - time.monotonic()
            ready = [key.data for key, _ in selector.select(max(0.0, patience))]
        for lane in ready:
            try:
                yield from lane.take()
            except ChildDiedError as death:
                self.restarts += 1
                answered = lane.died(death)
                if answered is not None:
                    yield answered
        for lane in running:
            if lane not in ready and lane.child is not None:
                overdue = lane.overdue()
                if overdue is not None:
                    self.restarts += 1
                    yield overdue


def _size(request: Message) -> int:
    """Bytes of a request, about: call text and 200 B per tensor."""
    return len(str(request.get("call", ""))) + 200 * (1 + len(request.get("inputs", ())))


# -- one pool per board and process --------------------------------------------------------------------------
_pools: dict[ChildKey, Pool] = {}
_pools_lock = threading.Lock()


def shared_pool(key: ChildKey, timeout_seconds: float) -> Pool:
    """The process's pool for a key, made on first use; all models of one board share its children."""
    with _pools_lock:
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = Pool(key, timeout_seconds)
        pool.timeout_seconds = timeout_seconds
        return pool


def close_all() -> None:
    """End every child of this process."""
    with _pools_lock:
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.close()


def _forget_all() -> None:
    global _pools_lock
    _pools_lock = threading.Lock()  # another thread may have held it when the process was forked
    for pool in _pools.values():
        pool.forget()
    _pools.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget_all)
