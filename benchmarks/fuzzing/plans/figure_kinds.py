"""Corruptions of what a plan says of itself: predictions, chains, reservations, kernels and its summary."""

from __future__ import annotations

import random
from typing import Any

from fuzzing.plans.kinds import Document, Seen, add, change, kind, more, ops, pick, values


# -- predictions ----------------------------------------------------------------------------------------------
def _predictions(document: Document) -> list[Document]:
    return [o["predicted"] for o in document["ops"] if o["predicted"]]


def _predicted(document: Document) -> list[Document]:
    return [o for o in document["ops"] if o["predicted"]]


for _name in ("time_ns", "cb_bytes", "peak_l1_bytes", "cores", "dram_read_bytes", "dram_write_bytes",
              "limit_ns", "compulsory_dram_bytes", "flops"):  # fmt: skip
    add(f"predicted {_name}", change(_predictions, _name, more))
add("predicted bound", change(_predictions, "bound", lambda b: "pcie" if b != "pcie" else "noc"))
add("predicted programs", change(_predictions, "parts", lambda p: p[:-1]))
add("prediction left out", change(_predicted, "predicted", lambda _: None))


@kind()
def prediction_of_an_op_on_the_host(document: Document, rng: random.Random) -> bool:
    chosen, other = pick(rng, ops(document, "host")), pick(rng, _predictions(document))
    if chosen is None or other is None:
        return False
    chosen["predicted"] = other
    return True


# -- summary --------------------------------------------------------------------------------------------------
def _summary(document: Document) -> list[Document]:
    return [document["summary"]]


def _baselines(document: Document) -> list[Document]:
    return [document["summary"]["baselines"]]


for _name in (
    "predicted_time_ns", "programs", "traced_ns", "untraced_ns", "ops", "chains", "chains_failed", "reshards", "loads",
    "spills", "dram_read_bytes_total", "dram_write_bytes_total", "l1_peak_bytes", "l1_limit_bytes", "l1_weights_bytes",
    "l1_weights_bytes_total", "l1_resident_fraction", "dram_peak_bank_bytes", "dram_bank_bytes",
):  # fmt: skip
    add(f"summary {_name}", change(_summary, _name, more))
for _name in ("time_by_class_ns", "time_by_bound_ns", "ops_by_role"):
    add(f"summary {_name}", change(_summary, _name, lambda record: {k: more(n) for k, n in record.items()}))
for _name in ("limit_ns", "dram_ns", "compute_ns", "compulsory_dram_bytes", "flops", "of_limit"):
    add(f"limit {_name}", change(lambda d: [d["summary"]["limit"]], _name, more))
add("limit with a loss less", change(lambda d: [d["summary"]["limit"]], "losses", lambda x: x[1:]))
add("limit with a loss of another kind", change(lambda d: d["summary"]["limit"]["losses"], "kind", lambda _: "padding"))
add("summary status", change(_summary, "status", lambda s: "feasible" if s == "optimal" else "optimal"))
add("summary gap", change(_summary, "gap", lambda g: None if g is None else g + 0.01))
add("summary policy", change(_summary, "policy", lambda p: "dram" if p != "dram" else "global"))
add("summary opmodel", change(_summary, "opmodel", lambda _: "ttmetal"))
add("summary unsupported", change(_summary, "unsupported", lambda u: [*u, ["onnx.NonZero", "no_such"]]))
add("summary check", change(_summary, "check", lambda _: {"ok": True, "rounds": 1}))
add("summary warnings", change(_summary, "warnings", lambda w: [x for x in w if "on the host" not in x]))
add(
    "summary fallbacks",
    change(_summary, "fallbacks", lambda f: [*f, {"cause": "none", "ops": ["no_such"]}]),
)


@kind()
def lower_bound_above_the_time(document: Document, rng: random.Random) -> bool:
    summary = document["summary"]
    if summary["lower_bound_ns"] is None:
        return False
    summary["lower_bound_ns"] = summary["predicted_time_ns"] + 1000
    return True


@kind(Seen.NEVER, "a lower bound is proved by solving the whole problem again, which the check does not do")
def lower_bound_less_than_proved(document: Document, rng: random.Random) -> bool:
    summary = document["summary"]
    if summary["lower_bound_ns"] is None:
        return False
    summary["lower_bound_ns"] -= 1000
    summary["gap"] = 1 - summary["lower_bound_ns"] / summary["predicted_time_ns"]
    summary["status"] = "feasible"
    return True


def _baselines_on_the_board(document: Document) -> list[Document]:
    """Baselines of a plan without ops on the host, whose transfers some policies count and others do not."""
    return [] if document["summary"]["unsupported"] else _baselines(document)


for _name in ("dram_ns", "dram_read_bytes_total", "dram_write_bytes_total"):
    add(
        f"baseline {_name}",
        change(_baselines_on_the_board, _name, more),
        Seen.MODEL,
        "the baseline is planned again from the model; without it only its order is checked",
    )


def _baselines_of_global(document: Document) -> list[Document]:
    """Baselines of a plan that is never slower than they are."""
    return _baselines_on_the_board(document) if document["options"]["policy"] == "global" else []


