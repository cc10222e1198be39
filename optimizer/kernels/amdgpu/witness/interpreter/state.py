"""What one wave and one workgroup hold while they run, and the counters that tell when memory operations are done.

vmcnt counts vector memory operations, loads and stores alike, and falls in the order of issue. lgkmcnt counts LDS
operations, which finish in order, and scalar loads, which do not: while one of these is outstanding, a count above
zero says nothing about which operations are done (CDNA3 ISA, section "Manually Inserted Wait States" and S_WAITCNT;
LLVM's SIInsertWaitcnts). flat_* operations use both counters and finish in no order.

A load's destination is poisoned from issue until a wait that covers it in every execution the hardware permits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ExecutionError
from .descriptor import Descriptor
from .hazards import HazardTracker
from .memory import DeviceMemory, SharedBytes
from .operands import EXEC, VGPR, name_of

LANES = 64
ALL_LANES = (1 << LANES) - 1
Bits = npt.NDArray[np.uint32]
Lanes = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

_UNPACKED: dict[int, Lanes] = {}


def lanes_of(mask: int) -> Lanes:
    """A 64-bit mask as 64 truth values, lane 0 first. The array is shared: do not write it."""
    found = _UNPACKED.get(mask)
    if found is None:
        found = np.unpackbits(np.frombuffer(mask.to_bytes(8, "little"), np.uint8), bitorder="little").astype(np.bool_)
        _UNPACKED[mask] = found
    return found


def mask_of(lanes: Array) -> int:
    """64 truth values as a 64-bit mask."""
    return int.from_bytes(np.packbits(np.broadcast_to(lanes, (LANES,)), bitorder="little").tobytes(), "little")


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


# -- waves ----------------------------------------------------------------------------------------------
@dataclass
class Workgroup:
    """The waves of one workgroup share `lds`; `epoch` counts the barriers that all of them passed."""

    identifier: tuple[int, int, int]
    number: int
    lds: SharedBytes
    descriptor: Descriptor
    memory: DeviceMemory
    epoch: int = 0


@dataclass
class Wave:
    """One wave: 64 lanes. `known` and `known_lanes` tell which registers hold something defined."""

    workgroup: Workgroup
    number: int
    """Position in the workgroup."""
    agent: int
    """Number in the whole grid."""
    scalars: list[int] = field(default_factory=lambda: [0] * 128)
    known: bytearray = field(default_factory=lambda: bytearray(128))
    vectors: Bits = field(default_factory=lambda: np.zeros((512, LANES), np.uint32))
    known_lanes: list[int] = field(default_factory=lambda: [0] * 512)
    scc: int | None = None
    pc: int = 0
    finished: bool = False
    waits: WaitCounters = field(default_factory=WaitCounters)
    hazards: HazardTracker = field(default_factory=HazardTracker)
    scratch: tuple[Array, Array] | None = None
    """Bytes and their definedness, one row per lane."""
    vccz_is_stale: bool = False
    """Half of vcc was written last: vccz does not follow."""
    nop_states: int = 1
    """Wait states of the s_nop that ran last."""
    line: int = 0
    text: str = ""

    @property
    def exec_mask(self) -> int:
        return self.scalars[EXEC] | self.scalars[EXEC + 1] << 32

    @property
    def flushes_denormals(self) -> bool:
        return self.workgroup.descriptor["float_denorm_mode_32"] != 3

    @property
    def where(self) -> str:
        x, y, z = self.workgroup.identifier
        return f"workgroup {x},{y},{z} wave {self.number}"

    def scalar(self, base: int, count: int) -> int:
        """`count` scalar registers as one unsigned number."""
        value = 0
        for position in range(count):
            value |= self.scalars[base + position] << 32 * position
        return value

    def set_scalar(self, base: int, count: int, value: int) -> None:
        for position in range(count):
            self.scalars[base + position] = value >> 32 * position & 0xFFFFFFFF
            self.known[base + position] = 1

    def set_vector(self, key: int, bits: Array, mask: int) -> None:
        """Write one VGPR or AGPR in the lanes of `mask`."""
        np.copyto(self.vectors[key - VGPR], bits, where=lanes_of(mask))
        self.known_lanes[key - VGPR] |= mask

    def error(self, kind: str, reason: str) -> ExecutionError:
        """An error at the instruction that runs now."""
        return ExecutionError(kind, reason, self.line, self.text, self.where)

    def require_known(self, keys: Iterable[int], mask: int) -> None:
        """Every register of `keys` must hold something, vectors in the lanes of `mask`."""
        for key in keys:
            if key < VGPR:
                if not self.known[key]:
                    raise self.error("undefined-register", f"reads {name_of(key)}, never written")
            elif missing := mask & ~self.known_lanes[key - VGPR]:
                lane = (missing & -missing).bit_length() - 1
                raise self.error("undefined-register", f"reads {name_of(key)}, never written in lane {lane}")
