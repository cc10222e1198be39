"""What rules take and give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Attrs = Mapping[str, Any]


@dataclass(frozen=True)
class Computed:
    """One result, and how large the terms are that it is the sum of: what rounding inside of the op is relative to."""

    value: Array
    sizes: Callable[[], tuple[Array, Array]]
    """`most` and `usual`, worked out when somebody asks: that takes longer than the result."""
    terms: int = 1
    """How many are added up."""
    roundings: float = 0
    """How often every term, or a result that is no sum, is rounded to the result's type on the way."""
    inexact: float = 0
    """Largest relative error of a factor of every term that the op only approximates."""
    before: tuple[Array, ...] = ()
    """What a product is before its bias, and with it before its activation, which programs may keep in its type."""

    @cached_property
    def _sizes(self) -> tuple[Array, Array]:
        return self.sizes()

    @property
    def most(self) -> Array:
        """Sum of the terms' magnitudes; the result's own where it is no sum."""
        return self._sizes[0]

    @property
    def usual(self) -> Array:
        """Root of the sum of their squares: how far errors of random sign add up."""
        return self._sizes[1]

    @staticmethod
    def exactly(value: Array) -> Computed:
        """A result that is no sum."""
        return Computed(value, lambda: alike(_magnitude(value)))


def alike(size: Array) -> tuple[Array, Array]:
    """Both sizes of a result of one term."""
    return size, size


def _magnitude(value: Array) -> Array:
    return np.abs(value.astype(np.float64)) if value.dtype.kind == "f" else np.zeros(value.shape)


Rule = Callable[[Attrs, Sequence[Array]], Sequence[Array | Computed]]
"""Attributes (defaults included) and operands -> results."""
Bilinear = Callable[[Array, Array], Array]


def of_products(product: Bilinear, a: Array, b: Array, terms: int) -> Computed:
    """A bilinear op with what bounds its terms."""
    return Computed(product(a, b), lambda: (product(np.abs(a), np.abs(b)), np.sqrt(product(a * a, b * b))), terms)


def of_sum(total: Callable[[Array], Array], x: Array, terms: int, share: float = 1.0) -> Computed:
    """`share` times a sum over elements of x."""
    return Computed(share * total(x), lambda: (share * total(np.abs(x)), share * np.sqrt(total(x * x))), terms)


def plus(computed: Computed, added: Array) -> Computed:
    """One more term."""
    size = np.abs(added)
    return Computed(
        computed.value + added,
        lambda: (computed.most + size, np.sqrt(computed.usual**2 + size**2)),
        computed.terms + 1,
    )


def of_one(function: Callable[[Array, Attrs], Any]) -> Rule:
    """An op with one operand and one result that is no sum."""
    return lambda attrs, operands: [np.asarray(function(operands[0], attrs))]


def unchanged(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    """An op that moves its operand as a whole."""
    del attrs
    return [operands[0]]
