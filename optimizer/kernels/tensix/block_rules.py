"""The life of a block in its thread: reserved, filled and pushed, or waited for, read and popped, in this order.

A circular buffer has one place to write and one to read, so that a thread holds one block of each at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from optimizer.kernels.tensix.dialect import BOTH
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.types import BlockType

_ENDS = {"ttl.cb_push": "ttl.cb_reserve", "ttl.cb_pop": "ttl.cb_wait"}
_FILLS = ("ttl.copy_in", "ttl.receive", "ttl.store")
_MOVES = ("ttl.copy_in", "ttl.copy_out", "ttl.send", "ttl.receive")


def block_errors(program: Op) -> Iterator[tuple[str, str]]:
    """Place and reason of every op that uses a block when it is not there, or leaves one as it must not."""
    backed = {op.result.name for op in program.body.ops if op.name == "ttl.bind_cb" and op.has_attr("tensor")}
    for n, thread in enumerate(program.body.ops):
        if thread.name in BOTH:
            yield from _Blocks(frozenset(backed)).of(thread.body.ops, f"{program.name} / {thread.name} #{n}")


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
