"""Projections of activations into attention heads: Q, K and V by one product, heads split by TTNN's own ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import batched

from optimizer.importers.passes.heads import HeadSplit, head_split, split_by_one_op, whole_tiles
from optimizer.importers.passes.rewriting import (
    Pass,
    by_weights,
    emit,
    finish,
    only_use,
    origins,
    produced_by,
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
        product = produced_by(graph, split.source, "matmul", "linear")
        if product is None or product.attrs.get("transpose_a") or product.attrs.get("activation"):
            continue
        if only_use(graph, split.source) is not None and by_weights(graph, product):
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
