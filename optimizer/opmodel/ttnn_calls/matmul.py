"""Calls of matmul and linear."""

from __future__ import annotations

from optimizer.errors import OpModelError
from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
    OpConfig,
)
from optimizer.opmodel.ttnn_calls.text import Site, activation_text, call, core_coord_text, literal

_Config = (
    MatmulMultiCoreReuseProgramConfig
    | MatmulMultiCoreReuseMultiCastProgramConfig
    | MatmulMultiCoreReuseMultiCast1DProgramConfig
)


def program_config_text(config: OpConfig | None) -> str | None:
    """A matmul program config; None gives None."""
    if config is None:
        return None
    if not isinstance(config, _Config):
        raise OpModelError(f"a matmul takes no {config.kind} config")
    fields: dict[str, str] = {
        "compute_with_storage_grid_size": core_coord_text(config.compute_with_storage_grid_yx),
        "in0_block_w": literal(config.in0_block_w),
        "out_subblock_h": literal(config.out_subblock_h),
        "out_subblock_w": literal(config.out_subblock_w),
        "per_core_M": literal(config.per_core_M),
        "per_core_N": literal(config.per_core_N),
    }
    if isinstance(config, MatmulMultiCoreReuseProgramConfig):
        return call("ttnn.MatmulMultiCoreReuseProgramConfig", **fields)
    fused = config.fused_activation
    activation = "None" if fused is None else activation_text(fused)
    batch = literal(config.fuse_batch)
    if isinstance(config, MatmulMultiCoreReuseMultiCastProgramConfig):
        return call(
            "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig",
            **fields,
            transpose_mcast=literal(config.transpose_mcast),
            fused_activation=activation,
            fuse_batch=batch,
        )
    return call(
        "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig",
        **fields,
        fuse_batch=batch,
        fused_activation=activation,
        mcast_in0=literal(config.mcast_in0),
    )


def _keywords(site: Site) -> dict[str, str | None]:
    activation = site.attr("activation")
    return {
        "transpose_a": "True" if site.attr("transpose_a") else None,
        "transpose_b": "True" if site.attr("transpose_b") else None,
        "memory_config": site.memory,
        "dtype": site.dtype,
        "program_config": program_config_text(site.query.config),
        "activation": None if not activation else literal(str(activation)),
        "compute_kernel_config": site.compute,
        "core_grid": site.core_grid,
    }


def _matmul(site: Site) -> str:
    return call("ttnn.matmul", site.operand(0), site.operand(1), **_keywords(site))


def _linear(site: Site) -> str:
    return call("ttnn.linear", site.operand(0), site.operand(1), bias=site.optional(2), **_keywords(site))


CALLS = {"ttnn.matmul": _matmul, "ttnn.linear": _linear}
"""Query op -> writer of its call."""
