"""Statements of an emitted program with their configs written out: then they are the texts of their ops' queries."""

from __future__ import annotations

import re
from collections.abc import Mapping

from optimizer.export.ttnn_py.formatting import without_strings


def expanded(statement: str, configs: Mapping[str, str]) -> str:
    """A statement with configs (name -> text) in the place of their names."""
    if not configs:
        return statement
    wanted = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, configs)) + r")(?!\w)")
    parts, at = [], 0
    for found in wanted.finditer(without_strings(statement)):
        parts += [statement[at : found.start()], configs[found[0]]]
        at = found.end()
    return "".join([*parts, statement[at:]])
