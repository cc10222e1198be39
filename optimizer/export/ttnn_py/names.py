"""Variable names of the emitted program: readable, unique, and never a name that the module uses itself."""

from __future__ import annotations

import builtins
import keyword
import re

from optimizer.process.identifiers import Identifiers, Spelling

RESERVED = frozenset(
    {
        "ttnn", "device", "arrays", "inputs", "parameters", "tensors", "base64", "struct", "sys",
        "INPUTS", "PARAMETERS", "CONSTANTS", "OUTPUTS", "HOST_OPS", "BOARD", "L1_SMALL_SIZE",
        "numbers", "tensor", "elements",
        "make_tensor", "make_tensors", "make_inputs", "make_parameters", "prepare_parameters",
        "placeholder", "host_op", "run", "main", "self",
    }
    | set(keyword.kwlist)
    | set(keyword.softkwlist)
    | set(dir(builtins))
)  # fmt: skip
_NOTHING = re.compile(r"(?!)")
_SPELLING = Spelling(kept=_NOTHING, taken=RESERVED.__contains__)


class Names(Identifiers):
    """Hands out variable names: all are made to resemble the text, with single underscores and none around."""

    def __init__(self) -> None:
        super().__init__(_SPELLING)
