"""gfx950 in the interpreter: its own instructions, one wait state more behind matrix products, more LDS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from asm_kernel_cases import SCHEDULED, WRITTEN, Case, cases
from gfx942.mutations import mutations
from gfx942.zig import refused
from random_loops import random_loop, run_loop

from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.opcodes import OPCODES
from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.witness.errors import ExecutionError, TextError
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel
from optimizer.kernels.amdgpu.witness.interpreter.descriptor import ONLY_GFX950
from optimizer.kernels.amdgpu.witness.interpreter.mfma import TABLE
from tests.samples import sampled

GFX950 = AssemblyOptions("gfx950")
NAMES = [case.name for case in cases()]
CASES = dict(zip(NAMES, cases(), strict=True))

PRODUCT = """
.kernel product
.workgroup 64 1 1
.workgroup_ids 0
.argument a 8 pointer
.argument b 8 pointer
.argument c 8 pointer
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    s_load_dwordx2 ks2..+2@2, s[0:1], 8
    s_load_dwordx2 ks4..+2@2, s[0:1], 16
    v_and_b32 kv0, 15, v0
    v_lshrrev_b32 kv1, 4, v0
    v_lshlrev_b32 kv2, 6, kv0
    v_lshl_or_b32 kv3, kv1, 4, kv2
    global_load_dwordx4 kv4..+4@2, kv3, ks0..+2@2
    global_load_dwordx4 kv8..+4@2, kv3, ks2..+2@2
    v_mfma_f32_16x16x32_f16 kv12..+4@2, kv4..+4@2, kv8..+4@2, 0
    v_lshlrev_b32 kv16, 4, v0
    global_store_dwordx4 kv16, kv12..+4@2, ks4..+2@2
    s_endpgm
"""


def run_product(text: str) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """What the kernel stores, and what it should."""
    a, b = np.random.default_rng(3).integers(-4, 5, (2, 16, 32)).astype(np.float16)
    found = run_kernel(text, "product", [1], [64], {"a": a, "b": b, "c": np.zeros((64, 4), np.float32)}).buffers["c"]
    lane, register = np.arange(64)[:, None], np.arange(4)[None, :]
    return found, (a.astype(np.float32) @ b.astype(np.float32).T)[4 * (lane // 16) + register, lane % 16]


def test_a_product_of_twice_the_depth() -> None:
    text = build(parse(PRODUCT), GFX950).text
    found, expected = run_product(text)
    np.testing.assert_array_equal(found, expected)
    for mutation in mutations(text):
        with pytest.raises(ExecutionError):
            run_product(mutation.text)


def converted(name: str, values: list[float], count: int) -> np.ndarray:  # type: ignore[type-arg]
    """The bits that an instruction makes of `count` neighbours of the values each."""
    load = "".join(f"global_load_dword kv{n + 1}, kv0, ks0..+2@2 offset:{256 * n}\n" for n in range(count))
    text = f"""
        .kernel one
        .workgroup 64 1 1
        .workgroup_ids 0
        .argument x 8 pointer
        .argument y 8 pointer
        s_load_dwordx2 ks0..+2@2, s[0:1], 0
        s_load_dwordx2 ks2..+2@2, s[0:1], 8
        v_lshlrev_b32 kv0, 2, v0
        {load}
        {name} kv9, {", ".join(f"kv{n + 1}" for n in range(count))}
        global_store_dword kv0, kv9, ks2..+2@2
        s_endpgm
    """
    x = np.resize(np.array(values, np.float32), (count, 64))
    arguments = {"x": x, "y": np.zeros(64, np.uint32)}
    return run_kernel(build(parse(text), GFX950).text, "one", [1], [64], arguments).buffers["y"][: len(values)]


def test_conversions_round_to_nearest_even() -> None:
    values = [1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -3.4e38, np.inf]
    assert [hex(x & 0xFFFF) for x in converted("v_cvt_pk_bf16_f32", values, 2)] == [
        "0x3f80", "0x3f80", "0x3f82", "0xff80", "0x7f80",
    ]  # fmt: skip
    assert [hex(x & 0xFFFF) for x in converted("v_cvt_pk_f16_f32", [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1e6], 2)] == [
        "0x3c00", "0x3c02", "0x7c00",
    ]  # fmt: skip


def test_minimum_and_maximum_keep_nan() -> None:
    for name in ("v_minimum3_f32", "v_maximum3_f32"):
        assert np.isnan(converted(name, [np.nan], 3).view(np.float32)).all()
    assert converted("v_minimum3_f32", [-0.0], 3).view(np.float32)[0] == 0


def test_the_witness_knows_what_the_table_says_only_gfx950_has() -> None:
    unknown = {"ds_read_b64_tr_b16", "buffer_load_dwordx3_lds"}
    known = ONLY_GFX950 | {"buffer_load_dwordx4_lds"}
    assert {o.name for o in OPCODES.values() if o.targets == ("gfx950",)} == known | unknown
    assert {name for name in ONLY_GFX950 if "mfma" in name} <= TABLE.keys()


@pytest.mark.parametrize("target", ["gfx942", "gfx90a"])
def test_its_instructions_are_refused_elsewhere(target: str) -> None:
    with pytest.raises(TextError, match=r"gfx942 has no 'v_mfma_f32_16x16x32_f16'|is not gfx942 or gfx950"):
        run_product(build(parse(PRODUCT), GFX950).text.replace("gfx950", target))


def test_results_of_matrix_products_are_ready_one_wait_state_later() -> None:
    program = parse(PRODUCT.replace("16x16x32", "16x16x16").replace("kv4..+4@2, kv8..+4@2", "kv4..+2@2, kv8..+2@2"))
    texts = [build(program, AssemblyOptions(mcpu, schedule=False)).text for mcpu in ("gfx942", "gfx950")]
    for text, other in (texts[1], "gfx942"), (texts[0], "gfx942"), (texts[1], "gfx950"):
        run_product(text.replace("gfx950", other))
    with pytest.raises(ExecutionError, match="hazard"):
        run_product(texts[0].replace("gfx942", "gfx950"))


LDS = """
.kernel far
.workgroup 64 1 1
.workgroup_ids 0
.argument y 8 pointer
.lds_bytes {}
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    v_lshlrev_b32 kv0, 2, v0
    s_mov_b32 ks2, 163584
    v_add_u32 kv1, ks2, kv0
    ds_write_b32 kv1, v0
    ds_read_b32 kv2, kv1
    global_store_dword kv0, kv2, ks0..+2@2
    s_endpgm
