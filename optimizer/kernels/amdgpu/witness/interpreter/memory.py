"""Device memory: the buffers of one launch, at addresses that catch 32-bit address arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .races import SharedBytes

# Every buffer lies across a 4 GiB border, so that an addition without carry into the high half misses it.
_FIRST_BORDER = 0x7E10_0000_0000
_BORDER_STEP = 0x2_0000_0000
_ALIGNMENT = 256


@dataclass
class Region:
    """`size` bytes at `address`."""

    name: str
    address: int
    shared: SharedBytes
    writable: bool

    @property
    def size(self) -> int:
        return int(self.shared.data.size)


@dataclass
class DeviceMemory:
    """The regions of one launch, in order of address."""

    regions: list[Region] = field(default_factory=list)

    def add(self, name: str, content: npt.NDArray[Any], *, writable: bool) -> Region:
        """Place a copy of `content`'s bytes; its address is aligned to 256 bytes."""
        data = np.frombuffer(np.ascontiguousarray(content).tobytes(), np.uint8).copy()
        border = _FIRST_BORDER + _BORDER_STEP * len(self.regions)
        address = border - data.size // 2 // _ALIGNMENT * _ALIGNMENT
        region = Region(name, address, SharedBytes(data, np.ones(data.size, np.bool_), shared=writable), writable)
        self.regions.append(region)
        return region

    def find(self, address: int, size: int) -> Region | None:
        """The region that holds all of `size` bytes from `address`."""
        for region in self.regions:
            if region.address <= address and address + size <= region.address + region.size:
                return region
        return None
