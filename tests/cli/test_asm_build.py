"""`ttopt asm build` and `ttopt asm run`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gfx942.builder import KernelBuilder

from optimizer.kernels.amdgpu.abi import KERNARG, THREAD_ID
from optimizer.kernels.amdgpu.ir import Argument, Launch
from optimizer.kernels.amdgpu.program_json import program_json
from optimizer.kernels.amdgpu.text import text_of
from tests.cli.conftest import Run

CASES = Path(__file__).parents[2] / "fixtures/kernels/amdgpu_cases.json"


def scaled() -> KernelBuilder:
    """y[i] = factor * x[i] for 64 elements."""
    b = KernelBuilder("scaled", Launch((64, 1, 1), (Argument("x"), Argument("y"), Argument("factor", 4, False))))
    x, y = b.s_load_dwordx2(KERNARG, 0), b.s_load_dwordx2(KERNARG, 8)
    factor = b.s_load_dword(KERNARG, 16)
    address = b.v_lshlrev_b32(2, THREAD_ID)
    value = b.global_load_dword(address, x)
    b.global_store_dword(address, b.v_mul_f32(factor, value), y)
    b.s_endpgm()
    return b


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "scaled.json"
    path.write_text(json.dumps(program_json(scaled().program())))
    return path


def test_build_prints_a_complete_kernel(run: Run, program: Path) -> None:
    status, out, err = run("asm", "build", program)
    assert (status, err) == (0, "")
    assert out.startswith('.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n')
    for part in ("\nscaled:\n", "\n.amdhsa_kernel scaled\n", "\n    .symbol: scaled.kd\n", "    s_endpgm\n"):
        assert part in out


def test_build_writes_a_file_and_says_what_it_holds(run: Run, program: Path, tmp_path: Path) -> None:
    status, out, _ = run("asm", "build", program, "--mcpu", "gfx942", "-o", tmp_path / "k.s")
    assert status == 0
    assert json.loads(out) == {
        "kernel": "scaled", "mcpu": "gfx942", "instructions": 11, "vgprs": 2, "sgprs": 6, "agprs": 0,
        "waves_per_simd": 8, "waits": 2, "nops": 1, "warnings": [],
    }  # fmt: skip
    assert (tmp_path / "k.s").read_text() == run("asm", "build", program)[1]


def test_the_textual_form_builds_to_the_same(run: Run, program: Path, tmp_path: Path) -> None:
    text = tmp_path / "scaled.kir"
    text.write_text(text_of(scaled().program()))
    assert run("asm", "build", text)[1] == run("asm", "build", program)[1]


def test_a_case_is_chosen_by_its_id(run: Run) -> None:
    status, out, _ = run("asm", "build", CASES, "--id", "p01_lshl_add")
    assert status == 0
    assert "v_lshl_add_u32" in out
    assert "v_lshl_add_u32" not in run("asm", "build", CASES, "--id", "p01_lshl_add", "--no-fuse")[1]
    assert "v_mov_b32" in run("asm", "build", CASES, "--id", "h01_valu_rfl")[1]
    assert "v_mov_b32" not in run("asm", "build", CASES, "--id", "h01_valu_rfl", "--remove-dead-code")[1]


BF16 = """
.workgroup_ids 0
    v_cvt_pk_bf16_f32 kv0, v0, v0
    ds_write_b32 v0, kv0
    s_endpgm
