"""The library's kernels: assembled by LLVM, right on random data, no more registers than live at once."""

from __future__ import annotations

import pytest
from asm_kernel_cases import Case, cases, chain_case, copy_case, gemm_case, sums_case
from gfx942.library.copy import copy
from gfx942.library.elementwise import scale_add_relu
from gfx942.library.gemm_shape import GemmShape
from gfx942.library.reduction import partial_sums
from gfx942.llvm import find_llvm
from gfx942.mutations import mutations
from gfx942.wait_counts import wait_counts
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optimizer.errors import OptionError
from optimizer.kernels.amdgpu.validate import validate
from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from tests.samples import examples

CASES = cases()
MEASURED = [case for case in CASES if case.upstream is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_result(case: Case) -> None:
    validate(case.kernel.program)
    assert case.error(case.build().text, seed=7) is None


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not here")
def test_llvm_reads_what_is_written() -> None:
    llvm = find_llvm()
    assert llvm is not None
    # All of them are in benchmarks/asm_kernels.py.
    for case in CASES[::3]:
        assembly = case.build()
        assert llvm.check(assembly.text) == len(assembly.program.instructions)


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: case.name)
def test_fewer_registers_and_instructions_than_wave(case: Case) -> None:
    assembly = case.build()
    assert case.upstream is not None
    assert assembly.footprint.vgprs == assembly.allocation.classes["v"].pressure
    assert assembly.footprint.vgprs <= case.upstream.exact_vgprs
    assert assembly.footprint.sgprs <= case.upstream.exact_sgprs + 2
    assert len(assembly.program.instructions) < case.upstream.instructions


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: case.name)
def test_fewer_waits_and_nops_than_without_looking(case: Case) -> None:
    counts = wait_counts(case.build().program)
    assert counts.waits < counts.blanket_waits
    assert counts.nops < counts.blanket_nops


@pytest.mark.parametrize("case", [sums_case(100), CASES[1]], ids=lambda case: case.name)
def test_no_wait_or_nop_is_superfluous(case: Case) -> None:
    text = case.build().text
    changed = list(mutations(text, weaken=False))
    assert changed
    for mutation in changed:
        with pytest.raises(ExecutionError):
            case.run(mutation.text)


@given(st.integers(1, 70), st.integers(1, 20).map(lambda n: 4 * n), st.integers(1, 3000))
@settings(max_examples=examples(8), deadline=None)
def test_any_size(rows: int, columns: int, elements: int) -> None:
    for case in (copy_case(rows, columns), chain_case(elements), sums_case(elements)):
        assert case.error(case.build().text) is None


@st.composite
def shapes(draw: st.DrawFn) -> GemmShape:
    waves_m, waves_n = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]))
    tiles_m, tiles_n = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]))
    block_k = draw(st.sampled_from([16, 32, 48, 64]))
    k = draw(st.integers(1, 12)) * (8 if block_k % 32 == 0 else 4)
    m, n = draw(st.integers(1, 80)), draw(st.integers(1, 80))
    blocks = 16 * waves_m * tiles_m, 16 * waves_n * tiles_n
    element, staged = draw(st.sampled_from(["f16", "bf16"])), draw(st.booleans())
    try:
        return GemmShape(m, n, k, *blocks, block_k, waves_m, waves_n, element, staged)
    except OptionError:
        # Fragments that the waves cannot share evenly.
        assume(False)
        raise


@given(shapes())
@settings(max_examples=examples(12), deadline=None)
def test_any_product(shape: GemmShape) -> None:
    case = gemm_case("random", shape)
    assert case.error(case.build().text) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"m": 0}, "m is 0"),
        ({"k": 6}, "no multiple of 4"),
        ({"k": 12, "block_k": 32}, "no multiple of 8"),
        ({"block_m": 24}, "no multiple of 16"),
        ({"block_n": 48, "waves_n": 2}, "no multiple of 32"),
        ({"element": "f32"}, "no product of 'f32'"),
        ({"block_m": 32, "waves_m": 2, "block_n": 32, "waves_n": 2}, "for 4 waves"),
        ({"block_k": 2048}, "do not fit LDS"),
        ({"block_m": 16 * 20, "waves_m": 20}, "20 waves"),
    ],
)
def test_shapes_that_cannot_be_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        GemmShape(**{"m": 64, "n": 64, "k": 64, **fields})  # type: ignore[arg-type]


def test_sizes_that_cannot_be_are_refused() -> None:
    for write, sizes in ((copy, (16, 6)), (copy, (0, 4)), (scale_add_relu, (0,)), (partial_sums, (0,))):
        with pytest.raises(OptionError):
            write(*sizes)
    with pytest.raises(OptionError, match="bytes"):
        scale_add_relu(1 << 30)
