"""Run-time arguments: numbers that every core of a launch is given by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from optimizer.errors import OptionError, near
from optimizer.kernels.tensix.emit_cpp import runtime_args
from optimizer.kernels.tensix.grid import hardware_grid
from optimizer.kernels.tensix.ir import Op

Place = tuple[int, int]
Arguments = Mapping[str, int | Mapping[Place, int]]
"""Name -> the number of all cores, or of each by its column and row in the grid."""
NO_ARGUMENTS: Arguments = MappingProxyType({})
LARGEST = (1 << 32) - 1
"""Arguments have 32 bits."""


def cores_of(program: Op) -> tuple[Place, ...]:
    """Columns and rows on the chip of the cores that run a program, row by row."""
    columns, rows = hardware_grid(program.integers("grid"))
    left, top = program.integers("origin", (0, 0))
    return tuple((left + x, top + y) for y in range(rows) for x in range(columns))


def named_arguments(program: Op, given: Arguments, core: Place) -> dict[str, int]:
    """The same by name."""
    return dict(zip(runtime_args(program), core_arguments(program, given, core), strict=True))


def core_arguments(program: Op, given: Arguments, core: Place) -> list[int]:
    """What the core at a column and row of the chip is given, in the order of `runtime_args`. OptionError if one is
    missing or unknown, or is no number of 32 bits."""
    names = runtime_args(program)
    place = f"{program.name} @{program.string('sym_name')}"
    for name in given:
        if name not in names:
            raise OptionError(f"no run-time argument is called '{name}'{near(name, names)}", node=place)
    left, top = program.integers("origin", (0, 0))
    found: list[int] = []
    for name in names:
        value = given.get(name)
        if isinstance(value, Mapping):
            value = value.get((core[0] - left, core[1] - top))
        if value is None:
            raise OptionError(f"core {core} is not given the run-time argument '{name}'", node=place)
        if not 0 <= value <= LARGEST:
            raise OptionError(f"run-time argument '{name}' is {value}, not 0 to {LARGEST}", node=place, limit=LARGEST)
        found.append(value)
    return found
