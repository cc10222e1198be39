"""What every op of the vocabulary computes, in float64 on plain arrays: one function an op, in `optimizer.families`.

Written from the ops' mathematical definitions and TTNN's documented conventions (channels-last convolutions on
[1, 1, N*H*W, C], `torch.gather`, ...); nothing is shared with what prices, places or emits them.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer import families
from optimizer.errors import ExecutionError
from optimizer.opmodel.base import OpQuery
from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule


def reference(query: OpQuery, operands: Sequence[Array]) -> list[Computed]:
    """The results of a query for these operands. ExecutionError when there is no reference for the op.

    A matmul with a program config states its activation there (`fused_activation`), not in the call.
    """
    fused = getattr(query.config, "fused_activation", None)
    return computed(query.op, {**query.attr, "activation": fused} if fused else query.attr, operands)


def computed(op: str, attrs: Attrs, operands: Sequence[Array], digits: str = "float64") -> list[Computed]:
    """The results of an op with all its attributes, defaults included, in numbers of so many digits."""
    rule: Rule | None = families.entry("RULES", op)
    if rule is None:
        raise ExecutionError(f"there is no reference for the values of {op}", node=op)
    results = rule(attrs, [x.astype(digits, copy=False) if x.dtype.kind == "f" else x for x in operands])
    return [r if isinstance(r, Computed) else Computed.exactly(r) for r in results]
