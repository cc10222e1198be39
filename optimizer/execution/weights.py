"""The weights of a result from a file: the model itself, `weights.safetensors`, or an `.npz` file."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from optimizer.execution.arrays import read_file
from optimizer.export.model_file import import_options, limits_of
from optimizer.export.ttnn_py.run_model import Array
from optimizer.importers.loading import read_model_file
from optimizer.importers.onnx_arrays import open_weights, weights_of
from optimizer.result import OptimizedGraph
from optimizer.values.given import require

ARRAY_FILES = (".safetensors", ".npz")


def holds_arrays(path: Path) -> bool:
    """Whether a file of weights holds plain arrays, by its suffix; else it is a model."""
    return path.suffix.lower() in ARRAY_FILES


def read_weights(path: Path, result: OptimizedGraph) -> Mapping[str, Array]:
    """An array for each weight of a result's program that is not part of its graph, read when it is asked for.

    InputError when the file is none of the three kinds or lacks one.
    """
    if not holds_arrays(path):
        return weights_of(path, result.graph, import_options(result))
    found = read_file(path)
    names = list(open_weights(result.graph))
    require(names, found, f"weights of the result (in {path.name})")
    return {name: found[name] for name in names}


def same_model(path: Path, result: OptimizedGraph) -> bool:
    """Whether a file is the one that a result was made of, as far as the result says."""
    stated = result.model.get("sha256")
    return stated is None or stated == sha256(read_model_file(path, limits_of(result))).hexdigest()
