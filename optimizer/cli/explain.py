"""`ttopt explain`: why one op has its layout and config, and what the others would have cost."""

from __future__ import annotations

import argparse
from typing import Any

from optimizer.cli.arguments import RESULT_HELP, Commands, add_format, add_verbosity, path_argument
from optimizer.cli.chains import show_chain
from optimizer.cli.progress import ProgressBar
from optimizer.cli.tables import bytes_text, pairs, print_record, table, time_text
from optimizer.wording.entries import config_text, flat, layout_text
from optimizer.wording.limits import op_limit_text
from optimizer.wording.reasons import reason_pairs, reason_tables

SHOWN_NODES = 4
"""Foreign nodes of one op that are listed."""
SOLVED_AGAIN = ("alternatives", "excluded")
"""Tables of a recorded reason that the newly solved ones replace."""


def add(commands: Commands) -> None:
    explain = commands.add_parser(
        "explain", help="why an op got its layout; how a chain was solved", allow_abbrev=False
    )
    explain.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    explain.add_argument("op", metavar="OP", help="id or name of an op or of a node of its model, or id of a chain")
    explain.add_argument(
        "--recorded", action="store_true", help="only what the result says; solve nothing again for the alternatives"
    )
    add_format(explain)
    add_verbosity(explain)
    explain.set_defaults(run=run_explain)


def run_explain(args: argparse.Namespace) -> int:
    from optimizer.answers.explanation import choices, explanation, names_chain
    from optimizer.export.stored import read_annotated

    found = read_annotated(args.result)
    document = found.model_dump(by_alias=True)
    if names_chain(document, args.op):
        return show_chain(args.result, args.op, args.format)
    record = explanation(document, args.op)
    if not args.recorded:
        with ProgressBar(f"alternatives of {record['id']}") as progress:
            record["choices"] = choices(found, args.result, record["id"], progress)
    print_record(record, args.format, explanation_text)
    return 0


def explanation_text(record: dict[str, Any]) -> str:
    choices = record.get("choices") or {}
    solved = "alternatives" in choices
    blocks = [pairs(_facts(record)), *_reason_blocks(record, SOLVED_AGAIN if solved else ())]
    if solved:
        blocks += _choice_blocks(record, choices)
    elif "note" in choices:
        blocks.append(f"alternatives: {choices['note']}")
    return "\n\n".join(blocks)


def _facts(record: dict[str, Any]) -> list[tuple[str, object]]:
    predicted, chain = record["predicted"], record["chain_record"]
    facts: list[tuple[str, object]] = [
        ("op", f"{record['op']} '{record['id']}' ({record['role']})"),
        ("from", _origin(record["origin"])),
        *(("reads", _value_text(v)) for v in record["operands"]),
        *(("gives", _value_text(v)) for v in record["results"]),
        ("config", flat(record["config"]) if record["config"] else "-"),
    ]
    if predicted is not None:
        time = f"{time_text(predicted['time_ns'])} on {predicted['cores']} cores, bound by {predicted['bound']}"
        facts += [
            ("predicted", time),
            *_time_facts(predicted),
            ("L1 per core", f"{bytes_text(predicted['peak_l1_bytes'])}, buffers {bytes_text(predicted['cb_bytes'])}"),
        ]
    for note in record["rewritten"]:
        facts.append((note["pass"], note["because"]))
    if record["fused"] is not None:
        facts.append(("fused", record["fused"]))
    if chain is not None:
        facts.append(("chain", f"{chain['id']}, {len(chain['ops'])} ops, {chain['state']}"))
        facts += [("chain failed", chain["reason"])] if chain.get("reason") else []
    elif record["fallback"]:
        facts.append(("fell back", record["fallback"]))
    return facts


def _origin(nodes: list[str]) -> str:
    more = f" and {len(nodes) - SHOWN_NODES} more" if len(nodes) > SHOWN_NODES else ""
    return (", ".join(nodes[:SHOWN_NODES]) or "-") + more


