"""Interpreter of gfx942 assembly text, independent of the code that emits it. Start at `run.run_kernel`."""

from .run import Run, Statistics, run_kernel

__all__ = ["Run", "Statistics", "run_kernel"]
