"""Corruptions of what a plan computes: its interface, values, ops and what it says of its model."""

from __future__ import annotations

import random
from typing import Any

from fuzzing.plans.kinds import (
    Document,
    Seen,
    add,
    change,
    kind,
    ops,
    pick,
    producer,
    readers,
    running,
    spec,
    values,
)

SAME_TO_THE_PLAN = "another graph of the same shapes costs the same and fits as well"


# -- interface ------------------------------------------------------------------------------------------------
@kind()
def outputs_empty(document: Document, rng: random.Random) -> bool:
    document["model"]["outputs"] = []
    return True


@kind()
def inputs_empty(document: Document, rng: random.Random) -> bool:
    document["model"]["inputs"] = []
    return True


@kind(Seen.MODEL, "a graph may return a value twice")
def output_twice(document: Document, rng: random.Random) -> bool:
    document["model"]["outputs"].append(document["model"]["outputs"][0])
    return True


@kind()
def input_twice(document: Document, rng: random.Random) -> bool:
    document["model"]["inputs"].append(document["model"]["inputs"][0])
    return True


@kind()
def output_is_a_parameter(document: Document, rng: random.Random) -> bool:
    found = [v for v in values(document, "parameter") if producer(document, v) is None]
    return _other_output(document, pick(rng, found))


@kind()
def output_is_an_input(document: Document, rng: random.Random) -> bool:
    return _other_output(document, pick(rng, values(document, "input")))


@kind()
def output_is_in_L1(document: Document, rng: random.Random) -> bool:  # noqa: N802 - the name is shown
    return _other_output(document, pick(rng, values(document, "activation", "l1")))


@kind()
def output_not_described(document: Document, rng: random.Random) -> bool:
    return _other_output(document, "no_such_value")


def _other_output(document: Document, value_id: str | None) -> bool:
    if value_id is None:
        return False
    document["model"]["outputs"][0] = value_id
    return True


@kind()
def output_dropped(document: Document, rng: random.Random) -> bool:
    outputs = document["model"]["outputs"]
    if len(outputs) < 2:
        return False
    outputs.pop()
    return True


@kind(Seen.MODEL, "the order of the outputs is the model's")
def outputs_exchanged(document: Document, rng: random.Random) -> bool:
    document["model"]["outputs"].reverse()
    return len(document["model"]["outputs"]) > 1


@kind(Seen.MODEL, "the order of the inputs is the model's")
def inputs_exchanged(document: Document, rng: random.Random) -> bool:
    document["model"]["inputs"].reverse()
    return len(document["model"]["inputs"]) > 1


@kind()
def parameter_listed_as_input(document: Document, rng: random.Random) -> bool:
    found = pick(rng, values(document, "parameter"))
    document["model"]["inputs"].append(found)
    return found is not None


@kind()
def activation_listed_as_input(document: Document, rng: random.Random) -> bool:
    document["model"]["inputs"].append(pick(rng, values(document, "activation")))
    return True


@kind()
def parameter_became_input(document: Document, rng: random.Random) -> bool:
    found = pick(rng, [v for v in values(document, "parameter", "dram") if producer(document, v) is None])
    if found is None:
        return False
    document["values"][found]["kind"] = "input"
    document["model"]["inputs"].append(found)
    return True


@kind()
def input_became_parameter(document: Document, rng: random.Random) -> bool:
    found = pick(rng, document["model"]["inputs"])
    document["values"][found]["kind"] = "parameter"
    document["model"]["inputs"].remove(found)
    return True


@kind()
def input_not_listed(document: Document, rng: random.Random) -> bool:
    document["model"]["inputs"].pop(rng.randrange(len(document["model"]["inputs"])))
    return True


# -- values ---------------------------------------------------------------------------------------------------
@kind()
def unused_value_of_a_million_rows_in_L1(document: Document, rng: random.Random) -> bool:  # noqa: N802
    return _extra_value(document, [2**20, 2**20], "l1")


