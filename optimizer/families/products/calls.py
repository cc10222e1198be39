"""Calls of matmul and linear."""

from __future__ import annotations

from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
)
from optimizer.opmodel.ttnn_calls.text import Site, Writer, literal, program_config_text


def _product(site: Site, bias: str | None) -> str:
    activation = site.attr("activation")
    program = program_config_text(
        site,
        MatmulMultiCoreReuseProgramConfig,
        MatmulMultiCoreReuseMultiCastProgramConfig,
        MatmulMultiCoreReuseMultiCast1DProgramConfig,
        MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    )
    return site.call(
        site.operand(1),
        bias=bias,
        transpose_a="True" if site.attr("transpose_a") else None,
        transpose_b="True" if site.attr("transpose_b") else None,
        memory_config=site.memory,
        dtype=site.dtype,
        program_config=program,
        activation=None if not activation else literal(str(activation)),
        compute_kernel_config=site.compute,
        core_grid=site.core_grid,
    )


CALLS: dict[str, Writer] = {
    "ttnn.matmul": lambda site: _product(site, None),
    "ttnn.linear": lambda site: _product(site, site.optional(2)),
}
