"""The file of the model that a result was made of, for emitters that need more than the result holds."""

from __future__ import annotations

from pathlib import Path

from optimizer.errors import OptionError
from optimizer.result import OptimizedGraph


def model_file(result: OptimizedGraph, emitter: str) -> Path:
    """The model's file; OptionError that says how to name one where it is not known."""
    if result.source is None:
        raise OptionError(
            f"{emitter} needs the file of the model that the result was made of",
            node=emitter,
            alternatives=(
                f"ttopt optimize MODEL.onnx --emit {emitter}",
                f"ttopt export RESULT --emit {emitter} --model MODEL.onnx",
            ),
        )
    return result.source
