"""Op configurations as attributes of the dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from optimizer.export.mlir.text import boolean, struct_text
from optimizer.export.mlir.types import BUFFERS, core_ranges_text
from optimizer.export.overrides import dtype_text
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import ConfigFamily
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.op_config import (
    Conv2dConfig,
    LayerNormShardedMultiCoreProgramConfig,
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
    OpConfig,
    SDPAProgramConfig,
)

_ACTIVATIONS = frozenset(FUSED_ACTIVATIONS) - {"gelu_tanh"}
"""Activations that are a `UnaryOpType` of the dialect, by our name."""
_GRID = "compute_with_storage_grid_size"
_PRODUCT = (_GRID, "in0_block_w", "out_subblock_h", "out_subblock_w")
_BLOCKS = (*_PRODUCT, "out_block_h", "out_block_w", "per_core_m", "per_core_n")
_UNUSED = {
    "gather_in0": "false",
    "hop_cores": "#ttnn.core_range_set<>",
    "num_global_cb_receivers": "0",
    "untilize_out": "false",
}
"""Fields of the dialect's configs that no plan uses."""
_PROGRAMS: dict[type[OpConfig], tuple[str, tuple[str, ...]]] = {
    MatmulMultiCoreReuseProgramConfig: ("matmul_multi_core_reuse", (*_PRODUCT, "per_core_m", "per_core_n")),
    MatmulMultiCoreReuseMultiCastProgramConfig: (
        "matmul_multi_core_reuse_multi_cast",
        (*_BLOCKS, "transpose_mcast", "fused_activation", "fuse_batch"),
    ),
    MatmulMultiCoreReuseMultiCast1DProgramConfig: (
        "matmul_multi_core_reuse_multi_cast_1d",
        (*_BLOCKS, "fuse_batch", "fused_activation", "mcast_in0", *_UNUSED),
    ),
    LayerNormShardedMultiCoreProgramConfig: (
        "layernorm_sharded_multicore",
        (_GRID, "subblock_w", "block_h", "block_w", "inplace"),
    ),
    SDPAProgramConfig: ("sdpa", (_GRID, "q_chunk_size", "k_chunk_size", "exp_approx_mode")),
}
"""Our config -> its name in the dialect, and its fields there in order."""
_SLICES = {"l1": "l1_full", "dram_height": "dram_height", "dram_width": "dram_width"}


def activation_text(name: str | None) -> str | None:
    """`#ttnn.unary_with_param<op_type = relu>`; None for no activation and for one that the dialect lacks."""
    return f"#ttnn.unary_with_param<op_type = {name}>" if name in _ACTIVATIONS else None


def compute_text(stated: Mapping[str, Any]) -> str:
    """A query's attribute `compute` as `#ttnn.device_compute_kernel_config<...>`."""
    fields = {
        "math_fidelity": str(stated["fid"]).lower() if "fid" in stated else None,
        "math_approx_mode": boolean(stated.get("approx", False)),
        "fp32_dest_acc_en": boolean(stated.get("fp32", False)),
        "packer_l1_acc": boolean(stated.get("l1acc", False)),
    }
    return f"#ttnn.device_compute_kernel_config{struct_text(fields)}"


def conv2d_text(config: Conv2dConfig) -> str:
    """`#ttnn.conv2d_config<...>`, in the order of the attribute's fields."""
    stated = {f.name: _plain(getattr(config, f.name)) for f in fields(config) if f.name != "slice"}
    activation = activation_text(config.activation)
    stated["activation"] = None if activation is None else activation.removeprefix("#ttnn.unary_with_param")
    stated["weights_dtype"] = None if config.weights_dtype is None else dtype_text(DType(config.weights_dtype))
    return f"#ttnn.conv2d_config{struct_text(stated)}"


def slice_text(config: Conv2dConfig) -> str | None:
    """`#ttnn.conv2d_slice_config<l1_full, 0>`; None where TTNN slices by itself."""
    kind, _, count = config.slice.partition(":")
    return f"#ttnn.conv2d_slice_config<{_SLICES[kind]}, {count or 0}>" if kind in _SLICES else None


def program_text(config: OpConfig) -> str | None:
    """A program config; None for a kind that the dialect lacks."""
    if type(config) not in _PROGRAMS:
        return None
    name, stated = _PROGRAMS[type(config)]
    return f"#ttnn.{name}_program_config{struct_text({field: _field(config, field) for field in stated})}"


def _field(config: Any, name: str) -> str | None:
    """A field of a program config; where no output block is given it is the whole shard."""
    match name:
        case _ if name == _GRID:
            rows, columns = config.compute_with_storage_grid_yx
            return f"{'#ttnn.core_coord' if config.family is ConfigFamily.MATMUL else ''}<{columns}, {rows}>"
        case "fused_activation":
            return activation_text(config.fused_activation)
        case "out_block_h" | "per_core_m":
            return str((name == "out_block_h" and config.out_block_h) or config.per_core_M)
        case "out_block_w" | "per_core_n":
            return str((name == "out_block_w" and config.out_block_w) or config.per_core_N)
    return _UNUSED.get(name) or _plain(getattr(config, name))


def _plain(value: Any) -> str | None:
    """A flag, number or word; None for none."""
    return boolean(value) if isinstance(value, bool) else None if value is None else str(value)


def memory_text(memory: MemoryConfig) -> str:
    """`#ttnn.memory_config<#l1, <height_sharded>, #ttnn.shard_spec<...>>`."""
    text = f"#ttnn.memory_config<#{BUFFERS[memory.buffer_type]}, <{memory.memory_layout.value}>"
    spec = memory.shard_spec
    if spec is not None:
        height, width = spec.shape
        text += f", #ttnn.shard_spec<{core_ranges_text(memory)}, <{height}x{width}>, <{spec.orientation.value}>>"
    return f"{text}>"
