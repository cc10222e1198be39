"""Fuzz targets of the kernel compilers: tile DAGs and tile programs, GPU programs in JSON, as text and as assembly.

A payload is a line of JSON (command, options, name of the file) and the file's bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import io
import json
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gfx942.library.copy import copy as copy_kernel
from gfx942.library.elementwise import scale_add_relu
from gfx942.library.reduction import partial_sums

from fuzzing.document_mutations import (
    DOCUMENT_MUTATORS,
    HOSTILE,
    TEXT_MUTATORS,
    damaged,
    encoded,
)
from fuzzing.harness import Case
from optimizer.cli.parser import build_parser, parse
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.program_json import program_json, read_cases
from optimizer.kernels.amdgpu.text import text_of
from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.tensix import text as tile_text
from optimizer.kernels.tensix.cases import case_program
from optimizer.kernels.tensix.cases import read_cases as read_tile_cases
from optimizer.kernels.tensix.dialect import SPECS
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.tile_ops import TILE_OPS

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "kernels"
_INCLUDE = re.compile(r'#include (?:<cstdint>|"(?:api|compute_kernel_api)/[\w/]+\.h"|"dataflow_api\.h")', re.ASCII)
_DIRECTIVE = re.compile(
    r"\.(?:amdgcn_target|text|protected|globl|p2align|type|size|section|(?:end_)?amdhsa_kernel|amdhsa_\w+"
    r"|(?:end_)?amdgpu_metadata|L[\w.$]+_end:|\.\.|[\w.$]+:)(?: |$)", re.ASCII,
)  # fmt: skip


@functools.cache
def _parser() -> argparse.ArgumentParser:
    return build_parser()


def payload_of(name: str, arguments: list[str], content: bytes) -> bytes:
    """`arguments`: FILE stands for the file's path, DIR for an empty folder."""
    return json.dumps({"name": name, "arguments": arguments}).encode() + b"\n" + content


def run_payload(payload: bytes) -> str:
    """The command on the file, in this process. AssertionError if a text that it wrote holds what it must not."""
    head, _, content = payload.partition(b"\n")
    order = json.loads(head)
    with tempfile.TemporaryDirectory(prefix="ttopt-fuzz-") as folder:
        file, out = Path(folder) / order["name"], Path(folder) / "inner" / "out"
        file.write_bytes(content)
        given = [{"FILE": str(file), "DIR": str(out)}.get(a, a) for a in order["arguments"]]
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            args = parse(_parser(), given)
            try:
                status = args.run(args)
            except ExecutionError as error:  # a verdict on the program, not on us
                return f"verdict: {error.kind}"
        stdout.getvalue().encode()
        _check_files(Path(folder), file, out)
        if given[:2] == ["asm", "build"]:
            _check_assembly(stdout.getvalue())
        return f"status {status}"


