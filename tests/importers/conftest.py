"""The witness (numpy interpreter against onnxruntime), and small ONNX models to try it on."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import onnx
import pytest
import witness as witness_module
from op_case import build


@pytest.fixture(scope="session")
def witness() -> ModuleType:
    """The module `witness`."""
    return witness_module


@pytest.fixture(scope="session")
def make_model() -> Callable[..., onnx.ModelProto]:
    return build
