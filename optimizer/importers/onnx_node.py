"""Reading one ONNX node: its attributes, operands, constants and element types."""

from __future__ import annotations

from collections import Counter
from math import isnan
from typing import Any

import numpy as np
import onnx_ir as ir

from optimizer.errors import DTypeError, GraphError, ShapeError
from optimizer.importers.model import KEEP, ImportOptions
from optimizer.importers.onnx_front_end import FrontEndModel
from optimizer.importers.onnx_operands import unread
from optimizer.ir.dtype import DType
from optimizer.ir.sizes import check_shape

Shape = tuple[int, ...]

BF16_MAX = 3.3895313892515355e38
"""Largest finite bf16; infinite constants become +-this, so that every attribute has a JSON form."""
I32_MIN, I32_MAX = -(1 << 31), (1 << 31) - 1

_FLOATS = {
    ir.DataType.FLOAT: DType.F32,
    ir.DataType.DOUBLE: DType.F32,
    ir.DataType.FLOAT16: DType.BF16,
    ir.DataType.BFLOAT16: DType.BF16,
}
_INTEGERS = {
    ir.DataType.INT64: DType.I32,
    ir.DataType.INT32: DType.I32,
    ir.DataType.INT16: DType.I32,
    ir.DataType.INT8: DType.I32,
    ir.DataType.UINT64: DType.U32,
    ir.DataType.UINT32: DType.U32,
    ir.DataType.UINT16: DType.U16,
    ir.DataType.UINT8: DType.U8,
}


class NotMappedError(Exception):
    """Raised by a mapping that cannot express its node; the node then becomes an opaque op."""


