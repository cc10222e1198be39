"""Limits of GPU programs: what is one more than may be is refused, with the place and the limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optimizer.cli import main
from optimizer.errors import InputError, LimitError
from optimizer.kernels.amdgpu import pipeline, text
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.program_json import read_program
from optimizer.kernels.amdgpu.text import MAX_ARGUMENTS, MAX_ITEMS, MAX_LINE, parse
from optimizer.kernels.amdgpu.witness.interpreter import parse as assembly

CHAIN = "\n".join((".kernel k", *(f"v_add_u32 kv{n}, v0, v0\nds_write_b32 v0, kv{n}" for n in range(40)), "s_endpgm"))


def cases(path: Path, count: int) -> Path:
    program = {"instructions": [{"name": "s_endpgm"}]}
    path.write_text(json.dumps({"cases": [{"id": str(n), "program": program} for n in range(count)]}))
    return path


def test_a_text_has_so_many_instructions_and_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_ITEMS", 3)
    assert len(parse("s_nop 0\nl:\ns_nop 0\n; nothing").body) == 3
    with pytest.raises(LimitError, match=r"line 4: more than 3 instructions and labels.*several kernels"):
        parse("s_nop 0\nl:\ns_nop 0\ns_nop 0")


def test_a_document_has_so_many_instructions() -> None:
    with pytest.raises(InputError, match=r"instructions: 30,001 elements, 30,000 are the limit"):
        read_program({"instructions": [{"name": "s_endpgm"}] * (MAX_ITEMS + 1)})


def test_a_kernel_has_so_many_arguments() -> None:
    given = "".join(f".argument a{n} 4 value\n" for n in range(MAX_ARGUMENTS))
    assert len(parse(f"{given}s_endpgm").launch.arguments) == MAX_ARGUMENTS
    with pytest.raises(LimitError, match=r"line 257: more than 256 arguments"):
        parse(f"{given}.argument more 4 value\ns_endpgm")


def test_an_instruction_has_so_many_characters_and_a_comment_any_number() -> None:
    parse("s_nop 0 ; " + "x" * 2 * MAX_LINE)
    with pytest.raises(LimitError, match=r"line 1: more than 2,000 characters"):
        parse("s_nop 0" + " " * MAX_LINE + "1")


def test_assembly_has_so_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_INSTRUCTIONS", 3)
    assembly.parse_program("s_nop 0\n" * 3)
    with pytest.raises(LimitError, match=r"line 4: more than 3 instructions"):
        assembly.parse_program("s_nop 0\n" * 4)


def test_a_line_of_assembly_has_so_many_characters() -> None:
    with pytest.raises(LimitError, match=r"line 2: more than 2,000 characters"):
        assembly.parse_program("s_nop 0\n" + "v_mov_b32 v0, v1" + ", v1" * 600)


def test_a_document_has_so_many_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["asm", "alloc", str(cases(tmp_path / "cases.json", 1001))]) == 2
    assert "cases: 1,001 elements, 1,000 are the limit" in capsys.readouterr().err


def test_a_build_makes_so_many_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MAX_STEPS", 2_000)
    (tmp_path / "k.kir").write_text(CHAIN)
    assert main(["asm", "build", str(tmp_path / "k.kir")]) == 2
    said = capsys.readouterr().err
    assert "k: all passes over it together takes more than 2,000 steps" in said
    assert "a shorter program, several kernels" in said


def test_all_programs_of_a_document_share_their_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MAX_STEPS", 60)
    path = cases(tmp_path / "cases.json", 50)
    assert main(["asm", "alloc", str(path)]) == 1
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "mapping" in records[0]
    assert records[-1]["error"]["code"] == "too-large"
    assert f"{path}: finding registers" in records[-1]["error"]["message"]
    assert "--id" in records[-1]["error"]["message"]


def test_what_takes_too_long_to_schedule_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse(CHAIN)
    monkeypatch.setattr(pipeline, "MAX_SCHEDULING_STEPS", 10)
    found = build(program)
    (warning,) = found.warnings
    assert warning.startswith("the instructions stay in their order: k: scheduling it takes more than 10 steps")
    assert found.text == build(program, pipeline.AssemblyOptions(schedule=False)).text
