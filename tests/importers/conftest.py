"""The witness (numpy interpreter against onnxruntime) and small ONNX models to try it on."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "onnx"


@pytest.fixture(scope="session")
def witness() -> ModuleType:
    """The module `witness`, loaded by path: test folders are no packages."""
    key = "importer_tests_witness"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, Path(__file__).with_name("witness.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[key])
    return sys.modules[key]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of real graphs without weights."""
    return FIXTURES


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, int] | Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; inputs are name -> shape (f32) or (shape, type), outputs name -> type (or names of f32 ones)."""
    infos = []
    for name, given in inputs.items():
        typed = len(given) == 2 and isinstance(given[0], tuple)
        shape, kind = given if typed else (given, TensorProto.FLOAT)
        infos.append(helper.make_tensor_value_info(name, kind, list(shape)))
    kinds = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs, TensorProto.FLOAT)
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "small", infos, results, tensors)
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid(d, 1) for d in domains]]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.fixture(scope="session")
def make_model() -> Callable[..., onnx.ModelProto]:
    return build
