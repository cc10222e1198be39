"""The kernel API that kernels are written for: ttnn 0.81.1's, headers `ttnn/tt_metal/hw/inc/api`.

`executor/kernel_api.tsv` is an excerpt of what they declare: the functions that our kernels call, none of them
deprecated. `tests/kernels/tensix/test_real_headers.py` compares it, and all kernels, with the headers themselves.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

TTNN_VERSION = "0.81.1"
DATAFLOW_HEADER = "api/dataflow/dataflow_api.h"
_COMPUTE_FOLDER = "api/compute"
_ALWAYS = ("cb_api.h", "reg_api.h")
"""Headers of every compute kernel: circular buffers and sections."""


@cache
def declarations() -> tuple[Mapping[str, str], ...]:
    """The functions that our kernels call, in the order of the headers: `name`, `args`, `template` and `header`."""
    text = (files("optimizer.kernels.tensix.executor") / "kernel_api.tsv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines(), delimiter="\t"))


@cache
def declared_in() -> dict[str, str]:
    """Function -> header below `api/compute` that declares it."""
    return {row["name"]: row["header"].removeprefix("compute/") for row in declarations()}


def compute_headers(called: Collection[str]) -> tuple[str, ...]:
    """Headers of a compute kernel that calls these functions, in alphabetical order.

    Most SFPU functions are in a header each, which `sfpu_split_includes.h` leaves out unless it is asked for it.
    """
    found = {declared_in()[name] for name in called if name in declared_in()}
    return tuple(f"{_COMPUTE_FOLDER}/{header}" for header in sorted({*_ALWAYS, *found}))
