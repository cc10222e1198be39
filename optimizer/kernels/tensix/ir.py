"""The kernel IR: immutable ops with operands, results, attributes and regions.

One form serves every stage, from block ops to TTKernel calls; `dialect.py` lists the ops, `text.py` prints and
parses them, `verify.py` checks them. A pass takes an op and returns a new one.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from optimizer.errors import StateError
from optimizer.kernels.tensix.index_expr import IndexMap
from optimizer.kernels.tensix.types import Type

Attr = int | float | bool | str | IndexMap | tuple["Attr", ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A named result or region argument; equal names in one thread are the same value."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"%{self.name}"

    def typed[T](self, kind: builtins.type[T]) -> T:
        """The type of a value of this kind."""
        assert isinstance(self.type, kind)
        return self.type


@dataclass(frozen=True, slots=True)
class Region:
    """Ops in order, with the arguments they see."""

    args: tuple[Value, ...] = ()
    ops: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `attrs` is sorted by name: use `attributes` to build one."""

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attrs: tuple[tuple[str, Attr], ...] = ()
    regions: tuple[Region, ...] = ()

    def attr(self, name: str, default: Attr | None = None) -> Attr:
        """Value of an attribute. StateError if it is absent and no default is given."""
        for key, value in self.attrs:
            if key == name:
                return value
        if default is None:
            raise StateError(f"{self.name} has no attribute '{name}'")
        return default

    def has_attr(self, name: str) -> bool:
        return any(key == name for key, _ in self.attrs)

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is a whole number."""
        return self._typed(name, self.attr(name, default), int, "integer")

    def number(self, name: str) -> float:
        """An attribute that is a number."""
        value = self.attr(name)
        return float(value) if isinstance(value, int) else self._typed(name, value, float, "number")

    def string(self, name: str) -> str:
        """An attribute that is text."""
        return self._typed(name, self.attr(name), str, "text")

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers."""
        return self._list(name, self.attr(name, default), int, "integers")

    def strings(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """An attribute that is a list of texts."""
        return self._list(name, self.attr(name, default), str, "texts")

    def index_map(self, name: str) -> IndexMap:
        """An attribute that is an index map."""
        return self._typed(name, self.attr(name), IndexMap, "index map")

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """Index maps of a compute's operands."""
        return self._list("indexing_maps", self.attr("indexing_maps"), IndexMap, "index maps")

    def _list[T](self, name: str, value: Attr, kind: type[T], called: str) -> tuple[T, ...]:
        found = tuple(item for item in value if isinstance(item, kind)) if isinstance(value, tuple) else ()
        if found != value:
            raise StateError(f"attribute '{name}' of {self.name} is no list of {called}: {value!r}")
        return found

    def _typed[T](self, name: str, value: object, kind: type[T], called: str) -> T:
        if not isinstance(value, kind):
            raise StateError(f"attribute '{name}' of {self.name} is no {called}: {value!r}")
        return value

    def with_attrs(self, **changes: Attr) -> Op:
        """The op with attributes set."""
        return replace(self, attrs=attributes({**dict(self.attrs), **changes}))

    def without_attrs(self, *names: str) -> Op:
        """The op without these attributes."""
        return replace(self, attrs=tuple(item for item in self.attrs if item[0] not in names))

    @property
    def result(self) -> Value:
        """The only result."""
        if len(self.results) != 1:
            raise StateError(f"{self.name} has {len(self.results)} results, not one")
        return self.results[0]

    @property
    def body(self) -> Region:
        """The only region."""
        if len(self.regions) != 1:
            raise StateError(f"{self.name} has {len(self.regions)} regions, not one")
        return self.regions[0]

    def with_body(self, ops: tuple[Op, ...]) -> Op:
        """The op with other ops in its only region."""
        return replace(self, regions=(replace(self.body, ops=ops),))


def attributes(values: Mapping[str, Attr]) -> tuple[tuple[str, Attr], ...]:
    """Attributes in their canonical order."""
    return tuple(sorted(values.items()))


def walk(op: Op) -> Iterator[Op]:
    """The op and everything in it, in program order."""
    yield op
    for region in op.regions:
        for inner in region.ops:
            yield from walk(inner)


def loop_rounds(op: Op) -> int | None:
    """Rounds of a `ttl.for`; None if only the running kernel knows."""
    if not op.has_attr("upper"):
        return None
    return len(range(op.integer("lower"), op.integer("upper"), op.integer("step")))


def rewrite(op: Op, change: Callable[[Op], tuple[Op, ...]]) -> tuple[Op, ...]:
    """Everything inside rewritten first, then the op itself: `change` gives what stands in its place."""
    if not op.regions:
        return change(op)
    regions = tuple(_rewritten(region, change) for region in op.regions)
    same = all(new is old for new, old in zip(regions, op.regions, strict=True))
    return change(op if same else replace(op, regions=regions))


def _rewritten(region: Region, change: Callable[[Op], tuple[Op, ...]]) -> Region:
    """The region itself where nothing changes: most passes leave most of a program alone."""
    ops: list[Op] = []
    for inner in region.ops:
        ops += rewrite(inner, change)
    same = len(ops) == len(region.ops) and all(new is old for new, old in zip(ops, region.ops, strict=True))
    return region if same else replace(region, ops=tuple(ops))


def substitute(op: Op, values: Mapping[str, Value]) -> Op:
    """The op with other operands, by name, everywhere inside."""
    operands = tuple([values.get(v.name, v) for v in op.operands])
    regions = tuple([replace(r, ops=tuple([substitute(inner, values) for inner in r.ops])) for r in op.regions])
    return Op(op.name, operands, op.results, op.attrs, regions)


class Names:
    """Fresh value names: `%0`, `%1`, ... and `%stem_0`, ... that an op and everything in it do not use yet."""

    def __init__(self, op: Op | None = None) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}
        for inner in walk(op) if op is not None else ():
            self._used.update(v.name for v in inner.results)
            self._used.update(v.name for region in inner.regions for v in region.args)

    def fresh(self, stem: str = "") -> str:
        number = self._next.get(stem, 0)
        while (name := f"{stem}_{number}" if stem else str(number)) in self._used:
            number += 1
        self._next[stem] = number + 1
        self._used.add(name)
        return name

    def value(self, type_: Type, stem: str = "") -> Value:
        """A value with a fresh name."""
        return Value(self.fresh(stem), type_)
