"""`ttl.compute_region` dissolves: its ops join the thread, its arguments become the blocks that it was given. So does
`ttl.block_compute`, which has no arguments.

The region states what stays in DST; `fuse_computes` fuses whatever can be, so that nothing is lost. For the same
reason markers of DST registers (`ttl.require_dst`, `ttl.acquire_dst`, `ttl.release_dst`) go: liveness is computed.
"""

from __future__ import annotations

from optimizer.kernels.tensix.dialect import BLOCK_COMPUTE, DST_MARKERS
from optimizer.kernels.tensix.ir import Op, Value, rewrite, substitute


def inline_regions(program: Op) -> Op:
    """Every `ttl.compute_region` and `ttl.block_compute`."""
    known: dict[str, Value] = {}

    def change(op: Op) -> tuple[Op, ...]:
        op = substitute(op, known)
        if op.name in DST_MARKERS:
            return ()
        if op.name == BLOCK_COMPUTE:
            return op.body.ops
        if op.name != "ttl.compute_region":
            return (op,)
        region = op.body
        inner = dict(zip((v.name for v in region.args), op.operands, strict=True))
        ops = tuple(substitute(o, inner) for o in region.ops)
        known.update(zip((v.name for v in op.results), ops[-1].operands, strict=True))
        return ops[:-1]

    return rewrite(program, change)[0]
