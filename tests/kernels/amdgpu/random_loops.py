"""Random kernels with loops over memory: loads, sums, matrix products, LDS, stores, each round's in any order.

`n` is how often the loop runs: at least once where it tests at the bottom, never if it is 0 where it tests at the top.
Loads and stores never touch the same memory.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

MOST_ROUNDS = 9
_HEAD = """
.kernel k
.workgroup {threads} 1 1
.workgroup_ids 0
.argument x 8 pointer
.argument y 8 pointer
.argument n 4 value
.lds_bytes 8192
.redefinable ks6 ks7 kv1 kv2 kv3 kv4 kv20 kv21 kv22 kv23
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    s_load_dwordx2 ks2..+2@2, s[0:1], 8
    s_load_dword ks4, s[0:1], 16
    s_add_u32 ks10, 4096, ks2
    s_addc_u32 ks11, 0, ks3
    v_lshlrev_b32 kv0, 4, v0
    v_mov_b32 kv1, kv0
    v_lshrrev_b32 kv8, 6, v0
    v_lshlrev_b32 kv9, 13, kv8
    v_add_u32 kv2, kv0, kv9
    v_mov_b32 kv3, 3
    v_mov_b32 kv4, 5
    v_mov_b32 kv20, 0
    v_mov_b32 kv21, 0
    v_mov_b32 kv22, 0
    v_mov_b32 kv23, 0
    s_mov_b32 ks6, 0
    s_mov_b32 ks7, 7
"""
_TAIL = """
    v_add_u32 kv5, kv0, kv0
    global_store_dwordx4 kv0, kv20..+4@2, ks2..+2@2
    v_mov_b32 kv6, ks7
    v_add_u32 kv7, kv3, kv4
    global_store_dword kv0, kv6, ks2..+2@2 offset:2048
    global_store_dword kv0, kv7, ks2..+2@2 offset:2052
    global_store_dword kv0, kv1, ks2..+2@2 offset:2056
    s_endpgm
"""
_TOP = "_loop_begin ks6, ks4, k_loop\n{}_loop_end ks6, 1, k_loop\n"
_BOTTOM = "again:\n{}s_add_u32 ks6, ks6, 1\ns_cmp_lt_u32 ks6, ks4\ns_cbranch_scc1 again\n"


def random_loop(seed: int, threads: int = 64, top: bool = False) -> Program:
    """A kernel of one or several waves whose loop tests at the top or at the bottom."""
    random = Random(seed)
    body = "".join(f"    {line}\n" for line in _Body(random, threads > 64).lines())
    return parse(_HEAD.format(threads=threads) + (_TOP if top else _BOTTOM).format(body) + _TAIL)


def run_loop(program: Program, text: str, rounds: int) -> Any:
    """What the kernel stores, and where it stored nothing."""
    x = np.random.default_rng(0).integers(0, 1 << 14, 2048, dtype=np.uint32)
    arguments = {"x": x, "y": np.zeros(8192, np.uint32), "n": np.uint32(rounds)}
    return run_kernel(text, "k", [1], program.launch.workgroup, arguments).buffers["y"]


class _Body:
    """The instructions of a round; values in registers from 100 on, one definition each."""

    def __init__(self, random: Random, waves: bool) -> None:
        self.random, self.waves = random, waves
        self.next = 100
        self.words: list[str] = ["kv3", "kv4"]
        self.pairs: list[str] = []

    def lines(self) -> list[str]:
        found = []
        steps = [self.load, self.load, *self.random.choices(
            (self.load, self.compute, self.add, self.scalar, self.matrix, self.lds, self.store, self.advance), k=9
        )]  # fmt: skip
        for step in steps:
            found += step()
        return [*found, *self.add()]

    def new(self, count: int = 1) -> str:
        first = self.next
        self.next += count + count % 2
        return f"kv{first}" if count == 1 else f"kv{first}..+{count}@2"

    def load(self) -> list[str]:
        count = self.random.choice((1, 2, 4))
        value, offset = self.new(count), 4 * self.random.randrange(0, 64, 4)
        first = self.next - count - count % 2
        self.words += [f"kv{first + n}" for n in range(count)]
        self.pairs += [f"kv{first + n}..+2@2" for n in range(0, count - 1, 2)]
        width = {1: "", 2: "x2", 4: "x4"}[count]
        return [f"global_load_dword{width} {value}, kv1, ks0..+2@2 offset:{offset}"]

    def compute(self) -> list[str]:
        one, other, value = self.random.choice(self.words), self.random.choice(self.words), self.new()
        self.words.append(value)
        return [f"{self.random.choice(('v_add_u32', 'v_xor_b32', 'v_mul_lo_u32'))} {value}, {one}, {other}"]

    def add(self) -> list[str]:
        total = self.random.choice(("kv3", "kv4"))
        return [f"v_xor_b32 {total}, {total}, {self.random.choice(self.words)}"]

    def scalar(self) -> list[str]:
        return [self.random.choice(("s_add_u32 ks7, ks7, 3", "s_mul_i32 ks7, ks7, 5", "s_lshl_b32 ks7, ks7, 1"))]

    def matrix(self) -> list[str]:
        if not self.pairs:
            return self.compute()
        a, b = self.random.choice(self.pairs), self.random.choice(self.pairs)
        return [f"v_mfma_f32_16x16x16_f16 kv20..+4@2, {a}, {b}, kv20..+4@2"]

    def lds(self) -> list[str]:
        value, word = self.new(), self.random.choice(self.words)
        self.words.append(value)
        barrier = ["s_barrier"] * self.waves
        return [*barrier, f"ds_write_b32 kv0, {word}", *barrier, f"ds_read_b32 {value}, kv0"]

    def store(self) -> list[str]:
        offset = 4 * self.random.randrange(4)
        return [f"global_store_dword kv2, {self.random.choice(self.words)}, ks10..+2@2 offset:{offset}"]

    def advance(self) -> list[str]:
        register = self.random.choice(("kv1", "kv2"))
        return [f"v_add_u32 {register}, {self.random.choice((16, 32))}, {register}"]
