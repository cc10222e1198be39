"""A kernel as the files that a host launches it from: C++, `manifest.json`, `launch.py`, and the program itself.

`launch.py` defines `launch(device, x, ...)`, which calls `ttnn.generic_op`; run as a script it is `ttopt kernel launch`
of its folder: random inputs, compared with what the program means. `manifest.json` says the same to hosts that are not
written in Python (docs/formats.md).
"""

from __future__ import annotations

import json
from typing import Any

from optimizer.export.ttnn_py.launching import argument_names, function_text, helpers_text, parameter_names
from optimizer.kernels.tensix.kernel_api import TTNN_VERSION
from optimizer.kernels.tensix.launch import BuiltKernel, Launch, LaunchBuffer, LaunchTensor, LaunchThread
from optimizer.kernels.tensix.source.text import text_of
from optimizer.process.identifiers import printable

LAUNCHER, MANIFEST, PROGRAM = "launch.py", "manifest.json", "program.ttl"
FUNCTION = "launch"
FORMAT = "ttopt-kernel-1"
OPTION_FIELDS = ("allocator", "schedule", "fuse", "push", "unroll", "capacity", "l1_bytes")
"""Of `KernelOptions`, what the C++ depends on besides the board."""
_SCRIPT = """if __name__ == "__main__":
    from optimizer.cli import main

    sys.exit(main(["kernel", "launch", KERNELS, *sys.argv[1:]]))
"""


def kernel_files(kernel: BuiltKernel) -> dict[str, str]:
    """Name -> text."""
    sources = zip(kernel.launch.threads, kernel.sources, strict=True)
    return {
        **{thread.file: source.text for thread, source in sources},
        MANIFEST: json.dumps(manifest(kernel), indent=1) + "\n",
        LAUNCHER: launcher_text(kernel.launch),
        PROGRAM: text_of(kernel.program),
    }


def launcher_text(launch: Launch) -> str:
    """The Python module."""
    name = printable(launch.name)
    head = f'"""Launches the kernel {name} on tensors of ttnn. Emitted by ttopt.\n\n{_usage(launch)}\n"""'
    cores = f"{launch.core_count} core{'s' if launch.core_count > 1 else ''}"
    function = function_text(launch, FUNCTION, f"The kernel {name} on {cores}.")
    imports = "import os\nimport sys\n\nimport ttnn"
    return "\n\n".join([head, imports, helpers_text(), function + "\n", _SCRIPT])


def _usage(launch: Launch) -> str:
    names = parameter_names(launch)
    shown = [f"    {names[t.argument]:<8} {_tensor_text(t)}" for t in launch.tensors]
    script = f"python {LAUNCHER} [--device real|sim] [--seed N]   random inputs, compared with what the kernel means"
    shown += [
        f"    {name:<8} a number for every core, or a mapping from their (x, y)"
        for name in argument_names(launch).values()
    ]
    return "\n".join([f"{script}\n", *shown])


def _tensor_text(tensor: LaunchTensor) -> str:
    use = " and ".join(word for word, is_so in (("read", tensor.read), ("written", tensor.written)) if is_so)
    return f"{list(tensor.shape)} {tensor.dtype.value}, {tensor.layout.describe()}, {use}"


# -- manifest ---------------------------------------------------------------------------------------------------
def manifest(kernel: BuiltKernel) -> dict[str, Any]:
    """All that a host hands over, as plain data."""
    launch, options = kernel.launch, kernel.options
    names = parameter_names(launch)
    return {
        "format": FORMAT,
        "name": launch.name,
        "ttnn": TTNN_VERSION,
        "board": options.board.to_json(),
        "cores": [list(ranges) for ranges in launch.cores],
        "core_count": launch.core_count,
        "tensors": [{**_tensor(tensor), "parameter": names[tensor.argument]} for tensor in launch.tensors],
        "circular_buffers": [_buffer(buffer) for buffer in launch.buffers],
        "kernels": [_thread(launch, thread) for thread in launch.threads],
        "semaphores": [{"id": k, "initial_value": value} for k, value in enumerate(launch.semaphores)],
        "compute_config": launch.config.to_json(),
        "l1_bytes": launch.l1_bytes,
        "l1_bytes_free": options.available_l1(kernel.program),
        "compiled_with": {name: getattr(options, name) for name in OPTION_FIELDS},
    }


def _tensor(tensor: LaunchTensor) -> dict[str, Any]:
    return {
        "argument": tensor.argument,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype.value,
        "layout": tensor.layout.to_json(),
        "page_bytes": tensor.dtype.tile_bytes,
        "read": tensor.read,
        "written": tensor.written,
    }


def _buffer(buffer: LaunchBuffer) -> dict[str, Any]:
    return {
        "index": buffer.index,
        "dtype": buffer.dtype.value,
        "page_bytes": buffer.page_bytes,
        "pages": buffer.pages,
        "total_bytes": buffer.total_bytes,
        "tensor": buffer.tensor,
    }


def _thread(launch: Launch, thread: LaunchThread) -> dict[str, Any]:
    return {
        "kind": thread.kind,
        "file": thread.file,
        "accessors": list(thread.tensors),
        "compile_time_args": launch.compile_time_args(thread),
        "common_runtime_args": [{"address_of": tensor} for tensor in thread.tensors],
        "runtime_args": list(launch.runtime_args),
    }
