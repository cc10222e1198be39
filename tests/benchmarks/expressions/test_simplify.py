"""Simplification by bounds, and the bits that a sum may be made an or by."""

from __future__ import annotations

import pytest
import sympy
from gfx942.expr.bounds import Bounds, Ranges
from gfx942.expr.errors import ExpressionError
from gfx942.expr.simplify import Simplifier

NAMES = {"tid": (0, 63), "a": (0, 100), "b": (0, 15), "x": (0, 10**6), "s": (-50, 50)}
SYMBOLS = {name: sympy.Symbol(name, integer=True) for name in NAMES}
RANGES = Ranges({SYMBOLS[name]: Bounds(*bounds) for name, bounds in NAMES.items()})


def parsed(text: str) -> sympy.Expr:
    return sympy.sympify(text, locals=SYMBOLS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("floor(tid/64)", "0"),
        ("Mod(tid, 64)", "tid"),
        ("Mod(64*a + b, 64)", "b"),
        ("floor((16*a + b)/64)", "floor(a/4)"),
        ("Mod(16*a + b, 64)", "16*Mod(a, 4) + b"),
        ("x - 64*floor(x/64)", "Mod(x, 64)"),
        ("64*floor(x/64) + Mod(x, 64)", "x"),
        ("floor(floor(x/4)/8)", "floor(x/32)"),
        ("floor(Mod(x, 64)/16)", "Mod(floor(x/16), 4)"),
        ("Mod(Mod(x, 96), 32)", "Mod(x, 32)"),
        ("ceiling(tid/64)", "floor((tid + 63)/64)"),
        ("ceiling((64*a + 64)/64)", "a + 1"),
        ("Max(b, -3)", "b"),
        ("Min(b, 15, x + 16)", "b"),
        ("Mod(s, 64)", "Mod(s, 64)"),
        ("floor((s + 64)/256)", "0"),
    ],
)
def test_simpler(text: str, expected: str) -> None:
    simple = Simplifier(RANGES).simplify(parsed(text))
    assert sympy.simplify(simple - parsed(expected)) == 0
    assert simple.count_ops() <= parsed(text).count_ops() + 2


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("b", 0xF),
        ("16*a", 0x7F0),
        ("16*a + b", 0x7FF),
        ("4*tid + 256", 0x1FC),
        ("b + 1", 0x1F),
        ("Mod(x, 8)*32", 0xE0),
        ("floor((64*a)/16)", 0x1FC),
        ("s", None),
        ("256*a - 4*tid", None),
        ("x*10**6", None),
    ],
)
def test_bits_that_may_be_set(text: str, mask: int | None) -> None:
    assert RANGES.bits(parsed(text)) == mask


@pytest.mark.parametrize("text", ["1/x", "sin(x)", "Mod(x, a)", "Mod(x, -4)", "unbound + 1", "x/3", "floor(sqrt(2)*x)"])
def test_what_is_no_integer_expression_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        RANGES.of(Simplifier(RANGES).simplify(parsed(text)))


def test_empty_bounds_are_refused() -> None:
    with pytest.raises(ExpressionError, match="no value"):
        Bounds(3, 2)
