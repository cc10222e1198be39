"""Op configurations as attributes of the dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.export.mlir.text import boolean, struct_text
from optimizer.export.mlir.types import BUFFERS, core_ranges_text, data_type
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.dtype import DType
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
    activation = activation_text(config.activation)
    fields = {
        "weights_dtype": None if config.weights_dtype is None else data_type(DType(config.weights_dtype)),
        "activation": None if activation is None else activation.removeprefix("#ttnn.unary_with_param"),
        "deallocate_activation": boolean(config.deallocate_activation),
        "reallocate_halo_output": boolean(config.reallocate_halo_output),
        "act_block_h_override": str(config.act_block_h_override),
        "act_block_w_div": str(config.act_block_w_div),
        "reshard_if_not_optimal": boolean(config.reshard_if_not_optimal),
        "override_sharding_config": boolean(config.override_sharding_config),
        "shard_layout": config.shard_layout,
        "transpose_shards": boolean(config.transpose_shards),
        "output_layout": config.output_layout,
        "enable_act_double_buffer": boolean(config.enable_act_double_buffer),
        "enable_weights_double_buffer": boolean(config.enable_weights_double_buffer),
    }
    return f"#ttnn.conv2d_config{struct_text(fields)}"


def slice_text(config: Conv2dConfig) -> str | None:
    """`#ttnn.conv2d_slice_config<l1_full, 0>`; None where TTNN slices by itself."""
    kind, _, count = config.slice.partition(":")
    return f"#ttnn.conv2d_slice_config<{_SLICES[kind]}, {count or 0}>" if kind in _SLICES else None


def program_text(config: OpConfig) -> str | None:
    """A program config; None for a kind that the dialect lacks."""
    match config:
        case MatmulMultiCoreReuseProgramConfig():
            name, fields = "matmul_multi_core_reuse_program_config", _matmul(config)
        case MatmulMultiCoreReuseMultiCastProgramConfig():
            name = "matmul_multi_core_reuse_multi_cast_program_config"
            fields = {
                **_matmul(config, whole_blocks=True),
                "transpose_mcast": boolean(config.transpose_mcast),
                "fused_activation": activation_text(config.fused_activation),
                "fuse_batch": boolean(config.fuse_batch),
            }
        case MatmulMultiCoreReuseMultiCast1DProgramConfig():
            name = "matmul_multi_core_reuse_multi_cast_1d_program_config"
            fields = {
                **_matmul(config, whole_blocks=True),
                "fuse_batch": boolean(config.fuse_batch),
                "fused_activation": activation_text(config.fused_activation),
                "mcast_in0": boolean(config.mcast_in0),
                "gather_in0": "false",
                "hop_cores": "#ttnn.core_range_set<>",
                "num_global_cb_receivers": "0",
                "untilize_out": "false",
            }
        case LayerNormShardedMultiCoreProgramConfig():
            name = "layernorm_sharded_multicore_program_config"
            fields = {
                "compute_with_storage_grid_size": f"<{_xy(config.compute_with_storage_grid_yx)}>",
                "subblock_w": str(config.subblock_w),
                "block_h": str(config.block_h),
                "block_w": str(config.block_w),
                "inplace": boolean(config.inplace),
            }
        case SDPAProgramConfig():
            name = "sdpa_program_config"
            fields = {
                "compute_with_storage_grid_size": f"<{_xy(config.compute_with_storage_grid_yx)}>",
                "q_chunk_size": str(config.q_chunk_size),
                "k_chunk_size": str(config.k_chunk_size),
                "exp_approx_mode": None if config.exp_approx_mode is None else boolean(config.exp_approx_mode),
            }
        case _:
            return None
    return f"#ttnn.{name}{struct_text(fields)}"


def memory_text(memory: MemoryConfig) -> str:
    """`#ttnn.memory_config<#l1, <height_sharded>, #ttnn.shard_spec<...>>`."""
    text = f"#ttnn.memory_config<#{BUFFERS[memory.buffer_type]}, <{memory.memory_layout.value}>"
    spec = memory.shard_spec
    if spec is not None:
        height, width = spec.shape
        text += f", #ttnn.shard_spec<{core_ranges_text(memory)}, <{height}x{width}>, <{spec.orientation.value}>>"
    return f"{text}>"


def _matmul(config: Any, whole_blocks: bool = False) -> dict[str, str | None]:
    """What all matmul configs have; where no output block is given it is the whole shard."""
    rows, columns = str(config.per_core_M), str(config.per_core_N)
    whole = {"out_block_h": rows, "out_block_w": columns}
    blocks = {name: str(getattr(config, name, None) or size) for name, size in whole.items()} if whole_blocks else {}
    return {
        "compute_with_storage_grid_size": f"#ttnn.core_coord<{_xy(config.compute_with_storage_grid_yx)}>",
        "in0_block_w": str(config.in0_block_w),
        "out_subblock_h": str(config.out_subblock_h),
        "out_subblock_w": str(config.out_subblock_w),
        **blocks,
        "per_core_m": rows,
        "per_core_n": columns,
    }


def _xy(grid_yx: tuple[int, int]) -> str:
    return f"{grid_yx[1]}, {grid_yx[0]}"
