"""Whole kernels: their memory against numpy, their text through LLVM, and every missing wait or nop noticed."""

from __future__ import annotations

import numpy as np
import pytest
from gfx942.llvm import find_llvm, require_llvm
from gfx942.mutations import mutations
from launches import LAUNCHES, Launch

from optimizer.kernels.amdgpu.witness.errors import ExecutionError

each_launch = pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)


@each_launch
def test_memory_after_the_run(launch: Launch) -> None:
    run = launch.run()

    np.testing.assert_allclose(run.buffers[launch.output], launch.result, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")
@each_launch
def test_llvm_reads_what_is_written(launch: Launch) -> None:
    assert require_llvm().check(launch.text) >= 15


@each_launch
def test_every_missing_wait_and_nop_is_noticed(launch: Launch) -> None:
    kinds = {mutation.description: kind_of_error(launch, mutation.text) for mutation in mutations(launch.text)}

    assert len(kinds) >= 4
    assert {name: kind for name, kind in kinds.items() if kind not in ("missing-wait", "hazard", "race")} == {}


def kind_of_error(launch: Launch, text: str) -> str | None:
    try:
        launch.run(text)
    except ExecutionError as error:
        return error.kind
    return None


def test_statistics_count_what_ran() -> None:
    run = next(launch for launch in LAUNCHES if launch.name == "mfma_tile").run()

    counted = run.statistics
    assert (counted.instructions, counted.waits, counted.nops, counted.nop_states) == (19, 2, 1, 5)
    assert (counted.hazards, counted.waves, counted.by_mnemonic["v_mfma_f32_16x16x16_f16"]) == (4, 1, 1)


# A change of one instruction, and what is found out: an error of this kind, or a wrong result (None).
SLIPS = (
    ("copy", "v1, s[4:7], 0 offen", "v1, s[8:11], 0 offen", None),
    ("copy", "v_lshl_add_u32 v1, v0, 4, s3", "v_lshl_add_u32 v1, v0, 3, s3", None),
    ("copy", "buffer_store_dwordx4 v[4:7]", "buffer_store_dwordx4 v[2:5]", "undefined-register"),
    ("copy", "s_mov_b32 s7, 0x20000", "s_nop 0", "memory-fault"),
    ("copy", "s_load_dword s12, s[0:1], 0x10", "s_load_dword s12, s[0:1], 0x14", "undefined-memory"),
    ("reduce", "s_movk_i32 s8, 128", "s_movk_i32 s8, 256", "lds-bounds"),
    ("reduce", "v_cmp_gt_u32_e32 vcc, s8, v0", "v_cmp_ge_u32_e32 vcc, s8, v0", "lds-bounds"),
    ("reduce", "ds_write_b32 v2, v5", "ds_write_b32 v2, v6", None),
    ("mfma_tile", "v[8:11], v[4:5], v[6:7], 0", "v[8:11], v[6:7], v[4:5], 0", None),
    ("mfma_tile", "offset:192", "offset:196", "memory-fault"),
    ("gemm", "ds_write_b32 v15, v25 offset:1024", "ds_write_b32 v15, v25 offset:1028", "lds-bounds"),
    ("gemm", "ds_read_b64 v[28:29], v11 offset:1024", "ds_read_b64 v[28:29], v11 offset:1016", None),
    ("gemm", "  s_barrier\n  ds_read", "  ds_read", "undefined-memory"),
    ("gemm", "  s_barrier\n  s_add_u32", "  s_add_u32", "race"),
)


@pytest.mark.parametrize(("name", "old", "new", "kind"), SLIPS, ids=[f"{slip[0]}: {slip[2].strip()}" for slip in SLIPS])
def test_a_wrong_instruction_is_noticed(name: str, old: str, new: str, kind: str | None) -> None:
    launch = next(launch for launch in LAUNCHES if launch.name == name)
    assert launch.text.count(old) == 1

    changed = launch.text.replace(old, new)

    assert kind_of_error(launch, changed) == kind
    if kind is None:
        assert not np.allclose(launch.run(changed).buffers[launch.output], launch.result, rtol=1e-5, atol=1e-5)
