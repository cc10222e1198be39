"""What an emitted program states of its runs: predicted times, and the DRAM that a trace of one takes."""

from __future__ import annotations

from optimizer.result import OptimizedGraph

_PER_PROGRAM_BYTES = 4096
_PER_CORE_BYTES = 96
_STEP_BYTES = 1 << 16
_TIMES = {"kernels": "predicted_time_ns", "traced": "traced_ns", "untraced": "untraced_ns"}
"""Name in the program -> field of the summary."""


def predicted_ns(result: OptimizedGraph) -> dict[str, int]:
    """Times of a run: of its kernels, and with their launches from a trace or without. What is unknown is left out."""
    summary = result.summary_json()
    return {name: int(summary[field]) for name, field in _TIMES.items() if summary.get(field) is not None}


def trace_region_bytes(result: OptimizedGraph, steps: int) -> int:
    """TBD"""
    programs = int(result.summary_json().get("programs") or 0) or steps
    rows, columns = result.device.grid_yx
    needed = programs * (_PER_PROGRAM_BYTES + _PER_CORE_BYTES * rows * columns)
    return _STEP_BYTES * (1 + needed // _STEP_BYTES)
