"""Commands on a finished `graph.json`: `explain`, `check`, `price`, `diff`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from optimizer.cli.arguments import Commands, add_format, path_argument
from optimizer.cli.summary import Document, plan_text
from optimizer.cli.tables import as_json, bytes_text, pairs, percent_text, table, time_text
from optimizer.errors import UnknownNameError

RESULT_HELP = "a graph.json, or the folder that holds it"


def add(commands: Commands) -> None:
    explain = commands.add_parser("explain", help="why an op got its layout and config", allow_abbrev=False)
    explain.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    explain.add_argument("op", metavar="OP", help="id or name of an op")
    add_format(explain)
    explain.set_defaults(run=run_explain)

    check = commands.add_parser("check", help="verify a result again, from scratch", allow_abbrev=False)
    check.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    check.add_argument("--opmodel", metavar="NAME", help="backend to ask (default: the result's own)")
    add_format(check)
    check.set_defaults(run=run_check)

    price = commands.add_parser("price", help="verify and price any annotated graph", allow_abbrev=False)
    price.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    add_format(price)
    price.set_defaults(run=run_price)

    diff = commands.add_parser("diff", help="two results side by side", allow_abbrev=False)
    diff.add_argument("first", type=path_argument, metavar="A", help=RESULT_HELP)
    diff.add_argument("second", type=path_argument, metavar="B", help=RESULT_HELP)
    add_format(diff)
    diff.set_defaults(run=run_diff)


def read_document(path: Path) -> Document:
    """A decoded and schema-checked `graph.json`, by its path or its folder's."""
    from optimizer.export.schema import read_annotated

    return read_annotated(path)


# -- explain -----------------------------------------------------------------------------------------
def run_explain(args: argparse.Namespace) -> int:
    record = explanation(read_document(args.result), args.op)
    print(as_json(record) if args.format == "json" else explanation_text(record))
    return 0


def explanation(document: Document, op: str) -> dict[str, Any]:
    """What `OptimizedGraph.explain` says, from the document; a foreign node names the op that computes it.

    UnknownNameError lists near matches.
    """
    chosen = _found(document["ops"], op)

    def described(value_ids: list[str]) -> list[dict[str, Any]]:
        return [{"value": v, **document["values"][v]} for v in value_ids]

    return {
        **chosen,
        "operands": described(chosen["inputs"]),
        "results": described(chosen["outputs"]),
        "chain_record": next((c for c in document["chains"] if chosen["id"] in c["ops"]), None),
    }


