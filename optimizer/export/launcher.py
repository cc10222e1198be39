"""A kernel as a Python module that launches it with `ttnn.generic_op`: `launch.py` beside its C++."""

from __future__ import annotations

from optimizer.export.ttnn_py.launching import function_text, helpers_text
from optimizer.identifiers import printable
from optimizer.kernels.tensix.launch import Launch

FILE_NAME = "launch.py"
FUNCTION = "launch"
_IMPORTS = "import os\n\nimport ttnn"


def launcher_text(launch: Launch) -> str:
    """The module: `launch(device, x, ...)` returns the tensors that the kernel writes."""
    name = printable(launch.name)
    summary = f"The kernel '{name}' on {launch.core_count} cores."
    parts = [
        f'"""Launches the kernel \'{name}\' on tensors of ttnn. Emitted by ttopt."""',
        _IMPORTS,
        helpers_text(),
        f"{function_text(launch, FUNCTION, summary)}\n",
    ]
    return "\n\n".join(parts[:2]) + "\n\n" + "\n\n".join(parts[2:])
