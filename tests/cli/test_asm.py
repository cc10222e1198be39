"""`ttopt asm`: one JSON line per program, exit codes as documented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optimizer.cli import main

CASES = Path(__file__).parents[2] / "fixtures/kernels/amdgpu_cases.json"


def program(count: int, limit: int) -> dict[str, object]:
    """`count` values that are live at once."""
    body = [{"name": "v_add_u32", "defs": [f"kv{n}"], "uses": ["v0", "v0"]} for n in range(count)]
    body += [{"name": "ds_write_b32", "uses": ["v0", f"kv{n}"]} for n in range(count)]
    return {"max_vgprs": limit, "reserved_vgprs": [0], "instructions": [*body, {"name": "s_endpgm"}]}


def test_a_case_is_allocated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["asm", "alloc", str(CASES), "--id", "a10_precolor"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["id"] == "a10_precolor"
    assert {"ks0": 2, "ks2": 4}.items() <= record["mapping"].items()
    assert set(record) == {"id", "mapping", "peak_vgprs", "peak_sgprs"}


def test_what_does_not_fit_is_explained_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.json"
    path.write_text(
        json.dumps({"cases": [{"id": "full", "program": program(6, 4)}, {"id": "ok", "program": program(2, 4)}]})
    )
    assert main(["asm", "alloc", str(path)]) == 1
    full, ok = map(json.loads, capsys.readouterr().out.splitlines())
    assert full["error"]["code"] == "out-of-registers"
    assert full["error"]["capacity"] == 4
    assert full["error"]["overlaps"]
    assert ok["peak_vgprs"] == 3
    assert main(["asm", "alloc", str(path), "--allow-spill"]) == 0
    captured = capsys.readouterr()
    assert "warning: full:" in captured.err
    assert json.loads(captured.out.splitlines()[0])["program"]["instructions"]


def test_a_case_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.json"
    bad = {"instructions": [{"name": "v_mov_b32", "defs": ["what"]}]}
    path.write_text(json.dumps({"cases": [{"id": "bad", "program": bad}, {"id": "ok", "program": program(2, 4)}]}))
    assert main(["asm", "alloc", str(path)]) == 1
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["id"] for r in records] == ["bad", "ok"]
    assert records[0]["error"]["code"] == "bad-format"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[3]", "cases[0]: an object is due, not 3"),
        ('{"cases": 3}', "cases: a list is due, not 3"),
        ('{"cases": []}', "no programs"),
        ('{"cases": [{"id": "x01", "kind": "expr"}]}', "no programs"),
    ],
)
def test_documents_that_are_none_end_with_2(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(text)
    assert main(["asm", "alloc", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


UNDEFINED = {"instructions": [{"name": "ds_write_b32", "uses": ["v0", "kv0"]}, {"name": "s_endpgm"}]}


@pytest.mark.parametrize(
    ("document", "arguments", "status", "code"),
    [
        (UNDEFINED, (), 2, "bad-ssa"),
        ({"instructions": [{"name": "v_mov_b33"}]}, (), 2, "bad-opcode"),
        (program(6, 4), (), 1, "out-of-registers"),
        ({"cases": [{"id": "bad", "program": UNDEFINED}]}, (), 2, "bad-ssa"),
        ({"cases": [{"id": "bad", "program": UNDEFINED}, {"id": "ok", "program": program(2, 4)}]}, (), 1, "bad-ssa"),
        (
            {"cases": [{"id": "bad", "program": UNDEFINED}, {"id": "ok", "program": program(2, 4)}]},
            ("--id", "bad"),
            2,
            "bad-ssa",
        ),
    ],
)
def test_a_program_that_stands_alone_decides_the_exit_code(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    document: dict[str, object],
    arguments: tuple[str, ...],
    status: int,
    code: str,
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(document))
    assert main(["asm", "alloc", str(path), *arguments]) == status
    captured = capsys.readouterr()
    records = [json.loads(line) for line in captured.out.splitlines()]
    assert records[0]["error"]["code"] == code
    assert ("ttopt: error:" in captured.err) == (len(records) == 1)


def test_one_program_is_a_document_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.json"
    path.write_text(json.dumps(program(2, 4)))
    assert main(["asm", "alloc", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "kernel"
