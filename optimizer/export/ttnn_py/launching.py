"""The text of functions that launch kernels with `ttnn.generic_op`: two helpers, and one function per kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.export.ttnn_py.formatting import docstring_text, laid_out, part
from optimizer.export.ttnn_py.names import Names
from optimizer.export.ttnn_py.prelude import placeholder_text
from optimizer.kernels.tensix.launch import Launch, LaunchBuffer, LaunchTensor, LaunchThread
from optimizer.opmodel.base import TensorSpec
from optimizer.opmodel.ttnn_calls.text import call, core_ranges_text, dtype_text, literal, quoted

NAMES = ("KERNELS", "circular_buffer", "kernel", "os")
"""What a module with such functions defines besides them."""
_LOCALS = ("cores", "buffers", "kernels", "config", "semaphores", "own", "each", "column", "row")
_BUFFERS = 64
"""`NUM_CIRCULAR_BUFFERS` as the host knows it, whatever the chip."""
_MOVEMENT = {"reader": "ttnn.ReaderConfigDescriptor()", "writer": "ttnn.WriterConfigDescriptor()"}


def helpers_text(folder: str = "") -> str:
    """The helpers, for kernels in this folder beside the module."""
    here = call("os.path.dirname", call("os.path.abspath", "__file__"))
    return part("kernels").format(folder=call("os.path.join", here, quoted(folder)) if folder else here) + "\n"


def parameter_names(launch: Launch) -> Mapping[str, str]:
    """Argument of the kernel -> name of the variable that holds its tensor."""
    names = Names()
    for taken in (*NAMES, *_LOCALS):  # others of the module are taken for everybody
        names.fresh(taken)
    return {tensor.argument: names.of(tensor.argument) for tensor in launch.tensors}


def function_text(launch: Launch, name: str, summary: str, folder: str = "") -> str:
    """A function of the device, the tensors that the kernel reads and its run-time arguments, which returns the tensors
    that it writes. A run-time argument is a number, or a mapping from the (x, y) of each core.

    `folder`: of the kernel's files, below that of the helpers.
    """
    variable = parameter_names(launch)
    numbers = argument_names(launch)
    lines = [f'"""{docstring_text(summary)}"""']
    for tensor in launch.outputs:
        if not tensor.read:
            lines.append(f"{variable[tensor.argument]} = {placeholder_text(_spec(tensor))}")
    lines.append(f"cores = {core_ranges_text(launch.cores)}")
    lines.append(f"buffers = [{', '.join(_buffer(b, variable) for b in launch.buffers)}]")
    if launch.config.unpack_to_dst:
        lines.append(f"config = {_compute_config(launch)}")
        lines.append(f"config.unpack_to_dest_mode = {_unpack_modes(launch)}")
    lines.append(f"kernels = [{', '.join(_kernel(launch, t, variable, folder) for t in launch.threads)}]")
    if launch.semaphores:
        lines.append(f"semaphores = [{', '.join(map(_semaphore, range(len(launch.semaphores)), launch.semaphores))}]")
    stated = "semaphores" if launch.semaphores else "[]"
    program = call("ttnn.ProgramDescriptor", kernels="kernels", semaphores=stated, cbs="buffers")
    lines.append(call("ttnn.generic_op", f"[{', '.join(variable[t.argument] for t in launch.tensors)}]", program))
    lines.append(f"return {', '.join(variable[t.argument] for t in launch.outputs)}")
    laid = [laid_out(line, 1) for line in lines]
    laid[-2:-2] = _given_to_cores(launch, [numbers[n] for n in launch.runtime_args])
    body = "\n".join(laid)
    parameters = ["device", *(variable[t.argument] for t in launch.inputs), *numbers.values()]
    return f"def {name}({', '.join(parameters)}):\n{body}"


def argument_names(launch: Launch) -> Mapping[str, str]:
    """Run-time argument -> name of the variable that holds it."""
    names = Names()
    for taken in (*NAMES, *_LOCALS, "ttnn", "device", *parameter_names(launch).values()):
        names.fresh(taken)
    return {name: names.of(name) for name in launch.runtime_args}


def _given_to_cores(launch: Launch, numbers: Sequence[str]) -> list[str]:
    """Statements that give every core its run-time arguments."""
    if not numbers:
        return []
    each = [f"{name}[column, row] if isinstance({name}, dict) else {name}" for name in numbers]
    lines = [laid_out("own = ttnn.RuntimeArgs()", 1)]
    for x0, y0, x1, y1 in launch.cores:
        places = f"((column, row) for row in range({y0}, {y1 + 1}) for column in range({x0}, {x1 + 1}))"
        lines += [laid_out(f"for column, row in {places}:", 1), laid_out(f"own[column][row] = [{', '.join(each)}]", 2)]
    return [*lines, laid_out("for each in kernels:", 1), laid_out("each.runtime_args = own", 2)]


def _semaphore(number: int, value: int) -> str:
    return call("ttnn.SemaphoreDescriptor", id=literal(number), core_ranges="cores", initial_value=literal(value))


def _spec(tensor: LaunchTensor) -> TensorSpec:
    return TensorSpec(tensor.shape, tensor.dtype, tensor.layout)


def _buffer(buffer: LaunchBuffer, variable: Mapping[str, str]) -> str:
    """A descriptor: the shard of a tensor, or memory of its own."""
    index = literal(buffer.index)
    if buffer.tensor is not None:
        return call("ttnn.cb_descriptor_from_sharded_tensor", index, variable[buffer.tensor])
    sizes = literal(buffer.page_bytes), literal(buffer.pages)
    return call("circular_buffer", index, dtype_text(buffer.dtype), *sizes, "cores")


def _kernel(launch: Launch, thread: LaunchThread, variable: Mapping[str, str], folder: str) -> str:
    path = f"{folder}/{thread.file}" if folder else thread.file
    config = _MOVEMENT.get(thread.kind) or ("config" if launch.config.unpack_to_dst else _compute_config(launch))
    return call("kernel", quoted(path), "cores", config, *(variable[t] for t in thread.tensors))


def _compute_config(launch: Launch) -> str:
    stated = launch.config
    more = {name: literal(True) for name in ("math_approx_mode", "dst_full_sync_en") if getattr(stated, name)}
    return call(
        "ttnn.ComputeConfigDescriptor",
        math_fidelity=f"ttnn.MathFidelity.{stated.math_fidelity}",
        fp32_dest_acc_en=literal(stated.fp32_dest_acc_en),
        **more,
    )


def _unpack_modes(launch: Launch) -> str:
    """How every circular buffer is unpacked."""
    modes = ("UnpackToDestFp32" if k in launch.config.unpack_to_dst else "Default" for k in range(_BUFFERS))
    return f"[{', '.join(f'ttnn.UnpackToDestMode.{mode}' for mode in modes)}]"
