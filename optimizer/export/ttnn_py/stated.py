"""What an emitted program states of its runs: predicted times, and the DRAM that a trace of one takes."""

from __future__ import annotations

from optimizer.result import OptimizedGraph

_PER_CORE_BYTES = 512
"""Commands of one device program in a trace, per core of the board: runtime arguments of each of its kernels above all.

Twice the most of 19 calls on up to 64 cores of a Wormhole, each captured on the simulator with ttnn 0.81.1: attention
256 bytes per core of the board, additions 224, a pool 160, products 112 to 144, a convolution, norms and copies 32 to
80. On Blackhole attention takes 260 of a p150's cores, the others less. For comparison: tt-metal's report
AdvancedPerformanceOptimizationsForModels shows a whole model of 751,616 bytes."""
_STEP_BYTES = 1 << 16
_TIMES = {"kernels": "predicted_time_ns", "traced": "traced_ns", "untraced": "untraced_ns"}
"""Name in the program -> field of the summary."""


def predicted_ns(result: OptimizedGraph) -> dict[str, int]:
    """Times of a run: of its kernels, and with their launches from a trace or without. What is unknown is left out."""
    summary = result.summary_json()
    return {name: int(summary[field]) for name, field in _TIMES.items() if summary.get(field) is not None}


def trace_region_bytes(result: OptimizedGraph, steps: int) -> int:
    """What to give as `trace_region_size`: at most so many bytes are the commands of one run, over all banks of DRAM.

    `steps` stand for the device programs where the summary does not count them. tt-metal refuses a trace that does not
    fit and says what it takes, so that an estimate too low is told, not run.
    """
    programs = int(result.summary_json().get("programs") or 0) or steps
    rows, columns = result.device.grid_yx
    return _STEP_BYTES * (1 + programs * rows * columns * _PER_CORE_BYTES // _STEP_BYTES)
