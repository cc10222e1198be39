"""What an importer returns, what it reports, and the limits that it enforces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph

KEEP = "keep"
"""As `activations_dtype`: keep f32 and bf16 as the file has them instead of converting."""


@dataclass(frozen=True)
class ImportLimits:
    """Sizes beyond which an import stops with LimitError."""

    max_nodes: int = 1_000_000
    """Nodes of the foreign graph, functions inlined."""
    max_operands: int = 1 << 15
    """Inputs, and outputs, of any one node."""
    max_elements: int = 1 << 34
    """Elements of any one tensor."""
    max_bytes: int = (1 << 31) - 1
    """Size of the file (protobuf itself ends at 2 GiB); external weights do not count, they are not read."""
    max_inlined_bytes: int = 1 << 28
    """Bytes of the nodes of all local functions once each call has its copy, large tensors left out."""
    max_rank: int = 8
    """Dimensions of any one tensor."""
    max_computed_elements: int = 1 << 24
    """Elements of all arrays together that the import computes: folded constants, indices, masks, matrices."""
    max_work: int = 2_000_000
    """Steps of the import (a node, an operand or an element of a shape visited once), besides those that the size
    of the file allows; see `optimizer.importers.budget`."""


@dataclass(frozen=True)
class ImportOptions:
    """What a caller may choose about an import."""

    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
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
    checkpoint: Callable[[], None] = lambda: None
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


@dataclass(frozen=True)
class ImportedModel:
    """A graph ready for the optimizer."""

    graph: Graph
    sha256: str
    """Of the file's bytes."""
    report: ImportReport
