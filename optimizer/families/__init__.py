"""What every op is: a folder a family, or a file for a small one, found by this table.

An aspect of the ops of a family is a mapping by op, named as in `ASPECTS`, in the family's file or in the module of its
folder that is named there. Rooms ask for one aspect of all families, so that what reads rows loads no NumPy. Another
distribution adds a family as an entry point of `ttopt.ops`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from optimizer.errors import StateError
from optimizer.process.plugins import added_tables

FAMILIES = ("elementwise", "products", "windows", "reductions", "movement", "attention")
ASPECTS = {
    "ROWS": "rows",
    "CALLS": "calls",
    "PREPARED": "calls",
    "FAMILIES": "acceptance",
    "COSTS": "acceptance",
    "FAULTS": "faults",
    "MLIR": "mlir",
    "RULES": "reference",
    "ADJOINTS": "adjoint",
    "EMULATIONS": "emulation",
}
"""Mapping -> the module that holds it in a family's folder.

`ROWS` are `OpDef`s, `CALLS` write TTNN's call, `PREPARED` give operands as it takes them on every run, `FAMILIES` say
what tt-metal accepts and what it takes, `COSTS` build the work of ops that are not run as others of their cost class,
`FAULTS` say what is computed wrongly, `MLIR` spells an op in tt-mlir's dialect, `RULES` compute in float64, `ADJOINTS`
take gradients back, `EMULATIONS` compute as a device does.
"""


@cache
def table(aspect: str) -> dict[str, Any]:
    """One aspect of our ops that have it, by op. StateError where two families have one of the same op."""
    found: dict[str, Any] = {}
    for family in FAMILIES:
        for op, stated in aspect_of(family, aspect).items():
            if op in found:
                raise StateError(f"{aspect} of '{op}' stands in {family} and in another family")
            found[op] = stated
    return found


def entry(aspect: str, op: str) -> Any:
    """One aspect of an op, ours or of another distribution; None where it has none."""
    ours = table(aspect)
    return ours[op] if op in ours else added_tables(aspect, ours).get(op)


def aspect_of(family: str, aspect: str) -> Mapping[str, Any]:
    """One aspect of the ops of one of our families, by op; empty where none of them has it."""
    module = import_module(f"{__name__}.{family}")
    if not hasattr(module, "__path__"):
        return getattr(module, aspect, {})
    part = f"{__name__}.{family}.{ASPECTS[aspect]}"
    return getattr(import_module(part), aspect, {}) if find_spec(part) else {}
