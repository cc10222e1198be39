"""The lowering context: a folded ONNX model becomes a `Graph`, node by node.

Each ONNX op type has one function (see `onnx_ops`) that reads its node through `Lowering` and emits ops
of the vocabulary. Convolutions, pools and the norms over channels are emitted as `nchw.*` ops; the
passes fuse around them and then write them in TTNN's channels-last form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from math import isfinite, prod
from typing import Any

import numpy as np
import onnx_ir as ir

from optimizer.errors import DTypeError, GraphError, LimitError, ShapeError
from optimizer.importers.model import Budget, ImportOptions
from optimizer.importers.onnx_checks import op_key
from optimizer.importers.onnx_front_end import FrontEndModel
from optimizer.importers.onnx_node import BF16_MAX, I32_MAX, I32_MIN, NodeReader, NotMappedError, Shape
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, ForeignTensor, Graph, Op, Value, ValueKind
from optimizer.ir.making import results_of
from optimizer.ir.positions import position_attrs
from optimizer.process.plugins import plugin_failure

__all__ = ["Lowering", "NodeMapping", "NotMappedError", "Shape", "clean_id"]

STEPS_OF_AN_OP = 8
"""What making an op costs in the import's budget; the passes visit each many times."""
NodeMapping = Callable[["Lowering"], "str | Sequence[str | None]"]
"""Reads the current node, emits ops, returns the value id of each output (one id for the first only)."""


def clean_id(text: str) -> str:
    """A name made an identifier: letters, digits and underscores."""
    cleaned = re.sub(r"[^0-9A-Za-z_]+", "_", text).strip("_")
    return f"op_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned


