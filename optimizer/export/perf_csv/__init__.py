"""`ops_perf_results_predicted.csv`: the predicted times as tt-perf-report reads measured ones (docs/artifacts.md)."""

from __future__ import annotations

from pathlib import Path

from optimizer.export.perf_csv.rows import COLUMNS, rows
from optimizer.process.csv_text import csv_text
from optimizer.process.files import written
from optimizer.result import OptimizedGraph

FILE_NAME = "ops_perf_results_predicted.csv"


def write(result: OptimizedGraph, folder: Path) -> Path:
    return written(folder / FILE_NAME, csv_text(COLUMNS, rows(result)))
