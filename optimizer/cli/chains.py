"""`ttopt chains`: the L1 chains of a result, and what the chain solver did to one of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from optimizer.cli.arguments import RESULT_HELP, Commands, add_format, add_verbosity, path_argument
from optimizer.cli.progress import ProgressBar
from optimizer.cli.tables import pairs, print_record, table, time_text
from optimizer.wording.entries import config_text

SHOWN_RESHARDS = 8
"""Layouts listed per edge without `--members`."""
Record = dict[str, Any]


def add(commands: Commands) -> None:
    chains = commands.add_parser("chains", help="the L1 chains of a plan, and how one was solved", allow_abbrev=False)
    chains.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    chains.add_argument("chain", nargs="?", metavar="CHAIN", help="id of a chain: solve it again and show every step")
    chains.add_argument("--members", action="store_true", help="with CHAIN: also what every set of configs holds")
    add_format(chains)
    add_verbosity(chains)
    chains.set_defaults(run=run_chains)


def run_chains(args: argparse.Namespace) -> int:
    if args.chain is not None:
        return show_chain(args.result, args.chain, args.format, args.members)
    from optimizer.answers.chains import overview
    from optimizer.export.reader import read_result

    result = read_result(args.result)
    found = overview(result)
    print_record(found, args.format, lambda chains: overview_text(chains, result.options.policy))
    return 0


def show_chain(result: Path, chain: str, form: str, members: bool = False) -> int:
    """Print one chain."""
    from optimizer.answers.chains import details

    with ProgressBar(f"solving {chain} again") as progress:
        record = details(result, chain, members, progress)
    print_record(record, form, details_text)
    return 0


def overview_text(chains: list[Record], policy: str) -> str:
    """A line per chain."""
    if not chains:
        return f"the plan of policy {policy} has no chains"
    header = ("chain", "state", "ops", "first op", "solved by", "for", "cores", "time", "in DRAM", "its end", "because")
    return table(header, [_overview_row(c) for c in chains])


def _overview_row(c: Record) -> tuple[object, ...]:
    times = (time_text(c["time_ns"]), time_text(c["dram_ns"]))
    solved = (c["engine"] or "-", c["objective"] or "-", _or_dash(c["core_usage"]))
    return (c["id"], c["state"], len(c["ops"]), c["ops"][0], *solved, *times, _end(c), _because(c))


def _end(c: Record) -> str:
    """Where the chain's last result goes."""
    if c["state"] == "failed":
        return "-"
    if c["end_layout"].startswith("dram"):
        return "written to DRAM"
    return {"none": "stays sharded", "l1_interleaved": "stays interleaved"}.get(c["spill_location"], "spilled to DRAM")


def _because(c: Record) -> str:
    cut = f"cut into {' and '.join(c['parts'])}: " if c["parts"] else ""
    return cut + (c["reason"] or "")


def details_text(record: Record) -> str:
    """Everything about one chain, as blocks of text."""
    blocks = [pairs(_facts(record)), "in the plan\n" + _placed_table(record)]
    solved = record["solved"]
    if solved is not None:
        blocks += [_sets_block(solved), *_entry_blocks(solved), *_edge_blocks(solved), *_member_blocks(solved)]
    if record["trials"]:
        blocks.append("tried to keep its results in L1\n" + _trials_table(record["trials"]))
    return "\n\n".join(blocks)


def _facts(record: Record) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("chain", f"{record['id']}, {len(record['ops'])} ops of a plan of policy {record['policy']}"),
        ("state", record["state"]),
    ]
    facts += [("because", _because(record))] if record["reason"] else []
    facts += _time_facts(record)
    facts += [("its end", _end(record))] if record["state"] != "failed" else []
    facts += [("note", record["note"])] if record["note"] else []
    if record["solved"] is not None:
        facts += _solved_facts(record)
    return facts


def _time_facts(record: Record) -> list[tuple[str, object]]:
    """Times of a chain that a solver made hold for the chain alone, its result spilled; others are the plan's."""
    time_ns, dram_ns = record["time_ns"], record["dram_ns"]
    if time_ns is None:
        return [] if dram_ns is None else [("in DRAM", time_text(dram_ns))]
    if dram_ns is None:
        return [("time", time_text(time_ns))]
    return [("time alone", f"{time_text(time_ns)} with its result spilled; its ops in DRAM {time_text(dram_ns)}")]


def _solved_facts(record: Record) -> list[tuple[str, object]]:
    """What the solver found, and what was made of it."""
    solved, found = record["solved"], record["solved"]["most_cores"]
    if "because" in found:
        outcome = f"{found['status']}: {found['because']}"
    else:
        outcome = f"{found['status']}, {found['core_usage']} cores in all (at most {found['bound']})"
    facts: list[tuple[str, object]] = [(f"solved by {record['engine']}", outcome)]
    if solved["statistics"].get("objective") == "time":
        facts.append(("adopted", "the solution of least time, with copies allowed on every edge"))
    if solved["preferred"]:
        facts.append(("preferred", f"the concat beside it takes {solved['preferred']}"))
    if solved["because"]:
        facts.append(("alone", solved["because"]))
    if solved["cut_at"]:
        facts.append(("cut at", ", ".join(solved["cut_at"])))
    return facts


