"""Inputs and weights for a graph whose model gives none: random, by seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from optimizer.export.ttnn_py.index_bounds import index_bounds
from optimizer.export.ttnn_py.run_model import Array, random_array
from optimizer.importers.onnx_arrays import open_weights
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.values.residual_branches import branch_ends

_VARIANCE = ("ttnn.batch_norm", 2)
"""Op and position of an operand whose root is divided by."""
_ROOTS = ("ttnn.sqrt", "ttnn.rsqrt")
_TABLE = ("ttnn.embedding", 1)
_SPREAD = 0.1
"""Standard deviation of what is added, and of factors around 1."""


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    """Normal values that bf16 holds, or whole numbers below the size of what they index; as `run_model.py` has them."""
    below = index_bounds(graph)
    return {
        v: random_array(graph.value(v).shape, not graph.value(v).dtype.is_float, below.get(v), seed, position)
        for position, v in enumerate(graph.inputs)
    }


def random_weights(graph: Graph, seed: int) -> Mapping[str, Array]:
    """Weights under which activations stay near unit size, all of which their element types hold."""
    return _RandomWeights(graph, seed)


class _RandomWeights(Mapping[str, Array]):
    """Each is made when it is first asked for, and kept in the bits of its element type: those of a large model take
    gigabytes."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self._graph, self._seed = graph, seed
        self._values = open_weights(graph)
        self._places = {value_id: position for position, value_id in enumerate(self._values)}
        self._tables, self._ends = index_bounds(graph, self._values), branch_ends(graph)
        self._made: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        value = self._values[name]
        if name not in self._made:
            rng = np.random.default_rng([self._seed, self._places[name]])
            made = _weight(self._graph, value, self._tables.get(name), self._ends, rng)
            narrow = made.dtype.kind == "f" and value.dtype is not DType.F32
            self._made[name] = made.astype(np.float32).astype(bfloat16) if narrow else made
        found = self._made[name]
        return found.astype(np.float32) if found.dtype == bfloat16 else found

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _weight(graph: Graph, value: Value, below: int | None, ends: Mapping[str, int], rng: np.random.Generator) -> Array:
    if not value.dtype.is_float:
        if below is None and _is_part_of_index(graph, value.id):
            return np.zeros(value.shape, np.int64)
        return np.asarray(rng.integers(0, below or 2, value.shape))
    noise = rng.standard_normal(value.shape, np.float32)
    return _scaled(graph, noise, _reads(graph, value.id), ends)


def _is_part_of_index(graph: Graph, value_id: str) -> bool:
    """Whether an index is computed from a value: random numbers might lead beyond the table then."""
    seen, stack = {value_id}, [value_id]
    while stack:
        current = stack.pop()
        for op in graph.consumers(current):
            if op.op == _TABLE[0] and op.inputs[0] == current:
                return True
            whole = [v for v in op.outputs if not graph.value(v).dtype.is_float and v not in seen]
            seen.update(whole)
            stack += whole
    return False


def _scaled(
    graph: Graph, noise: Array, reads: Sequence[tuple[Op, int, tuple[int, ...]]], ends: Mapping[str, int]
) -> Array:
    """Noise as suits the op that reads it first; `ends` counts residual branches (`branch_ends`)."""
    for op, position, shape in reads:
        fan_in = _fan_in(op, position, shape)
        if fan_in is not None:
            gain = 2.0 if op.op == "ttnn.conv2d" else 1.0  # keeps a signal alive through ReLUs
            return np.asarray(noise * np.float32(np.sqrt(gain / fan_in / ends.get(op.id, 1))))
        if (op.op, position) == _VARIANCE or _under_a_root(graph, op) or (position == 1 and _scales(op)):
            return np.asarray(np.abs(1 + _SPREAD * noise))
        if (op.op, position) == _TABLE:
            return np.asarray(noise * np.float32(shape[-1] ** -0.25))  # a product of two rows is of unit size
    return np.asarray(_SPREAD * noise)


def _under_a_root(graph: Graph, op: Op) -> bool:
    """Whether a root is taken of what an op reads, maybe with a number added: a batch norm's variance."""
    if op.op == "ttnn.add" and len(graph.consumers(op.outputs[0])) == 1:
        op = graph.consumers(op.outputs[0])[0]
    return op.op in _ROOTS


def _scales(op: Op) -> bool:
    """Whether operand 1 is a factor of the result."""
    return opdef(op.op).cost_class is CostClass.NORM or op.op == "ttnn.multiply"


def _fan_in(op: Op, position: int, shape: tuple[int, ...]) -> int | None:
    """Products per result, if the operand is the weights of a contraction."""
    if opdef(op.op).cost_class is CostClass.MATMUL and position < 2 and len(shape) > 1:
        rows = bool(op.attrs.get("transpose_b" if position else "transpose_a")) == bool(position == 0)
        return shape[-2] if rows else shape[-1]
    if op.op == "ttnn.conv2d" and position == 1:
        return prod(shape[1:])
    if op.op == "ttnn.conv_transpose2d" and position == 1:
        groups: Any = opdef(op.op).attr(op, "groups")
        return max(1, shape[0] * prod(shape[2:]) // int(groups))
    return None


def _reads(graph: Graph, value_id: str) -> list[tuple[Op, int, tuple[int, ...]]]:
    """(op, position, shape of the operand) of what reads a value, movement looked through, in the graph's order."""
    found: list[tuple[Op, int, tuple[int, ...]]] = []
    seen, stack = {value_id}, [value_id]
    while stack:
        current = stack.pop(0)
        for op in graph.consumers(current):
            if opdef(op.op).moves_elements and op.op != _TABLE[0]:
                stack += [v for v in op.outputs if v not in seen]
                seen.update(op.outputs)
            else:
                found += [(op, k, graph.value(v).shape) for k, v in enumerate(op.inputs) if v == current]
    return found
