"""Memory configs that several statements of a program take, as constants of its module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from optimizer.export.ttnn_py.formatting import without_strings
from optimizer.export.ttnn_py.names import Names

_CONFIG = re.compile(r"ttnn\.MemoryConfig\(")
_BRACKET = re.compile(r"[()]")
_LAYOUT = re.compile(r"TensorMemoryLayout\.([A-Z_]+)")
_RANGES = re.compile(r"CoreRange\(ttnn\.CoreCoord\((\d+), (\d+)\), ttnn\.CoreCoord\((\d+), (\d+)\)\)")
_SHARD = re.compile(r", \[(\d+), (\d+)\], ttnn\.ShardOrientation\.")


def repeated_configs(statements: Iterable[str], names: Names) -> dict[str, str]:
    """Text of each config that occurs at least twice -> a fresh name for it, in the order of first occurrence."""
    found = Counter(statement[start:end] for statement in statements for start, end in _spans(statement))
    return {text: names.fresh(_name(text)) for text, count in found.items() if count > 1}


def shortened(statement: str, configs: Mapping[str, str]) -> str:
    """A statement with names in the place of configs."""
    parts, at = [], 0
    for start, end in _spans(statement):
        name = configs.get(statement[start:end])
        if name is not None:
            parts += [statement[at:start], name]
            at = end
    return "".join([*parts, statement[at:]])


def _spans(statement: str) -> Iterator[tuple[int, int]]:
    """Where memory configs begin and end in a statement."""
    text = without_strings(statement)
    at = 0
    while (found := _CONFIG.search(text, at)) is not None:
        level, at = 1, found.end()
        while level and (bracket := _BRACKET.search(text, at)) is not None:
            level += 1 if bracket[0] == "(" else -1
            at = bracket.end()
        if level:
            return
        yield found.start(), at


def _name(text: str) -> str:
    """`HEIGHT_SHARDED_256X64_ON_8X7` (columns by rows of cores)."""
    layout, shard = _LAYOUT.search(text), _SHARD.search(text)
    name = layout[1] if layout else "MEMORY"
    if shard is not None:
        name += f"_{shard[1]}X{shard[2]}"
    ranges = [tuple(map(int, found)) for found in _RANGES.findall(text)]
    sizes = [(x1 - x0 + 1, y1 - y0 + 1) for x0, y0, x1, y1 in ranges]
    if len(sizes) == 1:
        name += f"_ON_{sizes[0][0]}X{sizes[0][1]}"
    elif sizes:
        name += f"_ON_{sum(x * y for x, y in sizes)}_CORES"
    return name
