"""The text of fused kernels in the emitted module: two helpers, and one function per kernel that calls `generic_op`."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.export.kernels.binding import FOLDER, FusedKernel
from optimizer.export.kernels.fidelity import fidelity
from optimizer.export.kernels.regions import Region
from optimizer.export.ttnn_py.formatting import docstring_text, laid_out
from optimizer.export.ttnn_py.prelude import placeholder_text
from optimizer.kernels.tensix.compute_config import compute_config
from optimizer.kernels.tensix.emit_cpp import KernelSource
from optimizer.kernels.tensix.types import CircularBufferType
from optimizer.opmodel.base import TensorSpec
from optimizer.opmodel.ttnn_calls.text import call, core_ranges_text, dtype_text, literal, quoted
from optimizer.result import OptimizedGraph

NAMES = ("KERNELS", "circular_buffer", "kernel", "os")
"""What the module defines besides the functions of the kernels."""

_HELPERS = '''

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), {folder})
"""Folder of the kernels' C++."""


def circular_buffer(index, dtype, page_size, pages, cores):
    """A circular buffer that lies in no tensor."""
    entry = ttnn.CBFormatDescriptor(buffer_index=index, data_format=dtype, page_size=page_size)
    return ttnn.CBDescriptor(total_size=pages * page_size, core_ranges=cores, format_descriptors=[entry])


def kernel(file, cores, config, *tensors):
    """One file of KERNELS. How its tensors are spread it knows at compile time; addresses are common arguments."""
    spread = [n for tensor in tensors for n in ttnn.TensorAccessorArgs(tensor).get_compile_time_args()]
    return ttnn.KernelDescriptor(
        kernel_source=os.path.join(KERNELS, file),
        core_ranges=cores,
        compile_time_args=spread,
        common_runtime_args=[tensor.buffer_address() for tensor in tensors],
        config=config,
    )
'''
_LISTED_OPS = 5
_MOVEMENT = {"reader": "ttnn.ReaderConfigDescriptor()", "writer": "ttnn.WriterConfigDescriptor()"}


def fused_text(result: OptimizedGraph, kernels: Sequence[FusedKernel]) -> str:
    """Helpers and functions; empty without kernels."""
    if not kernels:
        return ""
    return _HELPERS.format(folder=quoted(FOLDER)) + "".join(f"\n\n{_function(result, k)}\n" for k in kernels)


def fused_call(kernel: FusedKernel, operands: Sequence[str]) -> str:
    """The call of a kernel's function."""
    return call(kernel.name, "device", *operands)


def _function(result: OptimizedGraph, kernel: FusedKernel) -> str:
    region = kernel.region
    inputs = [f"x{k}" for k in range(len(region.inputs))]
    outputs = [f"y{k}" for k in range(len(region.outputs))]
    tensors = [*inputs, *outputs]
    lines = [f'"""{_summary(kernel)}"""']
    for name, operand in zip(outputs, region.outputs, strict=True):
        value = result.graph.value(operand.value)
        spec = TensorSpec(value.shape, value.dtype, result.layouts[operand.value])
        lines.append(f"{name} = {placeholder_text(spec)}")
    lines.append(f"cores = {_cores(region)}")
    lines.append(f"buffers = [{', '.join(_buffers(kernel))}]")
    lines.append(f"kernels = [{', '.join(_kernel(kernel, source, result.device.arch) for source in kernel.sources)}]")
    program = call("ttnn.ProgramDescriptor", kernels="kernels", semaphores="[]", cbs="buffers")
    lines.append(call("ttnn.generic_op", f"[{', '.join(tensors)}]", program))
    lines.append(f"return {', '.join(outputs)}")
    body = "\n".join(laid_out(line, 1) for line in lines)
    return f"def {kernel.name}(device, {', '.join(inputs)}):\n{body}"


def _summary(kernel: FusedKernel) -> str:
    rows, columns = kernel.region.home.shard
    names = [op.op.removeprefix("ttnn.") for op in kernel.region.ops]
    shown = ", ".join(names if len(names) <= _LISTED_OPS else [*names[:_LISTED_OPS], "..."])
    return docstring_text(f"{shown}: {rows}x{columns} tiles on each of {kernel.region.home.cores} cores.")


def _cores(region: Region) -> str:
    spec = region.home.layout.shard_spec
    assert spec is not None
    return core_ranges_text(spec.core_ranges)


def _buffers(kernel: FusedKernel) -> list[str]:
    """One descriptor per circular buffer: the shard of a tensor, or memory of its own."""
    found = []
    for op in kernel.lowered.body.ops:
        if op.name != "ttl.bind_cb":
            continue
        cb, index = op.result.typed(CircularBufferType), literal(op.integer("index"))
        if op.has_attr("tensor"):
            found.append(call("ttnn.cb_descriptor_from_sharded_tensor", index, op.string("tensor")))
        else:
            pages = literal(cb.block.tiles * cb.block_count)
            size = literal(cb.dtype.tile_bytes)
            found.append(call("circular_buffer", index, dtype_text(cb.dtype), size, pages, "cores"))
    return found


def _kernel(kernel: FusedKernel, source: KernelSource, arch: str) -> str:
    stated = compute_config(kernel.lowered)
    more = {name: literal(True) for name in ("math_approx_mode", "dst_full_sync_en") if getattr(stated, name)}
    config = _MOVEMENT.get(source.kind) or call(
        "ttnn.ComputeConfigDescriptor",
        math_fidelity=f"ttnn.MathFidelity.{fidelity(kernel.lowered, arch)}",
        fp32_dest_acc_en=literal(stated.fp32_dest_acc_en),
        **more,
    )
    return call("kernel", quoted(f"{kernel.name}/{source.kind}.cpp"), "cores", config, *source.tensors)
