"""Movement: chains of reshapes and permutes are merged; tensors stacked along a new dim, and columns picked out one by
one, are moved in whole tiles where that can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod

from optimizer.importers.passes.rewriting import (
    Pass,
    Shape,
    drop_dead,
    emit,
    finish,
    fuse,
    origins,
    permute,
    permuted_dims,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.making import make_op
from optimizer.ir.view_rules import permute_is_view, reshape_is_view
from optimizer.layouts.tiling import TILE

Step = tuple[str, Shape]
"""(`reshape`, target shape) or (`permute`, dims)."""

LONGEST = 6
"""Ops looked at in one chain; what precedes them has been merged before."""


class Factors:
    """A tensor's dims split into factors, followed through reshapes and permutes."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.sizes: list[int] = []
        self.root: list[int] = []
        """Factor ids in the order of the original tensor."""
        self.dims: list[list[int]] = []
        """Factor ids of each dim of the current tensor, outermost first; empty for a dim of one."""
        for size in shape:
            self.dims.append([self._new(size)] if size > 1 else [])
        self.root = [f for dim in self.dims for f in dim]

    def _new(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _split(self, factor: int, outer: int) -> tuple[int, int]:
        """Split a factor in an outer and an inner one, in the original tensor too."""
        a, b = self._new(outer), self._new(self.sizes[factor] // outer)
        at = self.root.index(factor)
        self.root[at : at + 1] = [a, b]
        return a, b

    def apply(self, step: Step) -> bool:
        """Follow one op; False when a reshape cuts factors in a way that has no common refinement."""
        kind, argument = step
        if kind == "permute":
            self.dims = [self.dims[d] for d in argument]
            return True
        queue = [f for dim in self.dims for f in dim]
        queue.reverse()
        dims: list[list[int]] = []
        for size in argument:
            group: list[int] = []
            left = size
            while left > 1:
                factor = queue.pop()
                have = self.sizes[factor]
                if left % have == 0:
                    group.append(factor)
                    left //= have
                elif have % left == 0:
                    outer, inner = self._split(factor, left)
                    group.append(outer)
                    queue.append(inner)
                    left = 1
                else:
                    return False
            dims.append(group)
        self.dims = dims
        return True

    def shortest(self) -> list[Step]:
        """Fewest ops from the original tensor to the current one."""
        target = tuple(prod(self.sizes[f] for f in dim) for dim in self.dims)
        sequence = [f for dim in self.dims for f in dim]
        if sequence == self.root:
            return [] if target == self.shape else [("reshape", target)]
        groups = self._original_dims()
        order = _order_of(groups, sequence)
        if order is not None:
            dims = _with_ones(self.shape, target, order)
            if dims is not None:
                return [("permute", dims)]
        direct = self._reshape_first(target)
        ways = [direct] if direct is not None else []
        if order is not None:
            ones = [i for i, g in enumerate(groups) if not g]
            ways += [[("permute", dims), ("reshape", target)] for dims in ((*ones, *order), (*order, *ones))]
        return min(ways, key=lambda steps: _moves(self.shape, steps)) if ways else self._general(sequence, target)

    def _original_dims(self) -> list[list[int]]:
        groups: list[list[int]] = []
        position = 0
        for size in self.shape:
            group: list[int] = []
            while prod(self.sizes[f] for f in group) < size:
                group.append(self.root[position])
                position += 1
            groups.append(group)
        return groups

    def _reshape_first(self, target: Shape) -> list[Step] | None:
        """Reshape to the target's dims in original order, then one permute; None if a dim is scattered."""
        place = {f: i for i, f in enumerate(self.root)}
        for dim in self.dims:
            if any(place[b] != place[a] + 1 for a, b in pairwise(dim)):
                return None
        big = [i for i, dim in enumerate(self.dims) if dim]
        by_origin = iter(sorted(big, key=lambda i: place[self.dims[i][0]]))
        source = [next(by_origin) if i in set(big) else i for i in range(len(target))]
        middle = tuple(target[i] for i in source)
        dims = tuple(source.index(i) for i in range(len(target)))
        return [("reshape", middle), ("permute", dims)]

    def _general(self, sequence: list[int], target: Shape) -> list[Step]:
        place = {f: i for i, f in enumerate(sequence)}
        runs: list[list[int]] = []
        for factor in self.root:
            if runs and place[factor] == place[runs[-1][-1]] + 1:
                runs[-1].append(factor)
            else:
                runs.append([factor])
        dims = tuple(sorted(range(len(runs)), key=lambda i: place[runs[i][0]]))
        middle = tuple(prod(self.sizes[f] for f in run) for run in runs)
        steps: list[Step] = [("reshape", middle)] if middle != self.shape else []
        steps.append(("permute", dims))
        if tuple(middle[d] for d in dims) != target:
            steps.append(("reshape", target))
        return steps


def _moves(shape: Shape, steps: Sequence[Step]) -> int:
    """How many of the steps move data; the others are views."""
    count = 0
    for kind, argument in steps:
        if kind == "reshape":
            count += not reshape_is_view({}, shape, argument)
            shape = argument
        else:
            after = tuple(shape[d] for d in argument)
            count += not permute_is_view({"dims": argument}, shape, after)
            shape = after
    return count


def _order_of(groups: Sequence[list[int]], sequence: list[int]) -> list[int] | None:
    """Indices of the non-empty groups such that their factors joined give `sequence`, or None."""
    first = {group[0]: i for i, group in enumerate(groups) if group}
    order: list[int] = []
    position = 0
    while position < len(sequence):
        index = first.get(sequence[position])
        if index is None or sequence[position : position + len(groups[index])] != groups[index]:
            return None
        order.append(index)
        position += len(groups[index])
    return order


def _with_ones(shape: Shape, target: Shape, order: list[int]) -> Shape | None:
    """Dims of the one permute from `shape` to `target` that moves the non-one dims as `order`, or None."""
    if len(shape) != len(target):
        return None
    big, ones = iter(order), iter([i for i, s in enumerate(shape) if s == 1])
    dims = [next(ones if size == 1 else big, -1) for size in target]
    fits = all(d >= 0 and shape[d] == size for d, size in zip(dims, target, strict=True))
    return tuple(dims) if fits else None


@rewrites_each("movement", "reshape", "permute")
def merge_movement(graph: Graph, op: Op) -> int:
    """Chains of reshape and permute become the fewest ops with the same result."""
    return _merge(graph, graph.op(op.id))


def step_of(op: Op) -> Step:
    """What a reshape or permute does."""
    return ("reshape", tuple(op.attr("shape"))) if op.op == "ttnn.reshape" else ("permute", permuted_dims(op))


def _merge(graph: Graph, last: Op) -> int:
    chain = [last]
    while len(chain) < LONGEST:
        above = graph.producer(chain[0].inputs[0])
        if above is None or above.op not in ("ttnn.reshape", "ttnn.permute"):
            break
        chain.insert(0, above)
    removable = 1
    for op in reversed(chain[:-1]):
        if graph.only_use(op.outputs[0]) is None:
            break
        removable += 1
    for start in range(len(chain)):
        part = chain[start:]
        source = part[0].inputs[0]
        steps = _shortest(graph, source, part)
        if steps is None:
            continue
        fewer = len(steps) < len(part) or _moves_less(graph, source, part, steps)
        if fewer and len(steps) <= min(removable, len(part)):
            return _replace(graph, source, part, steps)
    return 0


def _shortest(graph: Graph, source: str, chain: Sequence[Op]) -> list[Step] | None:
    factors = Factors(graph.value(source).shape)
    for op in chain:
        if not factors.apply(step_of(op)):
            return None
    return factors.shortest()


def _moves_less(graph: Graph, source: str, chain: Sequence[Op], steps: Sequence[Step]) -> bool:
    """Whether as many steps move data less often."""
    shape = graph.value(source).shape
    now = [step_of(op) for op in chain]
    return len(steps) == len(now) and _moves(shape, steps) < _moves(shape, now)


def _replace(graph: Graph, source: str, chain: Sequence[Op], steps: Sequence[Step]) -> int:
    last = chain[-1]
    out = last.outputs[0]
    if not steps:
        if graph.is_output(out) and graph.producer(source) is None:
            return 0  # a returned value needs an op that computes it
        graph.replace_uses(out, source)
        drop_dead(graph, [last.id])
        return 1
    reusable = list(chain)
    current = source
    graph.remove_op(last.id)
    for op in reversed(chain[:-1]):
        if any(graph.is_read(v) for v in op.outputs):
            break
        graph.remove_op(op.id)
    for index, (kind, argument) in enumerate(steps):
        final = index == len(steps) - 1
        like = reusable[-1] if final else reusable[max(0, len(reusable) - len(steps) + index)]
        attrs: dict[str, Attr] = {"shape": argument} if kind == "reshape" else {"dims": argument}
        target = out if final else graph.fresh_id(f"{like.id}_moved")
        op = Op(graph.fresh_id(like.id), f"ttnn.{kind}", (current,), (target,), attrs, like.name, origins(chain))
        current = make_op(graph, op, at=last.id).outputs[0]
    return 1


@rewrites_each("stack-rows", "concat")
def stack_rows(graph: Graph, joined: Op) -> int:
    """Rows [.., C] that each become [.., 1, C], joined to [.., N, C] -> joined to [.., N*C], then cut into rows.

    One reshape in place of N; C must be whole tiles.
    """
    if len(joined.inputs) < 2:
        return 0
    shape = graph.value(joined.outputs[0]).shape
    axis = int(joined.attr("dim")) % len(shape)
    spreads = [graph.produced_by(v, "reshape") for v in joined.inputs]
    found = [s for s in spreads if s is not None and _becomes_row(graph, s)]
    if axis != len(shape) - 2 or len(found) != len(joined.inputs) or shape[-1] % TILE:
        return 0
    attrs = {"dim": len(shape) - 2}
    like = replace(joined, origin=origins([*found, joined]))
    wide = emit(graph, like, "concat", [s.inputs[0] for s in found], attrs)
    fuse(graph, joined, joined, "reshape", [wide], {"shape": shape}, found)
    return 1


def _becomes_row(graph: Graph, spread: Op) -> bool:
    """[.., C] to [.., 1, C], of something to compute and with rows to gather."""
    before, after = (graph.value(v).shape for v in (spread.inputs[0], spread.outputs[0]))
    return after == (*before[:-1], 1, before[-1]) and len(before) > 1 and not graph.is_static(spread.inputs[0])


@partial(Pass, "pick-columns")
def pick_columns(graph: Graph) -> int:
    """Columns [R, 1] of one matrix, each reshaped to [R] -> rows of the transposed matrix, whose reshapes are views."""
    picked: dict[str, list[tuple[Op, Op]]] = defaultdict(list)
    for op in graph.ops():
        after = graph.only_use(op.outputs[0]) if op.op == "ttnn.slice" else None
        if after is not None and after.op == "ttnn.reshape" and _is_column(graph, op):
            rows = graph.value(after.inputs[0]).shape[0]
            if graph.value(after.outputs[0]).shape in ((rows,), (1, rows)):
                picked[op.inputs[0]].append((op, after))
    pairs = [(x, columns) for x, columns in picked.items() if len(columns) > 1]
    return finish(graph, sum(_turn(graph, x, columns) for x, columns in pairs))


def _turn(graph: Graph, x: str, columns: list[tuple[Op, Op]]) -> int:
    turned = permute(graph, columns[0][0], x, (1, 0))
    rows = graph.value(turned).shape[1]
    for cut, flat in columns:
        index = cut.attr("begins")[1]
        attrs = {"begins": (index, 0), "ends": (index + 1, rows), "steps": (1, 1)}
        like = replace(cut, origin=origins([cut, flat]))
        row = emit(graph, like, "slice", [turned], attrs)
        graph.remove_op(flat.id)
        reshape(graph, like, row, graph.value(flat.outputs[0]).shape, output=flat.outputs[0])
        drop_dead(graph, [cut.id])
    return len(columns)


def _is_column(graph: Graph, cut: Op) -> bool:
    whole: Shape = graph.value(cut.inputs[0]).shape
    steps = cut.attrs.get("steps") or (1, 1)
    column = len(whole) == 2 and graph.value(cut.outputs[0]).shape == (whole[0], 1) and whole[1] > 1
    return column and steps == (1, 1) and not graph.is_static(cut.inputs[0])