def _time_facts(predicted: dict[str, Any]) -> list[tuple[str, object]]:
    """How far it is from the limit, how sure the time is, and the terms of every program: what each resource alone
    would need."""
    limit = op_limit_text(predicted)
    facts: list[tuple[str, object]] = [] if limit is None else [("of limit", limit)]
    low, high = predicted.get("low_ns"), predicted.get("high_ns")
    if low is not None and high is not None:
        facts.append(("80 % interval", f"{time_text(low)} to {time_text(high)}"))
    for part in predicted.get("parts", ()):
        terms = ", ".join(f"{bound} {time_text(ns)}" for bound, ns in sorted(part["terms_ns"].items()))
        spent = f"{time_text(part['time_ns'])}: start {time_text(part['start_ns'])}"
        tail = f", not overlapped {time_text(part['tail_ns'])}" if part["tail_ns"] else ""
        facts.append((f"  {part['program']}", f"{spent}{', ' + terms if terms else ''}{tail}"))
    return facts


# -- the recorded reason -------------------------------------------------------------------------------
def _reason_blocks(record: dict[str, Any], without: tuple[str, ...]) -> list[str]:
    """The reason as text: plain entries as lines, each list of records as a table."""
    reason = {k: v for k, v in record["reason"].items() if k not in without}
    plain = reason_pairs(reason)
    tables = [f"{t.title}\n{table(t.header, t.rows)}" for t in reason_tables(reason, record["config"])]
    return [pairs(plain), *tables] if plain else tables


# -- what the alternatives would have cost -------------------------------------------------------------
def _choice_blocks(record: dict[str, Any], choices: dict[str, Any]) -> list[str]:
    nearby = len(choices["opened"]) - 1
    blocks = [
        f"what the whole plan would take with another choice here; {nearby} op(s) nearby may change with it\n"
        + table(("layout", "config", "op", "whole plan", "change", "because"), _choice_rows(record, choices))
    ]
    if choices["more"]:
        blocks[0] += f"\nand {choices['more']} more that were not solved for"
    if choices["excluded"]:
        rows = [(e["cause"], e["count"], ", ".join(e["layouts"])) for e in choices["excluded"]]
        blocks.append("no choice here\n" + table(("cause", "layouts", "such as"), rows))
    return blocks


def _choice_rows(record: dict[str, Any], choices: dict[str, Any]) -> list[tuple[object, ...]]:
    plan_ns, chosen = choices["plan_time_ns"], choices["chosen"]
    rows: list[tuple[object, ...]] = [
        (chosen["layout"], "as chosen" if record["config"] else "-", time_text(chosen["op_time_ns"]),
         time_text(plan_ns), "", "chosen")
    ]  # fmt: skip
    for other in choices["alternatives"]:
        config = config_text(other["config"], record["config"])
        op, total, delta = other["op_time_ns"], other["total_time_ns"], other["delta_ns"]
        change = "" if delta is None else _signed(delta)
        rows.append((other["layout"], config, time_text(op), time_text(total), change, _because(other, chosen)))
    return rows


def _because(other: dict[str, Any], chosen: dict[str, Any]) -> str:
    """How much of a difference is the op's own, how much copies and other ops; or why there is no such plan."""
    if other["delta_ns"] is None:
        return str(other["why_not"])
    own = other["op_time_ns"] - chosen["op_time_ns"]
    return f"op {_signed(own)}, copies and other ops {_signed(other['delta_ns'] - own)}"


def _signed(time_ns: int) -> str:
    return ("+" if time_ns >= 0 else "") + time_text(time_ns)


def _value_text(value: dict[str, Any]) -> str:
    layout = value["layout"]
    text = f"{value['value']}: {value['dtype']} {value['shape']}"
    return text if layout is None else f"{text} in {layout_text(layout)}"
