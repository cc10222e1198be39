"""The run of a plan as a graph of our vocabulary, with the plan's layouts, configs and copies kept beside it.

What runs once is left out: results of `ttcore.load_cached`, and of any op on weights only, are weights. So are filled
tensors; one of a single element keeps its number. Transfers to and from the host move nothing that a run is charged
for, here or in our own plans. A write into a cache is a result that has to lie in DRAM.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any

from optimizer.errors import GraphError, UnsupportedOpError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import (
    HOST_ROW_MAJOR,
    BufferType,
    PageLayout,
    TensorLayout,
    interleaved,
)
from optimizer.layouts.op_config import Conv2dConfig, OpConfig
from optimizer.layouts.tiling import TILE
from tt_mlir.dialect import Translation, result_dtype, translate
from tt_mlir.document import PlanDocument, PlanFunction, PlanOp, PlanTensor, finite

COPY, RETILE = "ttnn.to_memory_config", "ttnn.to_layout"
_PLACES = frozenset({COPY, RETILE, "ttnn.to_tensor_spec"})
_NOTHING = frozenset({"ttnn.get_device", "ttnn.deallocate", "ttnn.dump_tensor"})
_TRANSFERS = frozenset({"ttnn.to_device", "ttnn.from_device"})
_FILLED = {"ttnn.zeros": 0.0, "ttnn.ones": 1.0}
_CREATES = frozenset({*_FILLED, "ttnn.full", "ttnn.constant", "ttnn.arange", "ttnn.empty", "ttnn.load_tensor"})
_KEEP_NUMBERS = frozenset(
    {*_PLACES, *_TRANSFERS, "ttnn.reshape", "ttnn.permute", "ttnn.transpose", "ttnn.repeat", "ttnn.typecast",
     "ttnn.to_dtype", "ttnn.repeat_interleave"}
)  # fmt: skip
"""Ops after which a tensor of equal elements still is one."""
_CACHE_WRITES = {
    "ttnn.update_cache": 1, "ttnn.fill_cache": 1, "ttnn.paged_update_cache": 1, "ttnn.paged_fill_cache": 1,
}  # fmt: skip
"""Ops that write into a cache in place -> position of what is written."""
_LOOKUP = "ttnn.embedding"
_ROTARY = "ttnn.rotary_embedding"
_COMPARISONS = frozenset(f"ttnn.{name}" for name in ("eq", "ne", "lt", "gt", "le", "ge"))
"""Ops whose truth values we keep in their operands' element type."""
_BIASES = frozenset({"ttnn.prepare_conv2d_bias", "ttnn.prepare_conv_transpose2d_bias"})
"""Ops that lay out a bias."""
_CONVS = ("ttnn.conv2d", "ttnn.conv_transpose2d")


@dataclass
class PlanProgram:
    """A plan as a graph, copies and conversions included."""

    graph: Graph
    layouts: dict[str, TensorLayout] = field(default_factory=dict)
    """Of every value, as the plan states them."""
    configs: dict[str, OpConfig] = field(default_factory=dict)
    """Op id -> its configuration, where the plan states one."""
    foreign_ops: Counter[str] = field(default_factory=Counter)
    """Ops of the run by the plan's names."""
    notes: list[str] = field(default_factory=list)
    """What is not taken over as it stands."""


def plan_program(document: PlanDocument) -> PlanProgram:
    """The run of a plan. UnsupportedOpError or GraphError names an op without a counterpart."""
    return _Reader(document).read()


