"""Attention that exporters spell out -> scaled_dot_product_attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from optimizer.importers.passes.rewriting import (
    Pass,
    Shape,
    computes_otherwise,
    drop_dead,
    emit,
    fuse,
    is_scalar_op,
    origins,
    other_operand,
    permute,
    permuted_dims,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Attr, Graph, Op, ValueKind
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE

MASKED = -1e4
"""A score this low or lower counts as masked out."""


@rewrites_each("repeat-heads", "repeat")
def repeat_heads(graph: Graph, op: Op) -> int:
    """A dim of one repeated and then reshaped -> repeat_interleave, the form in which attention absorbs it."""
    after = graph.only_use(op.outputs[0])
    repeats = tuple(op.attr("repeats"))
    grown = [i for i, r in enumerate(repeats) if r != 1]
    if after is None or after.op != "ttnn.reshape" or len(grown) != 1 or grown[0] == 0:
        return 0
    axis, times = grown[0], repeats[grown[0]]
    spread = graph.value(op.inputs[0]).shape
    if spread[axis] != 1:
        return 0
    narrow = reshape(graph, op, op.inputs[0], (*spread[:axis], *spread[axis + 1 :]))
    repeated = emit(graph, op, "repeat_interleave", [narrow], {"repeats": times, "dim": axis - 1})
    fuse(graph, op, op, "reshape", [repeated], {"shape": graph.value(op.outputs[0]).shape}, [])
    return 1


@dataclass
class Scores:
    """What lies between the softmax and the product of queries and keys."""

    product: Op
    scale: float = 1.0
    masks: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


def attention(causal: frozenset[str]) -> Pass:
    """softmax(Q K^T * scale + mask) V -> scaled_dot_product_attention; `causal` names parameters that are causal masks.

    The scale may sit on Q, on K or on the scores; masks may be added or chosen by `where`; the guard
    where(isnan(p), 0, p) goes (rows whose keys are all masked then average the values instead of
    giving zero). Repeated key/value heads are absorbed.
    """

    @rewrites_each("attention", "softmax")
    def attend(graph: Graph, softmax: Op) -> int:
        """Spelled-out attention as one op."""
        shape = graph.value(softmax.inputs[0]).shape
        dim = opdef(softmax.op).attr(softmax, "dim")
        if not 2 <= len(shape) <= 4 or dim not in (-1, len(shape) - 1):
            return 0
        scores = _scores(graph, softmax)
        output = _output(graph, softmax)
        if scores is None or output is None:
            return 0
        # masks may be added where batch and heads are apart although the softmax sees them merged
        apart = [s for op in scores.ops if len(s := graph.value(op.outputs[0]).shape) == 4]
        full = apart[0] if apart else (*(1,) * (4 - len(shape)), *shape)
        return _rewrite(graph, softmax, scores, output, full, causal)

    return attend


def _scores(graph: Graph, softmax: Op) -> Scores | None:
    """Walk from the softmax's operand down to the product of queries and keys."""
    found = Scores(softmax)
    current = softmax.inputs[0]
    for _ in range(8):
        op = graph.producer(current)
        if op is None or graph.only_use(current) is None:
            return None
        if op.op == "ttnn.matmul" and not op.attrs.get("activation"):
            found.product = op
            return found
        found.ops.append(op)
        if is_scalar_op(op, "multiply"):
            found.scale *= float(op.attrs["scalar"])  # type: ignore[arg-type]
            current = op.inputs[0]
        elif op.op == "ttnn.reshape" and _same_matrix(graph, op):
            current = op.inputs[0]
        elif op.op == "ttnn.add" and len(op.inputs) == 2 and found.scale == 1.0:
            inner = _score_operand(graph, op)
            if inner is None:
                return None
            found.masks.append(other_operand(op, inner))
            current = inner
        elif op.op == "ttnn.where" and found.scale == 1.0:
            inner = _masked_fill(graph, op, found)
            if inner is None:
                return None
            current = inner
        else:
            return None
    return None


def _score_operand(graph: Graph, op: Op) -> str | None:
    """Which operand of an addition leads to the scores; the other is a mask."""
    full = graph.value(op.outputs[0]).shape
    for value_id in op.inputs:
        if graph.value(value_id).shape != full:
            continue
        current: str = value_id
        for _ in range(6):
            below = graph.producer(current)
            if below is None or graph.only_use(current) is None:
                break
            if below.op == "ttnn.matmul":
                return value_id
            if below.op not in ("ttnn.multiply", "ttnn.reshape", "ttnn.add", "ttnn.where"):
                break
            current = below.inputs[-1] if below.op == "ttnn.where" else below.inputs[0]
    return None


