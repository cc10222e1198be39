"""Sums over the rounds of a loop: `ttl.store {accumulate = true}` into room that is reserved outside of it.

The first round's block is kept, those of further rounds are added to it. Room that takes a sum is reserved before the
loop and pushed after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.kernels.tensix.dialect import COMPUTE
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipes import Site, sites

SUMS = ("matmul", "matmul_t", "reduce_sum_row", "reduce_sum_col", "reduce_sum_scalar")
"""Tile ops that add to what their slot of DST holds."""


def accumulates(op: Op) -> bool:
    """Whether an op adds to what its room holds."""
    return op.name == "ttl.store" and bool(op.attr("accumulate", False))


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
            if not accumulates(site.op):
                continue
            place = f"{site.thread.name} @{site.thread.string('sym_name')} / ttl.store into %{room}"
            loop = site.parent.name == "ttl.for"
            if not loop or made[room].parent is not site.around[-2]:
                yield place, "adds up the rounds of the loop that it stands in: its room is reserved beside that loop"
            if len(into) > 1:
                yield place, "is a sum, and other stores go to the same room"
