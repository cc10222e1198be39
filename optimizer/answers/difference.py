"""What tells two results apart: what they were made of, their figures, and the ops that make the difference."""

from __future__ import annotations

from typing import Any

from optimizer.wording.entries import flat, layout_text
from optimizer.wording.plan import Document, plan_text
from optimizer.wording.units import bytes_text, counted, percent_text, time_text

FIGURES = (
    ("predicted_time_ns", "predicted time", time_text),
    ("dram_read_bytes_total", "DRAM read", bytes_text),
    ("dram_write_bytes_total", "DRAM written", bytes_text),
    ("l1_peak_bytes", "L1 peak per core", bytes_text),
    ("l1_weights_bytes", "weights in L1 per core", bytes_text),
    ("dram_peak_bank_bytes", "DRAM peak per bank", bytes_text),
    ("l1_resident_fraction", "L1-resident share", percent_text),
    ("ops", "ops", str),
    ("reshards", "reshards", str),
    ("loads", "loads", str),
    ("spills", "spills", str),
)
"""Keys of a summary, with the words that `ttopt optimize` has for them."""
BEFORE, AFTER = ("reshard", "load"), ("spill",)
"""Copies made for the op that reads them, and for the op that gives their source."""


def difference(first: Document, second: Document) -> dict[str, Any]:
    """Summary figures of both, and the ops (matched by id) that read, give, configure or copy differently.

    An op's time includes the copies that are made for it: loads and reshards of its operands, the spill of its result.
    The ops that change most come first.
    """
    placed = [_placed(first), _placed(second)]
    ops: list[dict[str, Any]] = []
    for op_id in dict.fromkeys((*placed[0], *placed[1])):
        before, after = (side.get(op_id) for side in placed)
        if before != after:
            ops.append({"op": op_id, "first": before, "second": after})
    ops.sort(key=lambda o: -abs(placed_ns(o["second"]) - placed_ns(o["first"])))
    return {
        "differs": differing(first, second),
        "summary": {key: [first["summary"].get(key), second["summary"].get(key)] for key, _, _ in FIGURES},
        "time_by_class_ns": [d["summary"].get("time_by_class_ns") or {} for d in (first, second)],
        "plans": [plan_text(first["summary"]), plan_text(second["summary"])],
        "ops": ops,
    }


def _placed(document: Document) -> dict[str, dict[str, Any]]:
    """Op id -> layouts of operands and results, config, copies and time, of every op that is no copy."""
    reader = {v: op for op in reversed(document["ops"]) for v in op["inputs"]}
    producer = {v: op for op in document["ops"] for v in op["outputs"]}
    found: dict[str, dict[str, Any]] = {}
    for op in document["ops"]:
        if op["role"] not in (*BEFORE, *AFTER):
            found[op["id"]] = {
                "reads": _layouts(document, op["inputs"]),
                "layouts": _layouts(document, op["outputs"]),
                "config": op["config"],
                "copies": [],
                "time_ns": _op_ns(op),
            }
    for copy in document["ops"]:
        if copy["role"] in (*BEFORE, *AFTER):
            ends = (reader, copy["outputs"]) if copy["role"] in BEFORE else (producer, copy["inputs"])
            owner = next((ends[0][v]["id"] for v in ends[1] if v in ends[0]), None)
            if owner in found:
                found[owner]["copies"].append(copy["role"])
                found[owner]["time_ns"] += _op_ns(copy)
    return found


def _layouts(document: Document, values: list[str]) -> list[str | None]:
    layouts = (document["values"][v]["layout"] for v in values)
    return [None if layout is None else layout_text(layout) for layout in layouts]


def _op_ns(op: dict[str, Any]) -> int:
    return op["predicted"]["time_ns"] if op["predicted"] else 0


def placed_ns(placed: dict[str, Any] | None) -> int:
    """Time of an op on one side; 0 where it is absent."""
    return 0 if placed is None else int(placed["time_ns"])


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
