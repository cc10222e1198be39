"""Corruptions of how a plan runs: roles, layouts, configs, board and options."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fuzzing.plans.kinds import (
    Document,
    Seen,
    add,
    change,
    configs,
    kind,
    ops,
    pick,
    producer,
    readers,
    running,
    sharded,
    values,
)
from optimizer.device import DeviceSpec


# -- roles ----------------------------------------------------------------------------------------------------
@kind()
def every_op_on_the_host(document: Document, rng: random.Random) -> bool:
    for op in document["ops"]:
        op["role"] = "host"
    return True


def _role(source: str, target: str, op: str = "ttnn.") -> None:
    def apply(document: Document, rng: random.Random) -> bool:
        chosen = pick(rng, ops(document, source, op=op))
        if chosen is None:
            return False
        chosen["role"] = target
        return True

    add(f"{source} called {target}" + (" (op of another vocabulary)" if op != "ttnn." else ""), apply)


_role("compute", "host")
_role("compute", "view")
_role("compute", "reshard")
_role("compute", "transfer")
_role("compute", "layout")
_role("view", "compute")
_role("view", "host")
_role("spill", "compute")
_role("spill", "load")
_role("spill", "host")
_role("load", "reshard")
_role("load", "compute")
_role("reshard", "spill")
_role("reshard", "host")
_role("layout", "compute")
_role("layout", "view")
_role("transfer", "compute")
_role("transfer", "host")
_role("host", "compute")
_role("host", "compute", "onnx.")
_role("host", "transfer", "onnx.")


# -- layouts --------------------------------------------------------------------------------------------------
def _layouts(document: Document) -> list[Document]:
    return [v["layout"] for v in document["values"].values()]


def _in(*buffers: str, kind: str = "") -> Callable[[Document], list[Document]]:
    def find(document: Document) -> list[Document]:
        return [
            v["layout"]
            for v in document["values"].values()
            if v["layout"]["buffer_type"] in buffers and (not kind or v["kind"] == kind)
        ]

    return find


def _results_of(role: str, op: str = "ttnn.") -> Callable[[Document], list[Document]]:
    def find(document: Document) -> list[Document]:
        return [document["values"][v]["layout"] for o in ops(document, role, op=op) for v in o["outputs"]]

    return find


@kind()
def layout_missing(document: Document, rng: random.Random) -> bool:
    document["values"][pick(rng, list(document["values"]))]["layout"] = None
    return True


def _unread_in_l1(document: Document) -> list[Document]:
    """Layouts of prepared values that only ops on the host read."""
    found = [v for o in ops(document, "host", op="ttnn.") for v in o["outputs"]]
    return [document["values"][v]["layout"] for v in found]


def _weights_of_a_run(document: Document) -> list[Document]:
    """Layouts of weights in DRAM that an op of a run reads; others may lie anywhere before they are prepared."""
    read = {v for o in running(document) for v in o["inputs"]}
    return [document["values"][v]["layout"] for v in values(document, "parameter", "dram") if v in read]


add("input in L1", change(_in("dram", kind="input"), "buffer_type", lambda _: "l1"))
add("input on the host", change(_in("dram", kind="input"), "buffer_type", lambda _: "host"))
add("weight moved to L1", change(_in("dram", kind="parameter"), "buffer_type", lambda _: "l1"))
add("weight of a run moved to the host", change(_weights_of_a_run, "buffer_type", lambda _: "host"))
add("weight moved to DRAM", change(_in("l1", kind="parameter"), "buffer_type", lambda _: "dram"))
add("result of an op on the host in L1", change(_results_of("host", "onnx."), "buffer_type", lambda _: "l1"))
add("result prepared on the host in L1", change(_unread_in_l1, "buffer_type", lambda _: "l1"))
add("result in L1 that is in DRAM", change(_in("dram", kind="activation"), "buffer_type", lambda _: "l1"))
add("result in DRAM that is in L1", change(_in("l1", kind="activation"), "buffer_type", lambda _: "dram"))
add("result on the host that is in L1", change(_in("l1", kind="activation"), "buffer_type", lambda _: "host"))
add("shards too small", change(sharded, "shard_shape", lambda _: [32, 32]))
add("shards too large", change(sharded, "shard_shape", lambda s: [s[0] * 2, s[1]]))
add("shards of broken tiles", change(sharded, "shard_shape", lambda s: [s[0] + 1, s[1]]))
add("grid of shards", change(sharded, "grid_yx", lambda g: [g[0] + 1, g[1]]))
add("orientation of shards", change(sharded, "orientation", lambda _: "col_major"))
add("core that does not exist", change(sharded, "core_ranges", lambda r: [[a + 20, b, c + 20, d] for a, b, c, d in r]))
add("core with two shards", change(sharded, "core_ranges", lambda r: [*r, r[0]]))
add("core range from its end", change(sharded, "core_ranges", lambda r: [[c + 1, d + 1, a, b] for a, b, c, d in r]))
add("four thousand grids of cores", change(sharded, "core_ranges", lambda _: [[0, 0, 63, 63]] * 4096))
add("shards without cores", change(sharded, "core_ranges", lambda _: None))
add("sharding without shards", change(sharded, "shard_shape", lambda _: None))
add("shards of an interleaved tensor", change(sharded, "memory_layout", lambda _: "interleaved"))
add("shards in DRAM", change(sharded, "buffer_type", lambda _: "dram"))
add("another sharding", change(sharded, "memory_layout", lambda m: _TURNED[m]))
add("rows for tiles", change(_in("l1"), "tensor_layout", lambda t: "row_major" if t == "tile" else "tile"))

_TURNED = {
    "height_sharded": "width_sharded",
    "width_sharded": "height_sharded",
    "block_sharded": "height_sharded",
    "interleaved": "interleaved",
}


@kind()
def block_floats_in_rows(document: Document, rng: random.Random) -> bool:
    chosen = document["values"][pick(rng, list(document["values"]))]
    chosen["dtype"] = "bfp8_b"
    chosen["layout"]["tensor_layout"] = "row_major"
    return True


# -- configs --------------------------------------------------------------------------------------------------
@kind()
def operand_freed_that_is_read_later(document: Document, rng: random.Random) -> bool:
    order = {o["id"]: n for n, o in enumerate(document["ops"])}
    found = [
        o
        for o in document["ops"]
        if o["config"]
        and o["config"]["kind"] == "conv2d"
        and document["values"][o["inputs"][0]]["layout"]["buffer_type"] == "l1"
        and any(order[r["id"]] > order[o["id"]] for r in readers(document, o["inputs"][0]))
    ]
    chosen = pick(rng, found)
    if chosen is None:
        return False
    chosen["config"]["deallocate_activation"] = True
    return True


def _conv(field: str, to: Callable[[Any], Any]) -> None:
    add(f"conv {field.replace('_', ' ')}", change(lambda d: configs(d, "conv2d"), field, to))


_conv("slice", lambda _: "diagonal")
_conv("weights_dtype", lambda t: "bfp8_b" if t == "bf16" else "bf16")
_conv("activation", lambda a: "relu" if a is None else None)
_conv("output_layout", lambda p: "row_major" if p == "tile" else "tile")
_conv("transpose_shards", lambda on: not on)
_conv("act_block_h_override", lambda rows: rows + 32)
_conv("act_block_w_div", lambda n: n + 1)
_conv("enable_act_double_buffer", lambda on: not on)
_conv("enable_weights_double_buffer", lambda on: not on)
_conv("reallocate_halo_output", lambda on: not on)
_conv("reshard_if_not_optimal", lambda on: not on)
_conv("override_sharding_config", lambda on: not on)
for _name, _field, _to in (
    ("conv slice of the other kind", "slice", lambda s: "auto" if s == "l1" else "l1"),
    ("conv shard layout of another kind", "shard_layout", lambda s: None if s is None else _TURNED[s]),
    ("conv shard layout that is none", "shard_layout", lambda _: "diagonal_sharded"),
    ("conv shard layout left out", "shard_layout", lambda _: None),
    ("conv weights of no type", "weights_dtype", lambda _: "f12"),
    ("conv output of no layout", "output_layout", lambda _: "column"),
    ("conv activation of no name", "activation", lambda _: "rlu"),
):
    add(_name, change(lambda d: configs(d, "conv2d"), _field, _to))

for _name, _kind, _field, _to in (
    ("matmul rows per core", "matmul", "per_core_M", lambda n: n + 1),
    ("matmul columns per core", "matmul", "per_core_N", lambda n: n + 1),
    ("matmul block width", "matmul", "in0_block_w", lambda n: n * 7),
    ("matmul grid", "matmul_2d", "compute_with_storage_grid_yx", lambda _: [1, 1]),
    ("matmul activation", "matmul", "fused_activation", lambda a: "gelu" if a is None else None),
    ("norm block height", "layer_norm", "block_h", lambda n: n + 1),
    ("norm block width", "layer_norm", "block_w", lambda n: n + 1),
    ("result in place of another operand", "in_place", "operand", lambda n: n + 1),
):
    add(_name, change(lambda d, k=_kind: configs(d, k), _field, _to))  # type: ignore[misc]


@kind()
def result_in_place_of_what_is_read_later(document: Document, rng: random.Random) -> bool:
    order = {o["id"]: n for n, o in enumerate(document["ops"])}
    found = [
        (o, k)
        for o in ops(document, "compute")
        for k, v in enumerate(o["inputs"])
        if not o["config"] and any(order[r["id"]] > order[o["id"]] for r in readers(document, v))
    ]
    chosen = pick(rng, found)
    if chosen is None:
        return False
    chosen[0]["config"] = {"kind": "in_place", "operand": chosen[1]}
    return True


@kind()
def config_of_another_op(document: Document, rng: random.Random) -> bool:
    given = {"kind": "sdpa", "compute_with_storage_grid_yx": [8, 8], "q_chunk_size": 32, "k_chunk_size": 32}
    pick(rng, [o for o in running(document) if "attention" not in o["op"]])["config"] = given
    return True


@kind()
def config_of_no_kind(document: Document, rng: random.Random) -> bool:
    pick(rng, running(document))["config"] = {"kind": "no_such"}
    return True


def _left_out(name: str, kind: str, seen: Seen = Seen.CHECK, why: str = "") -> None:
    def find(document: Document) -> list[Document]:
        return [o for o in document["ops"] if o["config"] and o["config"]["kind"].startswith(kind)]

    add(f"{name} left out", change(find, "config", lambda _: None), seen, why)


_left_out("config of a convolution", "conv2d")
_left_out("config of a result in place", "in_place")
_left_out("config of a matmul", "matmul")


def _requests(document: Document) -> list[Document]:
    return [o["memory_config_argument"] for o in running(document) if o["memory_config_argument"]]


def _sharded_requests(document: Document) -> list[Document]:
    return [r for r in _requests(document) if r["shard_shape"]]


add("memory asked for", change(_requests, "buffer_type", lambda b: "dram" if b == "l1" else "l1"))
add("shards asked for", change(_sharded_requests, "shard_shape", lambda s: [s[0] * 2, s[1] * 2]))
add("memory of no kind asked for", change(_requests, "memory_layout", lambda _: "diagonal_sharded"))


# -- board and options ----------------------------------------------------------------------------------------
def _device(document: Document) -> list[Document]:
    return [document["device"]]


def _options(document: Document) -> list[Document]:
    return [document["options"]]


def _other_board(name: str) -> str:
    return "p150" if name == "n150" else "n150"


add("board's name exchanged", change(_device, "name", _other_board))
add("board's L1 larger", change(_device, "worker_l1_bytes", lambda n: n + 65536))
add("board's grid larger", change(_device, "grid_yx", lambda g: [g[0] + 1, g[1]]))
add("board's clock faster", change(_device, "clock_mhz", lambda n: 2 * n))
add("board exchanged in the options", change(_options, "board", _other_board))
add("share of L1 larger", change(_options, "tensor_l1_usage_cap", lambda _: 1.0))
add("less L1_SMALL", change(_options, "l1_small_bytes", lambda n: n // 2))
add("option without meaning", change(lambda d: [d], "options", lambda o: {**o, "no_such": 1}))
add("option policy", change(_options, "policy", lambda p: "dram" if p != "dram" else "global"))
add("option opmodel", change(_options, "opmodel", lambda _: "no_such"))
add(
    "override that is not kept",
    change(_options, "override_output_layout", lambda _: "no_such_op=dram"),
)


def _options_of_onnx(document: Document) -> list[Document]:
    """Options of a plan whose model had its types converted; JSON graphs keep theirs."""
    return [document["options"]] if document["model"].get("import", {}).get("dtype_conversions") else []


add(
    "option activations dtype",
    change(_options_of_onnx, "activations_dtype", lambda t: "f32" if t != "f32" else "bf16"),
    Seen.MODEL,
    "types of a model's tensors before the import are not at hand",
)
add(
    "option seed",
    change(_options, "seed", lambda n: n + 1),
    Seen.NEVER,
    "how a plan was searched for is no fact about it",
)


@kind()
def board_exchanged(document: Document, rng: random.Random) -> bool:
    name = _other_board(document["device"]["name"])
    document["device"], document["options"]["board"] = DeviceSpec.preset(name).to_json(), name
    return True


@kind()
def board_of_ones_own(document: Document, rng: random.Random) -> bool:
    document["device"] |= {"name": "mine", "worker_l1_bytes": document["device"]["worker_l1_bytes"] * 2}
    return True


@kind()
def value_prepared_on_the_host_from_activations(document: Document, rng: random.Random) -> bool:
    found = [
        o
        for o in ops(document, "compute", op="ttnn.")
        if all(producer(document, v) is None for v in o["inputs"])
        and not set(o["outputs"]) & set(document["model"]["outputs"])
    ]
    chosen = pick(rng, found)
    if chosen is None:
        return False
    chosen["role"], chosen["config"], chosen["predicted"] = "host", None, None
    for v in chosen["outputs"]:
        document["values"][v]["kind"] = "parameter"
    return bool(values(document, "parameter"))