@kind()
def unused_value(document: Document, rng: random.Random) -> bool:
    return _extra_value(document, [32, 32], "dram")


def _extra_value(document: Document, shape: list[int], buffer: str) -> bool:
    layout = {"tensor_layout": "tile", "memory_layout": "interleaved", "buffer_type": buffer, "grid_yx": None}
    layout |= {"shard_shape": None, "core_ranges": None, "orientation": None}
    document["values"]["extra"] = {"shape": shape, "dtype": "bf16", "kind": "parameter", "layout": layout}
    return True


@kind()
def value_not_described(document: Document, rng: random.Random) -> bool:
    del document["values"][pick(rng, list(document["values"]))]
    return True


def _kind_of(source: str, target: str, computed: bool) -> None:
    def apply(document: Document, rng: random.Random) -> bool:
        found = [v for v in values(document, source) if (producer(document, v) is not None) is computed]
        chosen = pick(rng, found)
        if chosen is None:
            return False
        document["values"][chosen]["kind"] = target
        return True

    add(f"{'computed' if computed else 'given'} {source} called {target}", apply)


_kind_of("activation", "parameter", True)
_kind_of("activation", "constant", True)
_kind_of("activation", "input", True)
_kind_of("parameter", "activation", False)
_kind_of("parameter", "constant", False)
_kind_of("parameter", "input", False)
_kind_of("input", "activation", False)
_kind_of("parameter", "activation", True)


def _constants(document: Document) -> list[Document]:
    return [v for v in document["values"].values() if v.get("data")]


def _whole(document: Document) -> list[Document]:
    return [v for v in _constants(document) if v["dtype"] in ("u8", "u16", "u32", "i32")]


add("constant without elements", change(_constants, "data", lambda _: None))
add("constant of too few elements", change(_constants, "data", lambda data: data[:-1]))
add("constant of too many elements", change(_constants, "data", lambda data: [*data, data[-1]]))
add("fraction in a constant of whole numbers", change(_whole, "data", lambda data: [0.5, *data[1:]]))
add("constant beyond its type", change(_whole, "data", lambda data: [-(2**40), *data[1:]]))
add("element that is no number", change(_constants, "data", lambda data: ["1", *data[1:]]))
add(
    "element changed",
    change(_constants, "data", lambda data: [data[0] + 1, *data[1:]]),
    Seen.MODEL,
    "the elements of a constant come from the model",
)


@kind()
def elements_for_a_parameter(document: Document, rng: random.Random) -> bool:
    found = pick(rng, values(document, "parameter"))
    if found is None:
        return False
    document["values"][found]["data"] = [0.0]
    return True


def _all_values(document: Document) -> list[Document]:
    return list(document["values"].values())


add("value of another shape", change(_all_values, "shape", lambda shape: [*shape[:-1], shape[-1] + 32]))
add("value without elements", change(_all_values, "shape", lambda shape: [0, *shape[1:]]))
add("value of negative size", change(_all_values, "shape", lambda shape: [-1, *shape[1:]]))
add("value of 1e30 elements", change(_all_values, "shape", lambda _: [10**15, 10**15]))


def _values_of_a_run(document: Document) -> list[Document]:
    """Values that the OpModel is asked about."""
    named = {v for o in running(document) for v in (*o["inputs"], *o["outputs"])}
    return [document["values"][v] for v in sorted(named)]


add("value of another type", change(_values_of_a_run, "dtype", lambda dtype: "f32" if dtype == "bf16" else "bf16"))


# -- ops ------------------------------------------------------------------------------------------------------
@kind()
def op_dropped_and_its_result_called_parameter(document: Document, rng: random.Random) -> bool:
    found = [o for o in running(document) if not set(o["outputs"]) & set(document["model"]["outputs"])]
    return _drop(document, pick(rng, found), "parameter")


@kind()
def op_dropped_and_its_result_called_input(document: Document, rng: random.Random) -> bool:
    found = [o for o in running(document) if not set(o["outputs"]) & set(document["model"]["outputs"])]
    chosen = pick(rng, found)
    document["model"]["inputs"] += chosen["outputs"] if chosen else []
    return _drop(document, chosen, "input")


