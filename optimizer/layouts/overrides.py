"""User overrides, in tt-mlir's own spelling, keyed by op name.

override-output-layout   op1=2x2:l1:block_sharded:tile:bf16,op2=dram      (parts in any order, any subset)
override-conv2d-config   conv_1=weights_dtype#bf16:act_block_h_override#64,conv_2=shard_layout#block_sharded
insert-memreconfig       op1=0,op2=0:1                                   (operand positions)

What an operand or a graph input is overridden with is a copy of it, an op of its own (`input_overrides`). A conv's
`dtype` and `output_layout` are parts of its result's layout, in whichever option they are written.

They are constraints of every policy. What can be seen from the graph alone is refused here; what the shapes, the
board or the OpModel forbid is refused in `sharding.overriding`, with the nearest values that would do.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from optimizer.errors import OptionError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import STATIC, Graph, Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig

_BUFFERS = {"dram": BufferType.DRAM, "l1": BufferType.L1}
_MEMORY_LAYOUTS = {m.value: m for m in TensorMemoryLayout}
_SHARDED = tuple(name for name, kind in _MEMORY_LAYOUTS.items() if kind is not TensorMemoryLayout.INTERLEAVED)
_PAGES = {p.value: p for p in PageLayout}
_DTYPES = {
    **{d.value: d for d in DType},
    "bfp_bf8": DType.BFP8_B,
    "bfp_bf4": DType.BFP4_B,
    "si32": DType.I32,
    "fp32": DType.F32,
}
_NEAREST_DTYPE = {
    **dict.fromkeys(("f16", "fp16"), "bf16"),
    "bfp_f8": "bfp_bf8",
    **dict.fromkeys(("bfp_f4", "bfp_f2", "bfp_bf2"), "bfp_bf4"),
}
"""Element types that tt-mlir spells and TTNN has no tensors of -> the one that comes nearest."""
_HOST_PARTS = ("system", "mmio", "none")
"""Places and memory layouts of tt-mlir for tensors on the host."""
_CONV2D_WORDS = {"output_layout": ("tile", "row_major"), "slice": ("auto", "l1")}
"""Words that a field takes."""
_GRID = re.compile(r"([1-9][0-9]*)x([1-9][0-9]*)$")


@dataclass(frozen=True)
class LayoutOverride:
    """What the user fixes of an op's output layout; None parts stay free."""

    grid_yx: tuple[int, int] | None = None
    buffer_type: BufferType | None = None
    memory_layout: TensorMemoryLayout | None = None
    page_layout: PageLayout | None = None
    dtype: DType | None = None

    @property
    def places(self) -> bool:
        """Whether it fixes anything of where the result lies, and not only its pages or element type."""
        return (self.grid_yx, self.buffer_type, self.memory_layout) != (None, None, None)

    def allows(self, layout: TensorLayout) -> bool:
        """Whether a layout has every part that the user fixed, the element type aside.

        A grid asks for shards on just that grid; with `interleaved`, which has none, it means nothing (tt-mlir's
        complete spelling of an interleaved layout has one all the same).
        """
        spec = layout.shard_spec
        on_grid = layout.memory_layout is self.memory_layout if spec is None else spec.grid_yx == self.grid_yx
        return (
            self.buffer_type in (None, layout.memory.buffer_type)
            and self.memory_layout in (None, layout.memory_layout)
            and self.page_layout in (None, layout.page_layout)
            and (self.grid_yx is None or on_grid)
        )

    def describe(self) -> str:
        """In the option's own spelling."""
        parts = [f"{self.grid_yx[0]}x{self.grid_yx[1]}"] if self.grid_yx else []
        named = (self.buffer_type, self.memory_layout, self.page_layout, self.dtype)
        return ":".join([*parts, *(part.value for part in named if part is not None)])


def spelled(layout: TensorLayout) -> str:
    """A layout in the spelling of override-output-layout, `8x4:l1:block_sharded`, its page layout left out."""
    spec = layout.shard_spec
    grid = None if spec is None else spec.grid_yx
    return LayoutOverride(grid, layout.memory.buffer_type, layout.memory_layout).describe()


@dataclass(frozen=True)
class Overrides:
    """All overrides of one run, by op id."""

    output_layouts: Mapping[str, LayoutOverride]
    conv2d_configs: Mapping[str, Mapping[str, Any]]
    memreconfigs: Mapping[str, tuple[int, ...]]

    @property
    def op_ids(self) -> tuple[str, ...]:
        """All ops that any of them names, sorted."""
        return tuple(sorted({*self.output_layouts, *self.conv2d_configs, *self.memreconfigs}))

    def output(self, op_id: str) -> LayoutOverride | None:
        """What is fixed of an op's result. One whose operands are resharded to the result's layout gives it in L1."""
        override = self.output_layouts.get(op_id)
        if op_id not in self.memreconfigs:
            return override
        return replace(override or LayoutOverride(), buffer_type=BufferType.L1)