class NodeReader:
    """The node at hand, read with the checks that every mapping needs."""

    def __init__(self, front: FrontEndModel, options: ImportOptions) -> None:
        self.front = front
        self.options = options
        self.conversions: Counter[str] = Counter()
        self.node: ir.Node = None  # type: ignore[assignment]
        self._read_attributes: set[str] = set()
        self._read_inputs: set[int] = set()

    def begin(self, node: ir.Node) -> None:
        """Read this node from now on."""
        self.node = node
        self._read_attributes.clear()
        self._read_inputs.clear()

    def check_read(self) -> None:
        """NotMappedError where the mapping has left something of the node aside that changes its result."""
        for what in unread(self.node, self._version, self._read_attributes, self._read_inputs):
            raise NotMappedError(f"{what} is not taken")

    @property
    def label(self) -> str:
        return f"{self.node.op_type} '{self.node.name or self.node.outputs[0].name}'"

    # -- the node --------------------------------------------------------------------------
    @property
    def opset(self) -> int:
        return self.front.model.opset_imports.get("", self.front.model.opset_imports.get("ai.onnx", 17))

    @property
    def _version(self) -> int:
        """Of the node's domain."""
        domain = self.node.domain
        return self.opset if domain in ("", "ai.onnx") else self.front.model.opset_imports.get(domain, 1)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's plain value (ints, floats, strings, lists as tuples)."""
        self._read_attributes.add(name)
        attribute = self.node.attributes.get(name)
        if attribute is None:
            return default
        value = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            return attribute.as_tensor().numpy()
        return tuple(value) if isinstance(value, list | tuple) else value

    def needed(self, name: str) -> Any:
        """An attribute that this use of the op cannot do without."""
        value = self.attr(name)
        if value is None:
            raise GraphError(f"attribute '{name}' is missing")
        return value

    def has_both(self, first: int, second: int) -> bool:
        """Whether two inputs are there that belong together; GraphError when only one is."""
        if self.has(first) != self.has(second):
            raise GraphError(f"inputs {first} and {second} belong together; one of them is missing")
        return self.has(first)

    def has(self, index: int) -> bool:
        self._read_inputs.add(index)
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> ir.Value:
        self._read_inputs.add(index)
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            raise GraphError(f"{self.label}: input {index} is missing", node=self.node.name)
        return value

    def shape(self, index: int) -> Shape:
        """Foreign shape of an input (a rank-0 tensor gives `()`)."""
        return foreign_shape(self.input(index))

    def out_shape(self, index: int = 0) -> Shape:
        return foreign_shape(self.node.outputs[index])

    def const(self, index: int) -> np.ndarray[Any, Any] | None:
        """An input's elements when they are known, else None (also for an absent input)."""
        return self.array(self.node.inputs[index]) if self.has(index) else None

    def need_const(self, index: int, what: str) -> np.ndarray[Any, Any]:
        array = self.const(index)
        if array is None:
            value = self.input(index)
            if value.name in self.front.parameters:
                why = self.front.why_without_elements(value.name or "")
                raise GraphError(f"needs the elements of '{value.name}' ({what}): {why}")
            raise NotMappedError(f"{what} is computed at run time")
        return array

    def array(self, value: ir.Value | None) -> np.ndarray[Any, Any] | None:
        if value is None or value.const_value is None or value.name in self.front.parameters:
            return None
        try:
            array = np.asarray(value.const_value.numpy())
        except (TypeError, ValueError) as error:
            raise GraphError(
                f"constant '{value.name}' has no elements for its shape: {error}", node=value.name
            ) from error
        return array.astype(np.float32) if value.dtype in (ir.DataType.BFLOAT16, ir.DataType.FLOAT16) else array

    def axis(self, given: Any, rank: int) -> int:
        """An axis counted from the front; GraphError when a tensor of `rank` dims has no such axis."""
        return self.stated_axis(given, rank) % max(rank, 1)

    def stated_axis(self, given: Any, rank: int) -> int:
        """An axis as the file counts it, from the front or (negative) from the back; GraphError outside."""
        axis, rank = int(given), max(rank, 1)
        if not -rank <= axis < rank:
            raise GraphError(f"axis {axis} is outside of a tensor of rank {rank}", node=self.node.name)
        return axis

    def axes(self, name: str, index: int) -> tuple[int, ...] | None:
        """Axes given as an attribute (old opsets) or as an input; None when absent."""
        given = self.attr(name)
        if given is None and self.has(index):
            given = self.need_const(index, name).reshape(-1).tolist()
        if given is None:
            return None
        return (int(given),) if isinstance(given, int) else tuple(int(a) for a in given)

    def scalar(self, value: ir.Value, rank: int) -> float | int | None:
        """A constant of one element that adds no dims to an operand of `rank` dims, as a number."""
        array = self.array(value)
        if array is None or array.size != 1 or array.ndim > max(rank, 1):
            return None
        return self.number(array.reshape(-1)[0])

    def number(self, raw: Any) -> float | int:
        """A finite number an attribute can hold; booleans become 0.0 and 1.0."""
        if isinstance(raw, np.integer):
            return max(I32_MIN, min(I32_MAX, int(raw)))
        number = float(raw)
        if isnan(number):
            raise GraphError(f"{self.label} has the constant NaN", node=self.node.name)
        return max(-BF16_MAX, min(BF16_MAX, number))

    # -- shapes and types ---------------------------------------------------------------------------
    def ir_shape(self, value: ir.Value) -> Shape:
        shape = foreign_shape(value) or (1,)
        limits = self.options.limits
        check_shape(value.name or "?", shape, limits.max_elements, limits.max_rank)
        return shape

    @property
    def float_dtype(self) -> DType:
        """Type of activations and of booleans."""
        policy = self.options.activations_dtype
        return DType(policy) if policy != KEEP else DType.BF16

    def dtype(self, value: ir.Value, parameter: bool = False) -> DType:
        """Device type of a foreign value; DTypeError for strings, complex and packed types."""
        kind = value.dtype
        if kind == ir.DataType.BOOL:
            return self.float_dtype
        if kind in _FLOATS:
            policy = self.options.weights_dtype if parameter else self.options.activations_dtype
            chosen = _FLOATS[kind] if policy == KEEP else DType(policy)
            if parameter and chosen.is_block_float and len(foreign_shape(value)) < 2:
                chosen = self.float_dtype
            return chosen
        if kind == ir.DataType.UINT8 and not parameter:
            return DType.I32  # TTNN neither computes with bytes nor moves them between tiles
        if kind in _INTEGERS:
            return _INTEGERS[kind]
        shown = kind.name.lower() if kind is not None else "unknown"
        raise DTypeError(
            f"'{value.name}': element type {shown} has no TTNN counterpart",
            node=value.name,
            alternatives=[k.name.lower() for k in (*_FLOATS, *_INTEGERS, ir.DataType.BOOL)],
        )

    def count_conversion(self, value: ir.Value, to: DType) -> None:
        kind = value.dtype
        if kind is not None and kind.name.lower() not in ("float", "bfloat16", "int32", "uint32", "uint16", "uint8"):
            self.conversions[f"{kind.name.lower()} -> {to.value}"] += 1
        elif (kind == ir.DataType.FLOAT and to is not DType.F32) or (
            kind == ir.DataType.BFLOAT16 and to is not DType.BF16
        ):
            self.conversions[f"{'f32' if kind == ir.DataType.FLOAT else 'bf16'} -> {to.value}"] += 1


def foreign_shape(value: ir.Value) -> Shape:
    """The inferred static shape."""
    if value.shape is None:
        raise ShapeError("shape unknown", node=value.name)
    return tuple(int(d) for d in value.shape)  # type: ignore[arg-type]
