"""Inputs as models get them, by what they are for: masks that let everything through, positions and time steps over
their range, images whose neighbouring pixels are alike; all else random, whole numbers below what they index.

What an input is for is read off the graph: followed through movement, casts and ops with constants until an op tells.
Names help where models tell nothing ("attention_mask", "position_ids").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from optimizer.export.ttnn_py.index_bounds import index_bounds
from optimizer.export.ttnn_py.run_model import Array, random_array
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.kernels.tensix.rounding import round_bf16

SAMPLES, LEAST_SAMPLES = 8, 3
"""Inputs that errors are measured with where none are given; of a model of many products fewer,"""
MOST_PRODUCTS = 1 << 38
"""so that all samples together have no more (multiply-adds), each of which is emulated in every round."""
_OFFSETS = (0, 448, 4032, 64, 960, 8128, 16, 2048)
"""First positions, sample by sample."""
_STEPS = (501, 1, 999, 250, 750, 20, 900, 100)
"""Time steps, sample by sample."""
_MASKING = 1e3
"""A factor or addend as large as that is there to hide what it meets."""
_FEW = 8
"""Up to so many elements that become angles are time steps, more are positions."""
_SIDE = 32
"""From which on the last two large dims of an input are those of an image,"""
_CHANNELS = 4
"""if it has at most so many others that are alike."""
_MASK_OPERAND = {"ttnn.scaled_dot_product_attention": 3, "ttnn.where": 0}
_ANGLES = ("ttnn.sin", "ttnn.cos")


def sample_count(graph: Graph) -> int:
    """How many samples errors of a model are measured with."""
    products = 0
    for op in graph.run_ops():
        row = opdef(op.op)
        if row.products is not None:
            products += row.products(row.full_attrs(op), [graph.value(v).shape for v in op.inputs]).multiply_adds
    return max(LEAST_SAMPLES, min(SAMPLES, MOST_PRODUCTS // max(1, products)))


class Meaning(Enum):
    """What an input is for."""

    SHOWN = "a mask whose ones let through"
    ADDED = "a mask that is added to scores"
    POSITION = "positions"
    STEP = "a time step"
    IMAGE = "an image"
    OTHER = "anything else"


def typical_inputs(graph: Graph, seed: int, sample: int = 0) -> Mapping[str, Array]:
    """One sample's inputs by name, made when they are asked for; the same for the same seed and sample."""
    return _Sample(graph, seed, sample)


class _Sample(Mapping[str, Array]):
    def __init__(self, graph: Graph, seed: int, sample: int) -> None:
        self._graph, self._seed, self._sample = graph, seed, sample
        self._below = index_bounds(graph)

    def __getitem__(self, name: str) -> Array:
        if name not in self._graph.inputs:
            raise KeyError(name)
        value, below = self._graph.value(name), self._below.get(name)
        meaning, dtype = meaning_of(self._graph, name), np.float32 if value.dtype.is_float else np.int64
        position = self._graph.inputs.index(name)
        if meaning in (Meaning.SHOWN, Meaning.ADDED):
            return np.full(value.shape, meaning is Meaning.SHOWN, dtype)
        if meaning is Meaning.STEP:
            return np.full(value.shape, min(_nth(_STEPS, self._sample), (below or 1000) - 1), dtype)
        if meaning is Meaning.POSITION:
            length = value.shape[-1] if value.shape else 1
            first = min(_nth(_OFFSETS, self._sample), max(0, (below or 1 << 30) - length))
            return np.broadcast_to(first + np.arange(length), value.shape).astype(dtype)
        if meaning is Meaning.IMAGE:
            return _image(value.shape, np.random.default_rng([self._seed + self._sample, position]))
        return random_array(value.shape, not value.dtype.is_float, below, self._seed + self._sample, position)

    def __iter__(self) -> Iterator[str]:
        return iter(self._graph.inputs)

    def __len__(self) -> int:
        return len(self._graph.inputs)


