"""What one wave and one workgroup hold while they run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ExecutionError
from .descriptor import Descriptor
from .hazards import HazardTracker
from .memory import DeviceMemory
from .operands import EXEC, VGPR, name_of
from .races import SharedBytes
from .waits import WaitCounters

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
