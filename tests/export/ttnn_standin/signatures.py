"""Arguments bound to the wheel's own signatures, which `record.py` prints."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ttnn_standin.errors import Refused, Unmodelled

RECORD: dict[str, Any] = json.loads(Path(__file__).with_name("signatures.json").read_text(encoding="utf-8"))
"""Enumerations, types and functions of the wheel."""

Overload = Sequence[Sequence[Any]]
_CONVERTED = {"EltwiseUnaryWithParam": "UnaryWithParam", "Shape": "Sequence[int]", "Op2DSliceConfig": "Value"}
"""Annotations that take another type's values, by nanobind's implicit conversions or because they are one type."""


class Arguments(Mapping[str, Any]):
    """The arguments of one call, by parameter. What the call gave and nobody asked for is `ignored`."""

    def __init__(self, function: str, values: Mapping[str, Any], given: frozenset[str]) -> None:
        self.function = function
        self._values = values
        self._given = given
        self._asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self._asked.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def unasked(self) -> Mapping[str, Any]:
        """All values, for those who look at a call but do not compute it: nothing counts as asked for."""
        return self._values

    @property
    def first(self) -> Any:
        """The first parameter's value, whatever its name."""
        return self[next(iter(self._values))]

    def ignored(self) -> list[str]:
        """Arguments that were given, are not None, and were not asked for."""
        return sorted(n for n in self._given - self._asked if self._values[n] not in (None, [], ()))


def bound(
    function: str, overloads: Sequence[Overload], positional: Sequence[Any], named: Mapping[str, Any]
) -> Arguments:
    """The arguments as the first overload that takes them; Refused when none does.

    As in nanobind, all overloads are tried without conversions (integers for floats) first.
    """
    reasons: list[str] = []
    for convert in (False, True):
        for overload in overloads:
            reason, values = _matched(overload, positional, named, convert)
            if reason is None:
                given = frozenset(named) | {overload[k][0] for k in range(len(positional))}
                return Arguments(function, values, given)
            if convert:
                reasons.append(reason)
    raise Refused(f"ttnn.{function} takes no such arguments: {'; '.join(dict.fromkeys(reasons))}")


def _matched(
    overload: Overload, positional: Sequence[Any], named: Mapping[str, Any], convert: bool
) -> tuple[str | None, dict[str, Any]]:
    """(why not, or None; values by parameter)."""
    values: dict[str, Any] = {}
    rest = dict(named)
    free = [name for name, kind, _, _ in overload if kind == "positional"]
    if len(positional) > len(free):
        return f"{len(positional)} positional arguments, at most {len(free)} are taken", {}
    for at, (name, _, annotation, default) in enumerate(overload):
        if at < len(positional):
            if name in rest:
                return f"{name} is given twice", {}
            value = positional[at]
        elif name in rest:
            value = rest.pop(name)
        elif default is not None:
            values[name] = default_value(default)
            continue
        else:
            return f"{name} is missing", {}
        if not fits(value, annotation, convert):
            return f"{name}={value!r:.60} is no {annotation}", {}
        values[name] = value
    return (f"{', '.join(rest)} unknown", {}) if rest else (None, values)


def default_value(text: str) -> Any:
    """The value of a recorded default: a literal, or a member of an enumeration."""
    from ttnn_standin.values import DRAM, ENUMS

    kind, _, member = text.partition(".")
    if kind in ENUMS and member in RECORD["enums"][kind]:
        return getattr(ENUMS[kind], member)
    if text.startswith("MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM"):
        return DRAM
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text  # shown as the wheel shows it; an implementation that needs it says so


def fits(value: Any, annotation: str, convert: bool) -> bool:
    """Whether a value may be given where the wheel's annotation stands."""
    return any(_fits_one(value, part, convert) for part in _alternatives(annotation))


def _alternatives(annotation: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(annotation):
        depth += (char in "[(") - (char in "])")
        if char == "|" and depth == 0:
            parts.append(annotation[start:at].strip())
            start = at + 1
    return [*parts, annotation[start:].strip()]


def _fits_one(value: Any, annotation: str, convert: bool) -> bool:
    annotation = _CONVERTED.get(annotation, annotation)
    kind, _, inner = annotation.partition("[")
    match kind:
        case "" | "object" | "Any":
            return True
        case "None":
            return value is None
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and (convert or not isinstance(value, bool))
        case "float":
            return isinstance(value, float) or (convert and isinstance(value, int) and not isinstance(value, bool))
        case "str":
            return isinstance(value, str)
        case "ArrayLike":
            return hasattr(value, "__array__") and not _is_tensor(value)
        case "Sequence" | "tuple" | "list" | "Set":
            wanted = (set, frozenset) if kind == "Set" else (list, tuple)
            elements = inner.removesuffix("]")
            if kind == "tuple":
                parts = [part.strip() for part in elements.split(",")]
                return isinstance(value, wanted) and len(parts) == len(value) and all(map(_strict, value, parts))
            return isinstance(value, wanted) and all(fits(v, elements, convert) for v in value)
        case "Tensor":
            return _is_tensor(value)
        case "MeshDevice":
            return type(value).__name__ == "Device"
        case "Value":
            return type(value).__name__ == "Value"
    if type(value).__name__ == "Member":
        return bool(value.kind == kind)
    if type(value).__name__ == "Value":
        return bool(value.kind == kind)
    return False


def _strict(value: Any, annotation: str) -> bool:
    return fits(value, annotation, convert=False)


def _is_tensor(value: Any) -> bool:
    return any(base.__name__ == "Tensor" for base in type(value).__mro__)


def unmodelled(arguments: Arguments, inert: frozenset[str]) -> None:
    """Unmodelled where a call gave an argument that its implementation did not look at and that changes values."""
    rest = [name for name in arguments.ignored() if name not in inert]
    if rest:
        raise Unmodelled(f"ttnn.{arguments.function}: the stand-in does not know {', '.join(rest)}")
