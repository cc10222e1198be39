"""The loops that `lower-to-loops` makes of a compute become straight lines: an op for every tile, its numbers literal.

    ttl.for {lower = 0, step = 1, upper = 2} { ^(%i): dst.exp(%i) }  ->  dst.exp(%0) dst.exp(%1)

Loops of the kernel itself stay. An init then comes where the op before needs another one, which may be seldomer than
once per round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from optimizer.errors import LimitError
from optimizer.kernels.tensix.index_expr import const
from optimizer.kernels.tensix.ir import Names, Op, Value, attributes

MOST_OPS = 4096
"""Ops of a compute without its loops: the code of a thread has to fit beside its data."""


def unrolled(ops: Sequence[Op], names: Names) -> tuple[Op, ...]:
    """Ops without their loops. LimitError if that are too many."""
    found: list[Op] = []
    for op in _Unroller(names).straight(ops, {}, {}):
        found.append(op)
        if len(found) > MOST_OPS:
            raise LimitError(
                f"the loops of a compute unroll to more than {MOST_OPS} ops; smaller blocks, or loops, take fewer",
                node="ttl.compute",
                limit=MOST_OPS,
            )
    return tuple(found)


class _Unroller:
    def __init__(self, names: Names) -> None:
        self._names = names

    def straight(self, ops: Sequence[Op], known: Mapping[str, int], renamed: Mapping[str, Value]) -> Iterator[Op]:
        """`known`: numbers of index values; `renamed`: what stands for a value in this round."""
        known, renamed = dict(known), dict(renamed)
        for op in ops:
            if op.name == "ttl.for":
                for n in range(op.integer("lower"), op.integer("upper"), op.integer("step")):
                    counter = self._names.value(op.body.args[0].type, "n")
                    yield Op("ttl.constant", (), (counter,), attributes({"value": n}))
                    inner = op.body.args[0].name
                    yield from self.straight(
                        op.body.ops, {**known, inner: n, counter.name: n}, {**renamed, inner: counter}
                    )
                continue
            for v in op.results:
                renamed[v.name] = self._names.value(v.type, "n" if op.name in _NUMBERS else "block")
            if op.name == "ttl.constant":
                known[op.result.name] = op.integer("value")
            elif op.name == "ttl.index" and all(v.name in known for v in op.operands):
                value = op.index_map("map").results[0].substitute([const(known[v.name]) for v in op.operands]).value
                known[op.result.name] = value
                op = Op("ttl.constant", (), op.results, attributes({"value": value}))
            operands = tuple(renamed.get(v.name, v) for v in op.operands)
            yield replace(op, operands=operands, results=tuple(renamed[v.name] for v in op.results))


_NUMBERS = ("ttl.constant", "ttl.index")
