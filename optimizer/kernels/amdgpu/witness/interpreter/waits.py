"""Outstanding memory operations and the counters that tell when they are done.

vmcnt counts vector memory operations, loads and stores alike, and falls in the order of issue. lgkmcnt counts LDS
operations, which finish in order, and scalar loads, which do not: while one of these is outstanding, a count above
zero says nothing about which operations are done (CDNA3 ISA, section "Manually Inserted Wait States" and S_WAITCNT;
LLVM's SIInsertWaitcnts). flat_* operations use both counters and finish in no order.

A load's destination is poisoned from issue until a wait that covers it in every execution the hardware permits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import ExecutionError
from .operands import name_of

COUNTERS = ("vmcnt", "lgkmcnt")


@dataclass(eq=False)
class Outstanding:
    """A memory operation that is not known to be done."""

    counters: tuple[str, ...]
    ordered: bool
    destinations: tuple[int, ...]
    line: int
    text: str
    on_done: tuple[Callable[[], None], ...] = ()
    span: tuple[int, int] | None = None
    """Of a scalar load: the bytes it reads, from the first to before the last."""
    lds: npt.NDArray[np.int64] | None = None
    """The bytes of LDS that it touches."""
    unfinished: set[str] = field(default_factory=set)


@dataclass
class WaitCounters:
    """The outstanding operations of one wave, oldest first, per counter."""

    queues: dict[str, list[Outstanding]] = field(default_factory=lambda: {name: [] for name in COUNTERS})
    poisoned: dict[int, Outstanding] = field(default_factory=dict)

    def issue(self, operation: Outstanding) -> None:
        operation.unfinished = set(operation.counters)
        for counter in operation.counters:
            self.queues[counter].append(operation)
        for key in operation.destinations:
            self.poisoned[key] = operation

    def wait(self, counter: str, limit: int) -> int:
        """Wait until at most `limit` operations are outstanding; the number of operations known done thereby."""
        queue = self.queues[counter]
        if limit == 0:
            done = list(queue)
        elif all(operation.ordered for operation in queue):
            done = queue[: max(0, len(queue) - limit)]
        else:
            done = []
        for operation in done:
            queue.remove(operation)
            operation.unfinished.discard(counter)
            if not operation.unfinished:
                self._finish(operation)
        return len(done)

    def _finish(self, operation: Outstanding) -> None:
        for key in operation.destinations:
            if self.poisoned.get(key) is operation:
                del self.poisoned[key]
        for action in operation.on_done:
            action()

    def needed(self, operation: Outstanding) -> str:
        """The weakest wait that frees `operation`."""
        waits = []
        for counter in operation.counters:
            queue = self.queues[counter]
            if operation not in queue:
                continue
            ordered = all(other.ordered for other in queue)
            waits.append(f"{counter}({len(queue) - 1 - queue.index(operation) if ordered else 0})")
        return "s_waitcnt " + " ".join(waits)

    def check(
        self, reads: Iterable[int], writes: Iterable[int], issuing: str, line: int, text: str, where: str
    ) -> None:
        """No register may be touched while a load into it is outstanding.

        A vector memory load may overwrite the destination of an older one: they write in order. `issuing` names that
        counter, and is empty for everything else; LLVM grants LDS reads no such exception.
        """
        for action, keys in (("reads", reads), ("overwrites", writes)):
            for key in keys:
                operation = self.poisoned.get(key)
                if operation is None:
                    continue
                if action == "overwrites" and operation.ordered and operation.counters == (issuing,):
                    continue
                reason = (
                    f"{action} {name_of(key)} while line {operation.line} `{operation.text}` is still loading it; "
                    f"missing: {self.needed(operation)}"
                )
                raise ExecutionError("missing-wait", reason, line, text, where)
