"""Conditions of `where` whose zeros may have a sign become ones and zeros without.

    %y = ttl.where(%c, %a, %b)    ->    %p = ttl.nez(%c); %y = ttl.where(%p, %a, %b)

The SFPU compares bits: of a condition that is -0 it takes the first branch. Results of comparisons have no such zeros,
nor have their broadcasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optimizer.kernels.tensix.dialect import BLOCK_PREFIX
from optimizer.kernels.tensix.ir import Names, Op, Value
from optimizer.kernels.tensix.passes import rewrite_bodies

_WHERE, _NONZERO, _BCAST = f"{BLOCK_PREFIX}where", f"{BLOCK_PREFIX}nez", f"{BLOCK_PREFIX}bcast_"
PLAIN = frozenset(
    f"{BLOCK_PREFIX}{name}"
    for name in (
        "abs", "eq", "eqz", "ge", "gez", "gt", "gtz", "isinf", "isnan", "le", "lez", "lt", "ltz", "ne", "nez",
        "signbit",
    )
)  # fmt: skip
"""Ops whose results hold no zero with a sign."""


def plain_conditions(program: Op) -> Op:
    """Every compute thread, loop and condition."""
    names = Names(program)
    return rewrite_bodies(program, lambda ops: _plain(ops, names))


def _plain(ops: tuple[Op, ...], names: Names) -> tuple[Op, ...]:
    made = {v.name: op for op in ops for v in op.results}
    plain: dict[str, Value] = {}
    found: list[Op] = []
    for op in ops:
        if op.name == _WHERE and not _is_plain(op.operands[0], made):
            condition, *branches = op.operands
            if condition.name not in plain:
                plain[condition.name] = names.value(condition.type, "plain")
                found.append(Op(_NONZERO, (condition,), (plain[condition.name],)))
            op = replace(op, operands=(plain[condition.name], *branches))
        found.append(op)
    return tuple(found)


def _is_plain(value: Value, made: Mapping[str, Op]) -> bool:
    """Whether it is known here that no zero of a value has a sign."""
    op = made.get(value.name)
    while op is not None and op.name.startswith(_BCAST):
        op = made.get(op.operands[0].name)
    return op is not None and op.name in PLAIN
