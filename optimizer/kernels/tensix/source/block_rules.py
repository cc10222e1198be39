"""The life of a block in its thread: reserved, filled and pushed, or waited for, read and popped, in this order.

A circular buffer has one place to write and one to read, so that a thread holds one block of each at a time; one thread
brings its blocks, and one takes them. A sum over the rounds of a loop (`ttl.store {accumulate = true}`) keeps the first
round's block and adds those of further rounds to it; its room is reserved before the loop and pushed after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from optimizer.kernels.tensix.buffers import backing, buffers_in, local_buffers
from optimizer.kernels.tensix.dialect import BOTH, COMPUTE, stores_sum
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipes import Site, sites
from optimizer.kernels.tensix.types import BlockType, CircularBufferType

_ENDS = {"ttl.cb_push": "ttl.cb_reserve", "ttl.cb_pop": "ttl.cb_wait"}
_FILLS = ("ttl.copy_in", "ttl.receive", "ttl.store")
_MOVES = ("ttl.copy_in", "ttl.copy_out", "ttl.send", "ttl.receive")


def block_errors(program: Op) -> Iterator[tuple[str, str]]:
    """Place and reason of every op that uses a block when it is not there, or leaves one as it must not."""
    backed = frozenset(backing(program))
    for n, thread in enumerate(program.body.ops):
        if thread.name in BOTH:
            yield from _Blocks(backed).of(thread.body.ops, f"{program.name} / {thread.name} #{n}")


@dataclass
class _Blocks:
    backed: frozenset[str]
    """Circular buffers in a tensor's shard, whose blocks are there already."""
    begun: dict[str, str] = field(default_factory=dict)
    """Block -> what it was begun with."""
    held: dict[tuple[str, str], str] = field(default_factory=dict)
    """What it was begun with and its circular buffer -> block, until that ends."""
    ended: dict[str, str] = field(default_factory=dict)
    """Block -> what ended it."""
    filled: set[str] = field(default_factory=set)
    moving: dict[str, str] = field(default_factory=dict)
    """Transfer -> its block, until it is waited for."""

    def of(self, ops: Sequence[Op], place: str) -> Iterator[tuple[str, str]]:
        for n, op in enumerate(ops):
            here = f"{place} / {op.name} #{n}"
            yield from ((here, told) for told in self._wrong(op))
            self._follow(op)
            for region in op.regions:
                yield from self.of(region.ops, here)

    def _wrong(self, op: Op) -> Iterator[str]:
        for v in op.operands:
            if v.name in self.ended:
                yield f"uses {v} after its {self.ended[v.name]}"
        if op.name in _ENDS.values() and (other := self.held.get((op.name, op.operands[0].name))) is not None:
            end = next(end for end, begin in _ENDS.items() if begin == op.name)
            yield f"gives the block %{other} of {op.operands[0]} again: {end} of that comes first"
        if op.name in _ENDS:
            yield from self._badly_ended(op)
        yield from self._misused(op)

    def _badly_ended(self, op: Op) -> Iterator[str]:
        cb = op.operands[0]
        block = self.held.get((_ENDS[op.name], cb.name))
        for transfer, about in self.moving.items():
            if about == block:
                yield f"ends %{block} before ttl.transfer_wait of %{transfer}"
        if op.name == "ttl.cb_push" and block is not None and block not in self.filled and cb.name not in self.backed:
            yield f"pushes %{block}, into which nothing is stored or copied"

    def _misused(self, op: Op) -> Iterator[str]:
        """Blocks that are read where they are written, and the other way round."""
        for k, v in enumerate(op.operands):
            begun = self.begun.get(v.name)
            if begun is None or not isinstance(v.type, BlockType):
                continue
            if op.name in ("ttl.copy_in", "ttl.receive") and begun == "ttl.cb_wait":
                yield f"writes {v}, which is waited for: a block that is reserved is due"
            fills = op.name in _FILLS and not (op.name == "ttl.store" and k == 0)
            if begun == "ttl.cb_reserve" and not fills and op.name != "ttl.send":
                yield f"reads {v}, which is reserved: a block that is waited for is due"

    def _follow(self, op: Op) -> None:
        if op.name in _ENDS.values():
            self.begun[op.result.name] = op.name
            self.held[op.name, op.operands[0].name] = op.result.name
        elif op.name in _ENDS:
            block = self.held.pop((_ENDS[op.name], op.operands[0].name), None)
            if block is not None:
                self.ended[block] = op.name
        elif op.name == "ttl.transfer_wait":
            self.moving.pop(op.operands[0].name, None)
        if op.name in _FILLS:
            self.filled.update(v.name for v in op.operands if self.begun.get(v.name) == "ttl.cb_reserve")
        if op.name in _MOVES:
            (block,) = (v.name for v in op.operands if isinstance(v.type, BlockType))
            self.moving[op.result.name] = block


# -- circular buffers between threads, and within one ---------------------------------------------------------
def buffer_errors(program: Op) -> Iterator[tuple[str, str]]:
    """Place and message of what would make threads take each other's blocks, or wait forever for their own."""
    threads = [op for op in program.body.ops if op.name in BOTH]
    for ending, does in (("ttl.cb_push", "push"), ("ttl.cb_pop", "pop")):
        owner: dict[str, str] = {}
        for thread in threads:
            name = thread.string("sym_name")
            for cb in sorted(buffers_in(thread, ending)):
                if cb in owner:
                    yield program.name, f"@{owner[cb]} and @{name} both {does} %{cb}; a circular buffer has one of each"
                owner[cb] = name
    for thread in threads:
        if thread.name == COMPUTE:
            yield from ((f"{thread.name} @{thread.string('sym_name')}", text) for text in _order_errors(thread))


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


# -- sums over the rounds of a loop -----------------------------------------------------------------------------
def sum_errors(program: Op) -> Iterator[tuple[str, str]]:
    """Place and message of sums that have no beginning, or are mixed with other stores."""
    found = list(sites([op for op in program.body.ops if op.name == COMPUTE]))
    made = {v.name: site for site in found for v in site.op.results}
    stores: dict[str, list[Site]] = {}
    for site in found:
        if site.op.name == "ttl.store":
            stores.setdefault(site.op.operands[1].name, []).append(site)
    for room, into in stores.items():
        for site in into:
            if not stores_sum(site.op):
                continue
            place = f"{site.thread.name} @{site.thread.string('sym_name')} / ttl.store into %{room}"
            loop = site.parent.name == "ttl.for"
            if not loop or made[room].parent is not site.around[-2]:
                yield place, "adds up the rounds of the loop that it stands in: its room is reserved beside that loop"
            if len(into) > 1:
                yield place, "is a sum, and other stores go to the same room"
