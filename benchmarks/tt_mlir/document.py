"""A plan of tt-mlir's as it was written down: functions of TTNN-dialect ops, every tensor with its layout.

    {system, functions{name: {kind, args, tensors{id: {shape, dtype, role?, layout}}, ops[{op, in, out, attrs, loc}],
    returns}}}

One function of kind `forward_device` is the run; those of kind `const_eval` prepare weights, once.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from optimizer.errors import DTypeError, FormatError
from optimizer.importers.onnx_node import BF16_MAX
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)

FORWARD = "forward_device"

_DTYPES = {
    "f32": DType.F32, "bf16": DType.BF16, "bfp_bf8": DType.BFP8_B, "bfp_bf4": DType.BFP4_B,
    "bfp8_b": DType.BFP8_B, "bfp4_b": DType.BFP4_B,
    "u32": DType.U32, "ui32": DType.U32, "i32": DType.I32, "si32": DType.I32,
    "u16": DType.U16, "ui16": DType.U16, "u8": DType.U8, "ui8": DType.U8,
    "f64": DType.F32, "f16": DType.BF16, "i1": DType.BF16, "i64": DType.I32, "si64": DType.I32, "ui64": DType.U32,
}  # fmt: skip
"""tt-mlir's names -> what its runtime makes of them on the device."""
_BUFFERS = {"dram": BufferType.DRAM, "l1": BufferType.L1, "system_memory": BufferType.HOST}


@dataclass(frozen=True)
class PlanTensor:
    """One tensor of a function. `layout` is None for what is no tensor (a device)."""

    id: str
    shape: tuple[int, ...]
    dtype: DType | None
    layout: TensorLayout | None
    role: str | None
    """`input`, `parameter` or `constant` of an argument; None of what the function computes."""


@dataclass(frozen=True)
class PlanOp:
    """One op of a function, in schedule order."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    loc: str


@dataclass(frozen=True)
class PlanFunction:
    name: str
    kind: str
    args: tuple[str, ...]
    tensors: Mapping[str, PlanTensor]
    ops: tuple[PlanOp, ...]
    returns: tuple[str, ...]


@dataclass(frozen=True)
class PlanDocument:
    """A whole plan."""

    name: str
    system: Mapping[str, Any]
    functions: Mapping[str, PlanFunction]

    @property
    def forward(self) -> PlanFunction:
        """The function that runs on the device; FormatError unless there is one, or one called `main`."""
        found = [f for f in self.functions.values() if f.kind == FORWARD]
        if len(found) > 1:
            found = [f for f in found if f.name == "main"]
        if len(found) != 1:
            raise FormatError(f"a plan holds one function of kind '{FORWARD}'", node=self.name)
        return found[0]


def read_plan(path: Path) -> PlanDocument:
    """The plan in a `.json` or `.json.gz` file; FormatError says what is wrong where."""
    try:
        data = path.read_bytes()
        record = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise FormatError(f"cannot read a plan: {error}", node=str(path)) from error
    try:
        functions = {name: _function(name, f) for name, f in record["functions"].items()}
        return PlanDocument(model_name(path), dict(record.get("system") or {}), functions)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"not a plan of tt-mlir's: {type(error).__name__} {error}", node=str(path)) from error


def model_name(path: Path) -> str:
    """The file's name up to its first dot: `resblock_O2` of `resblock_O2.ops.json.gz`."""
    return path.name.partition(".")[0]


def _function(name: str, record: Mapping[str, Any]) -> PlanFunction:
    tensors = {t: _tensor(f"{name}{t}", t, r) for t, r in record["tensors"].items()}
    ops = tuple(
        PlanOp(o["op"], tuple(o["in"]), tuple(o["out"]), dict(o.get("attrs") or {}), o.get("loc") or "unknown")
        for o in record["ops"]
    )
    return PlanFunction(name, record["kind"], tuple(record["args"]), tensors, ops, tuple(record["returns"]))


def _tensor(place: str, tensor_id: str, record: Mapping[str, Any]) -> PlanTensor:
    layout = record.get("layout")
    if record.get("shape") is None:
        return PlanTensor(tensor_id, (), None, None, None)
    given = (layout or {}).get("dtype") or record["dtype"]
    placed = None if layout is None else tensor_layout(layout, place)
    return PlanTensor(tensor_id, tuple(record["shape"]), plan_dtype(given, place), placed, record.get("role"))


def plan_dtype(name: str, place: str) -> DType:
    """An element type by tt-mlir's name; DTypeError if TTNN has none such."""
    if name not in _DTYPES:
        raise DTypeError(f"element type '{name}' has no counterpart", node=place, alternatives=sorted(_DTYPES))
    return _DTYPES[name]


def finite(value: float) -> float:
    """A number as our graphs hold it: the largest of bf16 for an infinite one, as the importers have it.

    ValueError for what is no number.
    """
    if isnan(value):
        raise ValueError("not a number")
    return max(-BF16_MAX, min(BF16_MAX, value))


def tensor_layout(record: Mapping[str, Any], place: str) -> TensorLayout:
    """A layout as tt-mlir states it: shard sizes in elements, core ranges [x0, y0, x1, y1]."""
    try:
        page = PageLayout(record["page"])
        buffer = _BUFFERS[record["buffer"]]
        kind = record.get("memory") or "none"
        memory_layout = TensorMemoryLayout.INTERLEAVED if kind == "none" else TensorMemoryLayout(kind)
        spec = None
        if memory_layout.is_sharded:
            rows, cols = record["grid"]
            height, width = record["shard"]
            ranges = tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in record["cores"])
            spec = ShardSpec((rows, cols), (height, width), ranges)
        return TensorLayout(page, MemoryConfig(memory_layout, buffer, spec))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"not a layout: {type(error).__name__} {error}", node=place) from error
