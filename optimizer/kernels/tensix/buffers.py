"""Circular buffers: who brings and who takes their blocks, in what order a thread does both, what they take of L1."""

from __future__ import annotations

from optimizer.errors import LimitError
from optimizer.kernels.tensix.ir import Op, Value, walk
from optimizer.kernels.tensix.types import CircularBufferType

_NAMED = 5
"""Buffers that an error lists."""


def available_l1(program: Op, board_bytes: int) -> int:
    """Bytes that the circular buffers of a core may take: as the program says, by default all that the board has."""
    return program.integer("l1_bytes", board_bytes)


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
    return buffers_in(thread, "ttl.cb_push") & buffers_in(thread, "ttl.cb_wait")


def buffers_in(thread: Op, name: str) -> frozenset[str]:
    return frozenset(op.operands[0].name for op in walk(thread) if op.name == name and op.operands)


def buffers_of(op: Op) -> dict[str, Value]:
    """Circular buffers of the blocks that are taken within an op, by the block's name."""
    takes = (inner for inner in walk(op) if inner.name in ("ttl.cb_wait", "ttl.cb_reserve"))
    return {inner.result.name: inner.operands[0] for inner in takes}


def backing(program: Op) -> dict[str, str]:
    """The tensors in whose shards circular buffers lie, by the buffer's name."""
    binds = (op for op in program.body.ops if op.name == "ttl.bind_cb" and op.has_attr("tensor"))
    return {op.result.name: op.string("tensor") for op in binds}
