"""The values that a model's errors are measured with: its own weights and calibration inputs, or random ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from optimizer.errors import FormatError, GraphError, ShapeError
from optimizer.importers.loading import FORMATS, format_of
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
    """By name: of one sample, or of several along a dim in front, or along the first dim."""


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

    samples: tuple[Mapping[str, Array], ...]
    """One or more: of each, all inputs and weights."""
    weights: str
    """`given` (some of them at least), `model` or `random`."""
    inputs: str
    """`given` or `random` (`optimizer.values.typical_inputs`)."""
    because: str | None = None
    """Why weights are random; None where they are not."""

    @property
    def arrays(self) -> Mapping[str, Array]:
        """Those of the first sample."""
        return self.samples[0]

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
            found.append(
                f"errors are measured with {len(self.samples)} random inputs "
                "(--calibration X.npz gives the model real ones)"
            )
        return tuple(found)


def model_values(
    graph: Graph, given: GivenValues, source: Path | bytes | None, options: ImportOptions, seed: int
) -> ModelValues:
    """Arrays for all inputs and weights of a graph, of as many samples as are given.

    Weights are those that are given, else the model's own; random where it holds none. GraphError names what is missing
    among those given, ShapeError what has another size. What reads and makes arrays is loaded here: with it comes the
    whole front end for ONNX, and most runs have no error budget.
    """
    from optimizer.importers.onnx_arrays import open_weights
    from optimizer.values.random_arrays import random_weights
    from optimizer.values.typical_inputs import sample_count, typical_inputs

    inputs: Sequence[Mapping[str, Array]]
    weights: Mapping[str, Array]
    if given.inputs is None:
        inputs, of_inputs = [typical_inputs(graph, seed, k) for k in range(sample_count(graph))], RANDOM
    else:
        inputs, of_inputs = _samples(graph, given.inputs), "given"
    own, because = _own_weights(graph, source, options)
    wanted = open_weights(graph)
    if given.weights is not None:
        of_file = own is not None and any(v in given.weights for v in wanted)
        named = _named(graph, [v for v in wanted if not of_file or v in given.weights], given.weights, "weights")
        weights, of_weights, because = Joined(named, own or {}), "given", None
    elif own is not None:
        weights, of_weights = own, "model"
    else:
        weights, of_weights = random_weights(graph, seed), RANDOM
    return ModelValues(tuple(Joined(weights, one) for one in inputs), of_weights, of_inputs, because)


def _own_weights(
    graph: Graph, source: Path | bytes | None, options: ImportOptions
) -> tuple[Mapping[str, Array] | None, str | None]:
    """The weights that the model's file holds; or why there are none."""
    from optimizer.importers.onnx_arrays import weights_of

    if source is None:
        return None, "the model was handed over without its file"
    data = source if isinstance(source, bytes) else b""
    if format_of(data, "" if isinstance(source, bytes) else source.suffix.lower()) is not FORMATS["onnx"]:
        return None, "a JSON graph holds no weights"
    try:
        found = weights_of(source, graph, options)
        for name in found:
            found[name]  # an error where its elements are missing
        return found, None
    except (FormatError, GraphError) as error:
        return None, error.message


def _samples(graph: Graph, given: Mapping[str, Array]) -> Sequence[Mapping[str, Array]]:
    """The inputs of each sample; one that has a single sample is the same in all of them."""
    require(graph.inputs, given, "inputs")
    parts = {name: _parts(name, given[name], graph.value(name).shape) for name in graph.inputs}
    counts = {name: len(found) for name, found in parts.items() if len(found) > 1}
    count = max(counts.values(), default=1)
    for name, held in counts.items():
        if held != count:
            other = next(v for v, n in counts.items() if n == count)
            raise ShapeError(f"'{name}' has {held} samples, '{other}' {count}", node=name)
    return [{name: found[k % len(found)] for name, found in parts.items()} for k in range(count)]


def _parts(name: str, array: Array, shape: tuple[int, ...]) -> list[Array]:
    """The samples of an input of this shape. ShapeError where the array holds none, or a part of one."""
    if _spread(array.shape) == _spread(shape):
        return [array]
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape and len(array):
        return list(array)
    more = array.ndim == len(shape) > 0 and array.shape[1:] == shape[1:] and array.shape[0] > 0
    if more and array.shape[0] % shape[0] == 0:
        return list(array.reshape(-1, *shape))
    raise ShapeError(
        f"'{name}' has the shape {list(array.shape)}, not {list(shape)}, nor samples of that along the first dim",
        node=name,
    )


def require(names: Sequence[str], given: Mapping[str, Array], what: str) -> None:
    """GraphError naming what is missing."""
    missing = [name for name in names if name not in given]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        raise GraphError(f"{len(missing)} of {len(names)} {what} are missing: {shown}")


def _named(graph: Graph, wanted: Iterable[str], given: Mapping[str, Array], what: str) -> dict[str, Array]:
    names = list(wanted)
    require(names, given, what)
    for name in names:
        shape = graph.value(name).shape
        if _spread(given[name].shape) != _spread(shape):
            raise ShapeError(f"'{name}' has the shape {list(given[name].shape)}, not {list(shape)}", node=name)
    return {name: given[name] for name in names}


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Dims of more than one: those of one are often left out."""
    return tuple(size for size in shape if size != 1)
