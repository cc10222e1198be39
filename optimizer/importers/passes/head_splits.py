"""Rows cut into attention heads: how exporters spell it, and TTNN's ops for it.

A reshape of [B, S, H*D] to [B, S, H, D] moves every half-tile row by itself, and so does the permute after it.
`split_query_key_value_and_split_heads` and `nlp_create_qkv_heads` move whole tiles: heads must be whole tiles wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from optimizer.importers.passes.rewriting import Shape, drop_dead, is_static, only_use, origins, permute, reshape
from optimizer.ir.graph import Attr, Graph, Op, Value, ValueKind
from optimizer.layouts.tiling import TILE


@dataclass(frozen=True)
class HeadSplit:
    """Ops that turn rows [.., H*D] into heads [B, H, S, D]."""

    ops: tuple[Op, ...]
    batch: int
    length: int
    """Rows S of one sequence."""
    heads: int
    size: int
    """Columns D of one head."""
    keys: bool = False
    """The result is transposed, [B, H, D, S]."""

    @property
    def source(self) -> str:
        return self.ops[0].inputs[0]

    @property
    def result(self) -> str:
        return self.ops[-1].outputs[0]


def permuted_dims(op: Op) -> Shape:
    """Dims of a permute, counted from the front."""
    rank = len(op.attr("dims"))
    return tuple(int(d) % rank for d in op.attr("dims"))


def head_split(graph: Graph, first: Op) -> HeadSplit | None:
    """The split of activations that begins with this op, of whatever head size; None when it is none."""
    if not first.inputs or is_static(graph, first.inputs[0]) or not graph.value(first.inputs[0]).dtype.is_float:
        return None
    if first.op == "ttnn.permute":
        return _turned_first(graph, first)
    return _spread_first(graph, first) if first.op == "ttnn.reshape" else None


def _turned_first(graph: Graph, turned: Op) -> HeadSplit | None:
    """[.., S, H*D] -> [.., H*D, S] -> [B, H, D, S]: the least movement for transposed keys by themselves."""
    dims, spread = permuted_dims(turned), only_use(graph, turned.outputs[0])
    rank = len(dims)
    if spread is None or spread.op != "ttnn.reshape" or dims != (*range(rank - 2), rank - 1, rank - 2):
        return None
    shape, target = graph.value(turned.inputs[0]).shape, graph.value(spread.outputs[0]).shape
    if len(target) != 4 or target[3] != shape[-2] or target[1] * target[2] != shape[-1] or target[1] == 1:
        return None
    return HeadSplit((turned, spread), target[0], target[3], target[1], target[2], keys=True)


def _spread_first(graph: Graph, spread: Op) -> HeadSplit | None:
    source, target = (graph.value(v) for v in (spread.inputs[0], spread.outputs[0]))
    if len(target.shape) != 4 or len(source.shape) < 2:
        return None
    turned = only_use(graph, target.id)
    dims = permuted_dims(turned) if turned is not None and turned.op == "ttnn.permute" else ()
    if turned is not None and dims in ((0, 2, 1, 3), (0, 2, 3, 1)):
        b, s, h, d = target.shape
        found = HeadSplit((spread, turned), b, s, h, d, keys=dims == (0, 2, 3, 1))
    else:
        b, h, s, d = target.shape
        if s != 1:  # only sequences of one row need no permute
            return None
        found = HeadSplit((spread,), b, s, h, d)
    return found if h > 1 and found.heads * found.size == source.shape[-1] else None


def whole_tiles(split: HeadSplit) -> bool:
    """Whether TTNN's ops can make the split."""
    return split.size % TILE == 0


def split_by_one_op(graph: Graph, like: Op, fused: str, splits: Sequence[HeadSplit]) -> None:
    """Let one op compute the results of Q, K and V splits, or of a lone one, from rows with their columns side by side.

    K and V have equally many heads. A transposed result is permuted afterwards: tt-metal's op would transpose keys on
    one core per 32 rows.
    """
    first = splits[0]
    absorbed = [op for split in splits for op in split.ops]
    like = replace(like, origin=origins([like, *absorbed]))
    for split in splits:
        graph.remove_op(split.ops[-1].id)
    results = tuple(_plain_result(graph, like, split) for split in splits)
    rows = (first.batch, first.length, graph.value(fused).shape[-1])
    kv = splits[1].heads if len(splits) > 1 else 0
    attrs: dict[str, Attr] = {"num_heads": first.heads, "transpose_key": False}
    name = "split_query_key_value_and_split_heads"
    if kv != first.heads:
        attrs["num_kv_heads"] = kv
    if not kv or graph.value(fused).shape != rows:
        name = "nlp_create_qkv_heads"
        fused = reshape(graph, like, fused, (rows[0], 1, *rows[1:]))
    op_id = graph.fresh_id(f"{like.id}_heads")
    graph.add_op(Op(op_id, f"ttnn.{name}", (fused,), results, attrs, f"{like.name}.heads", like.origin), at=like.id)
    drop_dead(graph, [op.id for split in splits for op in split.ops[:-1]])


def _plain_result(graph: Graph, like: Op, split: HeadSplit) -> str:
    """The value that the op computes for a split: its result, or what is then transposed into it."""
    if not split.keys:
        return split.result
    shape = (split.batch, split.heads, split.length, split.size)
    dtype = graph.value(split.result).dtype
    value = graph.add_value(Value(graph.fresh_id(f"{split.result}_plain"), shape, dtype, ValueKind.ACTIVATION))
    permute(graph, like, value.id, (0, 1, 3, 2), output=split.result)
    return value.id
