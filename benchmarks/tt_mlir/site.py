"""One op of a plan being read: its operands and attributes, in whatever spelling they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import GraphError, UnsupportedOpError
from optimizer.ir.graph import Attr
from optimizer.layouts.op_config import OpConfig
from tt_mlir.document import PlanFunction, PlanOp, PlanTensor


@dataclass(frozen=True)
class Translation:
    """Our op that does what an op of a plan does."""

    op: str
    """Vocabulary name."""
    operands: tuple[str, ...]
    """Ids of the plan's tensors."""
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    config: OpConfig | None = None
    stand_ins: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Operand -> shape of a tensor of the caller's, or of a weight, that stands for it (pages of a cache as one)."""


@dataclass(frozen=True)
class Site:
    """One op of a plan being read."""

    function: PlanFunction
    op: PlanOp
    notes: list[str]
    """Takes what is not taken over as the plan states it."""

    @property
    def name(self) -> str:
        """Mnemonic: `matmul` of `ttnn.matmul`."""
        return self.op.op.removeprefix("ttnn.")

    @property
    def place(self) -> str:
        return f"{self.op.op} {self.op.outputs[0] if self.op.outputs else ''} ({self.op.loc})"

    @property
    def operands(self) -> tuple[str, ...]:
        """Ids of the tensors that it reads; devices left out."""
        return tuple(v for v in self.op.inputs if self.function.tensors[v].dtype is not None)

    @property
    def result(self) -> PlanTensor:
        return self.function.tensors[self.op.outputs[0]]

    def tensor(self, index: int) -> PlanTensor:
        return self.function.tensors[self.operands[index]]

    def attr(self, *names: str, default: Any = None) -> Any:
        """The first attribute that is there: spellings changed over time."""
        for name in names:
            if self.op.attrs.get(name) is not None:
                return self.op.attrs[name]
        return default

    def need(self, *names: str) -> Any:
        value = self.attr(*names)
        if value is None:
            raise GraphError(f"attribute '{names[0]}' is missing", node=self.place)
        return value

    def segments(self, count: int) -> list[str | None]:
        """Operands by position, None for optional ones that are left out."""
        sizes = self.op.attrs.get("operandSegmentSizes")
        given = list(self.operands)
        if not sizes:
            return [*given, *[None] * (count - len(given))]
        found: list[str | None] = []
        for size in sizes:
            found += [given.pop(0)] if size else [None]
        return [*found, *[None] * (count - len(found))]


Rule = Callable[[Site], Translation]


def whole_numbers(values: Any) -> tuple[int, ...]:
    """Whole numbers of a list, of one number, or of text like `1x2x3` or `#ttnn.shape<1x2x3>`."""
    if isinstance(values, str):
        values = re.findall(r"-?\d+", values)
    return tuple(int(v) for v in values) if isinstance(values, list | tuple) else (int(values),)


def pair(values: Any) -> tuple[int, ...]:
    found = whole_numbers(values)
    return found * 2 if len(found) == 1 else found


def padding(values: Any) -> tuple[int, int, int, int]:
    """(top, bottom, left, right) of four or of (height, width)."""
    found = whole_numbers(values)
    if len(found) == 2:
        return (found[0], found[0], found[1], found[1])
    top, bottom, left, right = found
    return (top, bottom, left, right)


def present(operands: list[str | None]) -> tuple[str, ...]:
    return tuple(v for v in operands if v is not None)


def refuse(site: Site, *names: str) -> None:
    """Refuse attributes that change what the op computes."""
    for name in names:
        if site.op.attrs.get(name):
            raise UnsupportedOpError(f"attribute {name} = {site.op.attrs[name]}", node=site.place)
