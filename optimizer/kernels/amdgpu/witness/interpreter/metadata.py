"""The metadata of a kernel (`.amdgpu_metadata`), held against its descriptor and against a launch.

The runtime sizes a launch by the metadata, the hardware by the descriptor: where they differ the kernel runs with the
wrong memory. Source: LLVM's "User Guide for AMDGPU Backend", section "Code Object V5 Metadata".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ..errors import ExecutionError, TextError
from .descriptor import Descriptor


@dataclass(frozen=True)
class Metadata:
    """One entry of `amdhsa.kernels`; `line` is where the block starts."""

    name: str
    line: int
    values: Mapping[str, Any]

    @property
    def arguments(self) -> list[Mapping[str, Any]]:
        return list(self.values.get(".args") or [])


@dataclass(frozen=True, slots=True)
class Passed:
    """One argument of a launch: its place and size in the kernarg segment."""

    name: str
    offset: int
    size: int
    is_buffer: bool


MAX_DEPTH = 50
"""Of lists and maps within each other."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML with LLVM's tag `!str`; without aliases, which LLVM does not write, and not nested without end."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if self.check_event(yaml.AliasEvent) or self.depth >= MAX_DEPTH:
            found = "an alias" if self.check_event(yaml.AliasEvent) else f"more than {MAX_DEPTH} levels"
            raise yaml.composer.ComposerError(None, None, found, event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.add_constructor("!str", lambda loader, node: loader.construct_scalar(node))


def parse_metadata(body: Sequence[tuple[int, str]], line: int) -> list[Metadata]:
    """The kernels of a metadata block: its numbered lines, and the line of its directive."""
    try:
        document = yaml.load("\n".join(text for _, text in body), Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = body[min(mark.line, len(body) - 1)][0] if mark is not None and body else line
        raise TextError(f"metadata is no YAML: {getattr(error, 'problem', error)}", place) from None
    except ValueError as error:  # of what looks like a date or a number and is none
        raise TextError(f"metadata holds no value: {error}", line) from None
    kernels = document.get("amdhsa.kernels") if isinstance(document, dict) else None
    if not isinstance(kernels, list) or not all(isinstance(k, dict) and ".name" in k for k in kernels):
        raise TextError("metadata has no list 'amdhsa.kernels' of named kernels", line)
    for kernel in kernels:
        _check_kinds(kernel, line)
    return [Metadata(str(kernel[".name"]), line, kernel) for kernel in kernels]


def _check_kinds(kernel: Mapping[str, Any], line: int) -> None:
    """What a launch reads must be of the kind that LLVM writes."""
    for key, (kind, name) in _KINDS.items():
        if kernel.get(key) is not None and not isinstance(kernel[key], kind):
            raise TextError(f"{key} of the metadata is {kernel[key]!r}, no {name}", line)
    for entry in kernel.get(".args") or []:
        if not isinstance(entry, dict):
            raise TextError(f".args of the metadata has {entry!r}, no map", line)


_KINDS = {
    ".max_flat_workgroup_size": (int, "integer"),
    ".reqd_workgroup_size": (list, "list"),
    ".args": (list, "list"),
}
"""Key that a launch reads -> the kind of its value, and what it is called."""


def check_metadata(metadata: Metadata, descriptor: Descriptor) -> None:
    """Both must say the same. Errors: `ExecutionError` of kind descriptor."""
    wanted = {
        ".symbol": f"{metadata.name}.kd",
        ".wavefront_size": 64,
        ".kernarg_segment_size": descriptor["kernarg_size"],
        ".group_segment_fixed_size": descriptor["group_segment_fixed_size"],
        ".private_segment_fixed_size": descriptor["private_segment_fixed_size"],
    }
    for key, value in wanted.items():
        if metadata.values.get(key) != value:
            raise _error(metadata, f"{key} is {metadata.values.get(key)}, the descriptor needs {value}")
    least = {".sgpr_count": descriptor["next_free_sgpr"], ".vgpr_count": descriptor["next_free_vgpr"]}
    for key, value in least.items():
        if not isinstance(metadata.values.get(key), int) or metadata.values[key] < value:
            raise _error(metadata, f"{key} is {metadata.values.get(key)}, the descriptor has {value} registers")


def check_launch(metadata: Metadata, size: tuple[int, int, int], passed: Sequence[Passed]) -> None:
    """The arguments and the workgroup of a launch must be those that the metadata announces."""
    threads = size[0] * size[1] * size[2]
    stated = metadata.values.get(".max_flat_workgroup_size")
    limit = 1024 if stated is None else stated
    if threads > limit:
        raise _error(metadata, f".max_flat_workgroup_size is {limit}, a workgroup of {threads} was launched")
    required = metadata.values.get(".reqd_workgroup_size")
    if required is not None and tuple(required) != size:
        raise _error(metadata, f".reqd_workgroup_size is {required}, {list(size)} was launched")
    if metadata.values.get(".args") is None:
        return
    announced = [entry for entry in metadata.arguments if not str(entry.get(".value_kind", "")).startswith("hidden_")]
    if len(announced) != len(passed):
        raise _error(metadata, f".args has {len(announced)} arguments, {len(passed)} were passed")
    for entry, argument in zip(announced, passed, strict=True):
        place = (entry.get(".offset"), entry.get(".size"), entry.get(".value_kind") == "global_buffer")
        if place != (argument.offset, argument.size, argument.is_buffer):
            reason = f"argument '{argument.name}' is announced as {dict(entry)}"
            raise _error(metadata, f"{reason}, passed {argument.size} bytes at {argument.offset}")


def _error(metadata: Metadata, reason: str) -> ExecutionError:
    return ExecutionError("descriptor", f"metadata of '{metadata.name}': {reason}", metadata.line)