def _placed_table(record: Record) -> str:
    header = ("op", "reads", "through", "gives", "cores", "time")
    rows = [
        (o["op"], o["reads"] or "-", o["through"] or "-", o["layout"], _or_dash(o["cores"]), time_text(o["time_ns"]))
        for o in record["placed"]
    ]
    return table(header, rows)


def _sets_block(solved: Record) -> str:
    """Sets of configs before and after propagation, and the choice for the most cores."""
    header = ("op", "configs", "fit L1", "left", "most cores", "cores", "from here on", "next best", "from there on")
    rows = []
    for o in solved["ops"]:
        best, other = o["most_cores"], next(iter(o["alternatives"]), None)
        chosen = ("-", "-", "-") if best is None else (best["layout"], best["cores"], _or_dash(best["usage"]))
        runner_up = ("-", "-") if other is None else (_other(other, best), other["usage"])
        rows.append((o["op"], o["legal"], o["before"], o["after"], *chosen, *runner_up))
    lost = [(o["op"], e["by"], e["configs"]) for o in solved["ops"] for e in o["eliminated"]]
    text = "sets of configs, before and after propagation\n" + table(header, rows)
    return text + ("\n\neliminated\n" + table(("of op", "by edge", "configs"), lost) if lost else "")


def _other(config: Record, chosen: Record | None) -> str:
    """An alternative in a few words: its layout, or how its op config differs if the layout is the chosen one."""
    if chosen is None or config["layout"] != chosen["layout"]:
        return str(config["layout"])
    return f"the same, {config_text(config['config'], chosen['config'])}"


def _entry_blocks(solved: Record) -> list[str]:
    entry = solved["entry"]
    if entry is None:
        return []
    text = f"entry: {entry['direct']} of {entry['before']} configs of {entry['op']} read {entry['operand']} as it is"
    return [text, *_reshard_blocks("before the chain", entry)]


def _edge_blocks(solved: Record) -> list[str]:
    if not solved["edges"]:
        return []
    header = ("edge", "", "mode", "pairs built", "left", "layouts to insert", "inserted", "because")
    rows: list[tuple[object, ...]] = []
    for e in solved["edges"]:
        ends = (e["producer"], f"-> {e['consumer']}")
        if "note" in e:
            rows.append((*ends, "-", "-", "-", "-", "-", e["note"]))
            continue
        built = (e["mode"] or "-", e["pairs_built"], _or_dash(e["pairs_left"]), len(e["reshards"]))
        rows.append((*ends, *built, e["taken"] or "-", e["failure"] or ""))
    blocks = ["edges\n" + table(header, rows)]
    for e in solved["edges"]:
        blocks += [] if "note" in e else _reshard_blocks(f"on {e['producer']} -> {e['consumer']}", e)
    return blocks


def _reshard_blocks(where: str, bridged: Record) -> list[str]:
    """The layouts that may be inserted at one place."""
    options = bridged["reshards"]
    if not options:
        return []
    rows = [
        (r["layout"], r["producers"], r["enables"], "taken" if r["layout"] == bridged["taken"] else "")
        for r in sorted(options, key=lambda r: r["layout"] != bridged["taken"])[:SHOWN_RESHARDS]
    ]
    more = len(options) - len(rows)
    text = f"layouts that may be inserted {where}\n" + table(("layout", "from configs", "enables", ""), rows)
    return [text + (f"\nand {more} more (--format json)" if more else "")]


def _member_blocks(solved: Record) -> list[str]:
    """What `--members` asks for."""
    blocks = []
    for o in (o for o in solved["ops"] if "members" in o):
        rows = [
            (m["index"], m["layout"], m["cores"], _or_dash(m["usage"]), config_text(m["config"], None))
            for m in o["members"]
        ]
        header = ("config", "layout", "cores", "from here on", "op config")
        blocks.append(f"left of {o['op']}\n" + table(header, rows))
    return blocks


def _trials_table(trials: list[Record]) -> str:
    rows = [
        (
            t["kind"],
            ", ".join(t["ops"]),
            t["layout"],
            "taken" if t["taken"] else "refused",
            f"saves {time_text(t['saved_ns'])}" if t["taken"] else f"{t['cause']}: {t['because']}",
        )
        for t in trials
    ]
    return table(("kind", "results of", "as", "outcome", ""), rows)


def _or_dash(value: object) -> object:
    return "-" if value is None else value
