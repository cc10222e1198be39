"""Every rule against differences of its reference: g . (J d) == (J^T g) . d for random directions d and gradients g."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer import families
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.layouts.memory_config import BufferType, interleaved
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.values.adjoint.kinds import Call
from optimizer.values.operands import random_operands
from optimizer.values.reference import computed
from optimizer.values.reference.kinds import Array
from tests.values.adjoint.adjoint_cases import CASES, WITHOUT_FLOATS, Case

_STEP = 2.0**-20
_COMPARES = frozenset(f"ttnn.{name}" for name in ("eq", "ne", "lt", "gt", "le", "ge"))


def linearised(case: Case, digits: str = "float64") -> Call:
    """The call with random operands, all of whose float operands are asked for."""
    attrs = opdef(case.op).full_attrs(Op("op", case.op, (), (), case.attrs))
    specs = tuple(TensorSpec(shape, case.dtype(k), interleaved(BufferType.DRAM)) for k, shape in enumerate(case.shapes))
    operands = random_operands(OpQuery(case.op, specs, tuple(sorted(attrs.items()))), 5)
    operands = [x.astype(digits) if x.dtype.kind == "f" else x for x in operands]
    wanted = frozenset(k for k, x in enumerate(operands) if x.dtype.kind == "f")
    if _COMPARES & {case.op}:
        operands[1] = operands[1] + operands[1].dtype.type(0.25)  # where both are equal the result jumps
    results = [r.value for r in computed(case.op, attrs, operands, digits)]
    results = [r.astype(digits) if r.dtype.kind == "f" else r for r in results]
    return Call(case.op, attrs, operands, results, wanted)


def moved_results(call: Call, k: int, step: Array) -> list[Array]:
    """How far the float results go from half a step before to half a step after operand k."""
    sides = []
    for sign in (0.5, -0.5):
        operands = [x + sign * step if n == k else x for n, x in enumerate(call.operands)]
        sides.append([r.value for r in computed(call.op, call.attrs, operands)])
    return [a - b for a, b in zip(*sides, strict=True)]


def test_every_op_of_the_vocabulary_has_a_rule() -> None:
    assert set(families.table("ADJOINTS")) == set(op_names())


def test_every_op_of_floats_is_in_a_case() -> None:
    assert {case.op for case in CASES} == set(op_names()) - WITHOUT_FLOATS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op.removeprefix("ttnn."))
def test_gradients_are_those_of_the_reference(case: Case) -> None:
    call = linearised(case)
    rng = np.random.default_rng(1)
    floats = [r.dtype.kind == "f" for r in call.results]
    gradients = [rng.standard_normal(r.shape) if f else None for r, f in zip(call.results, floats, strict=True)]

    found = families.table("ADJOINTS")[call.op](call)(gradients)

    for k in sorted(call.wanted):
        x = call.operands[k]
        direction = np.where(x == 0, 0.0, rng.standard_normal(x.shape))  # zeros have no errors; comparisons jump there
        differences = moved_results(call, k, _STEP * direction)
        pairs = [(g, d / _STEP) for g, d in zip(gradients, differences, strict=True) if g is not None]
        expected = sum(float((g * d).sum()) for g, d in pairs)
        size = sum(float(np.sqrt((g**2).sum() * (d**2).sum())) for g, d in pairs)
        got = float((found[k] * direction).sum()) if k in found else 0.0
        assert k not in found or found[k].shape == x.shape
        assert abs(got - expected) <= 1e-6 * max(size, 1e-3), f"operand {k}: {got} instead of {expected}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op.removeprefix("ttnn."))
def test_gradients_of_float32_are_float32(case: Case) -> None:
    call = linearised(case, "float32")
    gradients = [np.ones_like(r) if r.dtype.kind == "f" else None for r in call.results]

    found = families.table("ADJOINTS")[call.op](call)(gradients)

    assert {g.dtype.name for g in found.values()} <= {"float32"}


def test_only_what_is_asked_for_is_given() -> None:
    call = linearised(next(case for case in CASES if case.op == "ttnn.scaled_dot_product_attention"))
    some = Call(call.op, call.attrs, call.operands, call.results, frozenset({1}))

    found = families.table("ADJOINTS")[call.op](some)([np.ones_like(call.results[0])])

    assert list(found) == [1]


def test_results_that_nothing_reads_give_no_gradient() -> None:
    call = linearised(next(case for case in CASES if case.op == "ttnn.split"))

    found = families.table("ADJOINTS")[call.op](call)([None, np.ones_like(call.results[1])])

    assert found[0].sum() == call.results[1].size
    assert not found[0][:, :1].any()