"""


def test_a_kernel_for_gfx950(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "k.kir"
    text.write_text(BF16)
    status, out, _ = run("asm", "build", text, "--mcpu", "gfx950")
    assert status == 0
    assert out.startswith('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n')
    assert "\namdhsa.target: amdgcn-amd-amdhsa--gfx950\n" in out
    assert "    v_cvt_pk_bf16_f32 v1, v0, v0\n" in out
    status, out, err = run("asm", "build", text)
    assert (status, out) == (2, "")
    assert "gfx942 has no 'v_cvt_pk_bf16_f32', which gfx950 has" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((CASES,), "--id chooses one"),
        ((CASES, "--id", "p01_lshl_add", "--mcpu", "gfx90a"), "gfx942"),
        ((CASES, "--id", "e01_seed_output"), "kv0 is used, but nothing defines it"),
        ((CASES, "--id", "x01_floor"), "x01_floor"),
    ],
)
def test_build_says_what_is_wrong(run: Run, arguments: tuple[object, ...], said: str) -> None:
    status, out, err = run("asm", "build", *arguments)
    assert (status, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("k.kir", b"", "no instructions"),
        ("k.kir", bytes(range(256)), "no text"),
        ("k.kir", b".kernel k\nv_mov_b33 v1, 0\n", "line 2: no opcode 'v_mov_b33'"),
        ("k.kir", b".kernel k\nv_mfma_f16_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0\n", "line 2: gfx942 has no"),
        ("k.kir", b".kernel k\n\nbuffer_load_dword v1, v0, s[4:7], 0 offen offset:5000\n", "line 3: offset 5000"),
        ("k.kir", b".kernel k\nglobal_store_dword s1, v0, s[4:5]\n", "line 2: s1 of global_store_dword"),
        (
            "k.kir",
            b".kernel k\nv_not_b32 kv1, kv0\n",
            "line 2, instruction 0 (v_not_b32): kv0 is used, but nothing defines it",
        ),
        ("k.kir", b".kernel k\nl:\ns_branch m\n", "line 3, instruction 1 (s_branch)"),
        ("k.kir", b"l:\n\nl:\ns_branch l\n", "line 3, item 1: label 'l' stands at line 1 and again"),
        ("k.json", b"", "not JSON"),
        ("k.json", bytes(range(256)), "no text"),
        (
            "k.json",
            b'{"instructions": [{"name": "s_endpgm"}], "launch": {"arguments": [3]}}',
            "launch.arguments[0]: an object is due, not 3",
        ),
    ],
)
def test_bad_files_are_named_with_the_line(run: Run, tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    for command in ("build", "run"):
        status, out, err = run("asm", command, tmp_path / name)
        assert (status, out) == (2, "")
        assert said in err


def test_registers_of_a_wrong_text_are_refused_with_the_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.kir").write_text(".kernel k\n\nv_not_b32 kv1, kv0\n")
    status, out, err = run("asm", "alloc", tmp_path / "k.kir")
    assert status == 2
    assert json.loads(out)["error"]["node"] == "line 3, instruction 0 (v_not_b32)"
    assert "line 3, instruction 0 (v_not_b32): kv0 is used, but nothing defines it" in err


def test_registers_of_the_textual_form(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "scaled.kir"
    text.write_text(text_of(scaled().program()))
    status, out, _ = run("asm", "alloc", text)
    assert status == 0
    assert json.loads(out)["peak_vgprs"] == 2


VALUES = ("--argument", "x:f32:64:range", "--argument", "y:f32:64:zeros", "--argument", "factor:f32=2.5")


def test_run_executes_a_program_and_its_text_alike(run: Run, program: Path, tmp_path: Path) -> None:
    status, out, _ = run("asm", "run", program, *VALUES, "-o", tmp_path / "arrays")
    assert status == 0
    record = json.loads(out)
    assert record["buffers"]["y"]["first"] == [0.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5]
    assert record["statistics"]["by_mnemonic"]["global_load_dword"] == 1
    np.testing.assert_array_equal(np.load(tmp_path / "arrays/y.npy"), 2.5 * np.arange(64, dtype=np.float32))
    run("asm", "build", program, "-o", tmp_path / "k.s")
    assert run("asm", "run", tmp_path / "k.s", *VALUES)[1] == out


def test_arrays_may_come_from_files_and_seeds(run: Run, program: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full(64, 4.0, np.float32))
    rest = ("--argument", "y:f32:8x8", "--argument", "factor:f32=-1")
    out = run("asm", "run", program, "--argument", f"x:{tmp_path / 'x.npy'}", *rest)[1]
    assert json.loads(out)["buffers"]["y"]["first"] == [-4.0] * 8
    hashes = {
        json.loads(run("asm", "run", program, "--argument", "x:f32:64", *rest, "--seed", seed)[1])["buffers"]["x"][
            "sha256"
        ]
        for seed in (1, 1, 2)
    }
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "takes (x, y, factor)"),
        (("--argument", "x:f32:64:noise"), "no fill 'noise'"),
        (("--argument", "x:f99:64"), "no type 'f99'"),
        (("--argument", "x:u32=-5"), "x:u32=-5"),
        (("--argument", "x"), "cannot be read"),
        ((*VALUES, "--grid", "1,2,3,4"), "--grid"),
    ],
)
def test_run_says_what_is_wrong(run: Run, program: Path, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = run("asm", "run", program, *arguments)
    assert (status, out) == (2, "")
    assert said in err


def test_what_the_hardware_leaves_undefined_is_an_error(run: Run, program: Path, tmp_path: Path) -> None:
    text = run("asm", "build", program)[1].replace("s_waitcnt vmcnt(0)", "s_nop 0")
    (tmp_path / "k.s").write_text(text)
    status, out, err = run("asm", "run", tmp_path / "k.s", *VALUES)
    assert (status, out) == (1, "")
    assert "missing-wait" in err


LOOP = """
.kernel sums
.workgroup 64 1 1
.workgroup_ids 0
.argument x 8 pointer
.argument y 8 pointer
.redefinable ks4 kv0 kv2
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    s_load_dwordx2 ks2..+2@2, s[0:1], 8
    v_lshlrev_b32 kv0, 2, v0
    v_mov_b32 kv2, 0
    s_mov_b32 ks4, 8