@kind()
def preparing_op_dropped(document: Document, rng: random.Random) -> bool:
    return _drop(document, pick(rng, ops(document, "host", op="ttnn.")), "parameter")


def _drop(document: Document, op: Document | None, kind: str) -> bool:
    if op is None:
        return False
    document["ops"].remove(op)
    for v in op["outputs"]:
        document["values"][v]["kind"] = kind
    for v in op["inputs"]:
        unused = not readers(document, v) and producer(document, v) is None and v not in document["model"]["inputs"]
        if unused and v in document["values"]:
            del document["values"][v]
    return True


@kind()
def op_left_out(document: Document, rng: random.Random) -> bool:
    found = [
        o
        for o in ops(document, "compute", op="ttnn.")
        if len(o["outputs"]) == 1
        and o["outputs"][0] not in document["model"]["outputs"]
        and any(spec(document, v) == spec(document, o["outputs"][0]) for v in o["inputs"])
    ]
    chosen = pick(rng, found)
    if chosen is None:
        return False
    source = next(v for v in chosen["inputs"] if spec(document, v) == spec(document, chosen["outputs"][0]))
    document["ops"].remove(chosen)
    del document["values"][chosen["outputs"][0]]
    for op in document["ops"]:
        op["inputs"] = [source if v == chosen["outputs"][0] else v for v in op["inputs"]]
    return True


@kind()
def op_added(document: Document, rng: random.Random) -> bool:
    chosen = pick(rng, ops(document, "compute", op="ttnn."))
    twin = {**chosen, "id": "again", "outputs": [f"{v}_again" for v in chosen["outputs"]]}
    for v in chosen["outputs"]:
        document["values"][f"{v}_again"] = dict(document["values"][v])
    document["ops"].insert(document["ops"].index(chosen) + 1, twin)
    return True


@kind()
def op_before_its_operand(document: Document, rng: random.Random) -> bool:
    found = [
        n
        for n, (a, b) in enumerate(zip(document["ops"], document["ops"][1:], strict=False))
        if set(a["outputs"]) & set(b["inputs"])
    ]
    n = pick(rng, found)
    if n is None:
        return False
    document["ops"][n : n + 2] = reversed(document["ops"][n : n + 2])
    return True


@kind()
def two_ops_of_one_id(document: Document, rng: random.Random) -> bool:
    document["ops"][-1]["id"] = document["ops"][0]["id"]
    return len(document["ops"]) > 1


@kind()
def value_computed_twice(document: Document, rng: random.Random) -> bool:
    found = [o for o in running(document) if len(o["outputs"]) == 1]
    if len(found) < 2:
        return False
    first, second = sorted(rng.sample(range(len(found)), 2))
    found[second]["outputs"] = list(found[first]["outputs"])
    return True


@kind()
def op_of_another_arity(document: Document, rng: random.Random) -> bool:
    chosen = pick(rng, [o for o in ops(document, op="ttnn.") if len(o["inputs"]) == 1])
    if chosen is None:
        return False
    chosen["inputs"] = chosen["inputs"] * 5
    return True


@kind()
def op_without_operands(document: Document, rng: random.Random) -> bool:
    pick(rng, ops(document, op="ttnn."))["inputs"] = []
    return True


@kind()
def result_too_many(document: Document, rng: random.Random) -> bool:
    chosen = pick(rng, running(document))
    document["values"]["extra"] = dict(document["values"][chosen["outputs"][0]])
    chosen["outputs"].append("extra")
    return True


@kind(Seen.MODEL, SAME_TO_THE_PLAN)
def operands_exchanged(document: Document, rng: random.Random) -> bool:
    found = [o for o in ops(document, "compute") if len(set(o["inputs"])) > 1 and o["op"] in _SYMMETRIC]
    found = [o for o in found if spec(document, o["inputs"][0]) == spec(document, o["inputs"][1]) and not o["config"]]
    chosen = pick(rng, found)
    if chosen is None:
        return False
    chosen["inputs"].reverse()
    return True


