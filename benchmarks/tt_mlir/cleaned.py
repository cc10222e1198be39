"""A plan's ops after our own clean-ups: what the importer would have made of the same model.

First the plan's spellings become ours (activations as ops, numbers as attributes, means as such). Then the importer's
passes run, between two that only plans need: residuals that leave and enter [1, 1, N*H*W, C] stay there, and rows that
the caller hands over are reshaped before they are tiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from optimizer.families.elementwise.rows import BINARY, UNARY
from optimizer.importers.passes import run_passes
from optimizer.importers.passes.rewriting import close, emit, finish, fuse, is_scalar_op
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.graph import Attr, Graph, Op, Value, ValueKind
from tt_mlir.program import RETILE

_COMMUTATIVE = frozenset(f"ttnn.{name}" for name in ("add", "multiply", "maximum", "minimum"))
_POWERS = {2.0: "ttnn.square", 0.5: "ttnn.sqrt", -0.5: "ttnn.rsqrt", -1.0: "ttnn.reciprocal"}
_ELEMENTWISE = frozenset(f"ttnn.{name}" for name in (*UNARY, *BINARY))
_ROW_BY_ROW = _ELEMENTWISE | {"ttnn.layer_norm", "ttnn.rms_norm"}
_BINARY = frozenset(f"ttnn.{name}" for name in BINARY)


def cleaned(graph: Graph) -> tuple[Graph, dict[str, int]]:
    """A copy of a stripped graph, cleaned up, and the rewrites by name."""
    graph = graph.copy()
    counts = {"spelled-out": 0, "flat-residuals": 0, "rows-first": 0}
    counts["spelled-out"] = sum(_each(graph, visit) for visit in (_spell_out, _scalar_operand, _mean))
    counts["flat-residuals"] = _each(graph, _flat_residual)
    counts.update(run_passes(graph))
    counts["rows-first"] = _each(graph, _reshape_rows)
    graph.prune()
    graph.sort()
    return graph, {name: count for name, count in counts.items() if count}


def _each(graph: Graph, visit: Callable[[Graph, Op], int]) -> int:
    done = 0
    for op in list(graph.ops()):
        if graph.has_op(op.id):
            done += visit(graph, graph.op(op.id))
    return finish(graph, done)


# -- what the plan fused -----------------------------------------------------------------------------------
def _spell_out(graph: Graph, op: Op) -> int:
    """An op with activations as ops of their own."""
    before = [_names(op.attrs.get(name)) for name in OPERAND_ACTIVATIONS]
    after = _names(op.attrs.get("activation")) + _names(op.attrs.get("activations"))
    if not after and not any(before):
        return 0
    inputs = list(op.inputs)
    for index, names in enumerate(before):
        for name in names:
            inputs[index] = emit(graph, op, name, [inputs[index]], {})
    attrs = {k: v for k, v in op.attrs.items() if k not in ("activation", "activations", *OPERAND_ACTIVATIONS)}
    result = op.outputs[0]
    outputs = op.outputs
    if after:
        value = graph.value(result)
        bare = graph.add_value(replace(value, id=graph.fresh_id(f"{result}_bare")))
        outputs = (bare.id,)
    graph.remove_op(op.id)
    graph.add_op(replace(op, inputs=tuple(inputs), outputs=outputs, attrs=attrs), at=op.id)
    current = outputs[0]
    for index, name in enumerate(after):
        last = index == len(after) - 1
        current = emit(graph, op, name, [current], {}, output=result if last else None)
    return 1


def _names(value: Attr) -> tuple[str, ...]:
    """Activations of an attribute that holds one, several, or none."""
    if not value:
        return ()
    return tuple(str(name) for name in value) if isinstance(value, tuple) else (str(value),)


def _scalar_operand(graph: Graph, op: Op) -> int:
    """A tensor of one known number as the number."""
    if op.op not in _BINARY or len(op.inputs) != 2 or op.inputs[0] == op.inputs[1]:
        return 0
    for index in (1, 0):
        number = graph.value(op.inputs[index])
        other = graph.value(op.inputs[1 - index])
        grows = graph.value(op.outputs[0]).shape != other.shape
        if number.data is None or number.volume != 1 or grows or (index == 0 and op.op not in _COMMUTATIVE):
            continue
        if op.op == "ttnn.pow":
            new = _power(replace(op, inputs=(other.id,)), number.data[0])
        else:
            new = replace(op, inputs=(other.id,), attrs={**op.attrs, "scalar": number.data[0]})
        graph.replace_op(new)
        return 1
    return 0


def _power(op: Op, exponent: float) -> Op:
    if exponent in _POWERS:
        return replace(op, op=_POWERS[exponent], attrs={})
    return replace(op, op="ttnn.pow_scalar", attrs={"exponent": exponent})


def _mean(graph: Graph, op: Op) -> int:
    """A sum times one over the number of its elements."""
    if op.op != "ttnn.sum":
        return 0
    scaled = graph.only_use(op.outputs[0])
    if scaled is None or not is_scalar_op(scaled, "multiply", "divide"):
        return 0
    number = float(scaled.attrs["scalar"])  # type: ignore[arg-type]
    share = number if scaled.op == "ttnn.multiply" else 1 / number if number else 0.0
    if not close(share * graph.value(op.inputs[0]).volume, graph.value(op.outputs[0]).volume):
        return 0
    fuse(graph, scaled, op, "mean", op.inputs, op.attrs, [])
    return 1


# -- residuals ---------------------------------------------------------------------------------------------
def _flat_residual(graph: Graph, op: Op) -> int:
    """An op that works row by row, on reshaped results of convolutions, works on the results themselves."""
    shape = graph.value(op.outputs[0]).shape
    if op.op not in _ROW_BY_ROW or len(shape) != 4:
        return 0
    whole = [v for v in op.inputs if not _one_row(graph.value(v).shape)]
    if any(graph.value(v).shape != shape for v in whole):
        return 0
    flats = {v: _flat_source(graph, v) for v in whole}
    flat = next((graph.value(v).shape for v in flats.values() if v is not None), None)
    if flat is None or flat == shape:
        return 0
    for v, source in flats.items():
        flats[v] = source or emit(graph, op, "reshape", [v], {"shape": flat})
    operands = [flats.get(v) or v for v in op.inputs]
    value = graph.value(op.outputs[0])
    result = graph.add_value(Value(graph.fresh_id(f"{value.id}_flat"), flat, value.dtype, ValueKind.ACTIVATION))
    graph.remove_op(op.id)
    graph.add_op(replace(op, inputs=tuple(operands), outputs=(result.id,)), at=op.id)
    emit(graph, op, "reshape", [result.id], {"shape": shape}, output=value.id)
    return 1


def _one_row(shape: tuple[int, ...]) -> bool:
    """Whether a tensor is one number per channel, or one in all: the same for every row."""
    return math.prod(shape[:-1]) == 1


def _flat_source(graph: Graph, value_id: str) -> str | None:
    """The flat [1, 1, N*H*W, C] tensor of which a value is a reshape that keeps the last dim."""
    above = graph.produced_by(value_id, "reshape")
    if above is None:
        return None
    shape = graph.value(above.inputs[0]).shape
    flat = len(shape) == 4 and shape[:2] == (1, 1) and shape[-1] == graph.value(value_id).shape[-1]
    return above.inputs[0] if flat else None


# -- rows --------------------------------------------------------------------------------------------------
def _reshape_rows(graph: Graph, op: Op) -> int:
    """Rows tiled and then reshaped are reshaped first, which moves nothing while the rows stay whole."""
    if op.op != "ttnn.reshape":
        return 0
    tiled = graph.producer(op.inputs[0])
    if tiled is None or tiled.op != RETILE or graph.value(tiled.inputs[0]).kind is not ValueKind.INPUT:
        return 0
    source, target = graph.value(tiled.inputs[0]), graph.value(op.outputs[0])
    if source.shape[-1] != target.shape[-1]:
        return 0
    rows = graph.add_value(replace(target, id=graph.fresh_id(f"{target.id}_rows"), kind=ValueKind.ACTIVATION))
    graph.remove_op(op.id)
    graph.add_op(replace(op, inputs=(source.id,), outputs=(rows.id,)), at=op.id)
    emit(graph, op, "to_layout", [rows.id], dict(tiled.attrs), output=target.id)
    if not graph.is_read(tiled.outputs[0]):
        graph.remove_op(tiled.id)
    return 1
