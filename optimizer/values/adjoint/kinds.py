"""What rules take and give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.values.reference.kinds import Array, Attrs

Gradients = Sequence[Array | None]
"""One per result of an op, in the result's shape; None where nothing depends on the result."""
Transposed = Callable[[Gradients], Mapping[int, Array]]
"""Gradients of the results -> those of the operands that are asked for; a linear function."""


@dataclass(frozen=True)
class Call:
    """One op with its arrays: where it is linearised."""

    op: str
    attrs: Attrs
    """Defaults included."""
    operands: Sequence[Array]
    results: Sequence[Array]
    wanted: frozenset[int]
    """Positions of the operands whose gradients are asked for."""


Rule = Callable[[Call], Transposed]
"""What is needed for several gradients is worked out when the op is linearised."""
Maps = Mapping[int, Callable[[Array], Array]]
"""Operand -> its gradient from that of the op's one result."""


def one_result(rule: Callable[[Call], Maps]) -> Rule:
    """The rule of an op that has one result, from its functions by operand."""

    def linearised(call: Call) -> Transposed:
        maps = rule(call)

        def transposed(gradients: Gradients) -> Mapping[int, Array]:
            (gradient,) = gradients
            if gradient is None:
                return {}
            return {k: maps[k](gradient) for k in sorted(call.wanted) if k in maps}

        return transposed

    return linearised


def nothing(call: Call) -> Transposed:
    """The rule of an op whose result does not follow small changes of its operands: comparisons, indices, counts."""
    del call
    return _no_gradients


def _no_gradients(gradients: Gradients) -> Mapping[int, Array]:
    del gradients
    return {}


def summed_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of an operand that was broadcast from this shape."""
    extra = gradient.ndim - len(shape)
    axes = (*range(extra), *(k + extra for k, n in enumerate(shape) if n == 1 and gradient.shape[k + extra] != 1))
    return gradient.sum(axis=axes, keepdims=True).reshape(shape) if axes else gradient.reshape(shape)
