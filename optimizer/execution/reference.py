"""What an ONNX model computes, by onnxruntime in f32 on this machine's CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optimizer.errors import ExecutionError, OptionError
from optimizer.export.ttnn_py.run_model import Array
from optimizer.importers.model import ImportLimits
from optimizer.importers.onnx_reference import ReferenceModel, fitted, reference_model
from optimizer.process.extras import how_to_install

_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint64)": "uint64",
    "tensor(uint32)": "uint32",
    "tensor(uint16)": "uint16",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


class Reference:
    """A model loaded into onnxruntime. ExecutionError when it does not take the model."""

    def __init__(self, path: Path, limits: ImportLimits | None = None, taps: Sequence[str] = ()) -> None:
        """`taps`: tensors to give beside the outputs, as far as nodes of the model compute them."""
        runtime = _runtime()
        model = reference_model(path, limits, taps)
        self.outputs = model.outputs
        self._session = _session(runtime, model, path)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs and tapped values by name."""
        wanted = {i.name: (_TYPES.get(i.type, "float32"), len(i.shape)) for i in self._session.get_inputs()}
        names = [output.name for output in self._session.get_outputs()]
        try:
            found = self._session.run(names, fitted(inputs, wanted))
        except Exception as error:
            raise ExecutionError(f"onnxruntime fails to run the model: {_first_line(error)}") from error
        return dict(zip(names, found, strict=True))


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise OptionError(
            f"a comparison needs the package onnxruntime: {how_to_install('compare')}", node="compare"
        ) from error
    return onnxruntime


def _session(runtime: Any, model: ReferenceModel, path: Path) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.use_deterministic_compute = True
    try:
        return runtime.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ExecutionError(f"onnxruntime does not take {path.name}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
