"""What the emitted program deallocates, by the op after which it does."""

from __future__ import annotations

from dataclasses import replace

from optimizer.export.ttnn_py.building import ttnn_program
from optimizer.export.ttnn_py.lifetimes import DEALLOCATE
from optimizer.result import OptimizedGraph


def deallocated_values(result: OptimizedGraph) -> dict[str, tuple[str, ...]]:
    """Op -> values that the emitted program deallocates after it, regions of fused kernels taken op by op."""
    program = ttnn_program(replace(result, options=replace(result.options, fuse_kernels=False)))
    values = {f"{DEALLOCATE}({variable})": value for step in program.run_steps for variable, value in step.results}
    return {step.op: tuple(values[text] for text in step.frees) for step in program.run_steps if step.op is not None}
