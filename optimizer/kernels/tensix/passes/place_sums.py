"""Sums over the rounds of a loop are kept in DST where they fit, else the packer adds to L1.

A compute adds in DST if it is the loop's only one, is a sum itself (a matmul, a row of sums), has all its tiles in one
section, and gives sums only: then the section begins before the loop and is packed after it. Otherwise each round packs
its block, and from the second round on the packer adds to what lies there.
"""

from __future__ import annotations

from optimizer.kernels.tensix.dialect import TILE_PREFIX
from optimizer.kernels.tensix.ir import Op, rewrite, walk
from optimizer.kernels.tensix.passes.assign_dst import parallel_tiles
from optimizer.kernels.tensix.sums import SUMS


def place_sums(program: Op) -> Op:
    """Every loop of the compute threads: `sum_in` of a compute with `sums` is `dst` or `l1`."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "ttl.for":
            return (op,)
        computes = [inner for inner in walk(op) if inner.name == "ttl.compute"]
        alone = len(computes) == 1 and computes[0] in op.body.ops and _stays(computes[0])
        where = "dst" if alone else "l1"
        body = (
            o.with_attrs(sum_in=where) if o.name == "ttl.compute" and o.has_attr("sums") else o for o in op.body.ops
        )
        return (op.with_body(tuple(body)),)

    return rewrite(program, change)[0]


def _stays(compute: Op) -> bool:
    body = compute.body.ops[:-1]
    targets = len(compute.operands) - compute.integer("inputs")
    whole = compute.integer("unroll") >= parallel_tiles(compute) and not compute.has_attr("stages")
    sums = compute.has_attr("sums") and len(compute.integers("sums")) == targets
    return whole and sums and len(body) == 1 and body[0].name.removeprefix(TILE_PREFIX) in SUMS
