"""Reads and writes of shared bytes by one instruction, with bounds, definedness and races checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .memory import Conflict, Region, SharedBytes
from .state import Array, Wave

Done = Callable[[], None]


def read_bytes(wave: Wave, shared: SharedBytes, places: Array, what: str) -> tuple[Array, Done]:
    """The bytes at `places` (any shape) and what to call when the read is known to be done."""
    if not shared.initialised[places].all():
        byte = int(places.reshape(-1)[int(np.argmin(shared.initialised[places].reshape(-1)))])
        raise wave.error("undefined-memory", f"reads {what} byte {byte}, never written")
    access = shared.record(wave.agent, wave.workgroup.number, wave.line)
    _report(wave, shared.read(places, access, wave.workgroup.epoch), "reads", what)
    return shared.data[places], lambda: shared.finish(access, wave.workgroup.epoch)


def write_bytes(wave: Wave, shared: SharedBytes, places: Array, values: Array, what: str) -> Done:
    """Write `values` (uint8, shaped as `places`); lanes that write one byte must agree on its value."""
    access = shared.record(wave.agent, wave.workgroup.number, wave.line)
    _report(wave, shared.write(places, access, wave.workgroup.epoch), "writes", what)
    shared.data[places] = values
    if not np.array_equal(shared.data[places], values):
        clash = places.reshape(-1)[int(np.argmax((shared.data[places] != values).reshape(-1)))]
        raise wave.error("race", f"two lanes write different values to {what} byte {int(clash)}")
    return lambda: shared.finish(access, wave.workgroup.epoch)


def update_bytes(
    wave: Wave, shared: SharedBytes, places: Array, update: Callable[[Array, Array], None], what: str
) -> Done:
    """An atomic update of the dwords at `places` ((n, 4) bytes): `update(old, positions)` changes the old values of the
    distinct dwords in place, `positions` tells which of them each lane updates."""
    if not shared.initialised[places].all():
        raise wave.error("undefined-memory", f"updates {what} bytes never written")
    access = shared.record(wave.agent, wave.workgroup.number, wave.line, atomic=True)
    _report(wave, shared.write(places, access, wave.workgroup.epoch), "updates", what)
    starts, positions = np.unique(places[:, 0], return_inverse=True)
    distinct = starts[:, None] + np.arange(4)
    old = np.ascontiguousarray(shared.data[distinct]).view(np.uint32)[:, 0]
    update(old, positions)
    shared.data[distinct] = old.view(np.uint8).reshape(-1, 4)
    return lambda: shared.finish(access, wave.workgroup.epoch)


def add_floats(old: Array, positions: Array, values: Array) -> None:
    """An update that adds float32, lane by lane."""
    np.add.at(old.view(np.float32), positions, values.view(np.float32))


def _report(wave: Wave, conflict: Conflict | None, verb: str, what: str) -> None:
    if conflict is None:
        return
    reason = (
        f"{verb} {what} byte {conflict.byte}, {conflict.verb} at line {conflict.line} by another wave "
        f"(wave {conflict.agent} of the grid) without a barrier in between that follows its wait"
    )
    raise wave.error("race", reason)


def _places(wave: Wave, addresses: Array, size: int, changing: str = "") -> Iterator[tuple[Region, Array, Array]]:
    """The regions that hold `size` bytes at each of `addresses` (uint64), each with the positions that it holds and the
    places of their bytes in it; `changing`: what is done to them, which a region may refuse."""
    found: list[tuple[Region, Array]] = []
    left = np.arange(addresses.size)
    while left.size:
        address = int(addresses[left[0]])
        region = wave.workgroup.memory.find(address, size)
        if region is None:
            raise wave.error(
                "memory-fault", f"{size} bytes at address {address:#x} are in no buffer{_near(wave, address)}"
            )
        low, high = np.uint64(region.address), np.uint64(region.address + region.size - size)
        inside = (addresses[left] >= low) & (addresses[left] <= high)
        found.append((region, left[inside]))
        left = left[~inside]
    for region, positions in found:
        if changing and not region.writable:
            raise wave.error("memory-fault", f"{changing} {region.name}, which is read-only")
        start = (addresses[positions] - np.uint64(region.address)).astype(np.int64)
        yield region, positions, start[:, None] + np.arange(size)


def _near(wave: Wave, address: int) -> str:
    regions = wave.workgroup.memory.regions
    if not regions:
        return ""
    nearest = min(
        regions, key=lambda region: min(abs(address - region.address), abs(address - region.address - region.size))
    )
    return f"; {nearest.name} has {nearest.size} bytes from {nearest.address:#x}"


def load_device(wave: Wave, addresses: Array, size: int) -> tuple[Array, list[Done]]:
    """`size` bytes at each address: an (n, size) uint8 array."""
    result = np.zeros((addresses.size, size), np.uint8)
    actions = []
    for region, positions, places in _places(wave, addresses, size):
        result[positions], done = read_bytes(wave, region.shared, places, region.name)
        actions.append(done)
    return result, actions


def store_device(wave: Wave, addresses: Array, values: Array) -> list[Done]:
    """Store an (n, size) uint8 array, one row at each address."""
    size = values.shape[1]
    actions = []
    for region, positions, places in _places(wave, addresses, size, "stores to"):
        actions.append(write_bytes(wave, region.shared, places, values[positions], region.name))
    return actions


def update_device(wave: Wave, addresses: Array, update: Callable[[Array, Array, Array], None]) -> list[Done]:
    """Atomic updates of the dwords at `addresses`: `update(old, positions, chosen)` per region and its lanes."""
    actions = []
    for region, chosen, places in _places(wave, addresses, 4, "updates"):

        def apply(old: Array, positions: Array, chosen: Array = chosen) -> None:
            update(old, positions, chosen)

        actions.append(update_bytes(wave, region.shared, places, apply, region.name))
    return actions


def check_alignment(wave: Wave, addresses: Array, size: int, what: str) -> None:
    """Dwords lie at multiples of 4, halves at multiples of 2: amdhsa asks no more of wider accesses."""
    wanted = min(size, 4)
    wrong = addresses.astype(np.uint64) % np.uint64(wanted) != 0
    if wrong.any():
        address = int(addresses[int(np.argmax(wrong))])
        raise wave.error("alignment", f"{what} at {address:#x} is not aligned to {wanted} bytes")
