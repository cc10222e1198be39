"""Expressions in nested scopes, through all passes: what is hoisted is right in every iteration and behind the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.kernels.amdgpu.abi import KERNARG
from optimizer.kernels.amdgpu.ir import Argument, Launch
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel
from tests.samples import examples

NAMES = ("tid_x", "wgid_x", "j", "k")
TRIPS = {"j": 3, "k": 2}
TERMS = st.tuples(
    st.sampled_from([-7, -4, 1, 2, 3, 8, 16, 100, 256]),
    st.sampled_from(NAMES),
    st.sampled_from(["whole", "floor", "mod"]),
    st.sampled_from([2, 3, 4, 5, 16]),
)

SUMS = st.lists(TERMS, min_size=1, max_size=4)


def as_sympy(terms: list[Any]) -> Any:
    total = sympy.Integer(5)
    for factor, name, shape, divisor in terms:
        symbol = sympy.Symbol(name)
        parts = {"whole": symbol, "floor": sympy.floor(symbol / divisor), "mod": sympy.Mod(symbol, divisor)}
        total += factor * parts[shape]
    return sympy.floor((total + 4096) / 3) + total


def evaluate(terms: list[Any], values: dict[str, Any]) -> Any:
    total = 5
    for factor, name, shape, divisor in terms:
        x = values[name]
        total = total + factor * {"whole": x, "floor": x // divisor, "mod": x % divisor}[shape]
    return (total + 4096) // 3 + total


def without(terms: list[Any], *names: str) -> list[Any]:
    return [term for term in terms if term[1] not in names]


@given(SUMS, SUMS)
@settings(max_examples=examples(12), deadline=None)
def test_sums_over_two_loops(first: list[Any], second: list[Any]) -> None:
    b = KernelBuilder("k", Launch((64, 1, 1), (Argument("out"),), workgroup_ids=1))
    e = ExpressionEmitter(b)
    tid, _, _ = e.bind_thread_ids((64, 1, 1))
    group, _, _ = e.bind_workgroup_ids((2, 1, 1))
    target = b.s_load_dwordx2(KERNARG, 0)
    total = b.redefinable(b.v_mov_b32(0))

    def loop(name: str, body: Any) -> None:
        counter = b.redefinable(b.s_mov_b32(0))
        with e.scope():
            e.bind(name, counter, 0, TRIPS[name] - 1)
            head = b.label(b.new_label(name))
            body()
        b.s_add_u32(counter, 1, dst=counter)
        b.s_cmp_lt_u32(counter, TRIPS[name])
        b.s_cbranch_scc1(head)

    def add(terms: list[Any]) -> None:
        b.v_add_u32(e.emit(as_sympy(terms)), total, dst=total)

    def outer() -> None:
        add(without(second, "k"))
        loop("k", lambda: (add(first), add(second)))
        add(without(first, "k"))

    loop("j", outer)
    add(without(first, "j", "k"))
    add(without(second, "j", "k"))
    b.global_store_dword(e.vector(4 * (64 * group + tid)), total, target)
    b.s_endpgm()
    text = build(b.program()).text
    found = run_kernel(text, "k", [2], [64], {"out": np.zeros(128, np.uint32)}).buffers["out"]

    expected = np.zeros(128, np.int64)
    values: dict[str, Any] = {"tid_x": np.arange(128) % 64, "wgid_x": np.arange(128) // 64}
    for values["j"] in range(TRIPS["j"]):
        expected += evaluate(without(second, "k"), values) + evaluate(without(first, "k"), values)
        for values["k"] in range(TRIPS["k"]):
            expected += evaluate(first, values) + evaluate(second, values)
    expected += evaluate(without(first, "j", "k"), values) + evaluate(without(second, "j", "k"), values)
    assert found.tolist() == (expected % 2**32).tolist()
