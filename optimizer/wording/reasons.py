"""The recorded reason of an op: plain entries as lines, each list of records as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizer.wording.entries import config_text, flat
from optimizer.wording.units import time_text


@dataclass(frozen=True)
class ReasonTable:
    """A list of records under the name of its entry."""

    title: str
    header: list[str]
    rows: list[list[str]]


def reason_pairs(reason: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The plain entries; empty lists are left out."""
    return [(_title(k), _plain(k, v)) for k, v in reason.items() if v != [] and not _is_records(v)]


def reason_tables(reason: Mapping[str, Any], config: dict[str, Any] | None) -> list[ReasonTable]:
    """The lists of records; of a config in them only what differs from the op's own."""
    tables = []
    for name, records in reason.items():
        if _is_records(records):
            columns = list(dict.fromkeys(key for row in records for key in row))
            rows = [[_cell(c, row.get(c, ""), config) for c in columns] for row in records]
            tables.append(ReasonTable(_title(name), [_title(c) for c in columns], rows))
    return tables


def _title(key: str) -> str:
    return key.removesuffix("_ns").replace("_", " ")


def _plain(key: str, value: Any) -> str:
    return time_text(value) if key.endswith("_ns") and isinstance(value, int | float) else flat(value)


def _cell(column: str, value: Any, config: dict[str, Any] | None) -> str:
    """A table cell; of a config only what differs from the chosen one."""
    if isinstance(value, dict) and "kind" in value:
        return config_text(value, config)
    return _plain(column, value)


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)
