"""The ATTRIBUTES of a row: what tt-perf-report reads of a program's config, spelled as the profiler does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import Conv2dConfig, OpConfig
from optimizer.layouts.tiling import TILE, ceil_div

_GRID = "compute_with_storage_grid_yx"


def attributes_text(op: Op, config: OpConfig | None, target: TensorLayout | None) -> str:
    """`{'name': 'value'; ...}`; values hold no commas, which separate columns."""
    entries: dict[str, str] = {}
    if "kernel_size" in op.attrs:
        entries["sliding_window_config"] = _window(op.attrs)
    if isinstance(config, Conv2dConfig):
        entries |= _conv(config, target)
    elif config is not None and config.family is not None:
        entries["program_config"] = _program_config(config)
    if target is not None:
        entries["output_mem_config"] = (
            f"MemoryConfig(memory_layout=TensorMemoryLayout::{target.memory_layout.value.upper()};"
            f"buffer_type=BufferType::{target.memory.buffer_type.value.upper()})"
        )
    return pairs_text(entries)


def pairs_text(entries: Mapping[str, str]) -> str:
    """`{'name': 'value'; ...}`."""
    inner = "; ".join(f"'{name}': '{value.replace(',', ';')}'" for name, value in entries.items())
    return f"{{{inner}}}"


def _program_config(config: OpConfig) -> str:
    """`MatmulMultiCoreReuseMultiCast1DProgramConfig(compute_with_storage_grid_size=(x=8;y=8);in0_block_w=2;...)`."""
    parts = []
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name == _GRID:
            parts.append(f"compute_with_storage_grid_size=(x={value[1]};y={value[0]})")
        else:
            parts.append(f"{field.name}={_plain(value)}")
    return f"{type(config).__name__}({';'.join(parts)})"


def _window(attrs: Mapping[str, Any]) -> str:
    parts = {
        "window_hw": _pair(attrs["kernel_size"]),
        "stride_hw": _pair(attrs.get("stride", (1, 1))),
        "padding": _pair(attrs.get("padding", (0, 0))),
        "dilation_hw": _pair(attrs.get("dilation", (1, 1))),
    }
    return " ".join(f"{name}={value};" for name, value in parts.items())


def _conv(config: Conv2dConfig, target: TensorLayout | None) -> dict[str, str]:
    """Blocks in tiles: the whole shard where the config overrides nothing. Readers are TTNN's own choice."""
    spec = None if target is None else target.shard_spec
    whole = 0 if spec is None else ceil_div(spec.shape[0], TILE)
    block = config.act_block_h_override // TILE or whole
    parts = {"act_block_h_ntiles": block, "per_core_out_matrix_height_ntile": whole}
    return {
        "parallelization_config": ";".join(f"{name}={value}" for name, value in parts.items() if value) + ";",
        "enable_act_double_buffer": _plain(config.enable_act_double_buffer),
        "enable_split_reader": "unknown",
        "activation": _plain(config.activation),
    }


def _pair(values: Any) -> str:
    return f"({';'.join(str(int(v)) for v in values)})"


def _plain(value: Any) -> str:
    if value is None:
        return "std::nullopt"
    return str(value).lower() if isinstance(value, bool) else str(value)
