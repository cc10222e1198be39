"""Names that stand for code: ours, and what other distributions publish as entry points.

A `Catalogue` holds names of one kind, each with where its code is and a line about it; the code is imported when it is
asked for. Entry points are looked for only where our own names do not answer. What a plugin raises of its own names
the plugin, whatever called it (`plugins_named`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from optimizer.errors import PluginError, StateError, TtoptError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = "ttopt."
"""How the groups of our entry points begin."""
SHOWN_POINTS = 3
"""Entry points that an error names where their code is the same."""
OPS_GROUP = "ttopt.ops"
"""Modules that add ops: a mapping for each of our tables, by the names that those have."""


@dataclass(frozen=True)
class Entry:
    """One name of a catalogue."""

    target: str
    """`module:attribute`."""
    description: str
    """One line for people; empty of an entry point, whose code says it in its docstring."""


class Catalogue:
    """Names of one kind: ours and those of an entry-point group."""

    def __init__(self, kind: str, group: str, built_in: Mapping[str, tuple[str, str]]) -> None:
        """`built_in`: name -> (`module:attribute`, a line about it)."""
        self.kind = kind
        self.group = group
        self._built_in = {name: Entry(*about) for name, about in built_in.items()}

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._entries()))

    def check(self, name: str, node: str | None = None) -> None:
        """UnknownNameError unless there is such a name."""
        if name not in self._built_in and name not in (entries := self._entries()):
            raise UnknownNameError(self.kind, name, entries, node=node)

    def load(self, name: str) -> Any:
        """What the name stands for. PluginError where another distribution's code cannot be imported."""
        entries = self._entries()
        if name not in entries:
            raise UnknownNameError(self.kind, name, entries)
        if name in self._built_in:
            module, _, attribute = self._built_in[name].target.partition(":")
            return getattr(import_module(module), attribute)
        return _loaded(next(p for p in published(self.group) if p.name == name))

    def descriptions(self) -> dict[str, str]:
        """Name -> the line about it; of an entry point the first line of its docstring."""
        return {name: self._built_in[name].description if name in self._built_in else _first_line(self.load(name))
                for name in self.names()}  # fmt: skip

    def _entries(self) -> dict[str, Entry]:
        entries = dict(self._built_in)
        for point in published(self.group):
            if point.name in entries:
                targets = f"{entries[point.name].target} and {point.value}"
                raise StateError(f"{self.kind} '{point.name}' is registered twice: {targets}")
            entries[point.name] = Entry(point.value, "")
        return entries


@cache
def _all_published() -> tuple[EntryPoint, ...]:
    """The entry points of all our groups in a fixed order; looking them up opens a file of every installed package."""
    from importlib.metadata import entry_points

    ours = [point for point in entry_points() if point.group.startswith(GROUPS)]
    return tuple(sorted(ours, key=lambda point: (point.group, point.name, point.value)))


def published(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of one group."""
    return tuple(point for point in _all_published() if point.group == group)


def added_objects(group: str) -> dict[str, Any]:
    """What the entry points of a group stand for, by name. StateError for a name that two of them have."""
    added: dict[str, Any] = {}
    for point in published(group):
        if point.name in added:
            raise StateError(f"'{point.name}' of {group} is registered twice")
        added[point.name] = _loaded(point)
    return added


def added_tables(table: str, ours: Container[str]) -> dict[str, Any]:
    """What the modules of `ttopt.ops` add to one of our tables of ops, each in a mapping of that name, if it has one.

    StateError where an entry is there already.
    """
    added: dict[str, Any] = {}
    for point in published(OPS_GROUP):
        for name, value in getattr(_loaded(point), table, {}).items():
            if name in added or name in ours:
                raise StateError(f"'{name}' of '{point.name}' ({point.value}) is registered twice")
            added[name] = value
    return added


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise PluginError(f"{_described(point)} cannot be loaded: {_shown(error)}") from error


@contextmanager
def plugins_named() -> Iterator[None]:
    """In the block, an exception out of a plugin's code becomes a PluginError; ttopt's own errors stay as they are."""
    try:
        yield
    except TtoptError:
        raise
    except Exception as error:
        failure = plugin_failure(error)
        if failure is None:
            raise
        raise failure from error


def plugin_failure(error: Exception) -> PluginError | None:
    """What to raise instead of an exception that was raised in a plugin's code, or below it; None of any other."""
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        found = _plugins_of(module, frame.f_code.co_qualname)
        if found:
            names = " or ".join(_described(point) for point in found[:SHOWN_POINTS])
            return PluginError(f"{names} failed in {module}, line {line}: {_shown(error)}")
    return None


def _plugins_of(module: str, function: str) -> list[EntryPoint]:
    """Entry points that stand for a function or its class, else for its module, else for something in its package."""
    package = module.partition(".")[0]
    if package == __name__.partition(".")[0]:
        return []
    points = [p for p in _all_published() if p.module.partition(".")[0] == package]
    near = [p for p in points if p.module == module] or points
    own = [p for p in near if p.module == module and f"{function}.".startswith(f"{p.attr or ''}.")]
    return own or [p for p in near if not p.attr] or near


def _described(point: EntryPoint) -> str:
    """`plugin 'fast' (ttopt.policies of acme 1.0)`."""
    whose = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"plugin '{point.name}' ({point.group}{whose})"


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _first_line(code: Any) -> str:
    return next(iter((getattr(code, "__doc__", None) or "").strip().splitlines()), "")
