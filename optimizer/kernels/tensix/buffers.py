"""Circular buffers: who brings and who takes their blocks, in what order a thread does both, what they take of L1."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.errors import LimitError
from optimizer.kernels.tensix.dialect import BOTH, COMPUTE
from optimizer.kernels.tensix.ir import Op, Value, walk
from optimizer.kernels.tensix.types import CircularBufferType

_NAMED = 5
"""Buffers that an error lists."""


def available_l1(program: Op, chosen: int | None, board_bytes: int) -> int:
    """Bytes that the circular buffers of a core may take: as chosen, as the program says, all that the board has."""
    return program.integer("l1_bytes", board_bytes) if chosen is None else chosen


def free_l1(program: Op, limit: int) -> int:
    """Bytes of L1 that are left for circular buffers besides those that are bound already."""
    return max(0, limit - sum(_size(cb) for cb in _allocated(program)))


def check_l1(program: Op, limit: int) -> None:
    """LimitError that names the largest circular buffers if all of them together take more bytes of L1."""
    largest = sorted(_allocated(program), key=lambda cb: (-_size(cb), cb.name))
    total = sum(map(_size, largest))
    if total <= limit:
        return
    shown = ", ".join(f"{cb} ({cb.type}) {_size(cb):,}" for cb in largest[:_NAMED])
    more = f", {len(largest) - _NAMED} more" if len(largest) > _NAMED else ""
    raise LimitError(
        f"circular buffers take {total:,} bytes of each core's L1, {limit:,} are free: {shown}{more}; smaller blocks, "
        "fewer blocks per buffer or a narrower element type take less, 'l1_bytes' says how much is free",
        node=f"{program.name} @{program.string('sym_name')}",
        limit=limit,
    )


def _allocated(program: Op) -> list[Value]:
    """Circular buffers that do not lie in the shard of a tensor."""
    return [op.result for op in walk(program) if op.name == "ttl.bind_cb" and not op.has_attr("tensor")]


def _size(cb: Value) -> int:
    return cb.typed(CircularBufferType).size_bytes


def local_buffers(thread: Op) -> frozenset[str]:
    """Circular buffers that a thread pushes and waits for itself."""
    return _operands(thread, "ttl.cb_push") & _operands(thread, "ttl.cb_wait")


def buffer_errors(program: Op) -> Iterator[tuple[str, str]]:
    """Place and message of what would make threads take each other's blocks, or wait forever for their own."""
    threads = [op for op in program.body.ops if op.name in BOTH]
    for ending, does in (("ttl.cb_push", "push"), ("ttl.cb_pop", "pop")):
        owner: dict[str, str] = {}
        for thread in threads:
            name = thread.string("sym_name")
            for cb in sorted(_operands(thread, ending)):
                if cb in owner:
                    yield program.name, f"@{owner[cb]} and @{name} both {does} %{cb}; a circular buffer has one of each"
                owner[cb] = name
    for thread in threads:
        if thread.name == COMPUTE:
            yield from ((f"{thread.name} @{thread.string('sym_name')}", text) for text in _order_errors(thread))


def _operands(thread: Op, name: str) -> frozenset[str]:
    return frozenset(op.operands[0].name for op in walk(thread) if op.name == name and op.operands)


def _order_errors(thread: Op) -> Iterator[str]:
    """What goes wrong in the first round of every loop."""
    held = dict.fromkeys(local_buffers(thread), 0)
    for op in walk(thread):
        cb = op.operands[0] if op.operands else None
        if cb is None or cb.name not in held or not isinstance(cb.type, CircularBufferType):
            continue
        if op.name == "ttl.cb_wait" and held[cb.name] < 1:
            yield f"waits for {cb}, which it pushes later only"
        elif op.name == "ttl.cb_reserve" and held[cb.name] >= cb.type.block_count:
            yield f"reserves {cb} while all its blocks ({cb.type.block_count}) are pushed and not popped"
        held[cb.name] += {"ttl.cb_push": 1, "ttl.cb_pop": -1}.get(op.name, 0)
