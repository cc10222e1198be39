"""How often the C++ of a thread calls each function: its loops have constant bounds, so counting needs no run."""

from __future__ import annotations

import re
from collections import Counter

_CONSTANT = re.compile(r"(?:constexpr )?(?:u?int32_t|size_t|bool) (\w+) = (\d+);")
_LOOP = re.compile(r"for \(\w+ (\w+) = (\w+); \1 < (\w+); (?:\+\+\1|\1 \+= (\w+))\) \{")
_CALL = re.compile(r"(\w+)(?:<[^()]*>)?\((.*)\);")
_IN_ONE_CALL = frozenset(("pack_block", "pack_tile_block"))
"""Functions whose last argument is a number of tiles."""


def calls(text: str) -> Counter[str]:
    """Calls by function; one that packs several tiles counts for each."""
    found: Counter[str] = Counter()
    known: dict[str, int] = {}
    times = [1]

    def number(word: str) -> int:
        return int(word) if word.isdigit() else known[word]

    for line in map(str.strip, text.split("void kernel_main() {")[1].splitlines()):
        if (constant := _CONSTANT.match(line)) is not None:
            known[constant[1]] = int(constant[2])
        elif (loop := _LOOP.match(line)) is not None:
            rounds = range(number(loop[2]), number(loop[3]), number(loop[4] or "1"))
            times.append(times[-1] * len(rounds))
        elif line == "}":
            times.pop()
        elif (call := _CALL.match(line)) is not None:
            tiles = number(call[2].rsplit(",", 1)[1].strip()) if call[1] in _IN_ONE_CALL else 1
            found[call[1]] += times[-1] * tiles
    return found