add("baseline faster than the plan", change(_baselines_of_global, "dram_ns", lambda _: 1))
add(
    "baseline of dfsharding",
    change(_baselines, "dfsharding2_ns", more),
    Seen.NEVER,
    "plans of the other policies are not made again; only their order is checked",
)


@kind(Seen.MODEL, "warnings of the import are the model's")
def warning_of_the_import_left_out(document: Document, rng: random.Random) -> bool:
    warnings = document["summary"]["warnings"]
    kept = [w for w in warnings if "element types" not in w]
    document["summary"]["warnings"] = kept
    return kept != warnings


# -- chains ---------------------------------------------------------------------------------------------------
def _chains(document: Document) -> list[Document]:
    return list(document["chains"])


add("chain with an op that is none", change(_chains, "ops", lambda ids: [*ids, "no_such"]))
add("chain with an op less", change(_chains, "ops", lambda ids: ids[1:]))
add("chain in another order", change(_chains, "ops", lambda ids: ids[::-1]))
add("chain of another state", change(_chains, "state", lambda s: "failed" if s == "completed" else "completed"))
add("chain of no state", change(_chains, "state", lambda _: "half_done"))
add("chain that ends elsewhere", change(_chains, "spill_location", lambda s: "dram" if s != "dram" else "none"))
add("chain with a reason to fail", change(_chains, "reason", lambda _: "because"))
add("chain of another id", change(_chains, "id", lambda name: f"{name}x"))
add("op of another chain", change(lambda d: [o for o in d["ops"] if o["chain"]], "chain", lambda c: f"{c}x"))
add("op without its chain", change(lambda d: [o for o in d["ops"] if o["chain"]], "chain", lambda _: None))
add("chain twice", change(lambda d: [d], "chains", lambda c: [*c, *c[:1]]))
add("chains left out", change(lambda d: [d], "chains", lambda _: []))


# -- reservations ---------------------------------------------------------------------------------------------
def _reservations(document: Document) -> list[Document]:
    return list(document["reservations"])


add("reservation that begins later", change(_reservations, "start", lambda n: n + 1))
add("reservation that ends later", change(_reservations, "end", lambda n: n + 1))
add("reservation that ends earlier", change(_reservations, "end", lambda n: n - 1))
add("reservation of more bytes", change(_reservations, "bytes", more))
add("reservation of no value", change(_reservations, "value", lambda _: "no_such"))
add("reservation twice", change(lambda d: [d], "reservations", lambda r: [*r, *r[:1]]))
add("reservation left out", change(lambda d: [d], "reservations", lambda r: r[1:]))


@kind()
def reservation_of_a_value_in_DRAM(document: Document, rng: random.Random) -> bool:  # noqa: N802
    chosen, value = pick(rng, _reservations(document)), pick(rng, values(document, "activation", "dram"))
    if chosen is None or value is None:
        return False
    chosen["value"] = value
    return True


# -- kernels --------------------------------------------------------------------------------------------------
def _kernels(document: Document) -> list[Document]:
    return list(document["fused_kernels"])


add("kernel with an op less", change(_kernels, "ops", lambda ids: ids[:-1]))
add("kernel that saves more", change(_kernels, "l1_bytes_saved", lambda n: n + 1024))
add("kernel of more cores", change(_kernels, "cores", more))
add("kernel of another name", change(_kernels, "kernel", lambda name: f"{name}x"))
add("kernel that is faster", change(_kernels, "predicted_ns", lambda n: n - 100))
add("kernel that saves more time", change(_kernels, "saved_ns", lambda n: n + 100))
add("kernel left out", change(lambda d: [d], "fused_kernels", lambda k: k[1:]))


@kind()
def kernel_that_was_not_asked_for(document: Document, rng: random.Random) -> bool:
    if document["options"]["fuse_kernels"]:
        return False
    op = pick(rng, ops(document, "compute"))
    kernel: dict[str, Any] = {"kernel": "k", "ops": [op["id"]], "place": op["id"], "inputs": [], "outputs": []}
    counts = ("cores", "l1_bytes_saved", "dram_bytes_saved_total", "round_trips_saved", "circular_buffers")
    kernel |= dict.fromkeys((*counts, "circular_buffers_saved", "circular_buffer_bytes"), 1)
    document["fused_kernels"] = [{**kernel, "tiles_per_core": [1, 1]}]
    return True


# -- what nothing depends on ----------------------------------------------------------------------------------
add(
    "reason of a choice",
    change(lambda d: ops(d, "compute"), "reason", lambda r: {**r, "chosen": "by chance"}),
    Seen.NEVER,
    "reasons are what the search said, for people",
)
add(
    "timings",
    change(lambda d: [d], "timings", lambda _: {}),
    Seen.NEVER,
    "timings are the part that differs between runs",
)
add(
    "statistics of a chain",
    change(_chains, "statistics", lambda s: {**s, "made_up": 1}),
    Seen.NEVER,
    "statistics are what the search said, for people",
)
