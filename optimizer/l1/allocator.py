"""The runtime's L1 allocator on plain intervals.

tt-metal places L1 buffers top-down and first-fit: a buffer goes to the upper end of the highest hole that
is large enough, at the same address on every core (lock-step), so one list of intervals stands for all
cores. Freed buffers join the holes beside them at once, so the order of frees alone decides nothing: what is
live when a buffer is allocated does. Buffers of the small region (`L1_SMALL`, halo tables and the like) have an
allocator of their own above the bank.

Sources: tt-metal 0.81 `FreeListOpt::allocate` with `SearchPolicy::FIRST` and `bottom_up = false` (its lists by
size class are each sorted by address and the best of them is taken, so it is exact first fit), sizes rounded
up to the alignment and at least one alignment unit; `benchmarks/allocator_replay.py` compares address for
address with tt-metal's mock devices. Addresses and sizes are bytes per core.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from optimizer.errors import OptionError, StateError


class L1Allocator:
    """First-fit from the top in `[base_bytes, top_bytes)`."""

    def __init__(self, base_bytes: int, top_bytes: int, alignment_bytes: int) -> None:
        if alignment_bytes <= 0 or not 0 <= base_bytes <= top_bytes:
            raise OptionError(f"no L1 bank: [{base_bytes}, {top_bytes}) in steps of {alignment_bytes}")
        self._base = base_bytes
        self._top = top_bytes - (top_bytes - base_bytes) % alignment_bytes
        self._alignment = alignment_bytes
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}

    def rounded(self, size_bytes: int) -> int:
        """Bytes that a buffer of this size really takes."""
        units = max(1, -(-size_bytes // self._alignment))
        return units * self._alignment

    def copy(self) -> L1Allocator:
        """An allocator in the same state, for searches that try what comes next."""
        other = L1Allocator(self._base, self._top, self._alignment)
        other._starts = self._starts.copy()
        other._sizes = self._sizes.copy()
        return other

    def allocate(self, size_bytes: int) -> int | None:
        """Address of the new buffer, None if no hole fits. StateError for a negative size."""
        if size_bytes < 0:
            raise StateError(f"a buffer cannot have {size_bytes} bytes")
        size = self.rounded(size_bytes)
        ceiling = self._top
        for start in reversed(self._starts):
            if ceiling - (start + self._sizes[start]) >= size:
                break
            ceiling = start
        if ceiling - size < self._base:
            return None
        address = ceiling - size
        insort(self._starts, address)
        self._sizes[address] = size
        return address

    def free(self, address: int) -> None:
        """Release the buffer at `address`; StateError if there is none."""
        if self._sizes.pop(address, None) is None:
            raise StateError(f"no buffer at address {address}")
        del self._starts[bisect_left(self._starts, address)]

    @property
    def lowest_address(self) -> int | None:
        """Address of the lowest live buffer, None if there is none."""
        return self._starts[0] if self._starts else None
