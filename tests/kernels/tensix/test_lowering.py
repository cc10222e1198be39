"""Lowering as a whole: the 2x2 add stage by stage, rows of networks, random bodies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_kernels import ROWS, add_2x2

from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.source.text import text_of
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.witness.whole_tensors import witness
from tests.samples import examples

SAVED = {
    "dense": 2, "gated_dense": 3, "sum_of_products": 2, "softmax": 2, "rms_norm": 4, "gelu": 4, "attention_scores": 3,
}  # fmt: skip
"""Round trips through L1 that fusion saves."""


def stages(program: Op) -> str:
    """What `ttopt kernel print --stages` prints."""
    lines: list[str] = []
    lowered = lower(program, KernelOptions(), lambda name, op: lines.append(f"// -- {name}\n{text_of(op)}\n"))
    lines += [f"// -- {kernel.kind}\n{kernel.text}\n" for kernel in emit_program(lowered)]
    return "".join(lines)


def test_the_2x2_add_stage_by_stage(golden: Callable[[str, str], None]) -> None:
    golden("kernels/add_2x2_stages.txt", stages(add_2x2()))


def test_the_page_shows_what_is_printed(project_root: Path) -> None:
    """A section of its own for every pass that changes the compute thread, and a row of a table for every other."""
    page = (project_root / "docs" / "lowering-a-kernel.md").read_text(encoding="utf-8")
    before = ""
    for block in stages(add_2x2()).split("// -- ")[1:]:
        name, _, text = block.partition("\n")
        compute = text.split("ttl.datamovement_thread")[0].strip() if "ttl.program" in text else text.strip()
        assert (f"## `{name}`" if compute != before else f"| `{name}` |") in page
        section = page if name == "initial" else page.partition(f"## `{name}`")[2].partition("\n## ")[0]
        shown = "" if compute == before else compute.partition("ttl.compute_thread")[2] or compute
        for line in shown.splitlines():
            assert line.strip() in section, f"{name}: {line}"
        before = compute


@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_of_networks_stay_in_dst(name: str) -> None:
    found = witness(ROWS[name](), KernelOptions(), execute_cpp=False)
    assert found.interpreter == 0
    assert found.round_trips_saved == SAVED[name]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_fusion_changes_no_value(name: str) -> None:
    assert witness(ROWS[name](), KernelOptions(fuse=False), execute_cpp=False).agrees


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("name", ["attention_scores", "rms_norm", "sum_of_products"])
def test_rows_of_networks_as_cpp(name: str) -> None:
    assert witness(ROWS[name](), KernelOptions()).agrees


@st.composite
def records(draw: st.DrawFn) -> dict[str, object]:
    """Random bodies: fan-out, several results, both units, up to 20 ops, and 9x7 tiles, more than fit a core's L1."""
    inputs = [f"i{k}" for k in range(draw(st.integers(1, 4)))]
    names = list(inputs)
    ops = []
    for n in range(draw(st.integers(1, 20))):
        kind = draw(st.sampled_from(["add", "mul", "sub", "sigmoid", "abs", "max", "min", "where", "relu", "tanh"]))
        args = [draw(st.sampled_from(names[-6:])) for _ in range(TILE_OPS[kind].arity)]
        ops.append({"name": f"v{n}", "op": kind, "args": args})
        names.append(f"v{n}")
    results = [names[-1], *draw(st.lists(st.sampled_from(names), max_size=2))]
    return {
        "id": "random",
        "inputs": inputs,
        "outputs": [f"o{k}" for k in range(len(results))],
        "ops": ops,
        "yield": results,
        "block": [draw(st.integers(1, 9)), draw(st.integers(1, 7))],
        "dtype": draw(st.sampled_from(["bf16", "f32"])),
        "capacity": draw(st.sampled_from([4, 8])),
        "l1_bytes": 64 * 1024**2,
    }


@settings(max_examples=examples(25))
@given(records())
@pytest.mark.slow
def test_random_bodies_compute_what_they_say(record: dict[str, object]) -> None:
    case = read_cases({"cases": [record]})[0]
    assert witness(case_program(case), KernelOptions(), execute_cpp=False).interpreter == 0
