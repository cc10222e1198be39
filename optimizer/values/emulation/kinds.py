"""What rules of the emulation take and give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.rounding import Array
from optimizer.layouts.op_config import OpConfig
from optimizer.values.emulation.units import Units

AnyArray = NDArray[Any]
"""f32, or whole numbers."""


@dataclass(frozen=True)
class Step:
    """One op as a device runs it, as far as its values go."""

    op: str
    attrs: Mapping[str, Any]
    """Defaults included, and attribute `compute` where the op states one."""
    dtypes: tuple[DType, ...]
    """Element types of the operands."""
    results: tuple[DType, ...]
    config: OpConfig | None = None

    @property
    def stated(self) -> Mapping[str, Any]:
        """The compute config; empty where the call takes none."""
        return dict(self.attrs.get(COMPUTE) or ())

    @property
    def units(self) -> Units:
        """As the op's program sets them. Ops without a compute config run at HiFi4 (tt-metal's element-wise programs),
        with destination registers of 32 bits where an operand or the result has."""
        stated = self.stated
        if not stated:
            return Units("HiFi4", DType.F32 in (*self.dtypes, *self.results))
        return Units(str(stated["fid"]), bool(stated["fp32"]))

    @property
    def packer_adds(self) -> bool:
        return bool(self.stated.get("l1acc"))

    @property
    def approximate(self) -> bool:
        return bool(self.stated.get("approx"))


Rule = Callable[[Step, Sequence[AnyArray]], Sequence[AnyArray]]
"""Operands as their tensors hold them -> results as theirs do."""


def in_f32(x: AnyArray) -> Array:
    return np.asarray(x, np.float32)
