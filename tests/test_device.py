"""Boards: what a board file may say, and how a wrong one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.device import DeviceSpec, board_option, preset_names
from optimizer.errors import FormatError, InputError, OptionError


def board_file(folder: Path, **changes: Any) -> str:
    path = folder / "own.json"
    path.write_text(json.dumps({**DeviceSpec.preset("n150").to_json(), **changes}))
    return str(path)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_survives_a_round_trip(name: str) -> None:
    board = DeviceSpec.preset(name)
    assert DeviceSpec.from_json(board.to_json()) == board


def test_a_board_file(tmp_path: Path) -> None:
    board = DeviceSpec.load(board_file(tmp_path, name="own", grid_yx=[4, 2]))
    assert (board.name, board.num_cores) == ("own", 8)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("grid_yx", [10**9, 10**9], "'grid_yx' must be between 1 and 64"),
        ("grid_yx", [0, 8], "'grid_yx' must be between 1 and 64"),
        ("worker_l1_bytes", 2**63, "'worker_l1_bytes' must be between 1 and 1073741824"),
        ("l1_alignment_bytes", 24, "'l1_alignment_bytes' must be a power of two, got 24"),
        ("dram_alignment_bytes", 2**20, "'dram_alignment_bytes' must be between 1 and 4096"),
        ("dram_peak_gbps", 1e300, "'dram_peak_gbps' must be between 0.001 and 1000000"),
        ("clock_mhz", 0, "'clock_mhz' must be between 1 and 100000"),
        ("cb_base_bytes", 2**30, "must exceed 'cb_base_bytes'"),
    ],
)
def test_a_figure_out_of_range_is_named(tmp_path: Path, field: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        DeviceSpec.load(board_file(tmp_path, **{field: value}))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clock_mhz", 1e3),
        ("grid_yx", [8, True]),
        ("name", 5),
        ("dram_peak_gbps", 10**400),
        ("dram_peak_gbps", float("nan")),
        ("dram_peak_gbps", float("inf")),
    ],
)
def test_a_mistyped_field_is_named(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(FormatError, match=field):
        DeviceSpec.load(board_file(tmp_path, **{field: value}))


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", "{}", "\ufeff{}"])
def test_a_file_that_is_no_board(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"own\.json"):
        DeviceSpec.load(str(path))


@pytest.mark.parametrize(
    ("change", "asked", "option"),
    [
        ({}, "n150", "n150"),
        ({}, "p150", "n150"),
        ({}, "copy.json", "n150"),
        ({"clock_mhz": 900}, "slow.json", "slow.json"),
        ({"clock_mhz": 900}, "n150", "n150.json"),
    ],
)
def test_the_option_board_names_a_preset_where_the_device_is_one(
    change: dict[str, int], asked: str, option: str
) -> None:
    assert board_option(replace(DeviceSpec.preset("n150"), **change), asked) == option