def meaning_of(graph: Graph, name: str) -> Meaning:
    """What an input is for, as far as the graph and its name tell."""
    value, seen = graph.value(name), _followed(graph, name)
    if seen.is_mask or "mask" in name.lower():
        shown = not value.dtype.is_float or seen.hides
        return Meaning.SHOWN if shown else Meaning.ADDED
    if seen.is_angle:
        return Meaning.STEP if value.volume <= _FEW else Meaning.POSITION
    if "position" in name.lower() and not value.dtype.is_float:
        return Meaning.POSITION
    large = [size for size in value.shape if size >= _SIDE]
    small = [size for size in value.shape[1:] if size < _SIDE]
    if value.dtype.is_float and len(value.shape) == 4 and len(large) == 2 and max(small, default=1) <= _CHANNELS:
        return Meaning.IMAGE
    return Meaning.OTHER


@dataclass
class _Seen:
    """Where an input's elements go."""

    is_mask: bool = False
    is_angle: bool = False
    hides: bool = False
    """Whether a large number is multiplied by them, or by one less them."""


def _followed(graph: Graph, name: str) -> _Seen:
    found, stack, seen = _Seen(), [name], {name}
    while stack:
        current = stack.pop()
        for op in graph.consumers(current):
            position = op.inputs.index(current)
            found.is_angle |= op.op in _ANGLES
            found.is_mask |= _MASK_OPERAND.get(op.op) == position
            if op.op == "ttnn.multiply" and _largest(graph, op) >= _MASKING:
                found.is_mask = found.hides = True
            found.is_mask |= op.op == "ttnn.add" and _feeds_softmax(graph, op) and current not in _products(graph, op)
            if _is_followed(graph, op, position):
                stack += [v for v in op.outputs if v not in seen]
                seen.update(op.outputs)
    return found


def _is_followed(graph: Graph, op: Op, position: int) -> bool:
    """Movement of an operand, and element-wise ops on it and on constants; a column times a row too."""
    row = opdef(op.op)
    if row.opaque or op.op in _ANGLES:
        return False
    if row.moves_elements:
        return position == 0 and row.cost_class is not CostClass.EMBEDDING
    others = (graph.value(v).kind for v in op.inputs if v != op.inputs[position])
    alone = all(kind in (ValueKind.CONSTANT, ValueKind.PARAMETER) for kind in others)
    outer = op.op == "ttnn.matmul" and 1 in graph.value(op.inputs[0]).shape[-2:]
    return alone and (row.cost_class is CostClass.ELTWISE or outer)


def _largest(graph: Graph, op: Op) -> float:
    """Largest size of the numbers that an op multiplies by."""
    scalar = op.attrs.get("scalar")
    numbers = [abs(float(scalar))] if isinstance(scalar, int | float) else []
    for v in op.inputs:
        numbers += [abs(x) for x in graph.value(v).data or ()]
    return max(numbers, default=0.0)


def _feeds_softmax(graph: Graph, op: Op) -> bool:
    return any(reader.op == "ttnn.softmax" for v in op.outputs for reader in graph.consumers(v))


def _products(graph: Graph, op: Op) -> set[str]:
    """Operands that are made of products: scores, not masks."""
    found = set()
    for v in op.inputs:
        maker = graph.producer(v)
        while maker is not None and (opdef(maker.op).moves_elements or opdef(maker.op).cost_class is CostClass.ELTWISE):
            maker = graph.producer(maker.inputs[0]) if maker.inputs else None
        if maker is not None and opdef(maker.op).cost_class is CostClass.MATMUL:
            found.add(v)
    return found


def _image(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Noise of which every octave has the same size, as in photographs, near unit size, in numbers that bf16 holds."""
    large = [d for d, size in enumerate(shape) if size >= _SIDE]
    total = np.zeros(shape, np.float32)
    octaves = int(np.log2(min(shape[d] for d in large)))
    for octave in range(octaves):
        coarse = [-(-size // (1 << octave)) if d in large else size for d, size in enumerate(shape)]
        noise = rng.standard_normal(coarse, np.float32)
        for d in large:
            noise = noise.repeat(1 << octave, axis=d).take(range(shape[d]), axis=d)
        total += noise
    return round_bf16(total / np.float32(np.sqrt(octaves)))


def _nth(choices: tuple[int, ...], sample: int) -> int:
    return choices[sample % len(choices)]
