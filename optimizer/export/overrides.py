"""`overrides.txt`: the decisions of a plan as tt-mlir's override options, a line each.

    override-output-layout=conv1=56x1:l1:height_sharded:tile:bf16,add1=8x8:l1:block_sharded:tile:bf16,...
    override-conv2d-config=conv1=weights_dtype#bf16:deallocate_activation#true:...
    insert-memreconfig=add1=0,...

Ops go by their names, as in the locations of `--emit mlir`; one whose name is shared or holds a separator by its id.
What the options have no words for is left to whoever reads them: ops whose id holds a separator too, copies in another
layout than the result's and the grids of the others, program configs of matmuls, results in place, weights in L1 or
over the DRAM banks, ops with several results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.process.files import written
from optimizer.result import OptimizedGraph, Role

FILE_NAME = "overrides.txt"
SEPARATORS = frozenset(", =\t\r\n\"'")
_DTYPES = {DType.BFP8_B: "bfp_bf8", DType.BFP4_B: "bfp_bf4", DType.I32: "si32"}
"""Where tt-mlir spells an element type differently."""
_OURS = frozenset({"slice"})
"""Fields of a conv's config that tt-mlir's option lacks."""
_STATED = frozenset({"act_block_h_override", "enable_act_double_buffer", "enable_weights_double_buffer"})
"""Fields that a plan decides: they are said even where they are as by default, lest another plan decides otherwise."""
_COPIES = (Role.RESHARD, Role.LOAD)


def write(result: OptimizedGraph, folder: Path) -> Path:
    lines = (f"{option}={text}\n" for option, text in override_options(result).items() if text)
    return written(folder / FILE_NAME, "".join(lines))


def override_options(result: OptimizedGraph) -> dict[str, str]:
    """Option -> its text, empty where a plan has nothing to say."""
    names = op_names(result)
    ops = [op for op in result.graph.ops() if _is_decided(result, op) and _is_plain(names[op.id])]
    return {
        "override-output-layout": _joined((names[op.id], layout_text(result, op)) for op in ops),
        "override-conv2d-config": _joined((names[op.id], text) for op in ops if (text := _conv_text(result, op))),
        "insert-memreconfig": _joined((names[op.id], text) for op in ops if (text := _copied(result, op))),
    }


def op_names(result: OptimizedGraph) -> dict[str, str]:
    """Op id -> what options and locations call it: its name, where no other op has that and it splits no option."""
    ops = list(result.graph.ops())
    names, ids = Counter(op.name for op in ops), {op.id for op in ops}

    def name(op: Op) -> str:
        plain = op.name and names[op.name] == 1 and _is_plain(op.name)
        return op.name if plain and (op.name == op.id or op.name not in ids) else op.id

    return {op.id: name(op) for op in ops}


def _is_plain(name: str) -> bool:
    """Whether options may hold a name: they have no quotes."""
    return SEPARATORS.isdisjoint(name)


def layout_text(result: OptimizedGraph, op: Op) -> str:
    """The layout of an op's first result: `8x8:l1:block_sharded:tile:bf16`.

    Rows are not stated unless policies were free to choose them: an op gives them by itself, and who asks for them has
    its operands converted too.
    """
    value = result.graph.value(op.outputs[0])
    layout = result.layouts[value.id]
    rows, columns = grid_of(layout, result.device)
    parts = [f"{rows}x{columns}", layout.memory.buffer_type.value, layout.memory_layout.value]
    if layout.is_tile or result.options.row_major_enabled:
        parts.append(layout.page_layout.value)
    return ":".join((*parts, dtype_text(value.dtype)))


def dtype_text(dtype: DType) -> str:
    """An element type as tt-mlir spells it."""
    return _DTYPES.get(dtype, dtype.value)


def grid_of(layout: TensorLayout, device: DeviceSpec) -> tuple[int, int]:
    """tt-mlir's grid: that of the shards; interleaved, every core in L1 and one in DRAM."""
    if layout.shard_spec is not None:
        return layout.shard_spec.grid_yx
    return device.grid_yx if layout.is_l1 else (1, 1)


def _is_decided(result: OptimizedGraph, op: Op) -> bool:
    """Whether options may speak of an op: of the model, with one result, run on the device on every run."""
    return (
        len(op.outputs) == 1
        and result.records[op.id].role in (Role.COMPUTE, Role.VIEW)
        and not result.graph.is_const_eval(op)
        and not opdef(op.op).opaque
    )


def _conv_text(result: OptimizedGraph, op: Op) -> str:
    """The fields of a conv's config that differ from TTNN's defaults, and those that every plan decides."""
    config = result.records[op.id].config
    if not isinstance(config, Conv2dConfig):
        return ""
    default = Conv2dConfig()
    stated = ((f.name, getattr(config, f.name)) for f in fields(config) if f.name not in _OURS)
    return ":".join(
        f"{name}#{_plain(value)}" for name, value in stated if name in _STATED or value != getattr(default, name)
    )


def _copied(result: OptimizedGraph, op: Op) -> str:
    """Operands that are read from a copy in the layout of the result; all or none where they must be sharded alike."""
    own = result.layouts[op.outputs[0]]
    positions = [k for k, value in enumerate(op.inputs) if _is_copy(result, value) and _alike(result, value, own)]
    if opdef(op.op).operands_sharded_alike and len(positions) < len(op.inputs):
        return ""
    return ":".join(map(str, positions))


def _is_copy(result: OptimizedGraph, value: str) -> bool:
    maker = result.graph.producer(value)
    return maker is not None and result.records[maker.id].role in _COPIES


def _alike(result: OptimizedGraph, value: str, own: TensorLayout) -> bool:
    """Whether a value is sharded as a result is: in the same way on the same grid."""
    layout = result.layouts[value]
    same = layout.memory_layout is own.memory_layout and grid_of(layout, result.device) == grid_of(own, result.device)
    return own.is_sharded and layout.is_l1 and same


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return dtype_text(DType(value)) if value in {d.value for d in DType} else str(value)


def _joined(entries: Iterator[tuple[str, str]]) -> str:
    return ",".join(f"{name}={text}" for name, text in entries)
