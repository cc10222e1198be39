"""The tables of a batch as files: results, times by model and point of the sweep, Pareto front."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from optimizer.batch.comparison import Pivot, Record, pareto, pivot
from optimizer.errors import FormatError, OptionError
from optimizer.files import make_folder, replacing, write_text

RESULTS_JSON, RESULTS_CSV, RESULTS_PARQUET = "results.json", "results.csv", "results.parquet"
PIVOT_CSV, PARETO_CSV = "pivot.csv", "pareto.csv"
GEOMETRIC_MEAN = "geometric mean"


def write_tables(records: Sequence[Record], folder: Path, swept: Sequence[str], parquet: bool = False) -> list[Path]:
    """Write the tables of a batch; their paths. `results.json` holds the records as they are.

    In the others an error is its text. Without a sweep there is no pivot and no Pareto front.
    """
    make_folder(folder)
    flat = [_flat(record) for record in records]
    written = [folder / RESULTS_JSON, folder / RESULTS_CSV]
    write_text(written[0], json.dumps(records, indent=1) + "\n")
    write_text(written[1], _csv(_columns(flat), flat))
    if parquet:
        written.append(folder / RESULTS_PARQUET)
        _write_parquet(written[-1], flat)
    if swept:
        written += [folder / PIVOT_CSV, folder / PARETO_CSV]
        write_text(written[-2], _pivot_csv(pivot(records, swept)))
        front = [_flat(record) for record in pareto(records)]
        write_text(written[-1], _csv(_columns(front), front))
    return written


def read_records(folder: Path) -> list[Record]:
    """The records of an earlier batch; FormatError if its folder holds none."""
    path = folder / RESULTS_JSON
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"no results of a batch: {error}", node=str(path)) from error
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
        raise OptionError("Parquet files need pyarrow; install it with `pip install 'ttnn-graph-optimizer[parquet]'`")


def _flat(record: Record) -> Record:
    error = record.get("error")
    return {**record, "error": error["message"]} if error else record


def _columns(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record))


def _csv(columns: Sequence[str], records: Iterable[Record]) -> str:
    rows = io.StringIO(newline="")
    writer = csv.DictWriter(rows, columns, restval="")
    writer.writeheader()
    writer.writerows(records)
    return rows.getvalue()


def _pivot_csv(times: Pivot) -> str:
    rows: list[dict[str, Any]] = []
    for model, row in times.rows:
        rows.append({"model": model} | {p: t for p, t in zip(times.points, row, strict=True) if t is not None})
    ratios = {p: round(r, 6) for p, r in zip(times.points, times.ratios, strict=True) if r is not None}
    return _csv(("model", *times.points), [*rows, {"model": GEOMETRIC_MEAN} | ratios])


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
