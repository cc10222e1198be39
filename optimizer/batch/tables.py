"""The tables of a batch as files: results, times by model and point of the sweep, Pareto front."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from optimizer.batch.comparison import Pivot, Record, Sweep, pareto, pivot
from optimizer.errors import FormatError, OptionError
from optimizer.options import value_text
from optimizer.process.csv_text import csv_text
from optimizer.process.extras import how_to_install
from optimizer.process.files import make_folder, replacing, write_text
from optimizer.process.json_document import decoded, read_bytes

RESULTS_JSON, RESULTS_CSV, RESULTS_PARQUET = "results.json", "results.csv", "results.parquet"
PIVOT_CSV, PARETO_CSV = "pivot.csv", "pareto.csv"
MAX_BYTES = 1 << 29
"""Of the results of an earlier batch: of 100,000 jobs they have a fifth of it."""
GEOMETRIC_MEAN = "geometric mean"


def write_tables(records: Sequence[Record], folder: Path, sweep: Sweep, parquet: bool = False) -> list[Path]:
    """Write the tables of a batch; their paths. `results.json` holds the records as they are.

    In the others an error is its text. Without a sweep there is no pivot and no Pareto front. Tables of an earlier
    batch that this one does not have are removed.
    """
    make_folder(folder)
    flat = [_flat(record) for record in records]
    write_text(folder / RESULTS_JSON, json.dumps(records, indent=1) + "\n")
    write_text(folder / RESULTS_CSV, csv_text(_columns(flat), flat, "\r\n"))
    if parquet:
        _write_parquet(folder / RESULTS_PARQUET, flat)
    if sweep:
        write_text(folder / PIVOT_CSV, _pivot_csv(pivot(records, sweep)))
        front = [_flat(record) for record in pareto(records)]
        write_text(folder / PARETO_CSV, csv_text(_columns(front), front, "\r\n"))
    names = table_names(bool(sweep), parquet)
    for name in {*table_names(swept=True, parquet=True)} - {*names}:
        (folder / name).unlink(missing_ok=True)
    return [folder / name for name in names]


def table_names(swept: bool, parquet: bool) -> list[str]:
    """The files that a batch writes, with a sweep or without, and with or without Parquet."""
    return [RESULTS_CSV, RESULTS_JSON] + [RESULTS_PARQUET] * parquet + [PIVOT_CSV, PARETO_CSV] * swept


def read_records(folder: Path) -> list[Record]:
    """The records of an earlier batch; FormatError if its folder holds none."""
    path = folder / RESULTS_JSON
    try:
        records = decoded(read_bytes(path, MAX_BYTES), str(path))
    except OSError as error:
        raise FormatError(f"no results of a batch: {error.strerror}", node=str(path)) from error
    if not isinstance(records, list) or not all(_is_record(record) for record in records):
        raise FormatError("not the results of a batch", node=str(path))
    return records


def _is_record(record: object) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        return False
    return record.get("ok") is False or (record.get("ok") is True and isinstance(record.get("predicted_time_ns"), int))


def require_parquet() -> None:
    """OptionError unless Parquet files can be written here."""
    if find_spec("pyarrow") is None:
        raise OptionError(f"Parquet files need pyarrow; {how_to_install('parquet')}")


def _flat(record: Record) -> Record:
    """A record of plain cells: of an error its text, of a swept mapping what the names of folders call it."""
    cells = {name: value_text(value) if isinstance(value, dict) else value for name, value in record.items()}
    return {**cells, "error": record["error"]["message"]} if "error" in record else cells


def _columns(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record))


def _pivot_csv(times: Pivot) -> str:
    rows: list[dict[str, Any]] = []
    for model, row in times.rows:
        rows.append({"model": model} | {p: t for p, t in zip(times.points, row, strict=True) if t is not None})
    mean: dict[str, Any] = {p: round(r, 6) for p, r in zip(times.points, times.ratios, strict=True) if r is not None}
    return csv_text(("model", *times.points), [*rows, {"model": GEOMETRIC_MEAN} | mean], "\r\n")


def _write_parquet(path: Path, records: Sequence[Record]) -> None:
    """A table whose columns have one type each; swept values of several types become text."""
    import pyarrow
    from pyarrow import parquet

    columns = {}
    for name in _columns(records):
        values = [record.get(name) for record in records]
        if len({type(value) for value in values if value is not None}) > 1:
            values = [None if value is None else str(value) for value in values]
        columns[name] = values
    with replacing(path) as file:
        parquet.write_table(pyarrow.table(columns), file)
