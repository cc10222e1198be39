"""Time formulas by family: `Work` to terms in nanoseconds, and what nothing overlaps."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.opmodel.analytical.formulas.basics import Clock, Terms
from optimizer.opmodel.analytical.formulas.eltwise import eltwise, norm, reduce, scan
from optimizer.opmodel.analytical.formulas.kernels import kernel
from optimizer.opmodel.analytical.formulas.movement import halo, movement, reshard, tilize, transfer, view
from optimizer.opmodel.analytical.formulas.products import conv, matmul, pool, sdpa, sdpa_decode
from optimizer.opmodel.analytical.work import Work

Formula = Callable[[Clock, Work, Terms], float]
_FORMULAS = (
    eltwise, matmul, conv, norm, reduce, scan, movement, reshard, halo, tilize, pool, sdpa, sdpa_decode, view, transfer,
    kernel,
)  # fmt: skip
FORMULAS: dict[str, Formula] = {formula.__name__: formula for formula in _FORMULAS}
