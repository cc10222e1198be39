"""Where the operands and results of an op on the host stand in the foreign node's lists.

ONNX names an operand that is absent by an empty string, and a result that nobody needs likewise (an LSTM's initial
state without sequence lengths). A graph holds only what is there; two attributes of the op keep the gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.errors import GraphError
from optimizer.ir.graph import Attr, Op

ABSENT_OPERANDS = "ttopt:absent_operands"
"""Attribute of an opaque op: positions of the foreign node's operands that are not there, increasing."""
ABSENT_RESULTS = "ttopt:absent_results"
"""Attribute of an opaque op: positions of the foreign node's results that nobody needs, increasing."""


def gaps(present: Sequence[bool]) -> tuple[int, ...]:
    """Positions that are absent, but for those at the end."""
    last = max((k for k, there in enumerate(present) if there), default=-1)
    return tuple(k for k in range(last) if not present[k])


def position_attrs(operands: Sequence[bool], results: Sequence[bool]) -> dict[str, Attr]:
    """The attributes for a node with these operands and results present; none where nothing is absent between."""
    found: dict[str, Attr] = {ABSENT_OPERANDS: gaps(operands), ABSENT_RESULTS: gaps(results)}
    return {name: places for name, places in found.items() if places}


def at_their_positions[T](op: Op, attribute: str, items: Sequence[T]) -> list[T | None]:
    """The op's operands or results as the foreign node has them, None where one is absent."""
    placed: list[T | None] = list(items)
    for k in _places(op, attribute) or ():
        placed.insert(k, None)
    return placed


def check_positions(op: Op) -> None:
    """GraphError where the attributes of an opaque op are no increasing positions among its operands or results."""
    for attribute, items in ((ABSENT_OPERANDS, op.inputs), (ABSENT_RESULTS, op.outputs)):
        places = _places(op, attribute)
        if places is None or gaps([k not in places for k in range(len(items) + len(places))]) != places:
            raise GraphError(
                f"attribute '{attribute}' must list positions before the last of {len(items)} that are there, "
                f"increasing, not {op.attrs[attribute]!r}",
                node=op.id,
            )


def _places(op: Op, attribute: str) -> tuple[int, ...] | None:
    """The positions that an attribute lists, none where it is not stated; None where it is no list of them."""
    stated = op.attrs.get(attribute, ())
    places = tuple(k for k in stated if type(k) is int) if isinstance(stated, tuple) else None
    return places if places == stated else None
