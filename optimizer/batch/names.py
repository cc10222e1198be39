"""Names of models and jobs, which become folders below a batch's output."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Iterable

LONGEST_BYTES = 200
"""Of a name; file systems take 255, and some that encrypt names 143 to 200."""
RESERVED = (
    "batch.lock",
    "pareto.csv",
    "pivot.csv",
    "results.csv",
    "results.json",
    "results.parquet",
    "results.sqlite",
    "results.sqlite-shm",
    "results.sqlite-wal",
)
"""What a batch itself writes beside the folders of its jobs."""


def folder_names(wanted: Iterable[str]) -> list[str]:
    """Each of them as a folder's name that is no other's: the same where it may be, numbered where it is taken.

    Names that differ only in case, or in how Unicode spells them, count as the same, as on many file systems.
    """
    taken = {_folded(name) for name in RESERVED}
    counts: dict[str, int] = {}
    names = []
    for name in map(_tame, wanted):
        found, number = name, counts.get(_folded(name), 1)
        while _folded(found) in taken:
            number += 1
            found = f"{name}-{number}"
        counts[_folded(name)] = number
        taken.add(_folded(found))
        names.append(found)
    return names


def _tame(name: str) -> str:
    """A name that stays in its folder, is not hidden there, steers no terminal, and is not too long."""
    shown = "".join("_" if c == "/" or unicodedata.category(c) == "Cc" else c for c in name)
    if not shown or shown.startswith("."):
        shown = "_" + shown[1:]
    if len(os.fsencode(shown)) <= LONGEST_BYTES:
        return shown
    end = "~" + hashlib.sha256(os.fsencode(name)).hexdigest()[:12]
    while len(os.fsencode(shown)) > LONGEST_BYTES - len(end):
        shown = shown[: len(shown) - max(1, (len(os.fsencode(shown)) - LONGEST_BYTES) // 4)]
    return shown + end


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
