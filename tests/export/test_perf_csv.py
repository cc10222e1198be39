"""The CSV for tt-perf-report: a row per device program, in the columns that it reads."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import pytest

from optimizer.export.perf_csv import write
from optimizer.export.perf_csv.rows import COLUMNS, SIGNPOST
from optimizer.ir.builder import GraphBuilder
from optimizer.options import Options
from optimizer.result import OptimizedGraph, Role
from tests.export.memory.exported import HOSTILE, N150, RESULTS
from tests.plans import planned

NEEDED = (
    "OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID", "ATTRIBUTES", "MATH FIDELITY",
    *(f"{t}_{c}" for t in ("INPUT_0", "INPUT_1", "OUTPUT_0") for c in (
        *(f"{axis}_PAD[LOGICAL]" for axis in "WZYX"), "DATATYPE", "MEMORY")),
    "DEVICE KERNEL DURATION [ns]", "DEVICE FW DURATION [ns]", "CORE COUNT", "DEVICE ARCH",
    "AVAILABLE WORKER CORE COUNT", "HOST START TS", "OP TO OP LATENCY [ns]",
)  # fmt: skip
"""Columns that tt-perf-report 1.4.1 cannot do without, or reads times from."""
Row = dict[str, str]


def rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module", params=RESULTS)
def result(request: pytest.FixtureRequest) -> OptimizedGraph:
    made: OptimizedGraph = RESULTS[request.param]()
    return made


@pytest.fixture
def ops(result: OptimizedGraph, tmp_path: Path) -> list[Row]:
    """The rows below the signpost."""
    return rows(write(result, tmp_path))[1:]


def test_needed_columns_are_there() -> None:
    assert [name for name in NEEDED if name not in COLUMNS] == []


def test_a_signpost_says_first_that_all_is_predicted(result: OptimizedGraph, tmp_path: Path) -> None:
    path = write(result, tmp_path)
    first, *others = rows(path)

    assert "predicted" in path.name
    assert (first["OP CODE"], first["OP TYPE"]) == (SIGNPOST, "signpost")
    assert "PREDICTED" in SIGNPOST
    assert {row["OP TYPE"] for row in others} <= {"tt_dnn_device", "python_fallback"}


def test_times_of_an_op_add_up_to_its_prediction(result: OptimizedGraph, ops: list[Row]) -> None:
    found: dict[str, int] = defaultdict(int)
    for row in ops:
        found[row["TTOPT OP"]] += int(row["DEVICE KERNEL DURATION [ns]"] or 0)
    hosted = (Role.HOST, Role.TRANSFER)
    fused = {op_id for kernel in result.fused_kernels for op_id in kernel["ops"]}
    stated = {
        op.id: result.records[op.id]
        for op in result.graph.ops()
        if not result.graph.is_const_eval(op) and result.records[op.id].role not in hosted and op.id not in fused
    }
    for op, record in stated.items():
        assert record.predicted is not None
        assert abs(found[op] - record.predicted.time_ns) <= len(record.predicted.parts), op


def test_rows_follow_the_schedule_and_no_two_start_together(result: OptimizedGraph, ops: list[Row]) -> None:
    order = {op.id: k for k, op in enumerate(result.graph.ops())}
    positions = [order[row["TTOPT OP"]] for row in ops]
    starts = [int(row["HOST START TS"]) for row in ops]

    assert positions == sorted(positions)
    assert starts == sorted(set(starts))
    assert starts[0] > 0


def test_shapes_and_places_are_those_of_the_plan(result: OptimizedGraph, ops: list[Row]) -> None:
    outputs = {kernel["place"]: kernel["outputs"] for kernel in result.fused_kernels}
    for row in ops:
        value, *_ = outputs.get(row["TTOPT OP"]) or result.graph.op(row["TTOPT OP"]).outputs
        cells = [re.fullmatch(r"(\d+)\[(\d+)\]", row[f"OUTPUT_0_{axis}_PAD[LOGICAL]"]) for axis in "WZYX"]
        logical = tuple(int(cell[2]) for cell in cells if cell)
        shape = result.graph.value(value).shape
        layout = result.layouts[value]
        place = "HOST" if layout.is_host else f"{'L1' if layout.is_l1 else 'DRAM'}_{layout.memory_layout.value.upper()}"

        assert logical == (1,) * (4 - len(shape)) + shape
        assert all(int(cell[1]) >= int(cell[2]) for cell in cells if cell)
        assert row["OUTPUT_0_MEMORY"] == f"DEV_0_{place}"


def test_a_kernel_is_a_row_in_the_place_of_its_ops(tmp_path: Path) -> None:
    result = RESULTS["fused kernels"]()
    (kernel,) = result.fused_kernels
    found = rows(write(result, tmp_path))[1:]
    (row,) = [row for row in found if row["TTOPT ROLE"] == "kernel"]

    assert {row["TTOPT OP"] for row in found} & set(kernel["ops"]) == {kernel["place"]}
    assert row["OP CODE"] == f"GenericOpDeviceOperation ({kernel['kernel']})"
    assert (row["TTOPT NAME"], row["TTOPT BOUND"]) == (kernel["kernel"], kernel["bound"])
    assert (row["DEVICE KERNEL DURATION [ns]"], row["CORE COUNT"]) == (
        str(kernel["predicted_ns"]),
        str(kernel["cores"]),
    )
    assert f"'ops': '{' '.join(kernel['ops'])}'" in row["ATTRIBUTES"]
    assert f"'circular_buffer_bytes': '{kernel['circular_buffer_bytes']}'" in row["ATTRIBUTES"]
    assert sum(int(r["DEVICE KERNEL DURATION [ns]"]) for r in found) == result.summary_json()["predicted_time_ns"]


def test_a_convolution_reads_its_weights_as_they_are_prepared(tmp_path: Path) -> None:
    """3 channels are 32 in tiles: the window of 7 x 7 has 147 elements of 1568."""
    b = GraphBuilder("shallow")
    image = {"batch_size": 1, "input_height": 32, "input_width": 32, "in_channels": 3, "out_channels": 64}
    made = b.op("ttnn.conv2d", b.op("ttnn.relu", b.input("x", (1, 1, 1024, 3)), name="r"),
                b.parameter("w", (64, 3, 7, 7)), b.parameter("b", (1, 1, 1, 64)), name="c",
                kernel_size=(7, 7), padding=(3, 3, 3, 3), **image)  # fmt: skip
    result = planned(b.finish(made), N150, Options(policy="global"))
    found = {row["OP CODE"]: row for row in rows(write(result, tmp_path)) if row["TTOPT OP"] == "c"}
    conv, halo = found["Conv2dDeviceOperation"], found["HaloDeviceOperation"]

    assert [conv[f"INPUT_1_{axis}_PAD[LOGICAL]"] for axis in "WZYX"] == ["1[1]", "1[1]", "1568[147]", "64[64]"]
    assert [conv[f"INPUT_2_{axis}_PAD[LOGICAL]"] for axis in "YX"] == ["32[1]", "64[64]"]
    assert "window_hw=(7;7)" in conv["ATTRIBUTES"]
    assert halo["INPUT_0_X_PAD[LOGICAL]"] == "32[3]"
    assert halo["INPUT_1_MEMORY"] == ""


def test_an_op_on_the_host_has_no_device_time(tmp_path: Path) -> None:
    (hosted,) = [row for row in rows(write(RESULTS["host op"](), tmp_path)) if row["OP TYPE"] == "python_fallback"]

    assert hosted["TTOPT OP"] == "nonzero"
    assert hosted["OP CODE"].startswith("(torch) ")
    assert (hosted["DEVICE KERNEL DURATION [ns]"], hosted["DEVICE ID"]) == ("", "")


def test_a_view_launches_nothing(tmp_path: Path) -> None:
    views = RESULTS["views"]()
    (view,) = [op.id for op in views.graph.ops() if views.records[op.id].role is Role.VIEW]

    assert view not in {row["TTOPT OP"] for row in rows(write(views, tmp_path))}


def test_a_slice_within_a_tile_is_three_programs(tmp_path: Path) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 1, 64, 64))
    result = planned(
        b.finish(b.op("ttnn.slice", x, begins=(0, 0, 0, 16), ends=(1, 1, 64, 64))), N150, Options(policy="dram")
    )

    codes = [row["OP CODE"] for row in rows(write(result, tmp_path))[1:]]

    assert codes == ["UntilizeDeviceOperation", "SliceDeviceOperation", "TilizeWithValPaddingDeviceOperation"]


def test_names_are_kept_whatever_is_in_them(tmp_path: Path) -> None:
    assert HOSTILE in {row["TTOPT NAME"] for row in rows(write(RESULTS["hostile names"](), tmp_path))}


def test_attributes_hold_no_commas(ops: list[Row]) -> None:
    assert [row["ATTRIBUTES"] for row in ops if "," in row["ATTRIBUTES"]] == []


def test_two_exports_are_the_same_bytes(result: OptimizedGraph, tmp_path: Path) -> None:
    assert write(result, tmp_path / "a").read_bytes() == write(result, tmp_path / "b").read_bytes()
