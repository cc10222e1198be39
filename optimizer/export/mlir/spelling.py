"""How our ops are said in the TTNN dialect: what a rule sees of one, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.export.mlir.configs import compute_text, program_text
from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.layouts.op_config import OpConfig
from optimizer.opmodel.base import TensorSpec


@dataclass(frozen=True)
class Device:
    """The device as an operand."""


@dataclass(frozen=True)
class Number:
    """An operand that is one number: a tensor of one element, filled beforehand."""

    value: float
    dtype: DType
    rank: int


Operand = int | Device | Number
"""A position of the op's own operands, or what the dialect wants besides."""


@dataclass(frozen=True)
class Said:
    """One op of the dialect. Properties and attributes are MLIR text by name."""

    op: str
    operands: tuple[Operand, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    """What the dialect's definition of the op has."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What it lacks, and what a reader may leave out."""
    results: tuple[int, ...] | None = None
    """Positions of the op's own results that it gives; None: all."""


@dataclass(frozen=True)
class Site:
    """One op of a plan."""

    op: Op
    attrs: Mapping[str, Any]
    """All attributes, defaults included, and the compute config that its calls state."""
    config: OpConfig | None
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def name(self) -> str:
        return self.op.op.removeprefix("ttnn.")

    @property
    def operands(self) -> tuple[int, ...]:
        """The positions of all operands."""
        return tuple(range(len(self.inputs)))

    @property
    def rank(self) -> int:
        return len(self.inputs[0].shape)

    def compute(self) -> dict[str, str]:
        """The compute config, under the name that ops have it by."""
        stated = self.attrs.get(COMPUTE)
        return {} if stated is None else {"compute_config": compute_text(dict(stated))}

    def program(self, name: str) -> dict[str, str]:
        """The program config, under the name that the op has it by."""
        text = None if self.config is None else program_text(self.config)
        return {} if text is None else {name: text}

    def segments(self, *present: int) -> dict[str, str]:
        """How many operands each optional place has."""
        return {"operandSegmentSizes": f"array<i32: {', '.join(map(str, present))}>"}


Rule = Callable[[Site], tuple[Said, ...]]
"""Gives nothing for an op that the dialect has no words for."""
Property = str | tuple[str, Callable[[Any], str]]
"""A property's text, or the attribute that it states and how it is written."""


def told(op: str = "", /, *, compute: bool = False, **properties: Property) -> Rule:
    """The rule of an op with all its operands, called the same unless another name is given.

    A property whose attribute is None is left out; `compute`: it has the compute config as a property.
    """

    def rule(site: Site) -> tuple[Said, ...]:
        stated = {k: p if isinstance(p, str) else _written(site, *p) for k, p in properties.items()}
        present = {k: text for k, text in stated.items() if text is not None}
        return (Said(op or site.op.op, site.operands, present | (site.compute() if compute else {})),)

    return rule


def _written(site: Site, attribute: str, write: Callable[[Any], str]) -> str | None:
    value = site.attrs[attribute]
    return None if value is None else write(value)
