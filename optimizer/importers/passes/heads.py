"""Splitting and joining attention heads, and rotary embedding.

Rows cut into heads: a reshape of [B, S, H*D] to [B, S, H, D] moves every half-tile row by itself, and so does the
permute after it. `split_query_key_value_and_split_heads` and `nlp_create_qkv_heads` move whole tiles: heads must be
whole tiles wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from optimizer.importers.passes.rewriting import (
    drop_dead,
    emit,
    fuse,
    origins,
    other_operand,
    permute,
    permuted_dims,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.making import make_op
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


def head_split(graph: Graph, first: Op) -> HeadSplit | None:
    """The split of activations that begins with this op, of whatever head size; None when it is none."""
    if not first.inputs or graph.is_static(first.inputs[0]) or not graph.value(first.inputs[0]).dtype.is_float:
        return None
    if first.op == "ttnn.permute":
        return _turned_first(graph, first)
    return _spread_first(graph, first) if first.op == "ttnn.reshape" else None


def _turned_first(graph: Graph, turned: Op) -> HeadSplit | None:
    """[.., S, H*D] -> [.., H*D, S] -> [B, H, D, S]: the least movement for transposed keys by themselves."""
    dims, spread = permuted_dims(turned), graph.only_use(turned.outputs[0])
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
    turned = graph.only_use(target.id)
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
    plain = [graph.fresh_id(f"{split.result}_plain") if split.keys else split.result for split in splits]
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
    op = Op(op_id, f"ttnn.{name}", (fused,), tuple(plain), attrs, f"{like.name}.heads", like.origin)
    make_op(graph, op, at=like.id)
    for split, result in zip(splits, plain, strict=True):
        if split.keys:
            permute(graph, like, result, (0, 1, 3, 2), output=split.result)
    drop_dead(graph, [op.id for split in splits for op in split.ops[:-1]])


_CUTS = ("ttnn.split", "ttnn.slice")


@rewrites_each("concat-heads", "permute")
def concat_heads(graph: Graph, op: Op) -> int:
    """[B, H, S, D] permuted to [B, S, H, D] and reshaped to [B, S, H*D] -> concatenate_heads.

    TTNN needs a head size that is a multiple of 32.
    """
    shape, dims = graph.value(op.inputs[0]).shape, permuted_dims(op)
    if len(dims) != 4 or [i for i in dims if i or shape[0] > 1] != [0, 2, 1, 3][shape[0] == 1 :]:
        return 0
    b, h, s, d = shape
    merged = graph.only_use(op.outputs[0])
    source = graph.produced_by(op.inputs[0], "scaled_dot_product_attention", "matmul", "reshape")
    if merged is None or merged.op != "ttnn.reshape" or d % TILE or h == 1 or source is None:
        return 0
    shape = graph.value(merged.outputs[0]).shape
    if shape[-1] != h * d:
        return 0
    if shape == (b, s, h * d):
        fuse(graph, merged, op, "concatenate_heads", op.inputs, {}, [])
    else:
        joined = emit(graph, replace(op, origin=origins([op, merged])), "concatenate_heads", op.inputs, {})
        fuse(graph, merged, merged, "reshape", [joined], {"shape": shape}, [op])
    return 1


@rewrites_each("split-heads", "split", "slice")
def split_heads(graph: Graph, cut: Op) -> int:
    """One fused projection cut in Q, K, V, each split into heads -> split_query_key_value_and_split_heads."""
    x = cut.inputs[0]
    thirds = _thirds(graph, x, len(graph.value(x).shape) - 1)
    readers = [graph.only_use(v) for v in thirds]
    found = [head_split(graph, r) for r in readers if r is not None]
    splits = [s for s in found if s is not None and whole_tiles(s)]
    if len(splits) != 3 or splits[1].heads != splits[2].heads:
        return 0
    if len({(s.batch, s.length, s.size) for s in splits}) > 1:
        return 0
    cuts = [p for v in thirds if (p := graph.producer(v)) is not None]
    split_by_one_op(graph, replace(cut, origin=origins(cuts)), x, splits)
    drop_dead(graph, [c.id for c in cuts])
    return 1


@rewrites_each("unbind-heads", "permute")
def unbind_heads(graph: Graph, turned: Op) -> int:
    """[B, S, 3*H*D] seen as [B, S, 3, H, D], permuted and cut in three -> split_query_key_value_and_split_heads."""
    if permuted_dims(turned) != (2, 0, 3, 1, 4):
        return 0
    spread = graph.produced_by(turned.inputs[0], "reshape")
    b, s, three, h, d = graph.value(turned.inputs[0]).shape
    if spread is None or three != 3 or d % TILE or graph.value(spread.inputs[0]).shape != (b, s, 3 * h * d):
        return 0
    thirds = _thirds(graph, turned.outputs[0], 0)
    ends = [graph.only_use(v) for v in thirds]
    if len(ends) != 3 or any(e is None or e.op != "ttnn.reshape" for e in ends):
        return 0
    reshapes = [e for e in ends if e is not None]
    if any(graph.value(e.outputs[0]).shape != (b, h, s, d) for e in reshapes):
        return 0
    cuts = [p for v in thirds if (p := graph.producer(v)) is not None]
    for end in reshapes:
        graph.remove_op(end.id)
    new = replace(
        turned,
        id=graph.fresh_id(f"{turned.id}_heads"),
        op="ttnn.split_query_key_value_and_split_heads",
        inputs=spread.inputs,
        outputs=tuple(e.outputs[0] for e in reshapes),
        attrs={"num_heads": h, "transpose_key": False},
        origin=origins([spread, turned, *cuts, *reshapes]),
    )
    graph.add_op(new, at=turned.id)
    drop_dead(graph, [c.id for c in cuts])
    return 1


def _thirds(graph: Graph, value_id: str, axis: int) -> list[str]:
    """The three cuts of a value along an axis, in order; empty if it is read in any other way."""
    shape, readers = graph.value(value_id).shape, graph.consumers(value_id)
    if graph.is_output(value_id) or any(op.op not in _CUTS for op in readers):
        return []
    if len(readers) == 1 and readers[0].op == "ttnn.split":
        along = int(readers[0].attr("dim")) % len(shape) == axis
        return list(readers[0].outputs) if along and len(readers[0].outputs) == 3 else []
    found: dict[int, Op] = {}
    for op in readers:
        begins, steps = op.attrs.get("begins"), op.attrs.get("steps") or (1,) * len(shape)
        part = graph.value(op.outputs[0]).shape
        others = [i for i in range(len(shape)) if i != axis]
        if not isinstance(begins, tuple) or any(part[i] != shape[i] for i in others) or set(steps) != {1}:  # type: ignore[arg-type]
            return []
        found[int(begins[axis])] = op  # type: ignore[arg-type]
    ordered = [found[begin].outputs[0] for begin in sorted(found)]
    widths = [graph.value(v).shape[axis] for v in ordered]
    together = sorted(found) == [sum(widths[:i]) for i in range(len(widths))] and sum(widths) == shape[axis]
    return ordered if len(readers) == len(ordered) == 3 and together else []


@rewrites_each("rotary", "concat")
def rotary(graph: Graph, turned: Op) -> int:
    """x*cos + concat(-x[D/2:], x[:D/2])*sin -> rotary_embedding.

    The head size must be a multiple of 64 and the sequence one of 32: TTNN's op returns it padded to whole tiles.
    """
    if len(turned.inputs) != 2:
        return 0
    negated = graph.produced_by(turned.inputs[0], "neg")
    if negated is None:
        return 0
    high, low = _half(graph, negated.inputs[0]), _half(graph, turned.inputs[1])
    if high is None or low is None or high[0] != low[0] or (low[1], high[1]) != (0, 1):
        return 0
    x = high[0]
    shape = graph.value(x).shape
    axis = int(turned.attr("dim")) % len(shape)
    by_sin = graph.only_use(turned.outputs[0])
    if len(shape) != 4 or axis != 3 or shape[3] % (2 * TILE) or shape[2] % TILE:
        return 0
    if by_sin is None or by_sin.op != "ttnn.multiply":
        return 0
    total = graph.only_use(by_sin.outputs[0])
    if total is None or total.op != "ttnn.add" or len(total.inputs) != 2 or len(by_sin.inputs) != 2:
        return 0
    by_cos = graph.producer(other_operand(total, by_sin.outputs[0]))
    if by_cos is None or by_cos.op != "ttnn.multiply" or x not in by_cos.inputs or len(by_cos.inputs) != 2:
        return 0
    cos = other_operand(by_cos, x)
    sin = other_operand(by_sin, turned.outputs[0])
    tables = [graph.value(t).shape for t in (cos, sin)]
    if any(t[-2:] != shape[-2:] or prod(t[:-2]) != 1 for t in tables):
        return 0
    caches = [reshape(graph, total, t, (1, 1, *shape[2:])) for t in (cos, sin)]
    absorbed = [high[2], low[2], negated, turned, by_sin, by_cos]
    fuse(graph, total, total, "rotary_embedding", [x, *caches], {}, absorbed)
    return 1


def _half(graph: Graph, value_id: str) -> tuple[str, int, Op] | None:
    """(tensor, 0 or 1 for its lower or upper half along the last dim, op) of a slice or split output."""
    op = graph.produced_by(value_id, "slice", "split")
    if op is None:
        return None
    x = op.inputs[0]
    shape, part = graph.value(x).shape, graph.value(value_id).shape
    if part[:-1] != shape[:-1] or part[-1] * 2 != shape[-1]:
        return None
    if op.op == "ttnn.split":
        return (x, op.outputs.index(value_id), op) if len(op.outputs) == 2 else None
    if (op.attrs.get("steps") or (1,))[-1] != 1:  # type: ignore[index]
        return None
    begin = op.attr("begins")[-1]
    return (x, 0 if begin == 0 else 1, op) if begin in (0, part[-1]) else None