def _masked_fill(graph: Graph, op: Op, found: Scores) -> str | None:
    """where(c, scores, low) or where(c, low, scores): the mask becomes an addition."""
    if len(op.inputs) != 2:
        return None
    low = op.attrs.get("y") if op.attrs.get("y") is not None else op.attrs.get("x")
    if low is None or float(low) > MASKED or graph.value(op.inputs[1]).shape != graph.value(op.outputs[0]).shape:  # type: ignore[arg-type]
        return None
    swapped = op.attrs.get("y") is None
    attrs = {"x": low, "y": 0.0} if swapped else {"x": 0.0, "y": low}
    found.masks.append(emit(graph, op, "where", [op.inputs[0]], attrs))
    return op.inputs[1]


def _output(graph: Graph, softmax: Op) -> tuple[Op, list[Op]] | None:
    """The product with the values, and the ops between it and the softmax."""
    current = softmax.outputs[0]
    between: list[Op] = []
    readers = graph.consumers(current)
    guards = [op for op in readers if op.op == "ttnn.isnan"]
    if len(readers) == 2 and len(guards) == 1:
        choice = graph.only_use(guards[0].outputs[0])
        fits = choice is not None and choice.op == "ttnn.where" and choice.attrs.get("x") == 0
        if choice is None or not fits or choice.inputs != (guards[0].outputs[0], current):
            return None
        between += [guards[0], choice]
        current = choice.outputs[0]
    for _ in range(3):
        op = graph.only_use(current)
        if op is None:
            return None
        if op.op == "ttnn.matmul" and op.inputs[0] == current and not op.attrs.get("transpose_a"):
            return (op, between) if op.inputs[1] != current and not op.attrs.get("transpose_b") else None
        if op.op != "ttnn.reshape" or not _same_matrix(graph, op):
            return None
        between.append(op)
        current = op.outputs[0]
    return None


def _rewrite(
    graph: Graph, softmax: Op, scores: Scores, output: tuple[Op, list[Op]], full: Shape, causal: frozenset[str]
) -> int:
    root, guard = output
    b, h, sq, sk = full
    product = scores.product
    q, k, v = product.inputs[0], product.inputs[1], root.inputs[1]
    d = graph.value(v).shape[-1]
    if product.attrs.get("transpose_a") or graph.value(q).shape[-1] != d:
        return 0
    if any(prod(graph.value(t).shape) != b * h * n * d for t, n in ((q, sq), (k, sk), (v, sk))):
        return 0
    if len(scores.masks) > 2 or not all(_covers(graph.value(m).shape, full) for m in scores.masks):
        return 0
    named = replace(root, origin=origins([product, *reversed(scores.ops), softmax, *guard, root]))
    scale = scores.scale * _strip_scale(graph, q, product) * _strip_scale(graph, k, product)
    product = graph.op(product.id)
    q = reshape(graph, named, product.inputs[0], (b, h, sq, d))
    keys = product.inputs[1]
    if product.attrs.get("transpose_b"):
        keys = reshape(graph, named, keys, (b, h, sk, d))
    else:
        keys = _transposed(graph, named, reshape(graph, named, keys, (b, h, d, sk)))
    operands = [q, _without_repeat(graph, keys, 1), reshape(graph, named, v, (b, h, sk, d))]
    operands[2] = _without_repeat(graph, operands[2], 1)
    if graph.value(operands[1]).shape[1] != graph.value(operands[2]).shape[1]:
        operands[1:] = [keys, reshape(graph, named, v, (b, h, sk, d))]
    attrs = {"is_causal": False, "scale": scale}
    mask = _mask(graph, named, scores.masks, full)
    if mask is not None and sq == sk and _is_causal(graph, mask, causal):
        attrs["is_causal"] = True
    elif mask is not None:
        operands.append(_explicit(graph, named, mask, full))
    absorbed = [scores.product, *reversed(scores.ops), softmax, *guard]
    shape = graph.value(root.outputs[0]).shape
    if d % TILE:
        result = _with_padded_heads(graph, named, operands, attrs, d)
        fuse(graph, root, root, "reshape", [result], {"shape": shape}, absorbed)
    elif shape == (b, h, sq, d):
        fuse(graph, root, root, "scaled_dot_product_attention", operands, attrs, absorbed)
    else:
        result = emit(graph, named, "scaled_dot_product_attention", operands, attrs)
        fuse(graph, root, root, "reshape", [result], {"shape": shape}, absorbed)
    return 1


def _mask(graph: Graph, like: Op, masks: list[str], full: Shape) -> str | None:
    if not masks:
        return None
    lifted = [reshape(graph, like, m, _lift(graph.value(m).shape, full)) for m in reversed(masks)]
    return lifted[0] if len(lifted) == 1 else emit(graph, like, "add", lifted, {})


