"""Splitting and joining attention heads, and rotary embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from optimizer.importers.passes.rewriting import drop_dead, emit, finish, fuse, only_use, origins, produced_by, reshape
from optimizer.ir.graph import Graph, Op

TILE = 32


def _dims(op: Op) -> tuple[int, ...]:
    rank = len(op.attr("dims"))
    return tuple(int(d) % rank for d in op.attr("dims"))


@dataclass(frozen=True)
class ConcatHeads:
    """[B, H, S, D] permuted to [B, S, H, D] and reshaped to [B, S, H*D] -> concatenate_heads.

    TTNN needs a head size that is a multiple of 32.
    """

    name: ClassVar[str] = "concat-heads"

    def apply(self, graph: Graph) -> int:
        rewrites = 0
        for op in graph.ops():
            if op.op == "ttnn.permute" and graph.has_op(op.id) and _dims(op) == (0, 2, 1, 3):
                rewrites += self._visit(graph, op)
        return finish(graph, rewrites)

    def _visit(self, graph: Graph, op: Op) -> int:
        b, h, s, d = graph.value(op.inputs[0]).shape
        merged = only_use(graph, op.outputs[0])
        source = produced_by(graph, op.inputs[0], "scaled_dot_product_attention", "matmul", "reshape")
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


@dataclass(frozen=True)
class SplitHeads:
    """One fused projection split in Q, K, V, each reshaped to heads -> split_query_key_value_and_split_heads."""

    name: ClassVar[str] = "split-heads"

    def apply(self, graph: Graph) -> int:
        rewrites = 0
        for op in graph.ops():
            if op.op == "ttnn.split" and graph.has_op(op.id) and len(op.outputs) == 3:
                rewrites += self._visit(graph, op)
        return finish(graph, rewrites)

    def _visit(self, graph: Graph, op: Op) -> int:
        x = op.inputs[0]
        shape = graph.value(x).shape
        if len(shape) != 3 or int(op.attr("dim")) % 3 != 2:
            return 0
        chains = [self._chain(graph, v, shape) for v in op.outputs]
        if any(c is None for c in chains):
            return 0
        heads = [c[2] for c in chains if c is not None]
        ends = [c[1] for c in chains if c is not None]
        middles = [c[0] for c in chains if c is not None]
        size = graph.value(op.outputs[0]).shape[2] // heads[0]
        same = all(graph.value(v).shape[2] == n * size for v, n in zip(op.outputs, heads, strict=True))
        transposed = [_dims(e) == (0, 2, 3, 1) for e in ends]
        if size % TILE or not same or heads[1] != heads[2] or transposed[0] or transposed[2]:
            return 0
        attrs = {"num_heads": heads[0], "transpose_key": transposed[1]}
        if heads[1] != heads[0]:
            attrs["num_kv_heads"] = heads[1]
        origin = origins([op, *middles, *ends])
        for end in ends:
            graph.remove_op(end.id)
        new = replace(
            op,
            id=graph.fresh_id(f"{op.id}_heads"),
            op="ttnn.split_query_key_value_and_split_heads",
            outputs=tuple(e.outputs[0] for e in ends),
            attrs=attrs,
            origin=origin,
        )
        graph.add_op(new, at=op.id)
        drop_dead(graph, [m.id for m in middles])
        return 1

    def _chain(self, graph: Graph, value_id: str, shape: tuple[int, ...]) -> tuple[Op, Op, int] | None:
        """(reshape, permute, heads) of one third."""
        spread = only_use(graph, value_id)
        if spread is None or spread.op != "ttnn.reshape":
            return None
        target = graph.value(spread.outputs[0]).shape
        turned = only_use(graph, spread.outputs[0])
        if len(target) != 4 or target[:2] != shape[:2] or turned is None or turned.op != "ttnn.permute":
            return None
        return (spread, turned, target[2]) if _dims(turned) in ((0, 2, 1, 3), (0, 2, 3, 1)) else None


@dataclass(frozen=True)
class UnbindHeads:
    """[B, S, 3*H*D] seen as [B, S, 3, H, D], permuted and cut in three -> split_query_key_value_and_split_heads."""

    name: ClassVar[str] = "unbind-heads"

    def apply(self, graph: Graph) -> int:
        rewrites = 0
        for op in graph.ops():
            if op.op == "ttnn.permute" and graph.has_op(op.id) and _dims(op) == (2, 0, 3, 1, 4):
                rewrites += self._visit(graph, op)
        return finish(graph, rewrites)

    def _visit(self, graph: Graph, turned: Op) -> int:
        spread = produced_by(graph, turned.inputs[0], "reshape")
        b, s, three, h, d = graph.value(turned.inputs[0]).shape
        if spread is None or three != 3 or d % TILE or graph.value(spread.inputs[0]).shape != (b, s, 3 * h * d):
            return 0
        thirds = self._thirds(graph, turned.outputs[0])
        ends = [only_use(graph, v) for v in thirds]
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

    def _thirds(self, graph: Graph, value_id: str) -> list[str]:
        """The three slices of a value along dim 0, in order; empty if it is read in any other way."""
        readers = graph.consumers(value_id)
        if value_id in graph.outputs:
            return []
        if len(readers) == 1 and readers[0].op == "ttnn.split" and len(readers[0].outputs) == 3:
            return list(readers[0].outputs) if int(readers[0].attr("dim")) % 5 == 0 else []
        found: dict[int, str] = {}
        for op in readers:
            if op.op != "ttnn.slice" or graph.value(op.outputs[0]).shape[1:] != graph.value(value_id).shape[1:]:
                return []
            if graph.value(op.outputs[0]).shape[0] == 1:
                found[op.attr("begins")[0]] = op.outputs[0]
        return [found[i] for i in sorted(found)] if len(readers) == len(found) == 3 else []


@dataclass(frozen=True)
class Rotary:
    """x*cos + concat(-x[D/2:], x[:D/2])*sin -> rotary_embedding.

    The head size must be a multiple of 64 and the sequence one of 32: TTNN's op returns it padded to whole tiles.
    """

    name: ClassVar[str] = "rotary"

    def apply(self, graph: Graph) -> int:
        rewrites = 0
        for op in graph.ops():
            if op.op == "ttnn.concat" and graph.has_op(op.id) and len(op.inputs) == 2:
                rewrites += self._visit(graph, op)
        return finish(graph, rewrites)

    def _visit(self, graph: Graph, turned: Op) -> int:
        negated = produced_by(graph, turned.inputs[0], "neg")
        if negated is None:
            return 0
        high, low = _half(graph, negated.inputs[0]), _half(graph, turned.inputs[1])
        if high is None or low is None or high[0] != low[0] or (low[1], high[1]) != (0, 1):
            return 0
        x = high[0]
        shape = graph.value(x).shape
        axis = int(turned.attr("dim")) % len(shape)
        by_sin = only_use(graph, turned.outputs[0])
        if len(shape) != 4 or axis != 3 or shape[3] % (2 * TILE) or shape[2] % TILE:
            return 0
        if by_sin is None or by_sin.op != "ttnn.multiply":
            return 0
        total = only_use(graph, by_sin.outputs[0])
        if total is None or total.op != "ttnn.add" or len(total.inputs) != 2 or len(by_sin.inputs) != 2:
            return 0
        by_cos = graph.producer(total.inputs[1 - total.inputs.index(by_sin.outputs[0])])
        if by_cos is None or by_cos.op != "ttnn.multiply" or x not in by_cos.inputs or len(by_cos.inputs) != 2:
            return 0
        cos = by_cos.inputs[1 - by_cos.inputs.index(x)]
        sin = by_sin.inputs[1 - by_sin.inputs.index(turned.outputs[0])]
        tables = [graph.value(t).shape for t in (cos, sin)]
        if any(t[-2:] != shape[-2:] or prod(t[:-2]) != 1 for t in tables):
            return 0
        caches = [reshape(graph, total, t, (1, 1, *shape[2:])) for t in (cos, sin)]
        absorbed = [high[2], low[2], negated, turned, by_sin, by_cos]
        fuse(graph, total, total, "rotary_embedding", [x, *caches], {}, absorbed)
        return 1


def _half(graph: Graph, value_id: str) -> tuple[str, int, Op] | None:
    """(tensor, 0 or 1 for its lower or upper half along the last dim, op) of a slice or split output."""
    op = produced_by(graph, value_id, "slice", "split")
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
