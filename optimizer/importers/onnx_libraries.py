"""What the importer knows of the ONNX libraries beyond their interface."""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.shape_inference

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
LIBRARY_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
)
"""What the ONNX libraries raise on models that they cannot digest."""
