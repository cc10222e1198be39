"""The lowering context: a folded ONNX model becomes a `Graph`, node by node.

Each ONNX op type has one function (see `onnx_ops`) that reads its node through `Lowering` and emits ops
of the vocabulary. Convolutions, pools and the norms over channels are emitted as `nchw.*` ops; the
passes fuse around them and then write them in TTNN's channels-last form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan, prod
from typing import Any

import numpy as np
import onnx_ir as ir

from optimizer.errors import DTypeError, GraphError, LimitError, ShapeError
from optimizer.importers.model import KEEP, ImportOptions
from optimizer.importers.onnx_front_end import FrontEndModel, check_shape
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph, Op, Value, ValueKind
from optimizer.ir.vocabulary import opdef

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


NodeMapping = Callable[["Lowering"], "str | Sequence[str | None]"]
"""Reads the current node, emits ops, returns the value id of each output (one id for the first only)."""


def clean_id(text: str) -> str:
    """A name made an identifier: letters, digits and underscores."""
    cleaned = re.sub(r"[^0-9A-Za-z_]+", "_", text).strip("_")
    return f"op_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned


class Lowering:
    """State of one import; the mappings see the current node through it."""

    def __init__(
        self, front: FrontEndModel, options: ImportOptions, name: str, table: Mapping[str, NodeMapping]
    ) -> None:
        self.graph = Graph(name)
        self.front = front
        self.options = options
        self.table = table
        self.warnings: list[str] = []
        self.foreign_ops: Counter[str] = Counter()
        self.conversions: Counter[str] = Counter()
        self.causal: set[str] = set()
        """Ids of parameters whose file data is a causal mask."""
        self._ids: dict[str, str] = {}
        self._reserved = {v.name for n in front.model.graph for v in n.outputs if v.name}
        self._reserved |= {v.name for v in front.model.graph.inputs if v.name}
        self._names: Counter[str] = Counter()
        self._buffer: list[Op] = []
        self.node: ir.Node = None  # type: ignore[assignment]

    # -- the whole model ---------------------------------------------------------------------------
    def run(self) -> Graph:
        model = self.front.model.graph
        for value in model.inputs:
            if value.name not in self.front.parameters:
                self._add_input(value)
        for node in model:
            self._lower(node)
        self.graph.outputs = [self.use(v) for v in model.outputs]
        self._flush(None)
        self.graph.prune()
        return self.graph

    def _add_input(self, value: ir.Value) -> None:
        name = value.name or "input"
        self._ids[name] = name
        self.graph.add_value(Value(name, self.ir_shape(value), self.dtype(value), ValueKind.INPUT))
        self.graph.inputs.append(name)

    def _lower(self, node: ir.Node) -> None:
        self.node = node
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        key = f"{domain}{node.op_type}"
        self.foreign_ops[key] += 1
        mapping = self.table.get(key)
        outputs: str | Sequence[str | None]
        try:
            outputs = self._opaque(key) if mapping is None else mapping(self)
        except NotMappedError as reason:
            self._discard()
            self.warnings.append(f"{self.label}: {reason}; it becomes an opaque op")
            outputs = self._opaque(key)
        except (ShapeError, GraphError, DTypeError) as error:
            raise type(error)(f"{self.label}: {error.message}", node=node.name) from error
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
            raise GraphError(f"{self.label}: attributes and operands do not fit: {error}", node=node.name) from error
        self._bind([outputs] if isinstance(outputs, str) else outputs)
        self._flush(self._ids.get(node.outputs[0].name or ""))

    @property
    def label(self) -> str:
        return f"{self.node.op_type} '{self.node.name or self.node.outputs[0].name}'"

    def _opaque(self, key: str) -> list[str]:
        """An op that TTNN lacks: shapes from inference, attributes as far as they are plain."""
        inputs = [self.use(v) for v in self.node.inputs if v is not None]
        attrs: dict[str, Attr] = {}
        for name, attribute in sorted(self.node.attributes.items()):
            value = attribute.value
            if isinstance(value, int | float | str):
                attrs[name] = value
            elif isinstance(value, list | tuple) and all(isinstance(v, int | float | str) for v in value):
                attrs[name] = tuple(value)
        shapes = [(self.ir_shape(v), self.dtype(v)) for v in self.node.outputs if self._is_needed(v)]
        return self.emit_raw(f"onnx.{key}", inputs, attrs, shapes)

    def _is_needed(self, value: ir.Value) -> bool:
        return bool(value.name) and bool(value.uses() or value.is_graph_output())

    def _bind(self, ids: Sequence[str | None]) -> None:
        """Give the node's outputs their foreign names and check their shapes against inference."""
        wanted = list(self.node.outputs)
        if len(ids) != len(wanted):
            wanted = [v for v in wanted if self._is_needed(v)]
        for value, value_id in zip(wanted, ids, strict=False):
            name = value.name or ""
            if not name or value_id is None:
                if self._is_needed(value):
                    raise GraphError(f"{self.label}: output {name} has no counterpart", node=self.node.name)
                continue
            expected = self.ir_shape(value)
            found = self.graph.value(value_id).shape
            if found != expected:
                if prod(found) != prod(expected):
                    raise ShapeError(
                        f"{self.label}: shape {list(found)} found, {list(expected)} inferred", node=self.node.name
                    )
                value_id = self.reshape(value_id, expected)
            self._ids[name] = self._rename(value_id, name)

    def _rename(self, value_id: str, name: str) -> str:
        """Call a value that the current node computes by its foreign name; aliases keep theirs."""
        for index, op in enumerate(self._buffer):
            if value_id in op.outputs and name not in self.graph.values and value_id not in self._reserved:
                value = self.graph.values.pop(value_id)
                self.graph.values[name] = replace(value, id=name)
                for k, other in enumerate(self._buffer):
                    if k == index or value_id in other.inputs:
                        swap = {value_id: name}
                        inputs = tuple(swap.get(v, v) for v in other.inputs)
                        outputs = tuple(swap.get(v, v) for v in other.outputs)
                        self._buffer[k] = replace(other, inputs=inputs, outputs=outputs)
                return name
        return value_id

    def _flush(self, main: str | None) -> None:
        """Name the ops of the current node and add them to the graph; `main` is the value of its first output."""
        if not self._buffer:
            return
        name = self.node.name or f"{self.node.op_type}_{self.node.outputs[0].name}"
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}.{self._names[name] - 1}"
        plain = next((op for op in self._buffer if main in op.outputs), self._buffer[-1])
        heavy = [op for op in self._buffer if op.op.startswith(("nchw.", "ttnn.linear", "ttnn.matmul", "ttnn.scaled"))]
        plain = heavy[-1] if heavy else plain
        for op in self._buffer:
            suffix = "" if op is plain else op.op.rsplit(".", 1)[-1]
            shown = name if not suffix else f"{name}.{suffix}"
            op_id = self._fresh_id(clean_id(shown))
            if suffix:
                self._names[shown] += 1
                if self._names[shown] > 1:
                    shown = f"{shown}.{self._names[shown] - 1}"
            self.graph.add_op(replace(op, id=op_id, name=shown))
        self._buffer.clear()

    def _discard(self) -> None:
        for op in self._buffer:
            for value_id in op.outputs:
                del self.graph.values[value_id]
        self._buffer.clear()

    def _fresh_id(self, stem: str) -> str:
        candidate = self.graph.fresh_id(stem)
        while candidate in self._reserved:
            stem += "_"
            candidate = self.graph.fresh_id(stem)
        return candidate

    # -- reading the node --------------------------------------------------------------------------
    @property
    def opset(self) -> int:
        return self.front.model.opset_imports.get("", self.front.model.opset_imports.get("ai.onnx", 17))

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's plain value (ints, floats, strings, lists as tuples)."""
        attribute = self.node.attributes.get(name)
        if attribute is None:
            return default
        value = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            return attribute.as_tensor().numpy()
        return tuple(value) if isinstance(value, list | tuple) else value

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> ir.Value:
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            raise GraphError(f"{self.label}: input {index} is missing", node=self.node.name)
        return value

    def x(self, index: int) -> str:
        """Value id of an input."""
        return self.use(self.input(index))

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
                raise GraphError(f"needs the elements of '{value.name}' ({what}), which are not in the file")
            raise NotMappedError(f"{what} is computed at run time")
        return array

    def array(self, value: ir.Value | None) -> np.ndarray[Any, Any] | None:
        if value is None or value.const_value is None or value.name in self.front.parameters:
            return None
        array = np.asarray(value.const_value.numpy())
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

    # -- values ------------------------------------------------------------------------------------
    def ir_shape(self, value: ir.Value) -> Shape:
        shape = foreign_shape(value) or (1,)
        check_shape(value.name or "?", shape, self.options.limits)
        if 0 in shape:
            raise ShapeError(f"tensor '{value.name}' of shape {list(shape)} is empty", node=value.name)
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
        if kind in _INTEGERS:
            return _INTEGERS[kind]
        shown = kind.name.lower() if kind is not None else "unknown"
        raise DTypeError(
            f"'{value.name}': element type {shown} has no TTNN counterpart",
            node=value.name,
            alternatives=[k.name.lower() for k in (*_FLOATS, *_INTEGERS, ir.DataType.BOOL)],
        )

    def _count_conversion(self, value: ir.Value, to: DType) -> None:
        kind = value.dtype
        if kind is not None and kind.name.lower() not in ("float", "bfloat16", "int32", "uint32", "uint16", "uint8"):
            self.conversions[f"{kind.name.lower()} -> {to.value}"] += 1
        elif (kind == ir.DataType.FLOAT and to is not DType.F32) or (
            kind == ir.DataType.BFLOAT16 and to is not DType.BF16
        ):
            self.conversions[f"{'f32' if kind == ir.DataType.FLOAT else 'bf16'} -> {to.value}"] += 1

    def use(self, value: ir.Value) -> str:
        """Value id of a foreign value; parameters and constants come into being on first use."""
        name = value.name or "?"
        if name in self._ids:
            return self._ids[name]
        array = self.array(value)
        is_weight = name in self.front.parameters or name in self.front.weights
        dtype = self.dtype(value, parameter=is_weight)
        shape = self.ir_shape(value)
        if array is not None:
            kind, data = ValueKind.CONSTANT, self._data(array)
        elif name in self.front.parameters:
            kind, data = ValueKind.PARAMETER, None
        else:
            raise GraphError(f"{self.label} reads '{name}', which nothing defines", node=name)
        self._count_conversion(value, dtype)
        self.graph.add_value(Value(name, shape, dtype, kind, data))
        if name in self.front.causal:
            self.causal.add(name)
        self._ids[name] = name
        return name

    def _data(self, array: np.ndarray[Any, Any]) -> tuple[float, ...]:
        if array.size > self.options.limits.max_elements:
            raise LimitError("constant too large", limit=self.options.limits.max_elements)
        if np.issubdtype(array.dtype, np.integer):
            return tuple(int(v) for v in np.clip(array.reshape(-1), I32_MIN, I32_MAX).tolist())
        flat = np.clip(np.nan_to_num(array.reshape(-1).astype(np.float64), nan=0.0, posinf=BF16_MAX, neginf=-BF16_MAX),
                       -BF16_MAX, BF16_MAX)  # fmt: skip
        return tuple(flat.tolist())

    def constant(self, array: np.ndarray[Any, Any], dtype: DType, stem: str = "constant") -> str:
        """A new constant with the given elements."""
        value_id = self._fresh_id(f"{clean_id(self.node.name or self.node.op_type)}_{stem}")
        shape = tuple(array.shape) or (1,)
        self.graph.add_value(Value(value_id, shape, dtype, ValueKind.CONSTANT, self._data(array)))
        return value_id

    def vshape(self, value_id: str) -> Shape:
        return self.graph.value(value_id).shape

    def vdtype(self, value_id: str) -> DType:
        return self.graph.value(value_id).dtype

    def is_static(self, value_id: str) -> bool:
        """Whether a value is a parameter or constant."""
        return self.graph.value(value_id).kind in (ValueKind.PARAMETER, ValueKind.CONSTANT)

    # -- emitting ----------------------------------------------------------------------------------
    def emit(self, op: str, *inputs: str, **attrs: Attr) -> str:
        """Emit a vocabulary op (name without `ttnn.`) with one result; shapes come from its rule."""
        return self.emit_all(op, inputs, attrs, 1)[0]

    def emit_all(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Attr], count: int) -> list[str]:
        row = opdef(f"ttnn.{op}")
        proto = Op(self._origin(), row.name, tuple(inputs), (), dict(attrs))
        shapes = row.infer_shapes(proto, tuple(self.vshape(v) for v in inputs))
        dtypes = row.infer_dtypes(proto, tuple(self.vdtype(v) for v in inputs), count)
        return self.emit_raw(row.name, inputs, attrs, list(zip(shapes, dtypes, strict=True)))

    def emit_raw(
        self, op: str, inputs: Sequence[str], attrs: Mapping[str, Attr], results: Sequence[tuple[Shape, DType]]
    ) -> list[str]:
        """Emit an op whose result shapes and types the caller states."""
        static = all(self.is_static(v) for v in inputs)
        kind = ValueKind.PARAMETER if static else ValueKind.ACTIVATION
        stem = clean_id(self.node.name or self.node.outputs[0].name or self.node.op_type)
        ids: list[str] = []
        for shape, dtype in results:
            if 0 in shape:
                raise ShapeError(f"{self.label} computes an empty tensor {list(shape)}", node=self.node.name)
            value_id = self._fresh_id(f"{stem}_{op.rsplit('.', 1)[-1]}_out")
            self.graph.add_value(Value(value_id, shape, dtype, kind))
            ids.append(value_id)
        self._buffer.append(Op("", op, tuple(inputs), tuple(ids), dict(attrs), origin=(self._origin(),)))
        return ids

    def _origin(self) -> str:
        return self.node.name or self.node.outputs[0].name or self.node.op_type

    def reshape(self, value_id: str, shape: Shape) -> str:
        return value_id if self.vshape(value_id) == shape else self.emit("reshape", value_id, shape=shape)

    def permute(self, value_id: str, dims: Sequence[int]) -> str:
        if list(dims) == sorted(dims):
            return value_id
        return self.emit("permute", value_id, dims=tuple(int(d) for d in dims))

    def typecast(self, value_id: str, dtype: DType) -> str:
        if self.vdtype(value_id) is dtype:
            return value_id
        return self.emit("typecast", value_id, dtype=dtype.value)

    def slice(self, value_id: str, dim: int, begin: int, end: int, step: int = 1) -> str:
        """Slice one dimension."""
        shape = self.vshape(value_id)
        if (begin, end, step) == (0, shape[dim], 1):
            return value_id
        begins = tuple(begin if i == dim else 0 for i in range(len(shape)))
        ends = tuple(end if i == dim else s for i, s in enumerate(shape))
        steps = tuple(step if i == dim else 1 for i in range(len(shape)))
        return self.emit("slice", value_id, begins=begins, ends=ends, steps=steps)


def foreign_shape(value: ir.Value) -> Shape:
    """The inferred static shape."""
    if value.shape is None:
        raise ShapeError("shape unknown", node=value.name)
    return tuple(int(d) for d in value.shape)  # type: ignore[arg-type]
