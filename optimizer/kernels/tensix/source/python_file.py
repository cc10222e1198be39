"""Kernels from a Python file of the user's: what `@kernel` (`ttl.kernels`) made in it.

The file is executed. Its kernels are the programs that it binds to names of the module, and the functions with
`@kernel` whose parameters all have a `Tensor` as default:

    @kernel(grid=(8, 8))
    def gelu(x: Tensor = Tensor((64, 64)), y: Tensor = Tensor((64, 64))): ...

    softmax_wide = softmax(Tensor((32, 64)), Tensor((32, 64)))
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from optimizer.errors import FormatError, TtoptError
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.ttl.kernels import KernelFunction
from optimizer.process.json_document import read_text

_PROGRAM = "ttl.program"


def read_kernels(path: Path) -> list[tuple[str, Op]]:
    """Name and program of every kernel of a file, in its order. FormatError names file and line of what goes wrong."""
    module = _executed(path)
    named = dict(vars(module))
    programs = {name: value for name, value in named.items() if isinstance(value, Op) and value.name == _PROGRAM}
    called = {program.string("sym_name") for program in programs.values()}
    found: dict[str, Op] = {}
    for name, value in named.items():
        if name in programs:
            found[name] = programs[name]
        elif isinstance(value, KernelFunction) and value.function.__module__ == module.__name__:
            if value.has_defaults:
                found[name] = _built(value, path)
            elif value.function.__name__ not in called:
                raise FormatError(
                    f"kernel '{name}' has no tensors: give its parameters defaults, as in "
                    "'x: Tensor = Tensor((2, 2))', or call it and give the program a name",
                    node=f"{path}:{value.function.__code__.co_firstlineno}",
                )
    if not found:
        raise FormatError("no kernel: a function with @kernel is due", node=str(path))
    return list(found.items())


def _built(function: KernelFunction, path: Path) -> Op:
    with _errors_of(path):
        return function()


def _executed(path: Path) -> ModuleType:
    """The module. It may import what lies beside it, and what it prints goes to standard error."""
    text = read_text(path)
    module = ModuleType(f"ttopt_kernels_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with _errors_of(path), contextlib.redirect_stdout(sys.stderr):
            exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    finally:
        sys.path.remove(str(path.resolve().parent))
        del sys.modules[module.__name__]
    return module


@contextlib.contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Whatever the file raises, as FormatError that names its line."""
    try:
        yield
    except SyntaxError as error:
        raise FormatError(f"no Python: {error.msg}", node=f"{path}:{error.lineno}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises is the answer
        said = str(error) if isinstance(error, TtoptError) else f"{type(error).__name__}: {error}"
        raise FormatError(said.rstrip(": "), node=f"{path}:{_line(error, path)}") from None


def _line(error: BaseException, path: Path) -> Any:
    """The innermost line of the file that an error came from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else 1
