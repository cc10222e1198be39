"""Time formulas by family: `Work` to terms in nanoseconds, and what nothing overlaps."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.opmodel.analytical.formulas.basics import Clock, Terms
from optimizer.opmodel.analytical.formulas.eltwise import eltwise, norm, reduce
from optimizer.opmodel.analytical.formulas.movement import halo, movement, reshard, tilize, transfer, view
from optimizer.opmodel.analytical.formulas.products import conv, matmul, pool, sdpa
from optimizer.opmodel.analytical.work import Work

Formula = Callable[[Clock, Work, Terms], float]
FORMULAS: dict[str, Formula] = {
    "eltwise": eltwise,
    "matmul": matmul,
    "conv": conv,
    "norm": norm,
    "reduce": reduce,
    "movement": movement,
    "reshard": reshard,
    "halo": halo,
    "tilize": tilize,
    "pool": pool,
    "sdpa": sdpa,
    "view": view,
    "transfer": transfer,
}