again:
    global_load_dword kv1, kv0, ks0..+2@2
    v_add_u32 kv0, 64, kv0
    v_add_u32 kv2, kv2, kv1
    global_store_dword kv0, kv2, ks2..+2@2
    s_sub_u32 ks4, ks4, 1
    s_cmp_lg_u32 ks4, 0
    s_cbranch_scc1 again
    s_endpgm
"""


@pytest.mark.parametrize(
    ("flags", "pipelined"),
    [
        (("--loads-apart",), True),
        (("--loads-apart", "--waves", "4"), True),
        (("--loads-apart", "--no-pipeline"), False),
        (("--loads-apart", "--no-schedule"), False),
    ],
)
def test_loops_are_pipelined_unless_that_is_not_wanted(
    flags: tuple[str, ...], pipelined: bool, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "sums.kir"
    path.write_text(LOOP)
    status, out, _ = run("asm", "build", path, *flags)
    assert status == 0
    assert ("again_round_0:" in out) == pipelined


def test_where_loads_may_read_what_is_stored_they_pass_no_store(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sums.kir"
    path.write_text(LOOP)
    lines = [
        line.split()[0] for line in run("asm", "build", path)[1].partition("sums:")[2].splitlines() if line.strip()
    ]
    memory = [name for name in lines if name in ("global_load_dword", "global_store_dword")]
    assert memory == ["global_load_dword", "global_store_dword"] * 2


def test_waves_that_no_simd_has_are_refused(run: Run, program: Path) -> None:
    status, _, err = run("asm", "build", program, "--waves", "9")
    assert status == 2
    assert "9 waves per SIMD: 1 to 8" in err


def test_a_program_runs_as_it_is_built_for_another_processor(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sums.kir"
    path.write_text(LOOP)
    arguments = ("--argument", "x:u32:256:range", "--argument", "y:u32:256:zeros")
    outputs = [run("asm", "run", path, "--mcpu", mcpu, *arguments) for mcpu in ("gfx942", "gfx950")]
    assert [status for status, _, _ in outputs] == [0, 0]
    assert json.loads(outputs[0][1])["buffers"] == json.loads(outputs[1][1])["buffers"]
