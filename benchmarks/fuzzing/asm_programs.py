"""Fuzz target of the GPU assembly back end: programs in JSON, as text and as assembly."""

from __future__ import annotations

import copy
import functools
import json
import random
from typing import Any

from gfx942.library.copy import copy as copy_kernel
from gfx942.library.elementwise import scale_add_relu
from gfx942.library.reduction import partial_sums

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
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.program_json import program_json, read_cases
from optimizer.kernels.amdgpu.text import text_of


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
    return one_match(
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
    return one_match(r"(?<=[ \[:])(?:[vs]\d+|\d+|vcc|exec)\b", text, rng, lambda _: rng.choice(words))


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
