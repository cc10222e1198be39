"""`visualizer/`: the predicted run as a report that ttnn-visualizer opens (docs/artifacts.md)."""

from __future__ import annotations

import json
import sqlite3
from importlib.resources import files
from pathlib import Path

from optimizer.export.memory.visualizer.report import Report, report_name
from optimizer.process.files import make_folder, write_bytes, write_text
from optimizer.result import OptimizedGraph

FOLDER = "visualizer"
CREATE = tuple(files(__name__).joinpath("tables.sql").read_text("utf-8").rstrip(";\n").split(";\n"))
"""Statements that make every table, as ttnn's own importer makes them (`ttnn/graph_report.py`, schema 3.5).

`tensors` has one column more, `size`, which the visualizer reads where it is there."""


def write(result: OptimizedGraph, folder: Path) -> Path:
    target = folder / FOLDER
    make_folder(target)
    write_bytes(target / "db.sqlite", database(Report(result)))
    config = {"report_name": report_name(result), "enable_graph_report": True, "predicted_by": "ttopt"}
    write_text(target / "config.json", json.dumps(config, indent=1, ensure_ascii=False) + "\n")
    return target


def database(report: Report) -> bytes:
    """The rows of a report as an SQLite file, made in memory: a file appears whole or not at all."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in CREATE:
            connection.execute(statement)
        for table, rows in report.rows.items():
            places = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()
