"""Pools and upsampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.movement import kept
from optimizer.values.reference.kinds import Computed
from optimizer.values.reference.pooling import RULES as EXACT


def _selected(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    return [kept(np.asarray(x, np.float32), step.dtypes[0], step.results[0]) for x in _exact(step, operands)]


def _exact(step: Step, operands: Sequence[AnyArray]) -> list[AnyArray]:
    found = EXACT[step.op](step.attrs, [in_f32(x).astype(np.float64) for x in operands])
    return [np.asarray(r.value if isinstance(r, Computed) else r) for r in found]


def _averaged(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """Sums of 32 bits, which no pool of a plan leaves out, rounded once."""
    return [step.units.packed(x.astype(np.float32), step.results[0]) for x in _exact(step, operands)]


def _upsample(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    nearest = str(step.attrs.get("mode", "nearest")) == "nearest"
    return (_selected if nearest else _averaged)(step, operands)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(EXACT, _averaged),
    "ttnn.max_pool2d": _selected,
    "ttnn.upsample": _upsample,
}