def _is_causal(graph: Graph, mask: str, causal: frozenset[str]) -> bool:
    value = graph.value(mask)
    if mask in causal or (value.kind is ValueKind.CONSTANT and _causal_data(graph, mask, boolean=False)):
        return prod(value.shape[:-2]) == 1
    op = graph.producer(mask)
    if op is None or not op.inputs:
        return False
    if op.op == "ttnn.reshape":
        return prod(value.shape[:-2]) == 1 and _is_causal(graph, op.inputs[0], causal)
    chosen = op.op == "ttnn.where" and len(op.inputs) == 1 and op.attrs.get("x") == 0
    if not chosen or float(op.attrs.get("y") or 0.0) > MASKED:  # type: ignore[arg-type]
        return False
    condition = graph.value(_before_reshapes(graph, op.inputs[0]))
    known = condition.id in causal or _causal_data(graph, condition.id, boolean=True)
    return known and prod(condition.shape[:-2]) == 1


def _with_padded_heads(graph: Graph, like: Op, operands: list[str], attrs: Mapping[str, Attr], size: int) -> str:
    """Attention over heads widened with zeros to whole tiles, as TTNN wants them, and cut to size again.

    Zeros add nothing to the scores, and the columns they give in the result are cut off.
    """
    padding = ((0, 0), (0, 0), (0, 0), (0, -size % TILE))
    wide = [emit(graph, like, "pad", [v], {"padding": padding, "value": 0.0}) for v in operands[:3]]
    result = emit(graph, like, "scaled_dot_product_attention", wide + operands[3:], attrs)
    shape = graph.value(result).shape
    cut: dict[str, Attr] = {"begins": (0, 0, 0, 0), "ends": (*shape[:3], size), "steps": None}
    return emit(graph, like, "slice", [result], cut)


def _same_matrix(graph: Graph, op: Op) -> bool:
    """A reshape that leaves the two last dims alone."""
    return graph.value(op.inputs[0]).shape[-2:] == graph.value(op.outputs[0]).shape[-2:]


def _lift(shape: Shape, full: Shape) -> Shape:
    """A mask's shape with four dims; [B*H, Sq, Sk] masks split their first."""
    if len(shape) == 3 and shape[0] == full[0] * full[1] and full[0] != 1:
        return (*full[:2], *shape[1:])
    return (*(1,) * (4 - len(shape)), *shape)


def _covers(shape: Shape, full: Shape) -> bool:
    """Whether a mask broadcasts to the scores."""
    if len(shape) > 4:
        return False
    return all(m in (1, s) for m, s in zip(_lift(shape, full), full, strict=True))


def _explicit(graph: Graph, like: Op, mask: str, full: Shape) -> str:
    """TTNN wants a mask with both sequence dims spelled out."""
    shape = graph.value(mask).shape
    repeats = (1, 1, full[2] // shape[2], full[3] // shape[3])
    return mask if set(repeats) == {1} else emit(graph, like, "repeat", [mask], {"repeats": repeats})


def _before_reshapes(graph: Graph, value_id: str) -> str:
    op = graph.produced_by(value_id, "reshape")
    while op is not None:
        value_id = op.inputs[0]
        op = graph.produced_by(value_id, "reshape")
    return value_id


def _causal_data(graph: Graph, value_id: str, *, boolean: bool) -> bool:
    value = graph.value(value_id)
    if value.data is None or len(value.shape) < 2 or prod(value.shape[:-2]) != 1:
        return False
    rows, columns = value.shape[-2:]
    data = np.asarray(value.data).reshape(rows, columns)
    visible = data != 0 if boolean else data == 0
    hidden_low = boolean or bool(np.all(visible | (data <= MASKED)))
    return rows == columns and hidden_low and bool(np.array_equal(visible, np.tri(rows, dtype=bool)))


def _strip_scale(graph: Graph, value_id: str, reader: Op) -> float:
    """Take scalar multiplications out of the private path to a value; returns their product.

    What only moves elements between them and the reader is no longer scaled.
    """
    scale, moved = 1.0, list[str]()
    for _ in range(10):
        op = graph.producer(value_id)
        if op is None or graph.only_use(value_id) is None:
            return scale
        if is_scalar_op(op, "multiply") and not op.attrs.get("activations"):
            scale *= float(op.attrs["scalar"])  # type: ignore[arg-type]
            graph.replace_uses(value_id, op.inputs[0])
            drop_dead(graph, [op.id])
            for above in moved:
                computes_otherwise(graph, above)
            moved.clear()
        elif op.op not in ("ttnn.reshape", "ttnn.permute", "ttnn.repeat_interleave"):
            return scale
        else:
            moved.append(value_id)
        value_id = op.inputs[0]
    return scale


def _transposed(graph: Graph, like: Op, value_id: str) -> str:
    """Keys [B, H, D, S] as [B, H, S, D]; undoes a permute instead of adding one where possible."""
    op = graph.produced_by(value_id, "permute")
    if op is not None and permuted_dims(op) == (0, 1, 3, 2):
        return op.inputs[0]
    return permute(graph, like, value_id, (0, 1, 3, 2))


def _without_repeat(graph: Graph, value_id: str, dim: int) -> str:
    """Keys or values before their heads were repeated."""
    op = graph.produced_by(value_id, "repeat_interleave")
    return op.inputs[0] if op is not None and op.attr("dim") == dim else value_id
