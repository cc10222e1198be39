"""The executor fails on kernels that a Tensix core would get wrong: every error class, by a mutation of right ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimizer.errors import VerificationError
from optimizer.kernels.tensix.cases import case_program, read_cases
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.executor.execute import Execution, execute, has_compiler
from optimizer.kernels.tensix.pipeline import KernelOptions, lower

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

RECORD = {
    "id": "mixed",
    "inputs": ["a", "b", "c"],
    "outputs": ["o", "p"],
    "ops": [
        {"name": "u", "op": "max", "args": ["a", "b"]},
        {"name": "v", "op": "abs", "args": ["u"]},
        {"name": "w", "op": "exp", "args": ["u"]},
        {"name": "x", "op": "mul", "args": ["w", "c"]},
    ],
    "yield": ["v", "x"],
    "block": [2, 2],
    "dtype": "bf16",
    "capacity": 8,
}
PROGRAM = case_program(read_cases({"cases": [RECORD]})[0])


def run(old: str = "", new: str = "", kind: str = "compute") -> Execution:
    """The kernels with one text replaced in one thread, on ascending numbers."""
    lowered = lower(PROGRAM, KernelOptions())
    kernels: list[KernelSource] = []
    for kernel in emit_program(lowered):
        if old and kernel.kind == kind:
            assert old in kernel.text, f"the {kind} kernel has no '{old}'"
            kernel = replace(kernel, text=kernel.text.replace(old, new, 1))
        kernels.append(kernel)
    values = {
        f"{n}_t": np.linspace(0.1, k, 64 * 64, dtype=np.float32).reshape(64, 64)
        for n, k in zip("abc", (2, 1, 3), strict=True)
    }
    return execute(lowered, kernels, values)


def test_the_right_kernels_run() -> None:
    found = run()
    assert (found.tensors["o_t"] > 0).all()
    assert found.sections >= 1


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("cb_wait_front(cb_0, 4);", "", "compute", "waited for"),
        ("cb_reserve_back(cb_3, 4);", "", "compute", "reserved"),
        ("cb_pop_front(cb_1, 4);", "", "compute", "circular buffer 1 is not drained"),
        ("cb_push_back(cb_4, 4);", "", "compute", "deadlock|stopped|reserved and not pushed"),
        ("exp_tile_init();", "", "compute", "exp_tile needs exp_tile_init"),
        ("exp_tile_init();", "abs_tile_init();", "compute", "exp_tile needs exp_tile_init|is not declared"),
        ("tile_regs_wait();", "", "compute", "tile_regs_commit"),
        ("tile_regs_commit();", "", "compute", "tile_regs_wait after tile_regs_acquire"),
        ("copy_tile(cb_1, ", "copy_tile(cb_1, 4 + ", "compute", "of buffer 1"),
        ("abs_tile(", "abs_tile(8 + ", "compute", "slot 8 of 8|slot 1[0-9] of 8|slot 9 of 8"),
        ("noc_async_read_barrier();", "", "reader", "is not written"),
        ("noc_async_write_barrier();", "", "writer", "is still being written"),
        ("cb_push_back(cb_2, 4);", "", "reader", "deadlock|reserved and not pushed|stopped"),
    ],
)
def test_mutations_are_caught(old: str, new: str, kind: str, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        run(old, new, kind)


def test_swapped_copy_dest_values_are_caught() -> None:
    """The other way round, the copy reads a slot that holds nothing or something else."""
    lowered = lower(PROGRAM, KernelOptions())
    text = next(k.text for k in emit_program(lowered) if k.kind == "compute")
    line = next(row.strip() for row in text.splitlines() if "copy_dest_values<" in row)
    source, target = line[line.index("(") + 1 : line.rindex(")")].split(", ")
    right, wrong, refused = run().tensors, {}, ""
    try:
        wrong = run(line, line.replace(f"({source}, {target})", f"({target}, {source})")).tensors
    except VerificationError as error:
        refused = str(error)
    assert "holds nothing" in refused or any((right[name] != wrong[name]).any() for name in ("o_t", "p_t"))


def test_a_divisor_is_handed_over_as_its_reciprocal() -> None:
    """`div_unary_tile` multiplies; given the divisor itself, it would give products."""
    record = {**RECORD, "ops": [{"name": "q", "op": "div_scalar", "args": ["a"], "attrs": {"value": 0.8}}]}
    record |= {"inputs": ["a"], "outputs": ["o"], "yield": ["q"]}
    lowered = lower(case_program(read_cases({"cases": [record]})[0]), KernelOptions())
    kernels = list(emit_program(lowered))
    assert any(", 0x3fa00000u)" in kernel.text for kernel in kernels)  # 1.25
    values = {"a_t": np.full((64, 64), 2.0, np.float32)}
    right = execute(lowered, kernels, values).tensors["o_t"]
    old = [replace(k, text=k.text.replace("0x3fa00000u", "0x3f4ccccdu")) for k in kernels]  # 0.8
    wrong = execute(lowered, old, values).tensors["o_t"]
    assert (right[0, 0], wrong[0, 0]) == (2.5, np.float32(1.6015625))