def _check_files(folder: Path, source: Path, out: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_dir() or path == source:
            continue
        assert path.parent.parent == out, f"{path} is written outside of the folder"
        assert path.name in ("compute.cpp", "reader.cpp", "writer.cpp"), path
        for line in re.split(r"[\n\r]", path.read_bytes().decode("ascii")):
            assert not line.lstrip().startswith("#") or _INCLUDE.fullmatch(line), f"{path.name}: {line!r}"
            code = line.partition("//")[0]
            assert not set(code) & set("\"'\\@`$?") or _INCLUDE.fullmatch(line), f"{path.name}: {line!r}"


def _check_assembly(text: str) -> None:
    metadata = False
    for line in text.split("\n"):
        if ".amdgpu_metadata" in line:
            metadata = True
        code = line.strip().partition(";")[0]
        assert line.isprintable(), line
        assert metadata or not code.startswith(".") or _DIRECTIVE.match(code), line


# -- tile kernels -------------------------------------------------------------------------------------------
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
    found = [(FIXTURES / name).read_text(encoding="utf-8") for name in ("looped.ttl", "add_2x2.ttl") for _ in range(6)]
    stages: dict[str, str] = {}
    for case in read_tile_cases(_tile_document())[::3]:
        program = case_program(case)
        found += [tile_text.text_of(program)] * 2
        lower(program, KernelOptions(), lambda name, op: stages.__setitem__(name, tile_text.text_of(op)))
        found += [stages["convert-to-compute"], stages["insert-inits"], stages["convert-to-ttkernel"]]
    return tuple(found)


def _kernel_arguments(rng: random.Random, names: list[str]) -> list[str]:
    arguments = ["kernel", rng.choice(("compile", "compile", "print")), "FILE"]
    arguments += ["-o", "DIR"] if arguments[1] == "compile" else rng.choice(([], ["--stages"]))
    for flag, chance in ((["--no-fuse"], 0.2), (["--allocator", "seed"], 0.2), (["--api", "0.69"], 0.2)):
        arguments += flag if rng.random() < chance else []
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


def _one(pattern: str, text: str, rng: random.Random, made: Callable[[re.Match[str]], str]) -> str:
    """One match of a pattern becomes something else."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + made(match) + text[match.end() :]


def _ttl_op(text: str, rng: random.Random) -> str:
    names = [*SPECS, *(f"ttl.{n}" for n in TILE_OPS), "dst.add", "dst.pack", "ttkernel.system", "ttl.tile_add", "ttl.x"]
    return _one(r"(?:ttl|dst|ttkernel)\.\w+", text, rng, lambda _: rng.choice(names))


def _ttl_value(text: str, rng: random.Random) -> str:
    values = sorted(set(re.findall(r"%[\w.$]+", text))) or ["%x"]
    return _one(r"%[\w.$]+", text, rng, lambda _: rng.choice(values))


def _ttl_type(text: str, rng: random.Random) -> str:
    types = (*sorted(set(re.findall(r"(?:block|cb|tensor|tile)<[^>]*>|index|transfer", text))), "tile<bf16>",
             "block<1x1xu32>", "block<99999x99999xbf16>", "block<0x1xbf16>", "cb<1x1xbf16, 0>", "tensor<1x1xbfp8_b>",
             "index", "transfer")  # fmt: skip
    return _one(r"(?:block|cb|tensor|tile)<[^>]*>|index\b|transfer\b", text, rng, lambda _: rng.choice(types))


def _ttl_attr(text: str, rng: random.Random) -> str:
    values = ("0", "1", "-1", "3", "32", "2147483648", "99999999999999999999", "1.5", "inf", "-inf", "nan", "true",
    "[]",
              "[1, 2]", "[true]", "[[1]]", '"x"', '"\\n#include <x>"', '"../../x"', "(d0) -> (d0)", "() -> ()",
              "(d0, d1) -> (d0 floordiv 0)", "(d0, d1) -> (d1 mod 3, d0)", '["#0); system(1"]')  # fmt: skip
    return _one(r"(\w+) = [^,{}]+?(?=[,}])", text, rng, lambda m: f"{m[1]} = {rng.choice(values)}")


def _ttl_more_attrs(text: str, rng: random.Random) -> str:
    extra = ('dst_capacity = 1', 'dst_capacity = 99', 'l1_bytes = 0', 'tensor = "x"', 'tensor = "0"', 'dst = 3',
    'form = 7',
             'sym_name = "a\\nb"', 'processor = "x"', 'args = ["#1"]', 'dims = 3', 'value = 2',
             'dst_full_sync_en = true',
             'bounds = [1, 1]', 'unroll = 0', 'math_fidelity = "*/"')  # fmt: skip
    return _one(r"\{(?=\w+ =)", text, rng, lambda _: f"{{{rng.choice(extra)}, ")


def _ttl_symbol(text: str, rng: random.Random) -> str:
    return _one(r"@[\w.$]+", text, rng, lambda _: rng.choice(("@0", "@a.b", "@..", "@con", "@", "@" + "x" * 300, "")))


def _ttl_map(text: str, rng: random.Random) -> str:
    made = ("+ d0 " * rng.choice((1, 600)), "* 99999999999 ", "mod 0 ", "floordiv 3 ", "* -5 ", "+ 2147483647 ")
    return _one(r"(?<=d[01]) ?(?=[*+)])", text, rng, lambda _: f" {rng.choice(made)}")


def _ttl_wrapped(text: str, rng: random.Random) -> str:
    """Ops of one line within many loops."""
    depth = rng.choice((1, 2, 60))
    before = "".join(f"ttl.for {{lower = 0, step = 1, upper = 2}} {{ ^(%q{n}: index): " for n in range(depth))
    return _one(r"(?m)^    ttl\.(?:store|for|cb_push).*$", text, rng, lambda m: before + m[0] + " }" * depth)


_TTL_MUTATORS = (
    _ttl_op, _ttl_value, _ttl_value, _ttl_type, _ttl_attr, _ttl_attr, _ttl_more_attrs, _ttl_symbol, _ttl_map,
    _ttl_wrapped,
)  # fmt: skip


# -- assembly -------------------------------------------------------------------------------------------------
class AsmTarget:
    """`ttopt asm alloc`, `build` and `run` of programs in JSON, of their textual form, and of assembly."""

    name = "asm"
    seconds = 30.0
    memory_bytes = 2 << 30

    def case(self, rng: random.Random) -> Case:
        return rng.choice((_json_case, _json_case, _kir_case, _kir_case, _assembly_case))(rng)

    def run(self, payload: bytes) -> str:
        return run_payload(payload)


@functools.cache
def _documents() -> tuple[Any, ...]:
    document = json.loads((FIXTURES / "amdgpu_cases.json").read_text(encoding="utf-8"))
    found = [case["program"] for case in document["cases"] if "program" in case]
    return (*found, *(program_json(k.program) for k in _library() for _ in range(2)))


@functools.cache
def _library() -> tuple[Any, ...]:
    return (copy_kernel(4, 64), scale_add_relu(100), partial_sums(100))


@functools.cache
def _kir_texts() -> tuple[str, ...]:
    document = json.loads((FIXTURES / "amdgpu_cases.json").read_text(encoding="utf-8"))
    programs = [case.program for case in read_cases(document)]
    return tuple(map(text_of, (*programs, *(k.program for k in _library() for _ in range(2)))))


@functools.cache
def _assemblies() -> tuple[str, ...]:
    return tuple(build(k.program).text for k in _library())


def _asm_arguments(rng: random.Random, program: Any) -> list[str]:
    command = rng.choice(("alloc", "build", "build", "run"))
    arguments = ["asm", command, "FILE"]
    if command == "run":
        launch = program.get("launch") if isinstance(program, dict) else None
        given = launch.get("arguments", ()) if isinstance(launch, dict) else ()
        return arguments + _run_arguments(rng, given)
    flags = {"alloc": ("--rewrite", "--allow-spill"), "build": ("--allow-spill", "--no-fuse", "--remove-dead-code")}
    return arguments + [flag for flag in flags[command] if rng.random() < 0.3]


def _run_arguments(rng: random.Random, given: Any) -> list[str]:
    found = []
    for argument in given if isinstance(given, list | tuple) else ():
        if isinstance(argument, dict):
            value = rng.choice(("f32:4x64", "f32:100", "f32:1", "u8:64:zeros", "f32:999999999999"))
            found += [f"--argument={argument.get('name')}:{value if argument.get('pointer') else 'u32=64'}"]
    return [*found, "--grid", rng.choice(("1", "1", "2,2", "999999999999", "0"))]


def _json_case(rng: random.Random) -> Case:
    program = copy.deepcopy(rng.choice(_documents()))
    document: Any = program if rng.random() < 0.6 else {"cases": [{"id": "k", "program": program}]}
    arguments, done = _asm_arguments(rng, program), ["json"]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        mutate = rng.choice((*DOCUMENT_MUTATORS, *_PROGRAM_MUTATORS, *_PROGRAM_MUTATORS))
        mutate(document if mutate in DOCUMENT_MUTATORS else program, rng)
        done.append(mutate.__name__.strip("_"))
    content = encoded(document, rng)
    if rng.random() < 0.08:
        content = damaged(content, rng)
        done.append("damaged")
    return Case(" + ".join(done), payload_of("k.json", arguments, content))


def _instructions(program: Any) -> list[Any]:
    found = program.get("instructions") if isinstance(program, dict) else None
    return [i for i in found if isinstance(i, dict) and "name" in i] if isinstance(found, list) else []


def _other_opcode(program: Any, rng: random.Random) -> None:
    if found := _instructions(program):
        names = sorted({i["name"] for p in _documents() for i in _instructions(p)})
        pseudos = ["_loop_begin", "_loop_end", "_raw_asm", "_comment", "_label", "_mfma_acc", "_init_acc_quad",
                   "_srd_define", "_srd_load_base", "_srd_copy_base", "_srd_fill_size", "_g2s_srd_copy", "_loop_inc",
                   "_preload_branch", "v_writelane_b32", "global_atomic_add_f32", "s_branch"]  # fmt: skip
        rng.choice(found)["name"] = rng.choice(names + pseudos)


def _other_operand(program: Any, rng: random.Random) -> None:
    words = ["kv0", "kv1", "ks0", "ka0", "v0", "v255", "s1", "s[0:1]", "v[0:3]", "kv0..+4@2", "ks0..+2@2",
    "ka0..+4@4", "#0",
             "#1.0", "#-17", "#0xffffffff", "vcc", "exec", "scc", "m0", "off", "offset:4", "offset:-1", "vmcnt(0)",
             "lgkmcnt(3)", "@loop", "kv0..+0", "kv3..+100000000", "v[9:3]", "v[0:99999999]", "kv99999999999", "s200",
             "#99999999999", "#1e400", "#1.5e-300", "kv\u0663", "v0\n"]  # fmt: skip
    if found := [i for i in _instructions(program) if isinstance(i.get("uses"), list)]:
        item = rng.choice(found)
        side = item[rng.choice([s for s in ("defs", "uses") if isinstance(item.get(s), list)])]
        if side and rng.random() < 0.8:
            side[rng.randrange(len(side))] = rng.choice(words)
        else:
            side.append(rng.choice(words))


def _hostile_words(program: Any, rng: random.Random) -> None:
    """Text where text goes: comments, targets, modifiers, labels."""
    if found := _instructions(program):
        item = rng.choice(found)
        key = rng.choice(("comment", "comment", "target", "modifiers", "label"))
        word = rng.choice(HOSTILE)
        if key == "label":
            program["instructions"].insert(rng.randrange(len(program["instructions"])), {"label": word})
        else:
            item[key] = [word] if key == "modifiers" else word
            if key == "comment" and rng.random() < 0.4:
                item["name"] = rng.choice(("_comment", "_raw_asm"))


def _other_modifier(program: Any, rng: random.Random) -> None:
    if found := _instructions(program):
        rng.choice(found)["modifiers"] = [
            rng.choice(
                (
                    "sc0",
                    "nt",
                    "lds",
                    "clamp",
                    "row_shr:1",
                    "quad_perm:[0,1,2,3]",
                    "row_newbcast:\u0663",
                    "bf16",
                    "offen",
                )
            )
        ]


def _moved_instruction(program: Any, rng: random.Random) -> None:
    found = program.get("instructions") if isinstance(program, dict) else None
    if isinstance(found, list) and found:
        found.insert(rng.randrange(len(found)), found.pop(rng.randrange(len(found))))


def _other_header(program: Any, rng: random.Random) -> None:
    if isinstance(program, dict):
        key = rng.choice(("max_vgprs", "max_sgprs", "max_agprs", "reserved_vgprs", "reserved_sgprs", "precolored",
                          "accumulator_vregs", "loop_control_sregs", "launch", "name"))  # fmt: skip
        program[key] = {
            "precolored": {rng.choice(("kv0", "ks0", "kv1", "v0", "kv0..+2")): rng.choice((0, 3, 255, 300, 10**9))},
            "launch": {"workgroup": rng.choice(([64, 1, 1], [1024, 1, 1], [2, 2, 2], [0, 1, 1], [10**6] * 3, [64])),
                       "lds_bytes": rng.choice((0, 65536, 10**9)), "scratch_bytes": rng.choice((0, 16, 10**9)),
                       "arguments": [{"name": rng.choice(HOSTILE), "size": rng.choice((4, 8, 3)),
                                      "pointer": rng.random() < 0.5}]},
            "name": rng.choice(HOSTILE),
        }.get(key, rng.choice((0, 1, 8, 256, 512, 10**12)) if key.startswith("max") else [rng.choice((0, 1, 99,
        10**9))])  # fmt: skip


_PROGRAM_MUTATORS = (
    _other_opcode, _other_operand, _other_operand, _hostile_words, _other_modifier, _moved_instruction, _other_header,
)  # fmt: skip


def _kir_case(rng: random.Random) -> Case:
    text, done = rng.choice(_kir_texts()), ["kir"]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        mutate = rng.choice((*TEXT_MUTATORS, _kir_word, _kir_word, _kir_line))
        text = mutate(text, rng) if text.strip() else text
        done.append(mutate.__name__.strip("_"))
    content = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        content = damaged(content, rng)
        done.append("damaged")
    return Case(" + ".join(done), payload_of("k.kir", _asm_arguments(rng, {}), content))


def _kir_word(text: str, rng: random.Random) -> str:
    words = ("kv0", "kv7", "ks3", "ka1", "v3", "s5", "v[0:1]", "kv0..+4@2", "42", "0x1000", "vcc", "exec", "scc", "off",
             "kv1..+999999999", "v[0:999999999]", "99999999999", "1.0e999", "vmcnt(9)", "offset:4096")  # fmt: skip
    return _one(
        r"\b(?:k[vsa]\d+(?:\.\.\+\d+(?:@\d+)?)?|[vs]\d+|vcc|exec|\d+)\b", text, rng, lambda _: rng.choice(words)
    )


def _kir_line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    made = (".kernel \x1b[0m", ".kernel k k", ".max_vgprs 999999999999", ".max_vgprs -1", ".reserved_vgprs 5 99999999",
            ".precolored kv0=1 kv0=2", ".precolored kv0", ".redefinable v0", ".workgroup 1 2", ".workgroup 0 0 0",
            ".argument a 3 pointer", ".argument a 8 what", ".argument a b c", ".lds_bytes 99999999999", ".x", "l:",
            "l:",
            "s_branch l", "s_cbranch_scc1 l", "_loop_begin ks0, ks1 l", "_loop_end ks0, 1 l",
            "_raw_asm ; s_nop 0\\ns_nop 1",
            "_raw_asm ; _raw_asm \\; \\u{2028}", "_comment ; \\u{d800}", "s_waitcnt", "s_waitcnt vmcnt(64)",
            "v_mov_b32",
            "v_mov_b32 kv0", "s_endpgm", "_init_acc_quad kv0..+4@2, 0", "_mfma_acc kv0, kv1", "; c", "s_barrier x",
            "_srd_define ks0..+4@4, ks0..+2@2, 5", "_loop_inc ks0")  # fmt: skip
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(made))
    return "\n".join(lines)


def _assembly_case(rng: random.Random) -> Case:
    number = rng.randrange(len(_assemblies()))
    text, done = _assemblies()[number], ["assembly"]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        mutate = rng.choice((*TEXT_MUTATORS, _s_word, _s_line))
        text = mutate(text, rng) if text.strip() else text
        done.append(mutate.__name__.strip("_"))
    content = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        content = damaged(content, rng)
        done.append("damaged")
    given = [{"name": a.name, "pointer": a.pointer} for a in _library()[number].program.launch.arguments]
    arguments = ["asm", "run", "FILE", *_run_arguments(rng, given)]
    return Case(" + ".join(done), payload_of("k.s", arguments, content))


def _s_word(text: str, rng: random.Random) -> str:
    words = ("v0", "v300", "s99", "s105", "a0", "v[0:1]", "v[1:0]", "v[0:99999999]", "-1", "0x", "0b12", "1e9",
    "9" * 30,
             "|v0|", "-v1", "abs(v0)", "vcc_lo", "exec", "null", "m0", "src_shared_base", "[", "v[", "lds",
             "sdwa")  # fmt: skip
    return _one(r"(?<=[ \[:])(?:[vs]\d+|\d+|vcc|exec)\b", text, rng, lambda _: rng.choice(words))


def _s_line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    made = (".set x, 9", ".set x, 1e9", ".amdgcn_target \"x\"", ".amdhsa_kernel k", ".amdhsa_kernarg_size 999999999999",
            "    .amdhsa_user_sgpr_count -5", "    .amdhsa_next_free_vgpr -3", ".amdgpu_metadata", "a: &a [*a]",
            "x: *a",
            "  - [[[[[", "  .args: [{.name: 1999-99-99}]", "  .args: 5", ".end_amdgpu_metadata", "s_waitcnt vmcnt(zz)",
            "s_waitcnt 99999", "s_nop 99", "v_mov_b32_dpp v0, v1 row_shr:99", "s_branch nowhere", "/*", "*/", "l: l:",
            "s_sleep 3", "s_setprio x", "v_add_f32 v0, s1, s2", "ds_read_b32 v0, v1 offset:x", "s_barrier", "s_endpgm",
            "buffer_load_dword v0, v1, s[0:3], 0 offen offset:9999", "s_load_dwordx2 s[0:1], s[0:1], 0x")  # fmt: skip
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(made))
    return "\n".join(lines)
