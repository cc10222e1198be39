"""Which jobs a batch consists of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from optimizer.batch.plan import parse_sweep, plan_jobs
from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.options import Options


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "deeper").mkdir(parents=True)
    for name in ("b.onnx", "a.onnx", "c.json", "notes.txt"):
        (folder / name).write_text(name)
    (folder / "deeper" / "a.onnx").write_text("another a")
    return folder


def test_a_folder_stands_for_its_models(models: Path) -> None:
    jobs = plan_jobs([models], {}, {})
    assert [job.name for job in jobs] == ["a", "b", "c"]


def test_what_is_no_file_is_no_model(models: Path) -> None:
    """Whoever opened the pipe would wait for ever."""
    os.mkfifo(models / "pipe.onnx")
    (models / "folder.onnx").mkdir()
    (models / "gone.onnx").symlink_to(models / "nowhere")
    jobs = plan_jobs([models], {}, {})
    assert [(job.name, bool(job.digest)) for job in jobs] == [("a", True), ("b", True), ("c", True), ("gone", False)]


def test_models_of_one_name_get_folders_of_their_own(models: Path) -> None:
    jobs = plan_jobs([models / "a.onnx", models / "deeper" / "a.onnx", models / "a.onnx"], {}, {})
    assert [job.name for job in jobs] == ["a", "a-2"]
    (models / "deeper" / "a-2.onnx").write_text("a third")
    jobs = plan_jobs([models / "a.onnx", models / "deeper"], {}, {"seed": [1, 2]})
    assert len({job.name for job in jobs}) == len(jobs) == 6


def test_a_sweep_is_the_product_of_its_values(models: Path) -> None:
    sweep = parse_sweep(["board=n150,p150", "tensor-l1-usage-cap=0.5,0.9"])
    jobs = plan_jobs([models / "a.onnx"], {"seed": 3}, sweep)
    assert [(j.options.board, j.options.tensor_l1_usage_cap) for j in jobs] == [
        ("n150", 0.5),
        ("n150", 0.9),
        ("p150", 0.5),
        ("p150", 0.9),
    ]
    assert {job.options.seed for job in jobs} == {3}
    assert jobs[1].name == "a--board=n150--tensor_l1_usage_cap=0.9"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("input_shapes=x:1,3,x:2,3", [{"x": [1, 3]}, {"x": [2, 3]}]),
        ("input-shapes=x:1x3+y:5,x:2x3", [{"x": [1, 3], "y": [5]}, {"x": [2, 3]}]),
        ("dims=batch=1,batch=8+seq=128", [{"batch": 1}, {"batch": 8, "seq": 128}]),
        (r"insert_memreconfig=add=0\,mul=1,add=0", ["add=0,mul=1", "add=0"]),
        ("time_limit=none,2", [None, 2.0]),
    ],
)
def test_values_may_hold_commas_and_several_entries(text: str, values: list[object]) -> None:
    assert list(parse_sweep([text]).values()) == [values]


def test_a_point_names_its_folder_as_people_write_it(models: Path) -> None:
    jobs = plan_jobs([models / "a.onnx"], {}, parse_sweep(["dims=batch=1+seq=9,batch=8", "time_limit=none,2"]))
    assert [job.name for job in jobs][:2] == [
        "a--dims=batch=1+seq=9--time_limit=none",
        "a--dims=batch=1+seq=9--time_limit=2.0",
    ]


def test_the_key_follows_content_and_options(models: Path) -> None:
    plain = plan_jobs([models / "a.onnx"], {}, {})[0].key
    assert plan_jobs([models / "a.onnx"], {}, {})[0].key == plain
    assert plan_jobs([models / "a.onnx"], {"seed": 1}, {})[0].key != plain
    (models / "a.onnx").write_text("changed")
    assert plan_jobs([models / "a.onnx"], {}, {})[0].key != plain


def test_the_key_follows_the_board_file_and_external_data(models: Path, tmp_path: Path) -> None:
    board = tmp_path / "board.json"
    board.write_text(json.dumps(DeviceSpec.preset("n150").to_json()))
    keys = [plan_jobs([models / "a.onnx"], {"board": str(board)}, {})[0].key]
    board.write_text(json.dumps(DeviceSpec.preset("n150").to_json() | {"clock_mhz": 900}))
    keys.append(plan_jobs([models / "a.onnx"], {"board": str(board)}, {})[0].key)
    (models / "a.onnx.data").write_bytes(b"weights")
    keys.append(plan_jobs([models / "a.onnx"], {"board": str(board)}, {})[0].key)
    assert len(set(keys)) == 3


def test_models_of_one_content_share_a_key(models: Path) -> None:
    (models / "a.onnx").write_text("b.onnx")
    a, b, _ = plan_jobs([models], {}, {})
    assert (a.key, a.name) == (b.key, "a")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("polcy=dram", UnknownNameError, "one of: policy"),
        ("seed=1,x", OptionError, "'seed' must be a whole number, got 'x'"),
        ("seed", OptionError, "OPTION=VALUE"),
        ("policy=dram,dram", OptionError, "'dram' comes twice in the sweep of 'policy'"),
        ("seed=1,01", OptionError, "'01' comes twice in the sweep of 'seed'"),
    ],
)
def test_a_wrong_sweep_is_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_sweep([text])


def test_a_value_that_no_option_takes_is_refused_before_anything_runs(models: Path) -> None:
    with pytest.raises(OptionError, match="tensor_l1_usage_cap"):
        plan_jobs([models], {}, parse_sweep(["tensor_l1_usage_cap=0.5,1.5"]))


@pytest.mark.parametrize("name", ["board", "policy", "opmodel"])
def test_names_that_do_not_exist_are_refused_before_anything_runs(models: Path, name: str) -> None:
    with pytest.raises(UnknownNameError, match="nonesuch"):
        plan_jobs([models], {name: "nonesuch"}, {})
    with pytest.raises(UnknownNameError, match="nonesuch"):
        plan_jobs([models], {}, {name: [getattr(Options(), name), "nonesuch"]})


def test_a_missing_model_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nowhere\.onnx: no such file"):
        plan_jobs([tmp_path / "nowhere.onnx"], {}, {})
    with pytest.raises(FormatError, match="no model in this folder"):
        plan_jobs([tmp_path], {}, {})
