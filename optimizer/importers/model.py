"""What an importer returns, what it reports, the limits that it enforces, and what is left of them.

A model of a hundred bytes can name a size of 10**11 or make every value twice as long as the one before. Whoever
makes something whose size the input states asks its `Budget` first: for elements of arrays that the input's numbers
call for, and steps of work. Both count, so the same input always ends the same way; the wall clock is looked at by the
caller's `checkpoint` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from optimizer.errors import LimitError, ShapeError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.ir.sizes import MAX_ELEMENTS, MAX_RANK

KEEP = "keep"
"""As `activations_dtype`: keep f32 and bf16 as the file has them instead of converting."""


class OpenSizesError(ShapeError):
    """Inputs of the model have sizes without a number."""


@dataclass(frozen=True)
class ImportLimits:
    """Sizes beyond which an import stops with LimitError."""

    max_nodes: int = 1_000_000
    """Nodes of the foreign graph, functions inlined."""
    max_operands: int = 1 << 15
    """Inputs, and outputs, of any one node."""
    max_elements: int = MAX_ELEMENTS
    """Elements of any one tensor."""
    max_bytes: int = (1 << 31) - 1
    """Size of the file (protobuf itself ends at 2 GiB); external weights do not count, they are not read."""
    max_inlined_bytes: int = 1 << 28
    """Bytes of the nodes of all local functions once each call has its copy, large tensors left out."""
    max_rank: int = MAX_RANK
    """Dimensions of any one tensor."""
    max_computed_elements: int = 1 << 24
    """Elements of all arrays together that the import computes: folded constants, indices, masks, matrices."""
    max_work: int = 2_000_000
    """Steps of the import (a node, an operand or an element of a shape visited once), besides those that the size
    of the file allows; see `Budget`."""


def no_checkpoint() -> None:
    """What is called where nobody looks at the time."""


@dataclass(frozen=True)
class ImportOptions:
    """What a caller may choose about an import."""

    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    """Numbers for sizes that the file gives a name."""
    limits: ImportLimits = ImportLimits()
    activations_dtype: DType | str = DType.BF16
    """Type of every float activation, or `KEEP`."""
    weights_dtype: DType | str = DType.BF16
    """Type of every float parameter, or `KEEP`."""
    name: str | None = None
    fuse: bool = True
    """Whether the pattern fusions run; without them one foreign node gives one op or a short decomposition."""
    folder: Path | None = None
    """Where the model's file lies, if it has one: external data of small tensors are read from there."""
    checkpoint: Callable[[], None] = no_checkpoint
    """Called all the time during an import; what it raises ends the import."""


@dataclass(frozen=True)
class ImportReport:
    """What the importer understood."""

    foreign_ops: Mapping[str, int]
    """Foreign op type -> count, after folding."""
    fused: Mapping[str, int]
    """Pass name -> number of rewrites, for passes that did something."""
    unsupported: tuple[tuple[str, tuple[str, ...]], ...]
    """Ops without a TTNN counterpart: (op type, names of the ops)."""
    warnings: tuple[str, ...]
    parameter_count: int
    """Elements of all parameters."""
    parameter_bytes: int
    """Bytes of all parameters at their element type in tiles, without padding."""
    dtype_conversions: Mapping[str, int]
    """`"f32 -> bf16"` -> number of tensors."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Name of an unsupported op -> why it does not run on the device and what can be done."""

    def to_json(self) -> dict[str, Any]:
        """`model.import` of `graph.json`."""
        return {
            "foreign_ops": dict(sorted(self.foreign_ops.items())),
            "fused": dict(sorted(self.fused.items())),
            "parameter_count": self.parameter_count,
            "parameter_bytes": self.parameter_bytes,
            "dtype_conversions": dict(sorted(self.dtype_conversions.items())),
        }


@dataclass(frozen=True, repr=False)
class ImportedModel:
    """A graph ready for the optimizer."""

    graph: Graph
    sha256: str
    """Of the file's bytes."""
    report: ImportReport
    source: Path | bytes | None = None
    """What it was read from: its weights are still there."""
    options: ImportOptions | None = None
    """As what it was read."""
    output_names: tuple[str, ...] = ()
    """What the model calls its outputs, in order; empty: what the graph calls them."""
    is_result: bool = False
    """Whether it is a plan that was written down, without its copies."""

    def __repr__(self) -> str:
        parameters = f"{self.report.parameter_count:,} parameters"
        return f"<ImportedModel '{self.graph.name}': {len(self.graph)} ops, {parameters}>"


WORK_PER_BYTE = 16
"""Steps that each byte of the file allows beyond `ImportLimits.max_work`; real models take one or two."""


class Budget:
    """What is left of an import's elements and work."""

    def __init__(
        self, limits: ImportLimits, file_bytes: int = 0, checkpoint: Callable[[], None] = no_checkpoint
    ) -> None:
        self.limits = limits
        self._max_work = limits.max_work + WORK_PER_BYTE * file_bytes
        self._checkpoint = checkpoint
        self._elements = 0
        self._work = 0

    def elements(self, place: str, *shape: int) -> None:
        """Ask for an array of this shape; LimitError naming `place` when the import's share is used up."""
        count = prod(max(0, size) for size in shape)
        self._elements += count
        limit = self.limits.max_computed_elements
        if self._elements > limit:
            shown = f"{list(shape)}" if len(shape) > 1 else f"{count}"
            raise LimitError(
                f"{place} makes the import compute an array of {shown} elements, {self._elements} in all; "
                f"the limit is {limit}",
                limit=limit,
            )
        self.work(place, 1 + count // 64)

    def work(self, place: str, steps: int) -> None:
        """Ask for `steps` of work, each some microseconds; LimitError naming `place`, or what the checkpoint raises."""
        self._checkpoint()
        self._work += steps
        if self._work > self._max_work:
            raise LimitError(
                f"importing the model takes more than {self._max_work} steps of work, at {place}; the limit is "
                f"{self.limits.max_work} and {WORK_PER_BYTE} for each byte of the file",
                limit=self._max_work,
            )
