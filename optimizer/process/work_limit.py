"""A limit of the work that one input may make: counted in steps, not in seconds, so that the same input always ends in
the same way.

`bounded` sets it around work on one input, `spend` is what the loops inside say of themselves. A step is what a pass
does with one instruction or op: some ten microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from optimizer.errors import LimitError


@dataclass
class _Work:
    what: str
    limit: int
    left: int
    node: str
    alternatives: tuple[str, ...]
    outer: _Work | None


_current: ContextVar[_Work | None] = ContextVar("work", default=None)


@contextmanager
def bounded(what: str, limit: int, node: str, alternatives: Iterable[str] = ()) -> Iterator[None]:
    """LimitError inside the block once `limit` steps are spent; it says what took them. In blocks within each other
    every step counts for all."""
    token = _current.set(_Work(what, limit, limit, node, tuple(alternatives), _current.get()))
    try:
        yield
    finally:
        _current.reset(token)


def spend(steps: int) -> None:
    """So many steps are about to be made. Outside of `bounded` nothing limits them."""
    work = _current.get()
    while work is not None:
        work.left -= steps
        if work.left < 0:
            raise LimitError(
                f"{work.what} takes more than {work.limit:,} steps",
                node=work.node,
                limit=work.limit,
                alternatives=work.alternatives,
            )
        work = work.outer
