"""The text of fused kernels in the emitted module: one function per kernel, and what it launches."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.export.facts import tensor_spec
from optimizer.export.ttnn_py.launching import function_text, helpers_text
from optimizer.fusion.binding import FOLDER, FusedKernel
from optimizer.fusion.placement import Operand
from optimizer.kernels.tensix.launch import Launch, LaunchTensor, launch_on
from optimizer.result import OptimizedGraph

_LISTED_OPS = 5


def fused_text(result: OptimizedGraph, kernels: Sequence[FusedKernel]) -> str:
    """Helpers and functions; empty without kernels."""
    if not kernels:
        return ""
    functions = (function_text(fused_launch(result, k), k.name, _summary(k), k.name) for k in kernels)
    return f"\n\n{helpers_text(FOLDER)}" + "".join(f"\n\n{text}\n" for text in functions)


def fused_launch(result: OptimizedGraph, kernel: FusedKernel) -> Launch:
    """What the host hands over for the first region of a kernel: on the cores of its home, tensors as they lie."""
    region = kernel.region
    spec = region.home.layout.shard_spec
    assert spec is not None
    tensors = [_tensor(result, operand, f"x{k}", written=False) for k, operand in enumerate(region.inputs)]
    tensors += [_tensor(result, operand, f"y{k}", written=True) for k, operand in enumerate(region.outputs)]
    arch = result.device.arch
    return launch_on(kernel.name, kernel.lowered, kernel.sources, spec.core_ranges, tuple(tensors), arch)


def _tensor(result: OptimizedGraph, operand: Operand, argument: str, written: bool) -> LaunchTensor:
    spec = tensor_spec(result, operand.value)
    return LaunchTensor(argument, spec.shape, spec.dtype, spec.layout, written, not written)


def _summary(kernel: FusedKernel) -> str:
    rows, columns = kernel.region.home.shard
    names = [op.op.removeprefix("ttnn.") for op in kernel.region.ops]
    shown = ", ".join(names if len(names) <= _LISTED_OPS else [*names[:_LISTED_OPS], "..."])
    return f"{shown}: {rows}x{columns} tiles on each of {kernel.region.home.cores} cores."
