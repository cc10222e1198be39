"""Elements that Tenstorrent's simulator gave, against the emulation on the same operands.

`fixtures/emulation` holds some of every result (`benchmarks/emulated_ops.py --sample`); the operands are made again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulation_cases.cases import Case, cases
from emulation_cases.measuring import unit
from emulation_cases.recording import record_path
from emulation_cases.sampling import read_sample, sampled

from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.values.emulation.emulated import emulated
from optimizer.values.emulation.kinds import AnyArray
from optimizer.values.emulation.units import converted
from optimizer.values.operands import random_operands
from optimizer.values.reference import reference
from tests.samples import sampled as some_of

SAMPLE = read_sample(Path(__file__).parents[3] / "fixtures" / "emulation" / "wormhole_b0.npz")
SIMULATED = {case.name: case for case in cases() if record_path(Path(), case).stem in SAMPLE}
EXACT_KINDS = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "squared_difference", "relu", "sqrt", "reciprocal",
    "square", "neg", "abs", "erf", "sin", "cos", "relu6", "softsign", "leaky_relu", "clamp", "pow_scalar", "layer_norm",
    "rms_norm", "rotary_embedding", "max_pool2d", "typecast", "transpose", "concat", "slice", "permute", "reshape",
    "embedding", "nlp_create_qkv_heads", "nlp_concat_heads", "max",
)  # fmt: skip
"""Ops that the emulation gives bit for bit, without approximate functions and fused ones."""
KEPT = [name for k, name in enumerate(SIMULATED) if k % 9 == 0 and "1024" not in name]
NEAR_IN_16_BITS = 0.9
"""Most that a result of 16-bit sums may be from the simulator's, as a share of the error that both have. Errors that
have nothing in common are 1.4 apart, as those of convolutions in blocks of another order are."""


def operands_of(case: Case) -> list[AnyArray]:
    """As the device held them: convolutions make their weights' element type themselves."""
    made = []
    for x, spec in zip(random_operands(case.query, 0), case.query.inputs, strict=True):
        made.append(converted(x, spec.dtype) if spec.dtype.is_float else x)
    return made


def test_the_sample_has_all_kinds() -> None:
    assert len(SIMULATED) == len(SAMPLE) > 200
    assert set(EXACT_KINDS) <= {case.kind for case in SIMULATED.values()}


@pytest.mark.parametrize("name", some_of(SIMULATED, KEPT))
def test_the_emulation_gives_what_the_simulator_gave(name: str) -> None:
    case = SIMULATED[name]
    given, operands = SAMPLE[record_path(Path(), case).stem], operands_of(case)
    whole = emulated(case.query, operands)[0]
    made, exact = sampled(whole), sampled(reference(case.query, operands)[0].value)
    if exactly(case):
        assert np.array_equal(made, given)
        return
    units = sampled(unit(whole, case.result, opdef(case.query.op).cost_class is not CostClass.ELTWISE))
    apart, error = np.abs(made - given), np.abs(given - exact)
    if case.kind == "group_norm":  # its sums are not modelled (docs/values.md)
        assert np.sqrt((apart**2).mean()) < 1.7 * np.sqrt((error**2).mean())
    elif case.kind != "upsample" and (" 16" in case.compute or case.kind == "scaled_dot_product_attention"):
        most = 1.4 if case.kind == "conv2d" else NEAR_IN_16_BITS
        assert np.sqrt((apart**2).mean()) < most * np.sqrt((error**2).mean())
    else:
        assert (apart <= (2 if opdef(case.query.op).cost_class is CostClass.ELTWISE else 3) * units).all()


def exactly(case: Case) -> bool:
    """Whether the simulator's bits are expected."""
    fused = case.query.attr.get("activations") or "approx" in case.compute
    return case.kind in EXACT_KINDS and not fused and not (case.kind == "erf" and case.result is DType.F32)
