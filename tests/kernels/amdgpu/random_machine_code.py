"""Random programs on physical registers, without waits or nops: memory, MFMA, lane accesses, branches and loops.

Addresses come from registers that nothing overwrites, loops count to a small bound, so that every program may run.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from optimizer.kernels.amdgpu.ir import Argument, Launch, Program
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel
from optimizer.kernels.amdgpu.witness.interpreter.run import Run

VGPRS = range(4, 36)
SGPRS = range(16, 32)
_ENTRY = [
    "s_load_dwordx2 s[4:5], s[0:1], 0",
    "s_load_dwordx2 s[6:7], s[0:1], 8",
    "v_lshlrev_b32 v1, 4, v0",
    "s_mov_b64 vcc, 5",
    *(f"v_mov_b32 v{n}, {n}" for n in VGPRS),
    *(f"s_mov_b32 s{n}, {n}" for n in SGPRS),
    *(f"ds_write_b32 v1, v4 offset:{64 * block + 4 * word}" for block in range(4) for word in range(4)),
]
_COMPUTE = (
    "v_add_u32 V, V, V", "v_add_u32 V, S, V", "v_mov_b32 V, S", "v_readfirstlane_b32 S, V", "v_cmp_lt_u32 vcc, V, V",
    "v_cndmask_b32 V, V, V, vcc", "v_cmp_lt_u32 S2, V, V", "v_exp_f32 V, V", "v_add_f32 V, V, V", "s_add_u32 S, S, S",
    "s_mov_b64 S2, vcc", "v_readlane_b32 S, V, 7", "v_mov_b64 V2, V2", "v_mfma_f32_16x16x16_f16 D, V2, V2, D",
    "v_mfma_f32_16x16x16_f16 V4, V2, V2, V4", "v_mfma_f32_16x16x16_bf16 V4, V2, V2, 0",
    "v_mfma_f32_16x16x4_f32 D, V, V, D", "v_mfma_f32_16x16x4_f32 V4, V, V, V4",
    "v_mfma_f32_32x32x8_f16 v[8:23], V2, V2, v[8:23]", "v_mfma_f32_32x32x8_f16 v[8:23], V2, V2, 0",
)  # fmt: skip
_MEMORY = (
    "global_load_dword V, v1, s[4:5] offset:64", "global_load_dwordx4 V4, v1, s[4:5]",
    "global_load_dwordx2 V2, v1, s[4:5]", "global_store_dword v1, V, s[6:7] offset:64",
    "global_store_dwordx4 v1, V4, s[6:7]", "ds_write_b32 v1, V offset:64", "ds_write_b128 v1, V4",
    "ds_read_b32 V, v1 offset:128", "ds_read_b64 V2, v1", "ds_bpermute_b32 V, v1, V", "s_load_dword S, s[0:1], 0",
    "s_load_dwordx2 S2, s[0:1], 8",
)  # fmt: skip


def random_program(seed: int, length: int, branches: bool) -> Program:
    """About `length` instructions behind the entry that gives every register a value."""
    random, body = Random(seed), list[str]()
    _Generator(random, body, branches).block(length, 0)
    program = parse("\n".join([*_ENTRY, *body, "s_endpgm"]))
    return replace(program, name="random", launch=Launch((64, 1, 1), (Argument("x"), Argument("y")), 3, 4096))


def run(text: str) -> Run:
    """One wave of it. ExecutionError for what the hardware leaves undefined."""
    arguments = {"x": np.arange(1024, dtype=np.uint32), "y": np.zeros(1024, np.uint32)}
    return run_kernel(text, "random", [1], [64], arguments)


class _Generator:
    def __init__(self, random: Random, body: list[str], branches: bool) -> None:
        self.random, self.body, self.branches = random, body, branches
        self.labels = 0

    def block(self, length: int, depth: int) -> None:
        while length > 0:
            kind = self.random.random() if self.branches and depth < 2 and length > 6 else 1.0
            if kind > 0.24:
                self.body.append(self.instruction())
                length -= 1
                continue
            inside = self.random.randrange(2, length - 2)
            (self.loop if kind < 0.12 else self.fork)(inside, depth)
            length -= inside

    def loop(self, inside: int, depth: int) -> None:
        head, counter = self.label(), f"s{8 + depth}"
        self.body += [f"s_mov_b32 {counter}, 0", f"{head}:"]
        self.block(inside, depth + 1)
        bound = self.random.randrange(1, 4)
        self.body += [
            f"s_add_u32 {counter}, {counter}, 1",
            f"s_cmp_lt_u32 {counter}, {bound}",
            f"s_cbranch_scc1 {head}",
        ]

    def fork(self, inside: int, depth: int) -> None:
        other, end = self.label(), self.label()
        self.body += [self.filled("s_cmp_lt_u32 S, S"), f"s_cbranch_scc1 {other}"]
        self.block(inside // 2, depth + 1)
        self.body += [f"s_branch {end}", f"{other}:"]
        self.block(inside - inside // 2, depth + 1)
        self.body.append(f"{end}:")

    def label(self) -> str:
        self.labels += 1
        return f"label_{self.labels}"

    def instruction(self) -> str:
        return self.filled(self.random.choice(_COMPUTE if self.random.random() < 0.6 else _MEMORY))

    def filled(self, pattern: str) -> str:
        """Registers for the letters: V, S single ones, with a number ranges, D the same quad wherever it stands."""
        same = self.vector(4)
        words = []
        for word in pattern.split(" "):
            letter = word.rstrip(",")
            found = same if letter == "D" else letter
            if letter[:1] in ("V", "S") and letter[1:] in ("", "2", "4"):
                width = int(letter[1:] or 1)
                found = self.vector(width) if letter[0] == "V" else self.scalar(width)
            words.append(found + word[len(letter) :])
        return " ".join(words)

    def vector(self, width: int) -> str:
        return _named("v", self.random.choice(VGPRS[: 1 - width or None]), width)

    def scalar(self, width: int) -> str:
        return _named("s", self.random.choice(SGPRS[: 1 - width or None]), width)


def _named(file: str, first: int, width: int) -> str:
    if width == 1:
        return f"{file}{first}"
    first -= first % 2
    return f"{file}[{first}:{first + width - 1}]"
