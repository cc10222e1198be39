"""Circular buffers of a given program: who brings and who takes their blocks, and in what order a thread does both."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.kernels.tensix.dialect import BOTH, COMPUTE
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.types import CircularBufferType


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
