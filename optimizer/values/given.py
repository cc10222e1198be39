"""The values that a model's errors are measured with: its own weights and calibration inputs, or random ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from optimizer.errors import FormatError, GraphError
from optimizer.importers.model import ImportOptions
from optimizer.importers.onnx_arrays import open_weights, weights_of
from optimizer.ir.graph import Graph
from optimizer.values.random_arrays import random_inputs, random_weights
from optimizer.values.reference.kinds import Array

RANDOM = "random"


@dataclass(frozen=True)
class GivenValues:
    """What the user gives."""

    weights: Mapping[str, Array] | None = None
    """By the names that the imported graph gives them."""
    inputs: Mapping[str, Array] | None = None
    """By name."""


@dataclass(frozen=True)
class ModelValues:
    """Inputs and weights of one graph by value, and where they are from."""

    arrays: Mapping[str, Array]
    weights: str
    """`given`, `model` or `random`."""
    inputs: str
    """`given` or `random`."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person has to know before relying on what is measured with them."""
        found = []
        if self.weights == RANDOM:
            found.append(
                "the model's file holds no weights: errors are measured with RANDOM weights, and say little of "
                "the real model's (--weights FILE gives it its own)"
            )
        if self.inputs == RANDOM:
            found.append("errors are measured with random inputs (--calibration X.npz gives the model real ones)")
        return tuple(found)


def model_values(
    graph: Graph, given: GivenValues, source: Path | None, options: ImportOptions, seed: int
) -> ModelValues:
    """Arrays for all inputs and weights of a graph. GraphError names what is missing among those given."""
    weights: Mapping[str, Array] | None
    if given.weights is not None:
        weights, from_where = _named(open_weights(graph), given.weights, "weights"), "given"
    else:
        weights, from_where = _own_weights(graph, source, options)
    if weights is None:
        weights = random_weights(graph, seed)
    if given.inputs is not None:
        inputs, source_of_inputs = _named(dict.fromkeys(graph.inputs), given.inputs, "inputs"), "given"
    else:
        inputs, source_of_inputs = random_inputs(graph, seed), RANDOM
    return ModelValues({**weights, **inputs}, from_where, source_of_inputs)


def _own_weights(graph: Graph, source: Path | None, options: ImportOptions) -> tuple[Mapping[str, Array] | None, str]:
    """The weights that the model's file holds; None where it holds only their shapes, or is no such file."""
    if source is None or source.suffix.lower() != ".onnx":
        return None, RANDOM
    try:
        found = weights_of(source, graph, options)
        return {name: found[name] for name in found}, "model"
    except (FormatError, GraphError):
        return None, RANDOM


def _named(wanted: Mapping[str, object], given: Mapping[str, Array], what: str) -> dict[str, Array]:
    missing = [name for name in wanted if name not in given]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise GraphError(f"{len(missing)} of {len(wanted)} {what} are missing: {shown}")
    return {name: given[name] for name in wanted}