_SYMMETRIC = ("ttnn.add", "ttnn.subtract", "ttnn.multiply", "ttnn.divide", "ttnn.maximum")


@kind(Seen.MODEL, SAME_TO_THE_PLAN)
def weights_exchanged(document: Document, rng: random.Random) -> bool:
    given = [v for v in values(document, "parameter") if producer(document, v) is None]
    pairs = [
        (v, w) for n, v in enumerate(given) for w in given[n + 1 :] if spec(document, v) == spec(document, w)
    ]  # fmt: skip
    chosen = pick(rng, pairs)
    if chosen is None:
        return False
    v, w = chosen
    other = {v: w, w: v}
    for op in document["ops"]:
        op["inputs"] = [other.get(x, x) for x in op["inputs"]]
    for reservation in document["reservations"]:
        reservation["value"] = other.get(reservation["value"], reservation["value"])
    return True


@kind(Seen.MODEL, "numbers that only the elements of a result depend on cost nothing")
def attribute_changed(document: Document, rng: random.Random) -> bool:
    found = [(o, k) for o in document["ops"] for k in ("epsilon", "scalar", "scale", "value") if o["attrs"].get(k)]
    chosen = pick(rng, found)
    if chosen is None:
        return False
    op, key = chosen
    op["attrs"][key] *= 2
    return True


@kind(Seen.MODEL, SAME_TO_THE_PLAN)
def op_of_another_kind(document: Document, rng: random.Random) -> bool:
    other = {"ttnn.add": "ttnn.subtract", "ttnn.subtract": "ttnn.add"}
    chosen = pick(rng, [o for o in ops(document, "compute") if o["op"] in other])
    if chosen is None:
        return False
    chosen["op"] = other[chosen["op"]]
    return True


@kind()
def op_that_TTNN_lacks(document: Document, rng: random.Random) -> bool:  # noqa: N802
    pick(rng, ops(document, "compute", op="ttnn."))["op"] = "ttnn.no_such_op"
    return True


def _attrs(document: Document) -> list[Document]:
    return [o for o in ops(document, op="ttnn.") if o["attrs"]]


def _of_another_kind(attrs: dict[str, Any]) -> dict[str, Any]:
    name = sorted(attrs)[0]
    return {**attrs, name: {"a": 1} if attrs[name] == "word" else "word" if not isinstance(attrs[name], str) else 7}


add("attribute that the op lacks", change(lambda d: ops(d, op="ttnn."), "attrs", lambda a: {**a, "no_such": 1}))
add("attribute of another type", change(_attrs, "attrs", _of_another_kind))
add("operand not described", change(running, "inputs", lambda inputs: ["no_such_value", *inputs[1:]]))
add(
    "origin changed",
    change(lambda d: ops(d, "compute"), "origin", lambda origin: [*origin, "elsewhere"]),
    Seen.MODEL,
    "which foreign nodes an op computes is the model's",
)
add(
    "name changed",
    change(lambda d: ops(d, "compute"), "name", lambda name: f"{name}x"),
    Seen.MODEL,
    "what an op is called is the model's",
)


# -- what is said of the model --------------------------------------------------------------------------------
def _model(document: Document) -> list[Document]:
    return [document["model"]]


def _import(document: Document) -> list[Document]:
    return [document["model"].get("import", {})]


add("model of another digest", change(_model, "sha256", lambda _: "0" * 64), Seen.MODEL, "the file is not at hand")
add("parameter count", change(_import, "parameter_count", lambda n: n + 1))
add(
    "foreign ops counted otherwise",
    change(_import, "foreign_ops", lambda n: {**n, "Extra": 1}),
    Seen.MODEL,
    "what the file holds is not at hand",
)
add(
    "model of another name",
    change(_model, "name", lambda name: f"{name}x"),
    Seen.NEVER,
    "a request may give the model any name",
)