def _found(ops: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for names in (lambda o: (o["id"], o["name"]), lambda o: o["origin"]):
        for op in ops:
            if name in names(op):
                return op
    raise UnknownNameError("op", name, [op["id"] for op in ops])


def explanation_text(record: dict[str, Any]) -> str:
    predicted = record["predicted"]
    facts: list[tuple[str, object]] = [
        ("op", f"{record['op']} '{record['id']}' ({record['role']})"),
        ("from", ", ".join(record["origin"]) or "-"),
        *(("reads", value_text(v)) for v in record["operands"]),
        *(("gives", value_text(v)) for v in record["results"]),
        ("config", _flat(record["config"]) if record["config"] else "-"),
    ]
    if predicted is not None:
        facts += [
            (
                "predicted",
                f"{time_text(predicted['time_ns'])} on {predicted['cores']} cores, bound by {predicted['bound']}",
            ),
            *_time_facts(predicted),
            ("L1 per core", f"{bytes_text(predicted['peak_l1_bytes'])}, buffers {bytes_text(predicted['cb_bytes'])}"),
        ]
    chain = record["chain_record"]
    if chain is not None:
        facts.append(("chain", f"{chain['id']}, {len(chain['ops'])} ops, {chain['state']}"))
        facts += [("chain failed", chain["reason"])] if chain.get("reason") else []
    return "\n\n".join([pairs(facts), *_reason_blocks(record["reason"], record["config"] or {})])


def _time_facts(predicted: dict[str, Any]) -> list[tuple[str, object]]:
    """Utilisation, and the terms of every program: what each resource alone would need."""
    used = predicted.get("utilisation")
    facts: list[tuple[str, object]] = (
        [] if used is None else [("utilisation", f"{percent_text(used)} of the chip's peak")]
    )
    for part in predicted.get("parts", ()):
        terms = ", ".join(f"{bound} {time_text(ns)}" for bound, ns in sorted(part["terms_ns"].items()))
        spent = f"{time_text(part['time_ns'])}: start {time_text(part['start_ns'])}"
        tail = f", not overlapped {time_text(part['tail_ns'])}" if part["tail_ns"] else ""
        facts.append((f"  {part['program']}", f"{spent}{', ' + terms if terms else ''}{tail}"))
    return facts


def value_text(value: dict[str, Any]) -> str:
    layout = value["layout"]
    text = f"{value['value']}: {value['dtype']} {value['shape']}"
    return text if layout is None else f"{text} in {layout_text(layout)}"


def layout_text(layout: dict[str, Any]) -> str:
    """`l1 block_sharded 8x8 [32, 64] tile`."""
    text = f"{layout['buffer_type']} {layout['memory_layout']}"
    if layout.get("grid_yx"):
        rows, cols = layout["grid_yx"]
        text += f" {rows}x{cols}, shard {layout['shard_shape']}"
    return f"{text}, {layout['tensor_layout']}"


def _reason_blocks(reason: dict[str, Any], config: dict[str, Any]) -> list[str]:
    """The reason as text: plain entries as lines, each list of records as a table."""
    plain = [(k, _flat(v)) for k, v in reason.items() if not _is_records(v)]
    blocks = [pairs(plain)] if plain else []
    for name, records in reason.items():
        if _is_records(records):
            columns = list(dict.fromkeys(key for record in records for key in record))
            rows = [[_cell(record.get(c, ""), config) for c in columns] for record in records]
            blocks.append(f"{name}\n{table(columns, rows)}")
    return blocks


def _cell(value: Any, config: dict[str, Any]) -> str:
    """A table cell; of a config only what differs from the chosen one."""
    if isinstance(value, dict) and "kind" in value and value["kind"] == config.get("kind"):
        return _flat({k: v for k, v in value.items() if v != config.get(k)}) or "as chosen"
    return _flat(value)


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _is_layout(value: dict[str, Any]) -> bool:
    """Whether an entry of a reason, which no schema describes, is a whole layout."""
    grid = value.get("grid_yx")
    whole = {"buffer_type", "memory_layout", "tensor_layout"} <= set(value)
    return whole and (grid is None or (isinstance(grid, list) and len(grid) == 2 and "shard_shape" in value))


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        if _is_layout(value):
            return layout_text(value)
        return ", ".join(f"{k}={_flat(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "; ".join(_flat(v) for v in value)
    return "-" if value is None else str(value)


# -- check and price -----------------------------------------------------------------------------------
def run_check(args: argparse.Namespace) -> int:
    from optimizer.export.reader import read_result
    from optimizer.recheck import check_record

    return _print_check(check_record(read_result(args.result), args.opmodel), args.format)


def run_price(args: argparse.Namespace) -> int:
    from optimizer.export.reader import read_result
    from optimizer.recheck import price_record

    record = price_record(read_result(args.result))
    print(as_json(record) if args.format == "json" else pairs((k, _flat(v)) for k, v in record.items()))
    return 0 if record["verified"] else 1


def _print_check(record: dict[str, Any], form: str) -> int:
    if form == "json":
        print(as_json(record))
    else:
        print(pairs((k, _flat(v)) for k, v in record.items() if k != "errors"))
        for error in record["errors"]:
            print(f"{error['op']}: {error['message']}")
    return 0 if record["ok"] else 1


# -- diff ----------------------------------------------------------------------------------------------
FIGURES = (
    ("predicted_time_ns", time_text),
    ("dram_read_bytes_total", bytes_text),
    ("dram_write_bytes_total", bytes_text),
    ("l1_peak_bytes", bytes_text),
    ("l1_resident_fraction", percent_text),
    ("ops", str),
    ("reshards", str),
    ("loads", str),
    ("spills", str),
)


def run_diff(args: argparse.Namespace) -> int:
    record = difference(read_document(args.first), read_document(args.second))
    print(as_json(record) if args.format == "json" else difference_text(record, str(args.first), str(args.second)))
    return 0


def difference(first: Document, second: Document) -> dict[str, Any]:
    """Summary figures of both, and the ops (matched by id) whose output layout or config differs."""
    pairs_by_id = {op["id"]: [op, None] for op in first["ops"]}
    for op in second["ops"]:
        pairs_by_id.setdefault(op["id"], [None, None])[1] = op
    ops = []
    for op_id, (a, b) in pairs_by_id.items():
        before, after = _placed(first, a), _placed(second, b)
        if before != after:
            ops.append({"op": op_id, "first": before, "second": after})
    return {
        "summary": {key: [first["summary"].get(key), second["summary"].get(key)] for key, _ in FIGURES},
        "plans": [plan_text(first["summary"]), plan_text(second["summary"])],
        "ops": ops,
    }


def _placed(document: Document, op: dict[str, Any] | None) -> dict[str, Any] | None:
    if op is None:
        return None
    layouts = [document["values"][v]["layout"] for v in op["outputs"]]
    return {"layouts": [None if layout is None else layout_text(layout) for layout in layouts], "config": op["config"]}


def difference_text(record: dict[str, Any], first: str, second: str) -> str:
    rows = [("plan", *record["plans"])]
    for key, show in FIGURES:
        before, after = record["summary"][key]
        rows.append((key.removesuffix("_ns").removesuffix("_bytes"), show(before), show(after)))
    text = table(("", first, second), rows)
    if not record["ops"]:
        return text + "\n\nno op differs in output layout or config"
    changed = [(r["op"], _outputs_text(r["first"]), _outputs_text(r["second"])) for r in record["ops"]]
    return f"{text}\n\n{len(changed)} ops differ in output layout or config\n" + table(("op", first, second), changed)


def _outputs_text(placed: dict[str, Any] | None) -> str:
    return "absent" if placed is None else "; ".join(str(layout) for layout in placed["layouts"])