def parse_overrides(graph: Graph, output_layout: str, conv2d_config: str, memreconfig: str) -> Overrides:
    """Read the three override options; op names are checked against the graph. Errors name the entry."""
    layouts = {k: _layout(k, v) for k, v in entries("override-output-layout", output_layout)}
    configs = {k: _conv2d(k, v) for k, v in entries("override-conv2d-config", conv2d_config)}
    operands = {k: _operands(k, v) for k, v in entries("insert-memreconfig", memreconfig)}
    ids = ids_by_name(graph)
    resolved = _of_convs(graph, Overrides(_resolve(ids, layouts), _resolve(ids, configs), _resolve(ids, operands)))
    for op_id in resolved.op_ids:
        _check_runs(graph, graph.op(op_id))
    for op_id, positions in resolved.memreconfigs.items():
        _check_memreconfig(graph, graph.op(op_id), positions, resolved.output_layouts.get(op_id))
    for op_id, fixed in resolved.conv2d_configs.items():
        _check_conv2d(graph.op(op_id), fixed)
    return resolved


def _of_convs(graph: Graph, given: Overrides) -> Overrides:
    """The overrides with what a conv's config says of its result in the result's layout too, and its pages in both."""
    layouts = dict(given.output_layouts)
    configs = {op_id: dict(fixed) for op_id, fixed in given.conv2d_configs.items()}
    for op_id, fixed in configs.items():
        layout = layouts.get(op_id, LayoutOverride())
        dtype, page = fixed.pop("dtype", None), _PAGES.get(fixed.get("output_layout", ""))
        _check_alike(op_id, "dtype", dtype, layout.dtype)
        _check_alike(op_id, "output_layout", page, layout.page_layout)
        layout = replace(layout, dtype=dtype or layout.dtype, page_layout=page or layout.page_layout)
        if layout != LayoutOverride():
            layouts[op_id] = layout
    for op_id, layout in layouts.items():
        if layout.page_layout is not None and opdef(graph.op(op_id).op).config is ConfigFamily.CONV2D:
            configs.setdefault(op_id, {})["output_layout"] = layout.page_layout.value
    return Overrides(layouts, {op_id: fixed for op_id, fixed in configs.items() if fixed}, given.memreconfigs)


def _check_alike(op_id: str, key: str, configured: StrEnum | None, laid_out: StrEnum | None) -> None:
    """A conv's config and its result's layout do not contradict each other."""
    if None not in (configured, laid_out) and configured is not laid_out:
        message = f"override-conv2d-config wants {key}#{configured}, override-output-layout {laid_out}"
        raise OptionError(message, node=op_id)


def _check_runs(graph: Graph, op: Op) -> None:
    if graph.is_const_eval(op):
        raise OptionError("an override on an op of weights only, which runs once, on the host", node=op.id)
    if opdef(op.op).opaque:
        raise OptionError(f"an override on {op.op}, which TTNN lacks: it runs on the host", node=op.id)


def _check_memreconfig(graph: Graph, op: Op, positions: tuple[int, ...], output: LayoutOverride | None) -> None:
    """Operands exist, are computed or fed on every run, and go to a result in L1."""
    if any(k >= len(op.inputs) for k in positions):
        raise OptionError(f"insert-memreconfig names operand {max(positions)} of {len(op.inputs)}", node=op.id)
    for k in positions:
        value, producer = graph.value(op.inputs[k]), graph.producer(op.inputs[k])
        if value.kind in STATIC or (producer and graph.is_const_eval(producer)):
            raise OptionError(
                f"insert-memreconfig names operand {k}, '{value.id}', a weight: it is laid out once, "
                "before any run, and no run copies it",
                node=op.id,
                alternatives=[f"operand {i}" for i, v in enumerate(op.inputs) if _is_fed(graph, v)],
            )
    if output is not None and output.buffer_type is BufferType.DRAM:
        raise OptionError(
            f"insert-memreconfig reshards operand {positions[0]} in L1 to the layout of the result, "
            "which override-output-layout keeps in DRAM",
            node=op.id,
        )


def _is_fed(graph: Graph, value_id: str) -> bool:
    producer = graph.producer(value_id)
    weight = graph.is_static(value_id)
    return not weight and (producer is None or not graph.is_const_eval(producer))


def _check_conv2d(op: Op, fixed: Mapping[str, Any]) -> None:
    """The op is a conv, and its config still computes what the model says, in the pages the graph reads."""
    if opdef(op.op).config is not ConfigFamily.CONV2D:
        convs = [name for name in op_names() if opdef(name).config is ConfigFamily.CONV2D]
        raise OptionError(f"override-conv2d-config on {op.op}, which is no conv", node=op.id, alternatives=convs)
    computed = op.attrs.get("activation") or None
    if fixed.get("activation", computed) != computed:
        message = f"'activation#{fixed['activation'] or 'none'}' would change what the model computes"
        raise OptionError(message, node=op.id, alternatives=[f"activation#{computed or 'none'}"])


