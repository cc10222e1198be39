"""Fewer searches for cyclic garbage while a plan is made and written.

A solve makes millions of small objects (layouts, queries, answers) that live to its end and contain no cycles. Python
looks for cycles every 700 new ones; on graphs of a thousand ops and more that took a fifth of the whole time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS = 500_000
"""New objects between two searches."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Inside the block, and for the whole process, garbage is looked for rarely; afterwards as often as before."""
    before = gc.get_threshold()
    gc.set_threshold(max(YOUNG_OBJECTS, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
