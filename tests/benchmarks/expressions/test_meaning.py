"""The instructions of an expression compute it, for random expressions and values of their symbols."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy
from expression_runs import LANES, Symbol, emitted, run
from gfx942.expr.errors import ExpressionError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.samples import examples

SYMBOLS = [
    Symbol("tid_x", "v", 0, 255),
    Symbol("lane", "v", 0, 63),
    Symbol("signed", "v", -1000, 5000),
    Symbol("large", "v", 0, 2**31 - 1),
    Symbol("wgid_x", "s", 0, 4095),
    Symbol("shift", "s", -64, 64),
]
Tree = Any
"""A number, a symbol's name, or (operation, parts...)."""
DIVISORS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 10, 12, 16, 24, 48, 64, 100, 128, 255, 256, 641, 1000, 1024, 65536])
FACTORS = st.sampled_from([-1024, -64, -7, -4, -3, -1, 2, 3, 4, 5, 8, 16, 24, 64, 100, 256, 1000, 4096])


def grown(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("add"), parts, parts),
        st.tuples(st.just("add"), parts, parts, parts),
        st.tuples(st.just("scale"), FACTORS, parts),
        st.tuples(st.just("floor"), parts, DIVISORS),
        st.tuples(st.just("mod"), parts, DIVISORS),
        st.tuples(st.just("mul"), parts, parts),
        st.tuples(st.just("min"), parts, parts),
        st.tuples(st.just("max"), parts, parts),
    )


TREES = st.recursive(
    st.one_of(st.sampled_from([s.name for s in SYMBOLS]), st.integers(-70, 70), st.sampled_from([4096, 100000])),
    grown,
    max_leaves=7,
)


def as_sympy(tree: Tree) -> Any:
    if isinstance(tree, int | str):
        return sympy.sympify(tree)
    name, *parts = tree
    if name in ("floor", "mod"):
        value, divisor = as_sympy(parts[0]), parts[1]
        return sympy.floor(value / divisor) if name == "floor" else sympy.Mod(value, divisor)
    operations = {"add": sympy.Add, "scale": sympy.Mul, "mul": sympy.Mul, "min": sympy.Min, "max": sympy.Max}
    return operations[name](*map(as_sympy, parts))


def evaluate(tree: Tree, values: dict[str, int]) -> int:
    """What the tree is worth, by Python's integers."""
    if isinstance(tree, int | str):
        return values[tree] if isinstance(tree, str) else tree
    name, *parts = tree
    numbers = [evaluate(part, values) for part in parts]
    if name in ("floor", "mod"):
        return numbers[0] // numbers[1] if name == "floor" else numbers[0] % numbers[1]
    return {"add": sum, "scale": math.prod, "mul": math.prod, "min": min, "max": max}[name](numbers)


def sample(seed: int) -> dict[str, np.ndarray]:
    """Values of every symbol for 64 lanes, its bounds among them."""
    random = np.random.default_rng(seed)
    found = {}
    for symbol in SYMBOLS:
        values = random.integers(symbol.low, symbol.high, LANES, endpoint=True)
        values[:2] = symbol.low, symbol.high
        found[symbol.name] = np.full(LANES, values[seed % 3]) if symbol.unit == "s" else random.permuted(values)
    return found


def fits(tree: Tree) -> bool:
    """Whether the emitter takes it: a value that may not fit 32 bits is refused, nothing else."""
    try:
        emitted(SYMBOLS, lambda emitter: emitter.emit(as_sympy(tree)))
    except ExpressionError as error:
        return error.limit != 32
    return True


def check(tree: Tree, seed: int) -> None:
    expression = as_sympy(tree)
    program, result = emitted(SYMBOLS, lambda emitter: emitter.emit(expression))
    values = sample(seed)
    expected = [evaluate(tree, {name: int(v[lane]) for name, v in values.items()}) for lane in range(LANES)]
    assert run(SYMBOLS, values, program, result).tolist() == [number % 2**32 for number in expected]


@given(TREES, st.integers(0, 1000))
@settings(max_examples=examples(80), deadline=None)
def test_random_expressions(tree: Tree, seed: int) -> None:
    assume(fits(tree))
    check(tree, seed)


@pytest.mark.parametrize("divisor", [3, 5, 7, 9, 11, 12, 25, 60, 127, 641, 1000, 65537, 2**31 - 1, 2**31 + 11])
@pytest.mark.parametrize("name", ["tid_x", "signed", "large", "wgid_x", "shift"])
def test_division_by_constants(divisor: int, name: str) -> None:
    check(("floor", name, divisor), seed=1)
    check(("mod", name, divisor), seed=1)


@pytest.mark.parametrize("divisor", [3, 7, 10, 14, 28, 641])
@pytest.mark.parametrize(("low", "high"), [(0, 2**32 - 1), (-(2**31), 2**31 - 1)])
def test_division_of_every_word(divisor: int, low: int, high: int) -> None:
    symbol = Symbol("x", "v", low, high)
    x = sympy.Symbol("x")
    program, result = emitted([symbol], lambda e: e.emit(sympy.floor(x / divisor)))
    edges = [low, high, 0, 1, divisor - 1, divisor, high - divisor, high // divisor * divisor - 1, low + 1]
    values = np.resize(np.array(edges), LANES)
    assert run([symbol], {"x": values}, program, result).tolist() == [int(v) // divisor % 2**32 for v in values]


@pytest.mark.parametrize("unit", ["v", "s"])
def test_subtraction_of_a_multiple_is_no_or(unit: str) -> None:
    symbols = [Symbol("wgid_x", "s", 0, 255), Symbol("tid_x", unit, 0, 63)]
    wgid, tid = sympy.symbols("wgid_x tid_x")
    program, result = emitted(symbols, lambda e: e.emit(256 * wgid - 4 * tid))
    values = {"wgid_x": np.full(LANES, 3), "tid_x": np.arange(LANES) if unit == "v" else np.full(LANES, 9)}
    found = run(symbols, values, program, result)
    assert found.tolist() == ((768 - 4 * values["tid_x"]) % 2**32).tolist()
