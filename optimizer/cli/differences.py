"""In what two results differ before anything was planned: model, board, options."""

from __future__ import annotations

from typing import Any

from optimizer.cli.summary import Document
from optimizer.cli.tables import counted, table
from optimizer.cli.values import flat

SHOWN_DIGITS = 12
"""Of a SHA-256."""


def differing(first: Document, second: Document) -> dict[str, Any]:
    """`{model, board, options, warnings}`: pairs of what A and B have, null or empty where they are the same.

    The same file makes the same model, and so do the same ops of the model, by id and kind, on the same inputs.
    """
    files = [document["model"].get("sha256") for document in (first, second)]
    names = [document["model"]["name"] for document in (first, second)]
    ops = [_own_ops(document) for document in (first, second)]
    same_file = files[0] is not None and files[0] == files[1]
    same_graph = ops[0] == ops[1] and _inputs(first) == _inputs(second)
    model = None if same_file else {"names": names, "sha256": files, "same_graph": same_graph}
    boards = [first["device"], second["device"]]
    options = [{**document["options"], "board": None} for document in (first, second)]
    keys = dict.fromkeys([*options[0], *options[1]])
    warnings = []
    if model is not None and not same_graph:
        alike = len(ops[0].items() & ops[1].items())
        counts = f"'{names[0]}' of {counted(len(ops[0]), 'op')} and '{names[1]}' of {counted(len(ops[1]), 'op')}"
        warnings.append(f"two different models are compared, {counts}, {alike} of them in both by id and kind")
    return {
        "model": model,
        "board": None if boards[0] == boards[1] else [_board(*boards), _board(*reversed(boards))],
        "options": {k: [o.get(k) for o in options] for k in keys if options[0].get(k) != options[1].get(k)},
        "warnings": warnings,
    }


def _own_ops(document: Document) -> dict[str, str]:
    """The ops of the model, without what a plan inserts."""
    inserted = ("reshard", "spill", "load", "layout", "transfer")
    return {op["id"]: op["op"] for op in document["ops"] if op["role"] not in inserted}


def _inputs(document: Document) -> list[tuple[str, Any]]:
    return [(v, document["values"][v]["shape"]) for v in document["model"]["inputs"]]


def _board(board: dict[str, Any], other: dict[str, Any]) -> str:
    """A board's name; where the other has the same, the figures that tell them apart."""
    if board["name"] != other["name"]:
        return str(board["name"])
    figures = ", ".join(f"{key}={flat(value)}" for key, value in board.items() if value != other.get(key))
    return f"{board['name']} ({figures})"


def differing_text(record: dict[str, Any]) -> str:
    """What differs as a table, warnings above it."""
    rows: list[tuple[str, str, str]] = []
    model = record["model"]
    if model is not None:
        named = zip(model["names"], model["sha256"], strict=True)
        shown = [f"{name} ({'no file' if sha is None else sha[:SHOWN_DIGITS]})" for name, sha in named]
        rows.append(("model, same graph" if model["same_graph"] else "model", shown[0], shown[1]))
    if record["board"] is not None:
        rows.append(("board", *record["board"]))
    rows += [(name, flat(a), flat(b)) for name, (a, b) in record["options"].items()]
    lines = [f"WARNING: {text}" for text in record["warnings"]]
    lines.append(table(("differs", "A", "B"), rows) if rows else "same model, board and options")
    return "\n".join(lines)