class _Reader:
    def __init__(self, document: PlanDocument) -> None:
        self.document = document
        self.function = document.forward
        self.made = PlanProgram(Graph(document.name))
        self.graph = self.made.graph
        self.ids: dict[str, str] = {}
        """Tensor of the plan -> the value that holds it now."""
        self.numbers: dict[str, float] = {}
        """Static tensors of the plan whose elements all are one number."""
        self.static: set[str] = set()
        """Tensors of the plan that are weights, or computed from weights only."""
        self.outputs: list[str] = []

    def read(self) -> PlanProgram:
        self._arguments()
        for op in self.function.ops:
            self._read_op(op)
        self.graph.outputs = [self._returned(v) for v in (*self.function.returns, *self.outputs)]
        self.graph.prune()
        self.made.layouts = {v: layout for v, layout in self.made.layouts.items() if v in self.graph.values}
        return self.made

    # -- values --------------------------------------------------------------------------------------
    def _tensor(self, plan_id: str) -> PlanTensor:
        return self.function.tensors[plan_id]

    def _arguments(self) -> None:
        for arg in self.function.args:
            tensor = self._tensor(arg)
            if tensor.role in ("parameter", "constant"):
                self.static.add(arg)
            elif tensor.dtype is not None:
                value = self._add(tensor, ValueKind.INPUT, _on_device(tensor.layout))
                self.graph.inputs.append(value)

    def _add(self, tensor: PlanTensor, kind: ValueKind, layout: TensorLayout, suffix: str = "") -> str:
        """A new value for a tensor of the plan."""
        stem = tensor.id.lstrip("%")
        value_id = self.graph.fresh_id((stem if stem[:1].isalpha() else f"v{stem}") + suffix)
        self.graph.add_value(Value(value_id, tensor.shape, result_dtype(tensor), kind))
        self.made.layouts[value_id] = layout
        self.ids[tensor.id] = value_id
        return value_id

    def _operand(self, plan_id: str) -> str:
        """The value that an op reads; a weight comes into being when it is first read."""
        if plan_id not in self.ids:
            if plan_id not in self.static:
                raise GraphError(f"tensor {plan_id} is read before it is computed", node=self.document.name)
            value_id = self._add(self._tensor(plan_id), ValueKind.PARAMETER, self._weight_layout(plan_id))
            number = self.numbers.get(plan_id)
            if number is not None and self.graph.value(value_id).volume == 1:
                value = replace(self.graph.value(value_id), kind=ValueKind.CONSTANT, data=(number,))
                self.graph.set_value(value)
        return self.ids[plan_id]

    def _weight_layout(self, plan_id: str) -> TensorLayout:
        """Where a weight lies; one in shards over the banks of DRAM is taken as interleaved."""
        layout = _on_device(self._tensor(plan_id).layout)
        if not (layout.is_dram and layout.is_sharded):
            return layout
        self.made.notes.append(f"weight {plan_id} is sharded over DRAM banks: priced as interleaved")
        return interleaved(BufferType.DRAM, layout.page_layout)

    # -- ops -----------------------------------------------------------------------------------------
    def _read_op(self, op: PlanOp) -> None:
        if op.op in _NOTHING:
            return
        tensors = [v for v in op.inputs if self._tensor(v).dtype is not None]
        if op.op == "ttcore.load_cached":
            self._load_cached(op)
        elif all(v in self.static for v in tensors) and op.outputs:
            self._static_op(op, tensors)
        elif op.op in _CACHE_WRITES:
            self._cache_write(op, tensors)
        else:
            self.made.foreign_ops[op.op] += 1
            self._run_op(op, tensors)

    def _load_cached(self, op: PlanOp) -> None:
        self.static.update(op.outputs)
        function = self.document.functions.get(str(op.attrs.get("callee", "")).lstrip("@"))
        if function is None:
            return
        numbers = _numbers(function, [self.numbers.get(v) for v in op.inputs])
        self.numbers.update({v: n for v, n in zip(op.outputs, numbers, strict=False) if n is not None})

    def _static_op(self, op: PlanOp, tensors: list[str]) -> None:
        """An op on weights only, or without operands: prepared once."""
        self.static.update(op.outputs)
        number = _number(op, [self.numbers.get(v) for v in tensors])
        if number is not None:
            self.numbers.update(dict.fromkeys(op.outputs, number))

    def _cache_write(self, op: PlanOp, tensors: list[str]) -> None:
        self.made.notes.append(f"{op.op} of {tensors[1]} counts as a result in DRAM")
        self.outputs.append(tensors[_CACHE_WRITES[op.op]])
        for out in op.outputs:
            self.ids[out] = self._operand(tensors[0])

    def _run_op(self, op: PlanOp, tensors: list[str]) -> None:
        if op.op in _TRANSFERS or (op.op in _PLACES and self._on_host(op.outputs[0])):
            self.ids[op.outputs[0]] = self._operand(tensors[0])
        elif op.op in _PLACES:
            self._placed(op, tensors[0])
        elif op.op in _BIASES:
            self._bias(op, tensors[0])
        else:
            self._computed(op, translate(self.function, op, self.made.notes))

    def _on_host(self, plan_id: str) -> bool:
        layout = self._tensor(plan_id).layout
        return layout is not None and layout.is_host

    def _placed(self, op: PlanOp, source: str) -> None:
        """A copy, a conversion between tiles and rows, or one between element types."""
        target = self._tensor(op.outputs[0])
        value_id = self._operand(source)
        have, wanted = self.made.layouts[value_id], _on_device(target.layout)
        if self.graph.value(value_id).dtype is not target.dtype:
            self._append(op, "ttnn.typecast", (value_id,), {"dtype": result_dtype(target).value})
        elif have == wanted:
            self.ids[target.id] = value_id
        elif have.page_layout is wanted.page_layout:
            self._append(op, COPY, (value_id,), {})
        else:
            self._append(op, RETILE, (value_id,), {"layout": wanted.page_layout.value})

    def _computed(self, op: PlanOp, made: Translation) -> None:
        operands = tuple(
            self._stand_in(v, made.stand_ins[v]) if v in made.stand_ins else self._operand(v) for v in made.operands
        )
        if made.op in _CONVS:
            self._convolution(op, made, operands)
            return
        if made.op == _LOOKUP and self.graph.value(operands[0]).dtype is DType.I32:
            operands = (self._unsigned(operands[0]), *operands[1:])
        self._append(op, made.op, operands, dict(made.attrs), made.config)

    def _stand_in(self, plan_id: str, shape: tuple[int, ...]) -> str:
        """A tensor of another shape that the caller hands over in the place of one, or a weight of another shape."""
        before = self.ids.pop(plan_id, None)
        tensor = replace(self._tensor(plan_id), shape=shape)
        if plan_id in self.static:
            value_id = self._add(tensor, ValueKind.PARAMETER, self._weight_layout(plan_id), "_whole")
        else:
            value_id = self._add(tensor, ValueKind.INPUT, interleaved(BufferType.DRAM), "_whole")
            self.graph.inputs.append(value_id)
        del self.ids[plan_id]
        if before is not None:
            self.ids[plan_id] = before
        return value_id

    def _unsigned(self, value_id: str) -> str:
        """Signed row numbers as those that an embedding takes."""
        value = self.graph.value(value_id)
        cast = replace(value, id=self.graph.fresh_id(f"{value_id}_u32"), dtype=DType.U32, kind=ValueKind.ACTIVATION)
        self.graph.add_value(cast)
        self.made.layouts[cast.id] = self.made.layouts[value_id]
        op_id = self.graph.fresh_id(f"typecast_{cast.id}")
        self.graph.add_op(Op(op_id, "ttnn.typecast", (value_id,), (cast.id,), {"dtype": DType.U32.value}, op_id))
        return cast.id

    def _append(
        self,
        op: PlanOp,
        name: str,
        inputs: tuple[str, ...],
        attrs: dict[str, Any],
        config: OpConfig | None = None,
    ) -> None:
        """Add an op with the plan's results, cast where the plan's op writes another element type than ours."""
        row = opdef(name)
        op_id = self.graph.fresh_id(f"{name.removeprefix('ttnn.')}_{op.outputs[0].lstrip('%')}")
        origin = () if op.loc == "unknown" else (op.loc,)
        added = Op(op_id, name, inputs, (), attrs, op_id, origin)
        operands = [self.graph.value(v) for v in inputs]
        dtypes = row.infer_dtypes(added, tuple(v.dtype for v in operands), len(op.outputs))
        found = row.infer_shapes(added, tuple(v.shape for v in operands))
        stated = [self._tensor(out) for out in op.outputs]
        if name == _ROTARY:
            stated = [_unpadded(tensor, shape) for tensor, shape in zip(stated, found, strict=True)]
        written = [replace(tensor, dtype=dtype) for tensor, dtype in zip(stated, dtypes, strict=True)]
        results = tuple(self._add(t, ValueKind.ACTIVATION, _written(name, _on_device(t.layout))) for t in written)
        shapes = tuple(tensor.shape for tensor in stated)
        if found != shapes:
            raise GraphError(f"{op.op}: our rule gives {found}, the plan states {shapes}", node=f"{op_id} ({op.loc})")
        self.graph.add_op(replace(added, outputs=results))
        if config is not None:
            self.made.configs[op_id] = config
        if name not in _COMPARISONS:
            for value_id, tensor in zip(results, stated, strict=True):
                self._cast(value_id, tensor, origin)

    def _cast(self, value_id: str, tensor: PlanTensor, origin: tuple[str, ...]) -> None:
        """A result in the element type that the plan states."""
        if self.graph.value(value_id).dtype is tensor.dtype:
            return
        dtype = result_dtype(tensor).value
        self.made.notes.append(f"{tensor.id} is cast to {dtype} by an op of its own")
        cast = self._add(tensor, ValueKind.ACTIVATION, self.made.layouts[value_id], "_cast")
        op_id = self.graph.fresh_id(f"typecast_{cast}")
        self.graph.add_op(Op(op_id, "ttnn.typecast", (value_id,), (cast,), {"dtype": dtype}, op_id, origin))

    def _bias(self, op: PlanOp, source: str) -> None:
        """A bias that the run computes, in tiles: as it is before a plan unpacks it into rows for the host."""
        value_id = self._operand(source)
        above = self.graph.producer(value_id)
        if above is not None and above.op == RETILE:
            self.ids[op.outputs[0]] = above.inputs[0]
        else:
            self._placed(op, source)

    def _convolution(self, op: PlanOp, made: Translation, operands: tuple[str, ...]) -> None:
        """A convolution; a bias that the run computes (an embedding of time steps) is added by an op of its own."""
        if len(operands) < 3 or made.operands[2] in self.static:
            self._append(op, made.op, self._conv_operands(op, made, operands), dict(made.attrs), made.config)
            return
        activation = made.attrs.get("activation")
        config = replace(made.config, activation=None) if isinstance(made.config, Conv2dConfig) else made.config
        weighted = self._conv_operands(op, replace(made, operands=made.operands[:2]), operands[:2])
        self._append(op, made.op, weighted, {**made.attrs, "activation": None}, config)
        self.made.notes.append(f"{op.op} {op.outputs[0]}: its bias is computed, and added by an op of its own")
        attrs = {"activations": (activation,)} if activation else {}
        self._append(op, "ttnn.add", (self.ids[op.outputs[0]], operands[2]), attrs)

    def _conv_operands(self, op: PlanOp, made: Translation, operands: tuple[str, ...]) -> tuple[str, ...]:
        """Weights and bias as a model has them: ours are prepared by the op, theirs ahead by another."""
        a: dict[str, Any] = dict(made.attrs)
        if made.op == "ttnn.conv_transpose2d":
            weight = (a["in_channels"], a["out_channels"] // a["groups"], *a["kernel_size"])
        else:
            weight = (a["out_channels"], a["in_channels"] // a["groups"], *a["kernel_size"])
        shapes = (weight, (1, 1, 1, a["out_channels"]))
        found = [operands[0]]
        for plan_id, value_id, shape in zip(made.operands[1:], operands[1:], shapes, strict=False):
            if plan_id not in self.static:
                raise UnsupportedOpError("a convolution by what a run computes", node=f"{op.op} ({op.loc})")
            tensor = replace(self._tensor(plan_id), shape=shape)
            found.append(self._add(tensor, ValueKind.PARAMETER, HOST_ROW_MAJOR, "_host"))
            self.ids[plan_id] = value_id
        return tuple(found)

    def _returned(self, plan_id: str) -> str:
        """A result of the plan, in DRAM: what the caller gets, or what a cache is written from."""
        value_id = self._operand(plan_id)
        layout = self.made.layouts[value_id]
        value = self.graph.value(value_id)
        if self.graph.producer(value_id) is None:
            copy = replace(value, id=self.graph.fresh_id(f"{value_id}_out"), kind=ValueKind.ACTIVATION, data=None)
            self.graph.add_value(copy)
            self.made.layouts[copy.id] = layout
            op_id = self.graph.fresh_id(f"return_{value_id}")
            self.graph.add_op(Op(op_id, "ttnn.identity", (value_id,), (copy.id,), {}, op_id))
            return copy.id
        if layout.is_dram and not layout.is_sharded:
            return value_id
        copy = replace(value, id=self.graph.fresh_id(f"{value_id}_dram"))
        self.graph.add_value(copy)
        self.made.layouts[copy.id] = interleaved(BufferType.DRAM, layout.page_layout)
        op_id = self.graph.fresh_id(f"to_memory_config_{copy.id}")
        self.graph.add_op(Op(op_id, COPY, (value_id,), (copy.id,), {}, op_id))
        self.made.notes.append(f"{plan_id} is returned in L1: a copy to DRAM is added")
        return copy.id


def _on_device(layout: TensorLayout | None) -> TensorLayout:
    """A tensor's layout on the device: one of the host is sent to DRAM first."""
    if layout is None:
        raise GraphError("a tensor without a layout")
    return interleaved(BufferType.DRAM, layout.page_layout) if layout.is_host else layout


def _written(name: str, stated: TensorLayout) -> TensorLayout:
    """Where one of our ops writes: our embedding always writes tiles, which a plan makes of its rows next."""
    rows = stated.page_layout is PageLayout.ROW_MAJOR and not stated.is_sharded
    return interleaved(stated.memory.buffer_type) if name == _LOOKUP and rows else stated


def _unpadded(tensor: PlanTensor, shape: tuple[int, ...]) -> PlanTensor:
    """A rotary embedding's result without the rows that fill its last tile: a plan states them and cuts them off."""
    *leading, rows, size = shape
    return replace(tensor, shape=shape) if tensor.shape == (*leading, rows + -rows % TILE, size) else tensor


def _numbers(function: PlanFunction, arguments: list[float | None]) -> list[float | None]:
    """The one number of each result of a function on weights, None where there is no such number."""
    known = dict(zip(function.args, arguments, strict=False))
    for op in function.ops:
        tensors = [v for v in op.inputs if function.tensors[v].dtype is not None]
        found = _number(op, [known.get(v) for v in tensors])
        known.update(dict.fromkeys(op.outputs, found))
    return [known.get(v) for v in function.returns]


def _number(op: PlanOp, operands: list[float | None]) -> float | None:
    """The one number that all elements of an op's result are, if it is known."""
    if op.op in _FILLED:
        return _FILLED[op.op]
    if op.op == "ttnn.full":
        return _plain(op.attrs.get("fill_value"))
    if op.op == "ttnn.constant":
        return _plain(op.attrs.get("value"))
    return operands[0] if op.op in _KEEP_NUMBERS and operands else None


def _plain(value: Any) -> float | None:
    """A number, or the number of `dense<0.5>`; None for anything else."""
    text = str(value).partition(" : ")[0].strip().removeprefix("dense<").rstrip(">")
    try:
        number = float(text)
    except ValueError:
        return None
    return None if isnan(number) else finite(number)
