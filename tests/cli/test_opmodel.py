"""`ttopt opmodel query` and `time`: rows in, answers out."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

DRAM = {"memory_layout": "interleaved", "buffer": "dram"}
OPERAND = {"shape": [1, 1, 256, 512], "dtype": "bf16", "layout": "tile", **DRAM}
ROWS = [
    {"id": 7, "op": "relu", "attrs": {}, "inputs": [OPERAND], "request_mem": DRAM, "request_dtype": None},
    {
        "id": "wide",
        "op": "relu",
        "attrs": {},
        "inputs": [{**OPERAND, "shape": [1, 1, 65536, 65536]}],
        "request_mem": {"memory_layout": "interleaved", "buffer": "l1"},
        "request_dtype": None,
        "valid": True,
        "peak_cb": 12,
    },
]
ANSWER_KEYS = ["id", "valid", "kind", "error", "out_mem", "peak_cb", "peak_l1", "peak_total"]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_query(run: Run, tmp_path: Path, suffix: str) -> None:
    path, text = tmp_path / f"rows{suffix}", "\n".join(json.dumps(row) for row in ROWS).encode()
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    status, out, err = run("opmodel", "query", path, "--opmodel", "analytical")
    answers = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert [list(answer) for answer in answers] == [ANSWER_KEYS, ANSWER_KEYS]
    assert (answers[0]["id"], answers[0]["valid"], answers[0]["out_mem"]) == (7, True, DRAM)
    assert (answers[1]["id"], answers[1]["valid"], answers[1]["kind"]) == ("wide", False, "oom_l1")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"id": 1}\nnot json\n', "row 1"),
        (b"not json\n", "line 1: not JSON"),
        (b"[1]\n", "line 1: each line holds one JSON object"),
        (b"\xff\xfe\n", "not a readable JSON-lines file"),
        (b'{"id": 1, "op": "relo", "attrs": {}, "inputs": []}\n', "relo"),
    ],
)
def test_rows_that_are_none(run: Run, tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "rows.jsonl").write_bytes(data)
    status, _, err = run("opmodel", "query", tmp_path / "rows.jsonl")
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_gzip(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(b"plain text")
    status, _, err = run("opmodel", "query", tmp_path / "rows.jsonl.gz")
    assert status == 2
    assert "not a readable JSON-lines file" in err


def test_time(run: Run, tmp_path: Path) -> None:
    columns = "id,arch,clock_mhz,op,op_class,variant,in0_shape,in1_shape,out_shape,in0_dtype,in1_dtype,out_dtype"
    columns += ",in0_mem,in1_mem,out_mem,in0_layout,out_layout,cores,avail_cores,time_ns"
    values = "5,wormhole_b0,1000,UnaryDeviceOperation,eltwise,RELU,1x1x4096x512,,1x1x4096x512,bf16,,bf16"
    values += ",DRAM_INTERLEAVED,,DRAM_INTERLEAVED,TILE,TILE,64,64,1"
    (tmp_path / "rows.csv").write_text(f"{columns}\n{values}\n")
    status, out, _ = run("opmodel", "time", tmp_path / "rows.csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert list(rows[0]) == ["id", "predicted_ns"]
    # 8 MiB through 288 GB/s of DRAM take at least 29 us; the measured column is not read.
    assert (rows[0]["id"], int(rows[0]["predicted_ns"]) > 29_000) == ("5", True)


def test_a_missing_file(run: Run, tmp_path: Path) -> None:
    for command in ("query", "time"):
        status, _, err = run("opmodel", command, tmp_path / "nowhere.csv")
        assert status == 2
        assert "nowhere.csv: No such file or directory" in err