class Lowering(NodeReader):
    """State of one import; the mappings see the current node through it."""

    def __init__(
        self,
        front: FrontEndModel,
        options: ImportOptions,
        budget: Budget,
        name: str,
        table: Mapping[str, NodeMapping],
        lacking: Callable[[str], str],
    ) -> None:
        super().__init__(front, options)
        self.budget = budget
        self.graph = Graph(name)
        self.table = table
        self.lacking = lacking
        self.warnings: list[str] = []
        self.reasons: dict[str, str] = {}
        """Name of a node that becomes an opaque op -> why."""
        self.foreign_ops: Counter[str] = Counter()
        self.causal: set[str] = set()
        """Ids of parameters whose file data is a causal mask."""
        self._ids: dict[str, str] = {}
        self._reserved = {v.name for n in front.model.graph for v in n.outputs if v.name}
        self._reserved |= {v.name for v in front.model.graph.inputs if v.name}
        self._names: Counter[str] = Counter()
        self._buffer: list[Op] = []

    # -- the whole model ---------------------------------------------------------------------------
    def run(self) -> Graph:
        model = self.front.model.graph
        for name in self.front.left_out:
            self.warnings.append(f"input '{name}' is left out: nothing reads it")
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
        shape = self.ir_shape(value)
        whole = ForeignTensor.whole(name, shape)
        self.graph.add_value(Value(name, shape, self.dtype(value), ValueKind.INPUT, stands_for=whole))
        self.graph.inputs.append(name)

    def _lower(self, node: ir.Node) -> None:
        self.begin(node)
        self.budget.work(self.label, 1 + len(node.inputs) + len(node.outputs))
        key = op_key(node)
        self.foreign_ops[key] += 1
        mapping = self.table.get(key)
        outputs: str | Sequence[str | None]
        try:
            if mapping is None:
                raise NotMappedError(self.lacking(key))
            outputs = mapping(self)
            self.check_read()
        except NotMappedError as reason:
            self._discard()
            self.warnings.append(f"{self.label}: {reason}; it becomes an opaque op")
            self.reasons[node.name or f"{node.op_type}_{node.outputs[0].name}"] = str(reason)
            outputs = self._opaque(key)
        except (ShapeError, GraphError, DTypeError) as error:
            raise type(error)(f"{self.label}: {error.message}", node=node.name) from error
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
            fault = plugin_failure(error)
            text = f"{self.label}: attributes and operands do not fit: {error}"
            raise fault or GraphError(text, node=node.name) from error
        self._bind([outputs] if isinstance(outputs, str) else outputs)
        self._flush(self._ids.get(node.outputs[0].name or ""))

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
            given = attrs.get(name)
            numbers = given if isinstance(given, tuple) else (given,)
            if any(isinstance(v, float) and not isfinite(v) for v in numbers):
                raise GraphError(f"{self.label}: attribute '{name}' is no finite number", node=self.node.name)
        needed = [self.is_needed(v) for v in self.node.outputs]
        attrs |= position_attrs([v is not None for v in self.node.inputs], needed)
        shapes = [(self.ir_shape(v), self.dtype(v)) for v in compress(self.node.outputs, needed)]
        return self.emit_raw(f"onnx.{key}", inputs, attrs, shapes)

    def is_needed(self, value: ir.Value) -> bool:
        """Whether anything reads an output of the current node."""
        return bool(value.name) and bool(value.uses() or value.is_graph_output())

    def _bind(self, ids: Sequence[str | None]) -> None:
        """Give the node's outputs their foreign names and check their shapes against inference."""
        wanted = list(self.node.outputs)
        if len(ids) != len(wanted):
            wanted = [v for v in wanted if self.is_needed(v)]
        bound: dict[str, str] = {}
        for value, value_id in zip(wanted, ids, strict=False):
            name = value.name or ""
            if not name or value_id is None:
                if self.is_needed(value):
                    raise GraphError(f"{self.label}: output {name} has no counterpart", node=self.node.name)
                continue
            expected = self.ir_shape(value)
            found = self.graph.value(value_id).shape
            if found != expected:
                stated = self.node.domain not in ("", "ai.onnx")
                if prod(found) != prod(expected) or stated:
                    raise ShapeError(
                        f"{self.label}: shape {list(found)} found, {list(expected)} "
                        f"{'stated in the file' if stated else 'inferred'}",
                        node=self.node.name,
                    )
                value_id = self.reshape(value_id, expected)
            bound[name] = value_id
        self._rename(bound)

    def _rename(self, bound: Mapping[str, str]) -> None:
        """Call the values that the current node computes by their foreign names; aliases keep theirs."""
        computed = {value_id for op in self._buffer for value_id in op.outputs}
        renamed: dict[str, str] = {}
        for name, value_id in bound.items():
            new = value_id in computed and name not in self.graph.values and value_id not in self._reserved
            if new and value_id not in renamed:
                value = self.graph.values.pop(value_id)
                self.graph.values[name] = replace(value, id=name, stands_for=ForeignTensor.whole(name, value.shape))
                renamed[value_id] = name
            self._ids[name] = renamed.get(value_id, value_id)
        for index, op in enumerate(self._buffer):
            inputs = tuple(renamed.get(v, v) for v in op.inputs)
            outputs = tuple(renamed.get(v, v) for v in op.outputs)
            self._buffer[index] = replace(op, inputs=inputs, outputs=outputs)

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

    # -- values ------------------------------------------------------------------------------------
    def x(self, index: int) -> str:
        """Value id of an input of the current node."""
        return self.use(self.input(index))

    def x_or_none(self, index: int) -> str | None:
        """Value id of an input that may be absent."""
        return self.x(index) if self.has(index) else None

    def there(self, indices: Iterable[int]) -> list[str]:
        """Value ids of those of these inputs that are there."""
        return [self.x(index) for index in indices if self.has(index)]

    def use(self, value: ir.Value) -> str:
        """Value id of a foreign value; parameters and constants come into being on first use."""
        name = value.name or "?"
        if name in self._ids:
            return self._ids[name]
        array = self.array(value)
        self._check_elements(value)
        is_weight = name in self.front.parameters or name in self.front.weights
        dtype = self.dtype(value, parameter=is_weight)
        shape = self.ir_shape(value)
        if array is not None:
            kind, data = ValueKind.CONSTANT, self._data(array)
        elif name in self.front.parameters:
            kind, data = ValueKind.PARAMETER, None
        else:
            raise GraphError(f"{self.label} reads '{name}', which nothing defines", node=name)
        self.count_conversion(value, dtype)
        self.graph.add_value(Value(name, shape, dtype, kind, data, ForeignTensor.whole(name, shape)))
        if name in self.front.causal:
            self.causal.add(name)
        self._ids[name] = name
        return name

    def _check_elements(self, value: ir.Value) -> None:
        """DTypeError where the file states another element type than the elements have."""
        held = value.const_value
        if held is not None and value.dtype is not None and held.dtype != value.dtype:
            raise DTypeError(
                f"'{value.name}' states element type {value.dtype.name.lower()}, it holds {held.dtype.name.lower()}",
                node=value.name,
            )

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
        return self.graph.is_static(value_id)

    # -- emitting ----------------------------------------------------------------------------------
    def emit(self, op: str, *inputs: str, **attrs: Attr) -> str:
        """Emit a vocabulary op (name without `ttnn.`) with one result; shapes come from its rule."""
        return self.emit_raw(f"ttnn.{op}", inputs, attrs)[0]

    def emit_raw(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Attr],
        stated: Sequence[tuple[Shape, DType]] | None = None,
    ) -> list[str]:
        """Emit an op by its whole name; the caller states shapes and types of results where no row gives them."""
        draft = Op(self._origin(), op, tuple(inputs), (), dict(attrs), origin=(self._origin(),))
        results = results_of(self.graph, draft, stated)
        self.budget.work(self.label, STEPS_OF_AN_OP + len(inputs) + len(results))
        stem = clean_id(self._origin())
        ids: list[str] = []
        for shape, dtype, kind in results:
            if 0 in shape:
                raise ShapeError(f"{self.label} computes an empty tensor {list(shape)}", node=self.node.name)
            value_id = self._fresh_id(f"{stem}_{op.rsplit('.', 1)[-1]}_out")
            self.graph.add_value(Value(value_id, shape, dtype, kind))
            ids.append(value_id)
        self._buffer.append(replace(draft, outputs=tuple(ids)))
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
