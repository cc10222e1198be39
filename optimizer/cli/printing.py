"""`--print-after`: the graph as text after import passes and stages of a run."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.errors import UnknownNameError

if TYPE_CHECKING:
    from optimizer.ir.graph import Graph

EACH = "all"


@contextmanager
def printed_after(names: Iterable[str]) -> Iterator[None]:
    """In the block the graph is printed on stderr after each of these; UnknownNameError names those there are."""
    wanted = set(names)
    if not wanted:
        yield
        return
    from optimizer.export.placed_text import placed_text
    from optimizer.ir.watching import watched

    known = _known()
    for name in sorted(wanted):
        if name not in known:
            raise UnknownNameError("pass or stage", name, known, node="--print-after")

    last = ""

    def show(name: str, graph: Graph, layouts: Mapping[str, Any]) -> None:
        nonlocal last
        text = placed_text(graph, layouts)
        if name in wanted or (EACH in wanted and text != last):
            print(f"# after {name}\n{text}", file=sys.stderr)
        last = text

    with watched(show):
        yield


def _known() -> Collection[str]:
    from optimizer.importers.passes import passes
    from optimizer.pipeline.stages import NAMES

    return dict.fromkeys((EACH, *(step.name for step in passes()), *NAMES))
