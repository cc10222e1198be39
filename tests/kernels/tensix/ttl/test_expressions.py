"""Python's operators on blocks: the block ops that they become, and what those compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sample_kernels import one_block

from optimizer.errors import StateError
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.witness.reference import evaluate
from optimizer.kernels.tensix.witness.whole_tensors import witness

Body = Callable[[ttl.Block, ttl.Block], ttl.Block]

OPERATORS: dict[str, tuple[str, ...]] = {
    "x + y": ("add",),
    "x - 2": ("sub_scalar",),
    "2 - x": ("rsub_scalar",),
    "2 + x": ("add_scalar",),
    "3 * x": ("mul_scalar",),
    "x / y": ("div",),
    "x / 2": ("div_scalar",),
    "1 / x": ("recip",),
    "2 / x": ("fill", "div"),
    "-x": ("neg",),
    "+x": (),
    "abs(x)": ("abs",),
    "x ** 2": ("square",),
    "x ** 1 + 0": ("add_scalar",),
    "x ** 0": ("fill",),
    "x ** 7": ("square", "mul", "square", "mul"),
    "x ** -1": ("recip",),
    "x ** -2": ("square", "recip"),
    "x ** 0.5": ("sqrt",),
    "x ** -0.5": ("rsqrt",),
    "x ** 1.5": ("fill", "pow"),
    "x ** 17": ("fill", "pow"),
    "x ** y": ("pow",),
    "2 ** x": ("exp2",),
    "3 ** x": ("fill", "pow"),
    "x < y": ("lt",),
    "x <= y": ("le",),
    "x > y": ("gt",),
    "x >= y": ("ge",),
    "x == y": ("eq",),
    "x != y": ("ne",),
    "x < 0": ("ltz",),
    "x == 0": ("eqz",),
    "x >= 1": ("fill", "ge"),
    "1 < x": ("fill", "gt"),
}


def written_as(text: str) -> Body:
    """What Python makes of a text of the table."""
    return lambda x, y: eval(text, {"x": x, "y": y})


def built(body: Body) -> Op:
    return one_block("expression", [(1, 2), (1, 2)], [(1, 2)], body)


def block_ops(program: Op) -> tuple[str, ...]:
    names = (op.name.removeprefix("ttl.") for op in walk(program))
    return tuple(name for name in names if name in TILE_OPS)


@pytest.mark.parametrize("written", OPERATORS)
def test_an_operator_becomes_block_ops(written: str) -> None:
    assert block_ops(built(written_as(written))) == OPERATORS[written]


@pytest.mark.parametrize("written", OPERATORS)
def test_an_operator_computes_what_python_says(written: str) -> None:
    """What is written, evaluated by Python on NumPy arrays."""
    rng = np.random.default_rng(3)
    x, y = (rng.choice([0.25, 0.5, 1.0, 1.25], (32, 64)).astype(np.float32) for _ in range(2))
    (got,) = evaluate(built(written_as(written)), {"3": x, "4": y}).values()
    wanted = eval(written, {"x": x, "y": y})
    np.testing.assert_allclose(got, np.asarray(wanted, np.float32), rtol=1e-6)


@pytest.mark.parametrize("written", ["2 / x", "x ** 7", "3 ** x", "x >= 1"])
def test_an_operator_stays_in_dst(written: str) -> None:
    found = witness(built(written_as(written)), KernelOptions(), execute_cpp=False)
    assert (found.interpreter, found.beyond) == (0, 0)
    assert found.round_trips_saved == len(OPERATORS[written]) - 1


def test_where_chooses_between_blocks() -> None:
    program = built(lambda x, y: ttl.where(x < y, x, y))
    assert block_ops(program) == ("lt", "where")
    assert witness(program, KernelOptions(), execute_cpp=False).agrees


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("x if x < y else y", "a block has no truth value"),
        ("x if 0 < x < 1 else y", "a block has no truth value"),
        ("x + 'y'", "a block or a number, got a str"),
        ("x == None", "a block or a number, got a NoneType"),
        ("x * True", "a block or a number, got a bool"),
        ("x ** [2]", "a block or a number, got a list"),
    ],
)
def test_what_is_no_expression_is_refused(written: str, message: str) -> None:
    with pytest.raises(StateError, match=message):
        built(written_as(written))
