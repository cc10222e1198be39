"""The values that a model's errors are measured with: its own weights and calibration inputs, or random ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from optimizer.errors import FormatError, GraphError, ShapeError
from optimizer.importers.loading import FORMATS
from optimizer.importers.model import ImportOptions
from optimizer.ir.graph import Graph
from optimizer.values.reference.kinds import Array

RANDOM = "random"
_SHOWN = 5
"""Missing arrays that an error names."""


@dataclass(frozen=True)
class GivenValues:
    """What the user gives."""

    weights: Mapping[str, Array] | None = None
    """By the names that the imported graph gives them."""
    inputs: Mapping[str, Array] | None = None
    """By name."""


class Joined(Mapping[str, Array]):
    """Several mappings as one, what they hold left where it is; of a name in two the first counts."""

    def __init__(self, *parts: Mapping[str, Array]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Array:
        for part in self._parts:
            if name in part:
                return part[name]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(name in part for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for part in self._parts for name in part))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class ModelValues:
    """Inputs and weights of one graph by value, and where they are from."""

    arrays: Mapping[str, Array]
    weights: str
    """`given`, `model` or `random`."""
    inputs: str
    """`given` or `random`."""
    because: str | None = None
    """Why weights are random; None where they are not."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person has to know before relying on what is measured with them."""
        found = []
        if self.because is not None:
            found.append(
                f"errors are measured with RANDOM weights, and say little of the real model's: {self.because} "
                "(--weights FILE gives it its own)"
            )
        if self.inputs == RANDOM:
            found.append("errors are measured with random inputs (--calibration X.npz gives the model real ones)")
        return tuple(found)


def model_values(
    graph: Graph, given: GivenValues, source: Path | None, options: ImportOptions, seed: int
) -> ModelValues:
    """Arrays for all inputs and weights of a graph.

    GraphError names what is missing among those given, ShapeError what has another size. What reads and makes arrays is
    loaded here: with it comes the whole front end for ONNX, and most runs have no error budget.
    """
    from optimizer.importers.onnx_arrays import open_weights
    from optimizer.values.random_arrays import random_inputs, random_weights

    if given.inputs is None:
        inputs, of_inputs = random_inputs(graph, seed), RANDOM
    else:
        inputs, of_inputs = _named(graph, graph.inputs, given.inputs, "inputs"), "given"
    if given.weights is not None:
        weights = _named(graph, open_weights(graph), given.weights, "weights")
        return ModelValues(Joined(weights, inputs), "given", of_inputs)
    own, because = _own_weights(graph, source, options)
    if own is None:
        return ModelValues(Joined(random_weights(graph, seed), inputs), RANDOM, of_inputs, because)
    return ModelValues(Joined(own, inputs), "model", of_inputs)


def _own_weights(
    graph: Graph, source: Path | None, options: ImportOptions
) -> tuple[Mapping[str, Array] | None, str | None]:
    """The weights that the model's file holds; or why there are none."""
    from optimizer.importers.onnx_arrays import weights_of

    if source is None:
        return None, "the model was handed over without its file"
    if source.suffix.lower() not in FORMATS["onnx"].suffixes:
        return None, "a JSON graph holds no weights"
    try:
        found = weights_of(source, graph, options)
        for name in found:
            found[name]  # an error where its elements are missing
        return found, None
    except (FormatError, GraphError) as error:
        return None, error.message


def _named(graph: Graph, wanted: Iterable[str], given: Mapping[str, Array], what: str) -> dict[str, Array]:
    names = list(wanted)
    missing = [name for name in names if name not in given]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        raise GraphError(f"{len(missing)} of {len(names)} {what} are missing: {shown}")
    for name in names:
        shape = graph.value(name).shape
        if _spread(given[name].shape) != _spread(shape):
            raise ShapeError(f"'{name}' has the shape {list(given[name].shape)}, not {list(shape)}", node=name)
    return {name: given[name] for name in names}


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Dims of more than one: those of one are often left out."""
    return tuple(size for size in shape if size != 1)
