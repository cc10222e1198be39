"""The file of the model that a result was made of, for emitters that need more than the result holds."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from optimizer.errors import OptionError
from optimizer.importers.loading import read_model_file
from optimizer.importers.model import ImportLimits, ImportOptions
from optimizer.result import OptimizedGraph


def limits_of(result: OptimizedGraph) -> ImportLimits:
    """Limits under which the result's own options read a model."""
    return ImportLimits(max_nodes=result.options.max_nodes, max_bytes=result.options.max_model_bytes)


def import_options(result: OptimizedGraph) -> ImportOptions:
    """How the model is read again for its elements."""
    return ImportOptions(result.options.input_shapes, result.options.dims, limits_of(result))


def model_file(result: OptimizedGraph, emitter: str) -> tuple[Path, bytes]:
    """The model's file and what is in it.

    OptionError where it is not known, and says how to name it, or where it is another one than the result's.
    """
    if result.source is None:
        raise OptionError(
            "needs the file of the model that the result was made of",
            node=emitter,
            alternatives=(
                f"ttopt optimize MODEL.onnx --emit {emitter}",
                f"ttopt export RESULT --emit {emitter} --model MODEL.onnx",
            ),
        )
    data = read_model_file(result.source, limits_of(result))
    stated, found = result.model.get("sha256"), sha256(data).hexdigest()
    if stated not in (None, found):
        raise OptionError(
            f"{result.source.name} is not the file that the result was made of: its SHA-256 is {found}, the result "
            f"names {stated}",
            node=emitter,
        )
    return result.source, data
