"""The emitted TTNN program as data: what `render` prints and what a replay runs step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optimizer.opmodel.base import TensorSpec


@dataclass(frozen=True)
class TensorEntry:
    """One entry of `INPUTS` or `PARAMETERS`."""

    name: str
    """The model's own name of the input, weight or constant."""
    spec: TensorSpec
    data: tuple[float, ...] | None = field(default=None, repr=False)
    """Elements of a constant in row-major order; None: the caller's, or a placeholder."""
    below: int | None = None
    """Of an integer input: how many values it may take, from 0 on, where it chooses rows of a table; else None."""


@dataclass(frozen=True)
class ProgramStep:
    """A few statements, as they stand in the file (not indented)."""

    op: str | None
    """Id of the op they compute; None for statements that belong to no op (names, weight preparation)."""
    code: str
    results: tuple[tuple[str, str], ...] = ()
    """(variable, value id) of the op's results, in order."""
    frees: tuple[str, ...] = ()
    """`ttnn.deallocate(...)` statements that follow: of values read for the last time."""
    comment: str | None = None
    """Line that stands above, without `#`."""
    fused: tuple[str, ...] = ()
    """Ids of all ops that a fused kernel stands for, `op` among them."""
    printed: bool = True
    """False for statements that take the place of a function's arguments when the steps are run by themselves."""


@dataclass(frozen=True)
class TTNNProgram:
    """A whole program. Running `prelude`, then every step in order, does what `main()` of the file does.

    The steps need the names `ttnn` and `device` and what they define themselves. With `files`, the prelude needs
    `__file__`: a path beside them.
    """

    name: str
    """Of the model, for people."""
    board: str
    l1_small_bytes: int
    inputs: tuple[TensorEntry, ...]
    parameters: tuple[TensorEntry, ...]
    prelude: str
    """Module text up to `make_parameters`: constants, `INPUTS`, `PARAMETERS`, how tensors are made, fused kernels."""
    parameter_steps: tuple[ProgramStep, ...]
    """Run once: ops on weights only, and weights brought into the form their ops take."""
    run_steps: tuple[ProgramStep, ...]
    outputs: tuple[str, ...]
    """Variables that `run` returns, in order."""
    predicted_ns: Mapping[str, int]
    """What the plan predicts of a run: `kernels`, and with their launches `traced` and `untraced`; empty if nothing."""
    trace_region_bytes: int
    """What the device is to keep for a run that is captured as a trace (`stated.py`)."""
    configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Name of a config that several statements take -> its text, as the prelude defines it."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Path beside the program's file -> text, of the kernels that it runs."""
