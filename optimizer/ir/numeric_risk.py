"""Patterns of a graph that bf16 cannot carry, by the op at which they show.

bf16 holds 8 significant bits: whole numbers are exact up to 256, and a difference of near-equal numbers keeps nothing
of what the rounding took. Each pattern here is plain from the graph alone; whether it does harm depends on the data.
Values of 32-bit floats are no risk. Ops that only move elements or change layouts are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import Elements, short_name
from optimizer.ir.vocabulary import opdef

MOST_TERMS = 4096
"""Elements of a sum above which adding one of average size to it changes little or nothing in 8 bits."""
MOST_PRODUCTS = 8192
"""Products along K above which sums of one sign are off by more than 0.8 %: their partial sums are kept in bf16."""
MOST_FACTORS = 16
"""Elements of a product from which on its error may exceed 6 %."""
EXACT_TO = 256
"""Greatest whole number up to which bf16 holds every one."""
_WIDE = (DType.F32, DType.I32, DType.U32)
_SELECTING = ("ttnn.topk", "ttnn.sort", "ttnn.argmax")
_JUMPING = tuple(f"ttnn.{name}" for name in ("eq", "ne", "lt", "gt", "le", "ge", "floor", "ceil", "round", "trunc"))


@dataclass(frozen=True)
class NumericRisk:
    """One place where a pattern occurs."""

    kind: str
    op: str
    """Id of the op at which it shows."""
    because: str
    """A sentence for a person, which names the op as its model does."""


def numeric_risks(graph: Graph) -> tuple[NumericRisk, ...]:
    """Every risk of a graph, in the order of its ops; what is computed of weights is not looked at."""
    found = []
    for op in graph.ops():
        if op.inputs and graph.is_const_eval(op):
            continue
        if op.outputs and (graph.value(op.outputs[0]).dtype not in _WIDE or op.op in _SELECTING):
            for kind, look in _PATTERNS.items():
                found += [NumericRisk(kind, op.id, f"{op.name or op.id}: {why}") for why in look(graph, op)]
    return tuple(found)


# -- reading ---------------------------------------------------------------------------------------------
def _maker(graph: Graph, value_id: str) -> Op | None:
    """The op that computes a value's elements, movement left out."""
    op = graph.producer(value_id)
    while op is not None and opdef(op.op).elements is Elements.KEPT:
        op = graph.producer(op.inputs[0])
    return op


def _origin(graph: Graph, value_id: str) -> str:
    """The value whose elements this one has, movement left out."""
    op = graph.producer(value_id)
    while op is not None and opdef(op.op).elements is Elements.KEPT:
        value_id = op.inputs[0]
        op = graph.producer(value_id)
    return value_id


def _made_by(graph: Graph, value_id: str, *names: str) -> Op | None:
    op = _maker(graph, value_id)
    return op if op is not None and short_name(op.op) in names else None


def _squared(graph: Graph, value_id: str) -> str | None:
    """What a value is the square of."""
    op = _made_by(graph, value_id, "square", "multiply", "pow_scalar")
    if op is None:
        return None
    twice = len(op.inputs) == 2 and _origin(graph, op.inputs[0]) == _origin(graph, op.inputs[1])
    second = op.op == "ttnn.pow_scalar" and op.attrs.get("exponent") == 2
    return _origin(graph, op.inputs[0]) if op.op == "ttnn.square" or twice or second else None


def _terms(graph: Graph, op: Op) -> int:
    """Elements of the operand per element of the result."""
    return prod(graph.value(op.inputs[0]).shape) // max(1, prod(graph.value(op.outputs[0]).shape))


# -- patterns --------------------------------------------------------------------------------------------
def _variance(graph: Graph, op: Op) -> Iterator[str]:
    """mean(x^2) - mean(x)^2"""
    if op.op != "ttnn.subtract" or len(op.inputs) != 2:
        return
    squares = _made_by(graph, op.inputs[0], "mean")
    mean = _squared(graph, op.inputs[1])
    x = None if squares is None else _squared(graph, squares.inputs[0])
    means = None if mean is None else _made_by(graph, mean, "mean")
    if x is not None and means is not None and _origin(graph, means.inputs[0]) == x:
        yield (
            "the variance is the difference of two means, which bf16 rounds to 1/256 of their size each: where the "
            "mean is larger than the spread nothing of it is left, and it may be negative"
        )


def _whole_numbers(graph: Graph, op: Op) -> Iterator[str]:
    """Pixel coordinates, positions: constants above 256 that bf16 rounds, and counts that grow so far."""
    for v in dict.fromkeys(op.inputs):
        value = graph.value(v)
        largest = max((abs(n) for n in value.data or () if _is_rounded(n)), default=0)
        if value.dtype not in _WIDE and largest:
            yield (
                f"'{v}' holds whole numbers up to {int(largest)}; above {EXACT_TO} bf16 rounds them to even numbers or "
                "coarser, so that neighbours become one"
            )
    if op.op == "ttnn.cumsum":
        shape = graph.value(op.inputs[0]).shape
        length = shape[int(opdef(op.op).full_attrs(op)["dim"])]  # type: ignore[arg-type]
        if length > EXACT_TO:
            yield f"adds up {length} elements one by one in bf16, in which counts stop being exact at {EXACT_TO}"
    if op.op == "ttnn.arange":
        count = graph.value(op.outputs[0]).volume
        if count > EXACT_TO:
            yield f"counts to {count} in bf16, which holds whole numbers up to {EXACT_TO} only"


