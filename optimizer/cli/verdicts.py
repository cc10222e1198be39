"""What `ttopt check` and `ttopt price` found, in sentences."""

from __future__ import annotations

from typing import Any

from optimizer.cli.tables import bytes_text, counted, percent_text, table, time_text

Record = dict[str, Any]
SHOWN_ERRORS = 20
"""Errors listed for a person; `--format json` has them all."""


def check_text(record: Record) -> str:
    """The verdict first, then what was found wrong, then what the verdict says nothing of."""
    wrong, board = len(record["errors"]), record["board"]
    verdict = "holds" if record["ok"] else f"does NOT hold: {counted(wrong, 'error')}"
    lines = [f"The plan {verdict}; {_steps(record)} on {board}, judged by {record['opmodel']}."]
    lines += _errors(record["errors"])
    if record.get("verify_errors"):
        lines.append(f"Our own rules find {counted(len(record['verify_errors']), 'error')} in it:")
        lines += _errors(record["verify_errors"])
    lines.append(_memory(record))
    if "l1" in record:
        lines.append(_replayed_l1(record["l1"]))
    if record["custom_board"]:
        lines.append(f"The board {board} is none of the presets: nothing vouches for its figures.")
    if record["model"] is not None:
        lines.append(_model(record["model"]))
    if "whole" in record:
        lines += ["", _outputs_table(record["whole"]["outputs"])]
    if record.get("values") is not None:
        lines += ["", _values_table(record["values"])]
    return "\n".join([*lines, "", "Not checked:", *(f"  {text}" for text in record["not_checked"])])


def _errors(errors: list[Record]) -> list[str]:
    """A line on each of the first ones, and how many more there are."""
    lines = [f"  {error['op']}: {error['message']}" for error in errors[:SHOWN_ERRORS]]
    more = len(errors) - len(lines)
    return [*lines, f"  and {more} more, all of them with --format json"] if more else lines


def _steps(record: Record) -> str:
    return f"{counted(record['steps'], 'step')} checked"


def _memory(record: Record) -> str:
    peak, buffers = bytes_text(record["peak_l1_bytes"]), bytes_text(record["peak_cb_bytes"])
    dram = bytes_text(record["peak_dram_bank_bytes"])
    return f"L1 holds at most {peak} per core (circular buffers: {buffers}), a DRAM bank at most {dram}."


def _replayed_l1(l1: Record) -> str:
    text = f"The predicted L1 peak is exact in {l1['exact']} of {counted(l1['steps'], 'step')}"
    if l1["below"]:
        text += f", too low in {l1['below']} (worst: {percent_text(l1['worst_below'])} at {l1['worst_below_op']})"
    if l1["elsewhere"]:
        text += f"; {l1['elsewhere']} of {l1['placed']} tensors lie elsewhere"
    return text + "."


def _model(model: Record) -> str:
    file = "" if model["sha256_stated"] else "; the document does not say which file it came from"
    return f"The graph {'computes' if model['ok'] else 'does NOT compute'} the model{file}."


def _values_table(values: Record) -> str:
    columns = ("queries", "wrong", "not_run", "worst", "gain")
    rows = [(op, *(row[key] for key in columns)) for op, row in values["by_op"].items()]
    return table(("op", "queries", "wrong", "not run", "worst", "gain"), rows)


def _outputs_table(outputs: list[Record]) -> str:
    """Each output beside what rounding alone does to it."""
    figures = ("pcc", "relative_error", "ratio")
    rows = [
        (name, *(f"{found[k]:.6g}" for k in figures))
        for o in outputs
        for name, found in ((o["name"], o), ("  by rounding alone", o["rounding_alone"]))
    ]
    return table(("output", "PCC", "relative error", "ratio"), rows)


def price_text(record: Record, board: str) -> str:
    """The price of a graph that verifies; else why it has none."""
    if not record["verified"]:
        count = counted(len(record["errors"]), "error")
        lines = [f"The graph does NOT verify on {board}, so it has no price: {count}."]
        return "\n".join([*lines, *_errors(record["errors"])])
    read, written = (bytes_text(record[f"dram_{way}_bytes_total"]) for way in ("read", "write"))
    peak, resident = bytes_text(record["l1_peak_bytes"]), percent_text(record["l1_resident_fraction"])
    total, limit = record["predicted_time_ns"], record["limit"]
    lines = [
        f"The graph verifies and takes {time_text(total)} on {board} by the cost model.",
        f"It reads {read} from DRAM and writes {written}; L1 holds at most {peak} per core.",
        f"{resident} of the activation bytes are produced in L1.",
        f"The physical limit is {time_text(limit['limit_ns'])}, {percent_text(limit['of_limit'])} of that time.",
    ]
    classes = sorted(record["by_class"].items(), key=lambda item: (-item[1], item[0]))
    rows = [(name, time_text(ns), percent_text(ns / total if total else None)) for name, ns in classes]
    return "\n".join([*lines, "", table(("class", "time", "share"), rows)])
