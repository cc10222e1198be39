"""Debugging channels: silent unless asked, JSON lines when they are."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from gfx942.builder import KernelBuilder
from gfx942.expr.emitter import ExpressionEmitter

from optimizer.cli import main
from optimizer.kernels.amdgpu.abi import THREAD_ID
from optimizer.kernels.amdgpu.debug import VARIABLES, say
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.text import parse, text_of

PROGRAM = parse("""
    s_cmp_eq_u32 s2, 0
    v_mov_b32 kv0, 9
    ds_read_b64 kv4..+2@2, v0
loop:
    v_lshlrev_b32 kv1, 8, kv0
    v_add_u32 kv2, kv1, v0
    ds_write_b32 v0, kv2
    s_cbranch_scc1 loop
    ds_write_b64 v0, kv4..+2@2
    s_endpgm
""")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


def test_nothing_is_said_unasked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES["alloc"], "0")
    build(PROGRAM)
    assert capsys.readouterr() == ("", "")


EXPECTED = {
    "liveness": ["Building CFG...", "Found 3 basic blocks", "Detected loop: blocks 1-1",
                 "Extending live range for kv0: 4 -> 6 (loop-carried)"],
    "alloc": ["[ALLOC] v1 (single)", "[FREE] v1", "[ALLOC] v[2:3] (range, align=2)", "[FREE] v[2:3]"],
    "regalloc": ["4 registers of class v"],
    "passes": ["v_lshlrev_b32 at 4 and v_add_u32 at 5: v_lshl_add_u32", "fuse-shift-add: 10 -> 9 items"],
}  # fmt: skip


@pytest.mark.parametrize("channel", EXPECTED)
def test_a_channel_says_what_happened(
    channel: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLES[channel], "1")
    build(PROGRAM)
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {record["channel"] for record in records} == {channel}
    said = "\n".join(record["message"] for record in records)
    assert [text for text in EXPECTED[channel] if text not in said] == []


@pytest.mark.parametrize(
    ("channel", "said"),
    [("liveness", "Detected loop: blocks 1-1"), ("alloc", "[ALLOC] v1 (single)"), ("regalloc", "registers of class v")],
)
def test_alloc_says_what_happened(
    channel: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "loop.kir"
    path.write_text(text_of(PROGRAM))
    monkeypatch.setenv(VARIABLES[channel], "1")
    assert main(["asm", "alloc", str(path)]) == 0
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {record["channel"] for record in records} == {channel}
    assert said in "\n".join(record["message"] for record in records)


@pytest.mark.parametrize("command", ["alloc", "build"])
@pytest.mark.parametrize(
    ("channel", "said"),
    [("liveness", "Detected loop: blocks 1-1"), ("regalloc", "VGPRs"), ("regalloc", "kv4..+2")],
)
def test_where_registers_run_out_it_is_said_too(
    channel: str, said: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = tmp_path / "loop.kir"
    path.write_text(".max_vgprs 3\n" + text_of(PROGRAM))
    monkeypatch.setenv(VARIABLES[channel], "1")
    assert main(["asm", command, str(path)]) != 0
    records = [line for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert said in "\n".join(json.loads(line)["message"] for line in records)


def test_records_reach_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="optimizer.kernels.amdgpu"):
        say("cse", "found again", expression="4*tid_x")
    assert caplog.messages == ["[CSE] found again"]
    assert caplog.records[0].fields == {"channel": "cse", "expression": "4*tid_x"}  # type: ignore[attr-defined]


def test_expressions_say_what_they_become(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for channel in ("emitter", "cse", "ds-offset"):
        monkeypatch.setenv(VARIABLES[channel], "1")
    emitter = ExpressionEmitter(KernelBuilder())
    lane = emitter.bind("lane", THREAD_ID, 0, 63)
    emitter.emit(3 * lane)
    emitter.emit(3 * lane)
    emitter.lds_address(4 * lane + 128)
    said = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert said[:3] == ["miss: 3*lane", "3*lane -> kv0", "hit: 3*lane"]
    assert "4*lane + 128: offset:128" in said
