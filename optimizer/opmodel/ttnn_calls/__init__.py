"""How TTNN 0.81 spells each op as a Python call: one table for checking and for emitting.

`call_text` gives the exact call of a query as a Python expression over `ttnn`, the device and the names of
the operands. The tt-metal backend evaluates that text, the emitted program contains it: what is checked is
what is emitted. The writers stand in `optimizer.families`.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer import families
from optimizer.errors import OpModelError, TtoptError
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import InPlaceConfig
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.ttnn_calls.text import Site, Writer, dtype_text, layout_text, literal, memory_config_text
from optimizer.process.plugins import plugin_failure

__all__ = ["asked_inputs", "call_text", "called_ops", "dtype_text", "layout_text", "literal", "memory_config_text"]


def asked_inputs(query: OpQuery) -> tuple[TensorSpec, ...]:
    """Operands as the call takes them on every run: weights that are prepared once are in their prepared form."""
    prepared = families.entry("PREPARED", query.op)
    return query.inputs if prepared is None else prepared(query)


def called_ops() -> tuple[str, ...]:
    """Query ops that have a TTNN call, sorted."""
    return tuple(sorted(families.table("CALLS")))


def call_text(query: OpQuery, operands: Sequence[str], device: str = "device") -> str:
    """The call of a query, as one line of Python.

    `operands` are the names of the variables that hold the operands, in order. OpModelError names the op
    when TTNN has no such call or when an attribute cannot be said in it.
    """
    write: Writer | None = families.entry("CALLS", query.op)
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
