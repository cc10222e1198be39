"""Projections of activations into attention heads: Q, K and V by one product, heads split by TTNN's own ops, and those
that are not whole tiles wide widened with zeros in the weights instead of at every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import batched

from optimizer.importers.passes.heads import HeadSplit, head_split, split_by_one_op, whole_tiles
from optimizer.importers.passes.rewriting import (
    Pass,
    Shape,
    by_weights,
    drop_dead,
    emit,
    finish,
    origins,
    permuted_dims,
    reshape,
    rewrites_each,
)
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph, Op

Projection = tuple[Op, HeadSplit]
"""A product with weights, and the split of its result into heads."""


@partial(Pass, "merge-qkv")
def merge_qkv(graph: Graph) -> int:
    """Three products of one activation, each split into heads -> one product with the weights side by side.

    Two of the three must have equally many heads (keys and values; which is which does not matter to the op). Where
    only some have a bias, the others get one of zeros.
    """
    found: dict[tuple[object, ...], list[Projection]] = {}
    for op in graph.ops():
        split = head_split(graph, op)
        if split is None or not whole_tiles(split):
            continue
        product = graph.produced_by(split.source, "matmul", "linear")
        if product is None or product.attrs.get("transpose_a") or product.attrs.get("activation"):
            continue
        if graph.only_use(split.source) is not None and by_weights(graph, product):
            weight = graph.value(product.inputs[1])
            sizes = (split.batch, split.length, split.size, len(graph.value(split.source).shape))
            key = (product.inputs[0], weight.dtype, tuple(sorted(_given(product).items())), *sizes)
            found.setdefault(key, []).append((product, split))
    triples = [triple for same in found.values() for triple in batched(same, 3) if len(triple) == 3]
    return finish(graph, sum(_merge(graph, triple) for triple in triples))


def _merge(graph: Graph, triple: Sequence[Projection]) -> int:
    ordered = _queries_first(triple)
    if ordered is None:
        return 0
    products = [product for product, _ in ordered]
    like = replace(triple[0][0], origin=origins(products))
    attrs = _given(products[0])
    sides = [v for p in products for v in p.inputs[1:2]]
    weight = emit(graph, like, "concat", sides, {"dim": 0 if attrs.get("transpose_b") else 1})
    operands = [products[0].inputs[0], weight]
    if any(len(p.inputs) > 2 for p in products):
        rows = [_bias(graph, like, p) for p in products]
        operands.append(emit(graph, like, "concat", rows, {"dim": 1}))
    fused = emit(graph, like, "matmul" if len(operands) == 2 else "linear", operands, attrs)
    split_by_one_op(graph, like, fused, [split for _, split in ordered])
    return 1


def _given(product: Op) -> dict[str, Attr]:
    """Attributes other than what stands for their absence."""
    return {k: v for k, v in product.attrs.items() if v}


def _queries_first(triple: Sequence[Projection]) -> list[Projection] | None:
    """Q, K, V: the two last with equally many heads; None when no two have."""
    for index, one in enumerate(triple):
        others = [*triple[:index], *triple[index + 1 :]]
        if others[0][1].heads == others[1][1].heads:
            return [one, *others]
    return None


def _bias(graph: Graph, like: Op, product: Op) -> str:
    """The bias of a product as a row [1, N], of zeros where it has none."""
    width = graph.value(product.outputs[0]).shape[-1]
    if len(product.inputs) > 2:
        return reshape(graph, like, product.inputs[2], (1, width))
    dtype: DType = graph.value(product.inputs[1]).dtype
    attrs: dict[str, Attr] = {"shape": (1, width), "dtype": dtype.value}
    return emit(graph, product, "zeros", [], attrs, output=graph.fresh_id(f"{product.id}_no_bias"))


@rewrites_each("lone-heads", "reshape", "permute")
def lone_heads(graph: Graph, op: Op) -> int:
    """Rows split into heads by reshape and permute -> nlp_create_qkv_heads of queries alone.

    Transposed keys stay: a transpose of the rows and a view of the result is all they take.
    """
    split = head_split(graph, op)
    if split is None or split.keys or not whole_tiles(split):
        return 0
    split_by_one_op(graph, op, split.source, [split])
    return 1


@rewrites_each("pad-heads", "pad", "slice")
def pad_heads(graph: Graph, op: Op) -> int:
    """Columns that a pad adds to projected heads come from the projection; a cut before one goes into its weights.

    product -> split into heads -> pad of the head size: the weights (and bias) get columns of zeros per head. Cut of
    the head size -> heads joined -> product: the weights get rows of zeros, which make what was cut off vanish.
    """
    return _widen(graph, op) if op.op == "ttnn.pad" else _absorb_cut(graph, op)


def _widen(graph: Graph, pad: Op) -> int:
    added = _added_columns(pad)
    turned = graph.produced_by(pad.inputs[0], "permute")
    spread = turned and graph.produced_by(turned.inputs[0], "reshape")
    split = head_split(graph, spread) if spread is not None else None
    if not added or split is None or split.keys or split.result != pad.inputs[0]:
        return 0
    product = graph.produced_by(split.source, "matmul", "linear")
    private = all(graph.only_use(v) is not None for v in (split.source, split.result))
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
    turned = graph.only_use(cut.outputs[0])
    from_the_front = not any(cut.attr("begins")) and set(cut.attrs.get("steps") or (1,)) == {1}  # type: ignore[arg-type]
    if len(wide) != 4 or wide[:3] != narrow[:3] or not from_the_front or turned is None:
        return 0
    joined = graph.only_use(turned.outputs[0])
    if turned.op != "ttnn.permute" or permuted_dims(turned) != (0, 2, 1, 3) or joined is None:
        return 0
    product = graph.only_use(joined.outputs[0])
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
