"""What a kernel's host is given: the manifest, and the Python module that launches it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from test_tensor_backed_buffers import program as backed

from optimizer.device import DeviceSpec
from optimizer.export.launcher import kernel_files, manifest
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import build
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.text import parse
from tests.kernels.tensix.sample_kernels import add_2x2

LOOPED = Path("fixtures/kernels/looped.ttl")


def facts(program: Op, **options: Any) -> dict[str, Any]:
    found = manifest(build(program, KernelOptions(**options)))
    assert json.loads(json.dumps(found)) == found
    return found


def looped() -> Op:
    return parse(LOOPED.read_text(encoding="utf-8"))


def test_buffers_are_listed_with_pages_and_bytes() -> None:
    found = facts(looped())
    rows = [(b["index"], b["dtype"], b["page_bytes"], b["pages"], b["total_bytes"]) for b in found["circular_buffers"]]
    assert rows[:3] == [(0, "bf16", 2048, 16, 32768), (1, "bf16", 2048, 4, 8192), (2, "f32", 4096, 16, 65536)]
    assert found["l1_bytes"] == sum(row[-1] for row in rows)
    assert found["l1_bytes_free"] == 1_000_000


def test_the_grid_of_a_program_is_its_cores() -> None:
    found = facts(looped())
    assert (found["cores"], found["core_count"]) == ([[0, 0, 7, 7]], 64)


def test_tensors_are_listed_inputs_first() -> None:
    found = facts(looped())["tensors"]
    assert [(t["argument"], t["shape"], t["dtype"], t["read"], t["written"]) for t in found] == [
        ("x", [2048, 2048], "bf16", True, False),
        ("w", [32, 2048], "bf16", True, False),
        ("y", [2048, 2048], "f32", False, True),
    ]
    assert {t["layout"]["buffer_type"] for t in found} == {"dram"}


def test_threads_know_where_pages_lie_and_are_told_addresses() -> None:
    compute, reader, writer = facts(looped())["kernels"]
    assert (compute["kind"], compute["accessors"], compute["compile_time_args"]) == ("compute", [], [])
    assert reader["common_runtime_args"] == [{"address_of": "x"}, {"address_of": "w"}]
    assert (reader["compile_time_args"], writer["compile_time_args"]) == ([2, 2048, 2, 2048], [2, 4096])


def test_a_buffer_in_a_shard_takes_no_memory_of_its_own() -> None:
    found = facts(backed())
    x_cb, y_cb = found["circular_buffers"]
    assert (x_cb["tensor"], y_cb["tensor"]) == ("x", None)
    assert found["l1_bytes"] == y_cb["total_bytes"]
    assert found["tensors"][0]["layout"]["shard_shape"] == [96, 64]


def test_the_config_is_what_the_program_says() -> None:
    said = add_2x2().with_attrs(math_fidelity="LoFi", math_approx_mode=True, dst_full_sync_en=True)
    assert facts(said)["compute_config"] == {
        "math_fidelity": "LoFi",
        "math_approx_mode": True,
        "fp32_dest_acc_en": False,
        "dst_full_sync_en": True,
        "unpack_to_dst": [],
    }


@pytest.mark.parametrize(
    ("board", "wide", "fidelity"), [("n150", False, "HiFi4"), ("n150", True, "HiFi3"), ("p150", True, "HiFi4")]
)
def test_a_fidelity_that_nobody_states_is_the_boards(board: str, wide: bool, fidelity: str) -> None:
    found = facts(add_2x2().with_attrs(fp32_dest_acc_en=wide), board=DeviceSpec.preset(board))
    assert (found["board"]["name"], found["compute_config"]["math_fidelity"]) == (board, fidelity)


def test_the_launcher_is_a_module_with_one_function_of_the_inputs() -> None:
    files = kernel_files(build(looped(), KernelOptions()))
    assert list(files) == ["compute.cpp", "reader.cpp", "writer.cpp", "manifest.json", "launch.py", "program.ttl"]
    functions = {f.name: f for f in ast.parse(files["launch.py"]).body if isinstance(f, ast.FunctionDef)}
    assert [a.arg for a in functions["launch"].args.args] == ["device", "x", "w"]
    assert parse(files["program.ttl"]) == looped()


def test_names_of_tensors_stay_apart_from_those_of_the_module() -> None:
    text = LOOPED.read_text(encoding="utf-8").replace("%x:", "%kernels:").replace("(%x,", "(%kernels,")
    text = text.replace("%w:", "%device:").replace("(%w,", "(%device,")
    module = kernel_files(build(parse(text), KernelOptions()))["launch.py"]
    functions = {f.name: f for f in ast.parse(module).body if isinstance(f, ast.FunctionDef)}
    assert [a.arg for a in functions["launch"].args.args] == ["device", "kernels_1", "device_1"]
