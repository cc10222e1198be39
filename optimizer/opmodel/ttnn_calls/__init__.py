"""How TTNN 0.81 spells each op as a Python call: one table for checking and for emitting.

`call_text` gives the exact call of a query as a Python expression over `ttnn`, the device and the names of
the operands. The tt-metal backend evaluates that text, the emitted program contains it: what is checked is
what is emitted. The families are in modules beside this one; each maps op names to writers in `CALLS`.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.errors import OpModelError, TtoptError
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import InPlaceConfig
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.ttnn_calls import conv_pool, eltwise, movement, products, reduction
from optimizer.opmodel.ttnn_calls.text import Site, Writer, dtype_text, layout_text, literal, memory_config_text
from optimizer.process.plugins import added_tables, plugin_failure

__all__ = ["asked_inputs", "call_text", "called_ops", "dtype_text", "layout_text", "literal", "memory_config_text"]

_FAMILIES = (eltwise, products, conv_pool, reduction, movement)
_TABLE: dict[str, Writer] = {op: write for family in _FAMILIES for op, write in family.CALLS.items()}


def asked_inputs(query: OpQuery) -> tuple[TensorSpec, ...]:
    """Operands as the call takes them on every run: weights that are prepared once are in their prepared form."""
    return reduction.prepared_inputs(query) if query.op == "ttnn.group_norm" else query.inputs


def called_ops() -> tuple[str, ...]:
    """Query ops that have a TTNN call, sorted."""
    return tuple(sorted(_TABLE))


def call_text(query: OpQuery, operands: Sequence[str], device: str = "device") -> str:
    """The call of a query, as one line of Python.

    `operands` are the names of the variables that hold the operands, in order. OpModelError names the op
    when TTNN has no such call or when an attribute cannot be said in it.
    """
    write = _TABLE.get(query.op) or added_tables("CALLS", _TABLE).get(query.op)
    if write is None:
        raise OpModelError(f"there is no TTNN call for '{query.op}'", node=query.op)
    if isinstance(query.config, InPlaceConfig) and not opdef(query.op).in_place:
        raise OpModelError(f"{query.op} cannot write its result into an operand", node=query.op)
    try:
        return write(Site(query, tuple(operands), device))
    except TtoptError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise plugin_failure(error) or OpModelError(
            f"{query.op} cannot be written as a TTNN call: {error}", node=query.op
        ) from error