"""


def test_lds_of_160_kib() -> None:
    text = build(parse(LDS.format(163840)), GFX950).text
    run = run_kernel(text, "far", [1], [64], {"y": np.zeros(64, np.uint32)})
    np.testing.assert_array_equal(run.buffers["y"], np.arange(64))
    assert refused(text, "gfx950") == ""
    for bytes_, mcpu in ((163844, "gfx950"), (65540, "gfx942")):
        with pytest.raises(OperandError, match=f"{bytes_} bytes of LDS"):
            build(parse(LDS.format(bytes_)), AssemblyOptions(mcpu))
    with pytest.raises(TextError, match="at most 65536"):
        run_kernel(text.replace("gfx950", "gfx942"), "far", [1], [64], {"y": np.zeros(64, np.uint32)})


TO_LDS = """
.kernel straight
.workgroup 64 1 1
.workgroup_ids 0
.argument x 8 pointer
.argument y 8 pointer
.lds_bytes 2048
    s_load_dwordx2 ks0..+2@4, s[0:1], 0
    s_mov_b32 ks2, 1024
    s_mov_b32 ks3, 0x20000
    s_load_dwordx2 ks4..+2@2, s[0:1], 8
    s_mov_b32 m0, 512
    v_lshlrev_b32 kv0, 4, v0
    buffer_load_dwordx4_lds kv0, ks0..+4@4, 0
    ds_read_b128 kv4..+4@2, kv0 offset:512
    global_store_dwordx4 kv0, kv4..+4@2, ks4..+2@2
    s_endpgm
"""


def test_four_words_straight_into_lds() -> None:
    text = build(parse(TO_LDS), GFX950).text
    x = np.arange(256, dtype=np.uint32)
    run = run_kernel(text, "straight", [1], [64], {"x": x, "y": np.zeros(256, np.uint32)})
    np.testing.assert_array_equal(run.buffers["y"], x)
    assert refused(text, "gfx950") == ""


@pytest.mark.parametrize("name", sampled(NAMES, ["copy 16x16", "gemm 64, bk32, no LDS", "gemm 50x44x72, 4 waves"]))
def test_library_kernels_for_gfx950(name: str) -> None:
    """Written and scheduled: assembled whole, right, and without a wait or nop too many."""
    case: Case = CASES[name]
    for options in (WRITTEN, SCHEDULED):
        text = case.build(replace(options, mcpu="gfx950")).text
        assert refused(text, "gfx950") == ""
        assert case.error(text) is None
    for mutation in list(mutations(case.build(replace(WRITTEN, mcpu="gfx950")).text)):
        with pytest.raises(ExecutionError):
            case.run(mutation.text)


@pytest.mark.parametrize("seed", sampled(range(8), [0, 1]))
def test_random_loops_for_gfx950(seed: int) -> None:
    program = random_loop(seed)
    options = AssemblyOptions("gfx950", loads_at_barriers=False)
    written, ordered = (build(program, replace(options, schedule=s)).text for s in (False, True))
    assert refused(ordered, "gfx950") == ""
    for rounds in (1, 2, 5, 9):
        np.testing.assert_array_equal(run_loop(program, ordered, rounds), run_loop(program, written, rounds))
