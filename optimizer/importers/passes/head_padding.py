"""Heads that are not whole tiles wide, widened with zeros in the weights instead of at every run."""

from __future__ import annotations

from dataclasses import replace

from optimizer.importers.passes.heads import HeadSplit, head_split, permuted_dims
from optimizer.importers.passes.rewriting import (
    Shape,
    by_weights,
    drop_dead,
    emit,
    only_use,
    origins,
    produced_by,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Graph, Op


@rewrites_each("pad-heads", "pad", "slice")
def pad_heads(graph: Graph, op: Op) -> int:
    """Columns that a pad adds to projected heads come from the projection; a cut before one goes into its weights.

    product -> split into heads -> pad of the head size: the weights (and bias) get columns of zeros per head. Cut of
    the head size -> heads joined -> product: the weights get rows of zeros, which make what was cut off vanish.
    """
    return _widen(graph, op) if op.op == "ttnn.pad" else _absorb_cut(graph, op)


def _widen(graph: Graph, pad: Op) -> int:
    added = _added_columns(pad)
    turned = produced_by(graph, pad.inputs[0], "permute")
    spread = turned and produced_by(graph, turned.inputs[0], "reshape")
    split = head_split(graph, spread) if spread is not None else None
    if not added or split is None or split.keys or split.result != pad.inputs[0]:
        return 0
    product = produced_by(graph, split.source, "matmul", "linear")
    private = all(only_use(graph, v) is not None for v in (split.source, split.result))
    if product is None or not private or not _plain_weights(graph, product):
        return 0
    like = replace(product, origin=origins([product, *split.ops, pad]))
    operands = [product.inputs[0], *(_wider(graph, like, v, split, added) for v in product.inputs[1:])]
    fused = emit(graph, like, product.op.removeprefix("ttnn."), operands, product.attrs)
    size = split.size + added
    spread_wide = reshape(graph, like, fused, (split.batch, split.length, split.heads, size))
    graph.remove_op(pad.id)
    emit(graph, like, "permute", [spread_wide], {"dims": (0, 2, 1, 3)}, output=pad.outputs[0])
    drop_dead(graph, [split.ops[-1].id])
    return 1


def _absorb_cut(graph: Graph, cut: Op) -> int:
    wide, narrow = (graph.value(v).shape for v in (cut.inputs[0], cut.outputs[0]))
    turned = only_use(graph, cut.outputs[0])
    from_the_front = not any(cut.attr("begins")) and set(cut.attrs.get("steps") or (1,)) == {1}  # type: ignore[arg-type]
    if len(wide) != 4 or wide[:3] != narrow[:3] or not from_the_front or turned is None:
        return 0
    joined = only_use(graph, turned.outputs[0])
    if turned.op != "ttnn.permute" or permuted_dims(turned) != (0, 2, 1, 3) or joined is None:
        return 0
    product = only_use(graph, joined.outputs[0])
    shape = graph.value(joined.outputs[0]).shape
    if joined.op != "ttnn.reshape" or shape[-1] != narrow[1] * narrow[3] or product is None:
        return 0
    reads = product.inputs[0] == joined.outputs[0] and product.op in ("ttnn.matmul", "ttnn.linear")
    if not reads or not _plain_weights(graph, product, activation=True):
        return 0
    like = replace(product, origin=origins([cut, turned, joined, product]))
    turned_wide = emit(graph, like, "permute", [cut.inputs[0]], {"dims": (0, 2, 1, 3)})
    rows = reshape(graph, like, turned_wide, (*shape[:-1], wide[1] * wide[3]))
    weight = _taller(graph, like, product.inputs[1], narrow, wide[3] - narrow[3])
    graph.replace_op(replace(product, inputs=(rows, weight, *product.inputs[2:]), origin=like.origin))
    drop_dead(graph, [joined.id])
    return 1


def _plain_weights(graph: Graph, product: Op, *, activation: bool = False) -> bool:
    """A product by a matrix of weights as it stands; `activation`: one may follow."""
    otherwise = ("transpose_a", "transpose_b") if activation else ("transpose_a", "transpose_b", "activation")
    return not any(product.attrs.get(name) for name in otherwise) and by_weights(graph, product)


def _added_columns(pad: Op) -> int:
    """Columns of zeros behind the last dim of a pad that adds nothing else; 0 where it does."""
    *others, last = pad.attr("padding")
    plain = all(tuple(p) == (0, 0) for p in others) and last[0] == 0 and not pad.attrs.get("value")
    return int(last[1]) if plain and len(others) == 3 else 0


def _wider(graph: Graph, like: Op, value_id: str, split: HeadSplit, added: int) -> str:
    """Weights or a bias [.., H*D] with columns of zeros behind each head."""
    lead = graph.value(value_id).shape[:-1]
    apart: Shape = (*lead, split.heads, split.size)
    padding = (*((0, 0) for _ in apart[:-1]), (0, added))
    wide = emit(graph, like, "pad", [reshape(graph, like, value_id, apart)], {"padding": padding, "value": 0.0})
    return reshape(graph, like, wide, (*lead, split.heads * (split.size + added)))


def _taller(graph: Graph, like: Op, value_id: str, heads: Shape, added: int) -> str:
    """Weights [H*D, N] with rows of zeros below each head; `heads` is [B, H, S, D]."""
    columns = graph.value(value_id).shape[-1]
    apart = reshape(graph, like, value_id, (heads[1], heads[3], columns))
    tall = emit(graph, like, "pad", [apart], {"padding": ((0, 0), (0, added), (0, 0)), "value": 0.0})
    return reshape(graph, like, tall, (heads[1] * (heads[3] + added), columns))
