"""Functions of a module as they are written: ops in MLIR's generic form, values numbered in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.export.facts import moves
from optimizer.export.mlir.spelling import Number
from optimizer.export.mlir.text import dictionary, quoted, real, symbol
from optimizer.export.mlir.types import Types
from optimizer.ir.vocabulary import FULL, SEND
from optimizer.layouts.memory_config import BufferType, TensorLayout, interleaved
from optimizer.opmodel.base import TensorSpec

DEVICE_TYPE = "!ttnn.device"
_SHAPES = {"mesh_offset": "#ttnn<mesh_offset 0x0>", "mesh_shape": "#ttnn<mesh_shape 1x1>"}
_INDENT = "    "


@dataclass(frozen=True)
class Held:
    """A value of a function."""

    name: str
    """`%3`, or `%3#1`."""
    type: str
    spec: TensorSpec | None = None
    """None of the device."""


class Locations:
    """Where ops come from, by name, each once as an alias of the module."""

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}

    def of(self, name: str | None) -> str:
        """The trailing location of an op called so; None: of one that stands for none of the plan's."""
        if name is None:
            return "loc(unknown)"
        return f"loc({self._aliases.setdefault(name, f'#loc{len(self._aliases)}')})"

    def definitions(self) -> list[str]:
        return [f"{alias} = loc({quoted(name)})" for name, alias in self._aliases.items()]


class Function:
    """One function under construction."""

    def __init__(self, types: Types, locations: Locations) -> None:
        self.values: dict[str, Held] = {}
        """What it holds, by the value's id."""
        self.arguments: dict[str, Held] = {}
        """Those of `values` that it is given."""
        self._types, self._locations = types, locations
        self._attributes: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._device: Held | None = None

    def argument(self, value_id: str, spec: TensorSpec, attributes: Mapping[str, str]) -> None:
        held = Held(f"%arg{len(self.arguments)}", self._types.tensor(spec), spec)
        self.values[value_id] = self.arguments[value_id] = held
        self._attributes.append(f"{held.name}: {held.type} {dictionary(attributes)}")

    def op(
        self,
        name: str,
        operands: Sequence[Held],
        results: Sequence[TensorSpec | None],
        properties: Mapping[str, str] | None = None,
        attributes: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> list[Held]:
        """Add an op; a result without a spec is the device."""
        kinds = [DEVICE_TYPE if spec is None else self._types.tensor(spec) for spec in results]
        number, count = self._count, len(results)
        self._count += bool(count)
        names = [f"%{number}"] if count == 1 else [f"%{number}#{k}" for k in range(count)]
        target = f"%{number}{f':{count}' if count > 1 else ''} = " if count else ""
        types = ", ".join(kinds)
        parts = [
            f'{target}"{name}"({", ".join(held.name for held in operands)})',
            f"<{dictionary(properties)}>" if properties else "",
            dictionary(attributes) if attributes else "",
            f": ({', '.join(held.type for held in operands)}) -> {types if count == 1 else f'({types})'}",
            self._locations.of(location),
        ]
        self._lines.append(_INDENT + " ".join(part for part in parts if part))
        return [Held(held, kind, spec) for held, kind, spec in zip(names, kinds, results, strict=True)]

    def device(self) -> Held:
        """The device, asked for once."""
        if self._device is None:
            (self._device,) = self.op("ttnn.get_device", (), [None], _SHAPES)
        return self._device

    def number(self, number: Number) -> Held:
        """A tensor of one element."""
        shape = (1,) * number.rank
        spec = TensorSpec(shape, number.dtype, interleaved(BufferType.DRAM))
        properties = {"shape": f"#ttnn.shape<{'x'.join(map(str, shape))}>", "fill_value": real(number.value)}
        return self.op(FULL, [self.device()], [spec], properties)[0]

    def moved(self, held: Held, target: TensorLayout) -> Held:
        """A tensor in another placement or page layout; itself where it is there already."""
        assert held.spec is not None
        for op, layout in moves(held.spec.layout, target):
            operands = [held, self.device()] if op == SEND else [held]
            (held,) = self.op(op, operands, [TensorSpec(held.spec.shape, held.spec.dtype, layout)])
            assert held.spec is not None
        return held

    def text(self, name: str, kind: str, outputs: Sequence[Held], public: bool) -> list[str]:
        """The lines of the function, which returns these values."""
        types = ", ".join(held.type for held in outputs)
        head = f"  func.func {'' if public else 'private '}{symbol(name)}({', '.join(self._attributes)}) -> ({types})"
        names = ", ".join(held.name for held in outputs)
        returned = f'{_INDENT}"func.return"({names}) : ({types}) -> () loc(unknown)'
        attributes = dictionary({"tt.function_type": quoted(kind)})
        return [f"{head} attributes {attributes} {{", *self._lines, returned, "  } loc(unknown)"]