def _is_rounded(number: float) -> bool:
    """Whether a whole number beyond 256 has more than 8 significant bits."""
    if not (EXACT_TO < abs(number) < 2**31) or number != int(number):
        return False
    whole = abs(int(number))
    return whole % (1 << (whole.bit_length() - 8)) != 0


def _long_sum(graph: Graph, op: Op) -> Iterator[str]:
    if op.op in ("ttnn.sum", "ttnn.mean") and _terms(graph, op) > MOST_TERMS:
        kind = short_name(op.op)
        yield f"a {kind} of {_terms(graph, op)} elements in bf16: beyond {MOST_TERMS} what is added last hardly counts"


def _long_contraction(graph: Graph, op: Op) -> Iterator[str]:
    if op.op not in ("ttnn.matmul", "ttnn.linear"):
        return
    depth = graph.value(op.inputs[0]).shape[-2 if op.attrs.get("transpose_a") else -1]
    if depth > MOST_PRODUCTS:
        yield (
            f"a sum of {depth} products with partial sums in bf16: where most have one sign it is off by up to 1 %, "
            "and so is every difference of two results"
        )


def _long_product(graph: Graph, op: Op) -> Iterator[str]:
    """`ttnn.prod` of 64 elements came out 6 % too large on Tenstorrent's simulator (ttnn 0.81.1)."""
    if op.op == "ttnn.prod" and _terms(graph, op) >= MOST_FACTORS:
        yield (
            f"a product of {_terms(graph, op)} elements in bf16: every factor may add 1/256 of the result to its "
            "error, all in one direction"
        )


def _softmax(graph: Graph, op: Op) -> Iterator[str]:
    """exp(x) / sum(exp(x)) and log(sum(exp(x))), where nothing is subtracted from x first."""
    total: str | None = None
    if op.op in ("ttnn.divide", "ttnn.multiply") and len(op.inputs) == 2:
        total = op.inputs[1]
        inverse = _made_by(graph, total, "reciprocal")
        total = inverse.inputs[0] if inverse is not None and op.op == "ttnn.multiply" else total
    elif op.op == "ttnn.log":
        total = op.inputs[0]
    summed = None if total is None else _made_by(graph, total, "sum")
    grown = None if summed is None else _made_by(graph, summed.inputs[0], "exp")
    if grown is None or (op.op != "ttnn.log" and _maker(graph, op.inputs[0]) is not grown):
        return
    shift = _made_by(graph, grown.inputs[0], "subtract")
    if shift is None or len(shift.inputs) != 2 or _made_by(graph, shift.inputs[1], "max") is None:
        yield (
            "exponentials are summed without their largest exponent subtracted first: they overflow above 88, and the "
            "sum keeps 8 bits of the largest only"
        )


def _selection(graph: Graph, op: Op) -> Iterator[str]:
    if op.op not in _SELECTING:
        return
    dtype = graph.value(op.inputs[0]).dtype
    if dtype not in _WIDE:
        yield (
            "what is selected are scores in bf16: those that differ by less than 1/256 of their size may become equal "
            "or change places, so that others are taken than the model would"
        )
    elif dtype.is_float and _is_behind_products(graph, op):
        yield (
            "what is selected are scores of products, which take 11 bits of numbers in f32: those that differ by less "
            "than 1/1024 of their size may change places, so that others are taken than the model would"
        )


def _comparison(graph: Graph, op: Op) -> Iterator[str]:
    """Ops that jump: what lies within a rounding of a threshold falls on its other side."""
    if op.op in _JUMPING and graph.value(op.inputs[0]).dtype not in _WIDE and _is_behind_products(graph, op):
        yield (
            f"a {short_name(op.op)} of what layers computed in bf16: numbers nearer than 1/256 of their size to where "
            "it jumps may fall on the other side"
        )


def _is_behind_products(graph: Graph, op: Op) -> bool:
    return any(opdef(maker.op).products is not None for maker in graph.leading_to(op.inputs))


def _angle(graph: Graph, op: Op) -> Iterator[str]:
    if op.op in ("ttnn.sin", "ttnn.cos") and graph.value(op.inputs[0]).dtype not in _WIDE:
        yield "the angle is in bf16, off by 1/512 of its size: with more than some turns nothing of it is left"


_PATTERNS: dict[str, Callable[[Graph, Op], Iterator[str]]] = {
    "variance-as-difference": _variance,
    "whole-numbers-above-256": _whole_numbers,
    "long-sum": _long_sum,
    "long-contraction": _long_contraction,
    "long-product": _long_product,
    "softmax-without-maximum": _softmax,
    "selection-of-rounded-scores": _selection,
    "comparison-of-rounded-numbers": _comparison,
    "angle-in-bf16": _angle,
}
