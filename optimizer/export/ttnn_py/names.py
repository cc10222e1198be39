"""Variable names of the emitted program: readable, unique, and never a name that the module uses itself."""

from __future__ import annotations

import builtins
import keyword
import re

LONGEST = 50
"""Characters of a variable name; longer model names keep their end, which tells them apart."""

RESERVED = frozenset(
    {
        "ttnn", "device", "arrays", "inputs", "parameters", "tensors", "base64", "struct", "sys",
        "INPUTS", "PARAMETERS", "CONSTANTS", "HOST_OPS", "BOARD", "L1_SMALL_SIZE",
        "numbers", "make_tensor", "make_tensors", "make_inputs", "make_parameters", "prepare_parameters",
        "placeholder", "host_op", "run", "main", "self",
    }
    | set(keyword.kwlist)
    | set(keyword.softkwlist)
    | set(dir(builtins))
)  # fmt: skip


def identifier(text: str) -> str:
    """A valid, not too long Python name that resembles the text: `/layer1/conv1/Conv` -> `layer1_conv1_Conv`."""
    name = re.sub(r"_+", "_", re.sub(r"[^0-9A-Za-z_]", "_", text)).strip("_")
    if len(name) > LONGEST:
        name = name[-LONGEST:].partition("_")[2] or name[-LONGEST:]
    if not name or name[0].isdigit():
        name = f"v_{name}".rstrip("_")
    return name


class Names:
    """Hands out variable names."""

    def __init__(self) -> None:
        self._used: set[str] = set(RESERVED)
        self._next: dict[str, int] = {}

    def fresh(self, text: str) -> str:
        """A name not handed out before: the text's own, else with `_1`, `_2`, ..."""
        stem = identifier(text)
        name = stem
        while name in self._used:
            self._next[stem] = self._next.get(stem, 0) + 1
            name = f"{stem}_{self._next[stem]}"
        self._used.add(name)
        return name