def entries(option: str, text: str) -> list[tuple[str, str]]:
    """Split `a=x,b=y`; an op named twice is an error."""
    found: list[tuple[str, str]] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.rpartition("=")
        if not equals or not name or not value:
            raise OptionError(f"'{part}' is not op=value", node=option)
        if any(name == other for other, _ in found):
            raise OptionError(f"op '{name}' is named twice", node=option)
        found.append((name, value))
    return found


def ids_by_name(graph: Graph) -> dict[str, str]:
    """Op id by every name that an override may call an op by: its name, or its id."""
    names: dict[str, str] = {}
    for op in graph.ops():
        names.setdefault(op.name, op.id)
    for op in graph.ops():
        names[op.id] = op.id
    return names


def _resolve(ids: Mapping[str, str], by_name: Mapping[str, Any]) -> dict[str, Any]:
    for name in by_name:
        if name not in ids:
            raise UnknownNameError("op in override", name, ids)
    return {ids[name]: value for name, value in by_name.items()}


def _layout(op: str, text: str) -> LayoutOverride:
    parts: dict[str, Any] = {}
    for part in text.split(":"):
        grid = _GRID.match(part)
        if grid:
            key, value = "grid_yx", (int(grid[1]), int(grid[2]))
        else:
            key, value = _named_part(op, part)
        if key in parts:
            raise OptionError(f"'{text}' fixes its {key} twice", node=op)
        parts[key] = value
    return LayoutOverride(**parts)


def _named_part(op: str, part: str) -> tuple[str, Any]:
    for key, table in (
        ("buffer_type", _BUFFERS),
        ("memory_layout", _MEMORY_LAYOUTS),
        ("page_layout", _PAGES),
        ("dtype", _DTYPES),
    ):
        if part in table:
            return key, table[part]
    if part in _HOST_PARTS:
        raise OptionError(f"'{part}' is of tensors on the host, a TTNN op leaves its result on the device", node=op)
    _check_dtype(op, part)
    known = [*_BUFFERS, *_MEMORY_LAYOUTS, *_PAGES, *_DTYPES, "ROWSxCOLS"]
    raise UnknownNameError("layout override part", part, known, node=op)


def _check_dtype(op: str, text: str) -> None:
    """Element types that TTNN has no tensors of are refused by name."""
    if text in _NEAREST_DTYPE:
        message = f"TTNN has no tensors of element type '{text}'"
        raise OptionError(message, node=op, alternatives=[_NEAREST_DTYPE[text]])


def _conv2d(op: str, text: str) -> dict[str, Any]:
    types = _conv2d_types()
    result: dict[str, Any] = {}
    for part in text.split(":"):
        key, hash_sign, value = part.partition("#")
        if not hash_sign:
            raise OptionError(f"'{part}' is not field#value", node=op)
        if key == "core_grid":
            raise OptionError("'core_grid' cannot be overridden: a conv chooses the grid of its result", node=op)
        if key not in types:
            raise UnknownNameError("conv2d config field", key, types, node=op)
        if key in result:
            raise OptionError(f"'{text}' fixes its {key} twice", node=op)
        result[key] = _conv2d_value(op, key, types[key], value)
    return result


def _conv2d_types() -> dict[str, Any]:
    hints = typing.get_type_hints(Conv2dConfig)
    return {"dtype": DType, **{f.name: hints[f.name] for f in fields(Conv2dConfig)}}


def _conv2d_value(op: str, key: str, hint: Any, text: str) -> Any:
    """A field's text as its type; tt-mlir spellings of dtypes and layouts are translated."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise OptionError(f"'{key}' must be true or false, got '{text[:40]}'", node=op)
        return text.lower() == "true"
    if int in kinds:
        if not text.isdigit() or len(text) > 9:
            raise OptionError(f"'{key}' must be a non-negative integer, got '{text[:40]}'", node=op)
        if key == "act_block_h_override" and int(text) % 32:
            raise OptionError(f"'{key}' must be a multiple of 32, got {text}", node=op)
        if key == "act_block_w_div" and int(text) == 0:
            raise OptionError(f"'{key}' must be at least 1", node=op)
        return int(text)
    if key == "shard_layout" and text not in _SHARDED:
        raise UnknownNameError("shard layout", text, _SHARDED, node=op)
    if key in ("dtype", "weights_dtype"):
        _check_dtype(op, text)
        if text not in _DTYPES:
            raise UnknownNameError("dtype", text, _DTYPES, node=op)
        return _DTYPES[text] if key == "dtype" else _DTYPES[text].value
    if key == "activation" and text.lower() == "none":
        return None
    if key in _CONV2D_WORDS and text not in _CONV2D_WORDS[key]:
        raise OptionError(f"'{key}' cannot be '{text[:40]}'", node=op, alternatives=_CONV2D_WORDS[key])
    return text


def _operands(op: str, text: str) -> tuple[int, ...]:
    positions = text.split(":")
    if not all(p.isdigit() for p in positions):
        raise OptionError(f"operand positions must be integers, got '{text}'", node=op)
    return tuple(sorted({int(p) for p in positions}))
