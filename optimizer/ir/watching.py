"""Whoever wants to look at a graph after each import pass and each stage of a run may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from optimizer.ir.graph import Graph

Watcher = Callable[[str, Graph, Mapping[str, Any]], None]
"""Told the name of the pass or stage, the graph as it left it, and layouts by value, as far as there are any."""
_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """In the block the watcher is told of every graph, besides those that are told already."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def tell(name: str, graph: Graph, layouts: Mapping[str, Any] | None = None) -> None:
    """A pass or stage has changed a graph."""
    for watcher in _watchers.get():
        watcher(name, graph, layouts or {})
