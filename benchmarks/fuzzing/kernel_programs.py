"""Fuzz target of the tile compiler: tile DAGs in JSON and programs in the textual IR."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
from collections.abc import Callable
from typing import Any

from fuzzing.commands import FIXTURES, payload_of, run_payload
from fuzzing.document_mutations import (
    DOCUMENT_MUTATORS,
    HOSTILE,
    TEXT_MUTATORS,
    damaged,
    encoded,
    one_match,
)
from fuzzing.harness import Case
from optimizer.kernels.tensix.dialect import SPECS
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source import text as tile_text
from optimizer.kernels.tensix.source.cases import case_program
from optimizer.kernels.tensix.source.cases import read_cases as read_tile_cases
from optimizer.kernels.tensix.tile_ops import TILE_OPS


class KernelTarget:
    """`ttopt kernel compile` and `print` of tile DAG cases and of programs in the textual IR."""

    name = "kernel"
    seconds = 30.0
    memory_bytes = 2 << 30

    def case(self, rng: random.Random) -> Case:
        return rng.choice((_dag_case, _dag_case, _program_case))(rng)

    def run(self, payload: bytes) -> str:
        return run_payload(payload)


@functools.cache
def _tile_document() -> Any:
    return json.loads((FIXTURES / "tile_cases.json").read_text(encoding="utf-8"))["cases"]


@functools.cache
def _tile_texts() -> tuple[str, ...]:
    """Programs as given, and as they are after some passes."""
    given = ("looped.ttl", "add_2x2.ttl", "dense.ttl")
    found = [(FIXTURES / name).read_text(encoding="utf-8") for name in given for _ in range(6)]
    stages: dict[str, str] = {}
    for case in read_tile_cases(_tile_document())[::3]:
        program = case_program(case)
        found += [tile_text.text_of(program)] * 2
        lower(program, KernelOptions(), lambda name, op: stages.__setitem__(name, tile_text.text_of(op)))
        found += [stages["convert-to-compute"], stages["insert-inits"], stages["convert-to-ttkernel"]]
    return tuple(found)


def _kernel_arguments(rng: random.Random, names: list[str]) -> list[str]:
    arguments = ["kernel", rng.choice(("compile", "compile", "print")), "FILE"]
    arguments += ["-o", "DIR"] if arguments[1] == "compile" else rng.choice(([], ["--stages"], ["--lifetimes"]))
    flags = (["--no-fuse"], ["--allocator", "seed"], ["--push", "block"], ["--enable-unroll"],
             ["--schedule", rng.choice(("search", "pressure", "critical-path", "given"))])  # fmt: skip
    for flag in flags:
        arguments += flag if rng.random() < 0.15 else []
    if names and rng.random() < 0.1:
        arguments += [f"--id={rng.choice(names)}"]
    return arguments


def _dag_case(rng: random.Random) -> Case:
    chosen = [rng.choice((_fixture_dag, _random_dag))(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    document: Any = {"cases": chosen}
    names = [str(record["id"]) for record in chosen]
    done = ["dag"]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        mutate = rng.choice((*DOCUMENT_MUTATORS, *_DAG_MUTATORS, *_DAG_MUTATORS))
        mutate(document, rng)
        done.append(mutate.__name__.strip("_"))
    content = encoded(document, rng)
    if rng.random() < 0.08:
        content = damaged(content, rng)
        done.append("damaged")
    return Case(" + ".join(done), payload_of("cases.json", _kernel_arguments(rng, names), content))


def _fixture_dag(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(_tile_document()))


def _random_dag(rng: random.Random) -> Any:
    inputs = [f"in{k}" for k in range(rng.randint(1, 5))]
    known, ops = list(inputs), []
    for k in range(rng.randint(1, 14)):
        kind = rng.choice(sorted(TILE_OPS)) if rng.random() < 0.3 else rng.choice(("add", "mul", "exp", "max", "where"))
        record = {"name": f"v{k}", "op": kind, "args": [rng.choice(known) for _ in range(TILE_OPS[kind].arity)]}
        if TILE_OPS[kind].attrs:
            record["attrs"] = {name: rng.choice((0, 1.5, -0.0, 5, 1e30)) for name in TILE_OPS[kind].attrs}
        ops.append(record)
        known.append(f"v{k}")
    outputs = [f"out{k}" for k in range(rng.choice((1, 1, 2)))]
    return {
        "id": f"case{rng.randrange(1000)}", "inputs": inputs, "outputs": outputs, "ops": ops,
        "yield": [rng.choice(known) for _ in outputs], "block": [rng.choice((1, 2, 3, 7)) for _ in range(2)],
        "dtype": rng.choice(("bf16", "f32")), "capacity": rng.choice((1, 2, 4, 8, 16)),
    }  # fmt: skip


def _of_cases(change: Callable[[Any, random.Random], None]) -> Callable[[Any, random.Random], None]:
    """A mutator of one case, as one of the document; what other mutators broke is left."""

    @functools.wraps(change)
    def mutate(document: Any, rng: random.Random) -> None:
        cases = document.get("cases")
        found = [c for c in cases if isinstance(c, dict)] if isinstance(cases, list) else []
        if found:
            change(rng.choice(found), rng)

    return mutate


def _ops(case: Any) -> list[Any]:
    ops = case.get("ops")
    return [op for op in ops if isinstance(op, dict)] if isinstance(ops, list) else []


@_of_cases
def _other_op(case: Any, rng: random.Random) -> None:
    if ops := _ops(case):
        rng.choice(ops)["op"] = rng.choice(sorted(TILE_OPS))


@_of_cases
def _other_operands(case: Any, rng: random.Random) -> None:
    """References anywhere: forwards, to itself, to nothing."""
    if ops := _ops(case):
        op = rng.choice(ops)
        names = [op2.get("name") for op2 in ops] + ["nothing"]
        op["args"] = [rng.choice(names) for _ in range(rng.choice((0, 1, 2, 3)))]


@_of_cases
def _hostile_input(case: Any, rng: random.Random) -> None:
    """An input, and everything that reads it, under another name; sometimes two inputs that look alike."""
    inputs = case.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        return
    old, new = rng.choice(inputs), rng.choice(HOSTILE)
    case["inputs"] = [new if name == old else name for name in inputs]
    for op in _ops(case):
        if isinstance(op.get("args"), list):
            op["args"] = [new if a == old else a for a in op["args"]]
    if rng.random() < 0.5:
        case["inputs"].append(rng.choice((f"{new}_1", f"{new}_t", new.strip(), new.replace("\n", "_"), f"{new}_args")))


@_of_cases
def _hostile_output(case: Any, rng: random.Random) -> None:
    case["outputs"] = [rng.choice(HOSTILE) for _ in range(len(case.get("outputs") or "x"))]


@_of_cases
def _hostile_id(case: Any, rng: random.Random) -> None:
    case["id"] = rng.choice(HOSTILE)


@_of_cases
def _many_ops(case: Any, rng: random.Random) -> None:
    if ops := _ops(case):
        count, last = rng.choice((20, 100)), ops[-1].get("name")
        made = [{"name": f"w{k}", "op": "exp", "args": [f"w{k - 1}" if k else last]} for k in range(count)]
        case["ops"] = [*case["ops"], *made]
        case["yield"] = [f"w{count - 1}"]


@_of_cases
def _other_block(case: Any, rng: random.Random) -> None:
    case["block"] = rng.choice(([1, 1], [64, 64], [1, 4096], [10**12, 1], [10**6, 10**6], [0, 1], [1], "11", [True, 1]))


@_of_cases
def _other_numbers(case: Any, rng: random.Random) -> None:
    if ops := _ops(case):
        rng.choice(ops)["attrs"] = {
            name: rng.choice((1, 0.5, 1e30, 1e39, True, "1", None, 10**400))
            for name in rng.choice((("value",), ("low", "high"), ("source", "target"), ("alpha",), ()))
        }


_DAG_MUTATORS = (
    _other_op, _other_operands, _hostile_input, _hostile_output, _hostile_id, _many_ops, _other_block, _other_numbers,
)  # fmt: skip


def _program_case(rng: random.Random) -> Case:
    text, done = rng.choice(_tile_texts()), ["ttl"]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 4))):
        mutate = rng.choice((*TEXT_MUTATORS, *_TTL_MUTATORS, *_TTL_MUTATORS))
        text = mutate(text, rng) if text.strip() else text
        done.append(mutate.__name__.strip("_"))
    content = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        content = damaged(content, rng)
        done.append("damaged")
    return Case(" + ".join(done), payload_of("program.ttl", _kernel_arguments(rng, []), content))


def _ttl_op(text: str, rng: random.Random) -> str:
    names = [*SPECS, *(f"ttl.{n}" for n in TILE_OPS), "dst.add", "dst.pack", "ttkernel.system", "ttl.tile_add", "ttl.x"]
    return one_match(r"(?:ttl|dst|ttkernel)\.\w+", text, rng, lambda _: rng.choice(names))


def _ttl_value(text: str, rng: random.Random) -> str:
    values = sorted(set(re.findall(r"%[\w.$]+", text))) or ["%x"]
    return one_match(r"%[\w.$]+", text, rng, lambda _: rng.choice(values))


def _ttl_type(text: str, rng: random.Random) -> str:
    types = (*sorted(set(re.findall(r"(?:block|cb|tensor|tile)<[^>]*>|index|transfer", text))), "tile<bf16>",
             "block<1x1xu32>", "block<99999x99999xbf16>", "block<0x1xbf16>", "cb<1x1xbf16, 0>", "tensor<1x1xbfp8_b>",
             "index", "transfer")  # fmt: skip
    return one_match(r"(?:block|cb|tensor|tile)<[^>]*>|index\b|transfer\b", text, rng, lambda _: rng.choice(types))


def _ttl_attr(text: str, rng: random.Random) -> str:
    values = ("0", "1", "-1", "3", "32", "2147483648", "99999999999999999999", "1.5", "inf", "-inf", "nan", "true",
    "[]",
              "[1, 2]", "[true]", "[[1]]", '"x"', '"\\n#include <x>"', '"../../x"', "(d0) -> (d0)", "() -> ()",
              "(d0, d1) -> (d0 floordiv 0)", "(d0, d1) -> (d1 mod 3, d0)", '["#0); system(1"]')  # fmt: skip
    return one_match(r"(\w+) = [^,{}]+?(?=[,}])", text, rng, lambda m: f"{m[1]} = {rng.choice(values)}")


def _ttl_more_attrs(text: str, rng: random.Random) -> str:
    extra = ('dst_capacity = 1', 'dst_capacity = 99', 'l1_bytes = 0', 'tensor = "x"', 'tensor = "0"', 'dst = 3',
    'form = 7',
             'sym_name = "a\\nb"', 'processor = "x"', 'args = ["#1"]', 'dims = 3', 'value = 2',
             'dst_full_sync_en = true',
             'bounds = [1, 1]', 'unroll = 0', 'math_fidelity = "*/"')  # fmt: skip
    return one_match(r"\{(?=\w+ =)", text, rng, lambda _: f"{{{rng.choice(extra)}, ")


def _ttl_symbol(text: str, rng: random.Random) -> str:
    names = ("@0", "@a.b", "@..", "@con", "@", "@" + "x" * 300, "")
    return one_match(r"@[\w.$]+", text, rng, lambda _: rng.choice(names))


def _ttl_map(text: str, rng: random.Random) -> str:
    made = ("+ d0 " * rng.choice((1, 600)), "* 99999999999 ", "mod 0 ", "floordiv 3 ", "* -5 ", "+ 2147483647 ")
    return one_match(r"(?<=d[01]) ?(?=[*+)])", text, rng, lambda _: f" {rng.choice(made)}")


def _ttl_wrapped(text: str, rng: random.Random) -> str:
    """Ops of one line within many loops."""
    depth = rng.choice((1, 2, 60))
    before = "".join(f"ttl.for {{lower = 0, step = 1, upper = 2}} {{ ^(%q{n}: index): " for n in range(depth))
    return one_match(r"(?m)^    ttl\.(?:store|for|cb_push).*$", text, rng, lambda m: before + m[0] + " }" * depth)


_TTL_MUTATORS = (
    _ttl_op, _ttl_value, _ttl_value, _ttl_type, _ttl_attr, _ttl_attr, _ttl_more_attrs, _ttl_symbol, _ttl_map,
    _ttl_wrapped,
)  # fmt: skip
