"""What the stand-in of ttnn refuses, how buffers are shared and freed, and whose signatures it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ttnn_standin import Refused, Standin, Unmodelled, UseAfterFree
from ttnn_standin.conv_pool import works_on
from ttnn_standin.module import OPS
from ttnn_standin.signatures import RECORD, Arguments
from ttnn_standin.tensor import to_bfloat16

STANDIN = Path(__file__).parent / "ttnn_standin"


def machine(**how: Any) -> tuple[Any, Callable[..., Any]]:
    """The module, and a function that makes tensors of consecutive numbers in DRAM."""
    standin = Standin(**how)
    t = standin.ttnn

    def tensor(*shape: int, layout: Any = None, memory: Any = None, dtype: Any = None) -> Any:
        elements = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        array = elements if dtype is None else elements.astype(np.uint32)
        place = t.DRAM_MEMORY_CONFIG if memory is None else memory
        return t.Tensor(array, dtype or t.bfloat16, standin.device, layout or t.TILE_LAYOUT, place)

    return t, tensor


def shards(t: Any, kind: str, cores_xy: tuple[int, int], shape: list[int]) -> Any:
    """A memory config of shards in L1 on a grid from the first core."""
    end = t.CoreCoord(cores_xy[0] - 1, cores_xy[1] - 1)
    grid = t.CoreRangeSet([t.CoreRange(t.CoreCoord(0, 0), end)])
    spec = t.ShardSpec(grid, shape, t.ShardOrientation.ROW_MAJOR)
    return t.MemoryConfig(getattr(t.TensorMemoryLayout, f"{kind}_SHARDED"), t.BufferType.L1, spec)


# -- arguments ---------------------------------------------------------------------------------------------
BAD_CALLS: dict[str, tuple[Callable[..., Any], str]] = {
    "unknown keyword": (lambda t, x: t.relu(x, inplace=True), "inplace unknown"),
    "too many positional arguments": (lambda t, x: t.relu(x, None), "2 positional arguments, at most 1"),
    "number for a tensor": (lambda t, x: t.matmul(x, 2.0), "no Tensor"),
    "float for an integer": (lambda t, x: t.softmax(x, dim=1.0), "no int"),
    "text for an enumeration": (lambda t, x: t.to_layout(x, "TILE"), "no Layout"),
    "missing argument": (lambda t, x: t.permute(x), "dims is missing"),
    "member of another enumeration": (lambda t, x: t.typecast(x, t.TILE_LAYOUT), "no DataType"),
    "fractional slice": (lambda t, x: t.slice(x, [0, 0.5], [64, 64], [1, 1]), "no "),
    "positional argument that is a keyword": (lambda t, x: t.softmax(x, -1, None), "at most 2"),
    "wrong fields of a config": (lambda t, x: t.relu(t.CoreGrid(x, 2, 3)), "3 positional arguments"),
    "padding before tiled rows": (lambda t, x: t.pad(x, [(1, 0), (0, 0)], 0.0), "no padding in front"),
    "rank of the bounds": (lambda t, x: t.slice(x, [0], [64], [1]), r"ttnn\.slice"),
    "sizes that do not broadcast": (lambda t, x: t.add(x, t.slice(x, [0, 0], [3, 64], [1, 1])), "broadcast"),
    "shapes that do not multiply": (lambda t, x: t.matmul(x, t.slice(x, [0, 0], [3, 64], [1, 1])), "times"),
    "different page layouts": (lambda t, x: t.add(x, t.to_layout(x, t.ROW_MAJOR_LAYOUT)), "page layouts"),
    "row-major operand of a matmul": (lambda t, x: t.matmul(t.to_layout(x, t.ROW_MAJOR_LAYOUT), x), "not tiled"),
    "operand on the host": (lambda t, x: t.relu(t.from_device(x)), "on the host"),
    "bias of another width": (lambda t, x: t.linear(x, x, bias=t.slice(x, [0, 0], [1, 32], [1, 1])), "bias"),
    "bias of many rows": (lambda t, x: t.linear(x, x, bias=x), "bias"),
    "dim of a smaller rank": (lambda t, x: t.sum(x, dim=2), "dim 2"),
    "table of other rows": (lambda t, x: t.embedding(x, x), "a table"),
    "shards without a spec": (
        lambda t, x: t.relu(x, memory_config=t.MemoryConfig(t.TensorMemoryLayout.HEIGHT_SHARDED, t.BufferType.L1)),
        "without a shard spec",
    ),
    "shards in DRAM": (
        lambda t, x: t.relu(
            x, memory_config=t.MemoryConfig(t.TensorMemoryLayout.HEIGHT_SHARDED, t.BufferType.DRAM, None)
        ),
        "shards in",
    ),
    "width shards of part of the rows": (
        lambda t, x: t.relu(x, memory_config=shards(t, "WIDTH", (2, 1), [32, 32])), "not as high"),
    "height shards of part of the columns": (
        lambda t, x: t.relu(x, memory_config=shards(t, "HEIGHT", (2, 1), [32, 32])), "not as wide"),
    "block shards of more rows than cores": (
        lambda t, x: t.relu(x, memory_config=shards(t, "BLOCK", (2, 1), [32, 32])), "more than 2 cores"),
    "interleaved operand moved as shards": (
        lambda t, x: t.reshard(x, shards(t, "HEIGHT", (2, 1), [32, 64])), "an interleaved operand"),
    "result that does not fit": (
        lambda t, x: t.relu(t.slice(x, [0, 0], [32, 64], [1, 1]), output_tensor=x), "does not fit output_tensor"),
    "memory config of another place": (
        lambda t, x: t.relu(x, memory_config=t.L1_MEMORY_CONFIG, output_tensor=x), "not that of output_tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_are_refused(name: str) -> None:
    call, reason = BAD_CALLS[name]
    t, tensor = machine()
    with pytest.raises(Refused, match=reason):
        call(t, tensor(64, 64))


def test_arguments_that_change_values_and_are_not_modelled_say_so() -> None:
    t, tensor = machine()
    with pytest.raises(Unmodelled, match="fast_and_approximate_mode"):
        t.gelu(tensor(32, 32), fast_and_approximate_mode=True)


def test_functions_that_are_not_there() -> None:
    t, _ = machine()
    with pytest.raises(AttributeError):
        t.no_such_function()


def test_cores_must_be_on_the_board() -> None:
    t, tensor = machine(board="p150")
    memory = shards(t, "BLOCK", (9, 1), [64, 32])
    assert t.relu(tensor(64, 288), memory_config=memory).memory_config() == memory
    t, tensor = machine(board="n150")
    with pytest.raises(Refused, match="not on a grid"):
        t.relu(tensor(64, 288), memory_config=memory)


def test_indices_beyond_the_table_are_refused() -> None:
    t, tensor = machine()
    ids = tensor(1, 5, layout=t.ROW_MAJOR_LAYOUT, dtype=t.uint32)
    with pytest.raises(Refused, match="indices up to 4 of 3 rows"):
        t.embedding(ids, tensor(3, 32, layout=t.ROW_MAJOR_LAYOUT))


def test_negative_numbers_are_no_unsigned_integers() -> None:
    t, tensor = machine()
    with pytest.raises(Refused, match="UINT32"):
        t.typecast(t.neg(tensor(2, 2)), t.uint32)


# -- buffers -----------------------------------------------------------------------------------------------
def test_a_freed_tensor_cannot_be_read() -> None:
    t, tensor = machine()
    x = tensor(64, 64)
    t.deallocate(x)
    t.deallocate(x)  # does nothing
    with pytest.raises(UseAfterFree, match=r"ttnn\.relu reads what ttnn\.Tensor made and ttnn\.deallocate freed"):
        t.relu(x)


def test_views_go_with_their_source() -> None:
    t, tensor = machine()
    x = tensor(2, 32, 64)
    view = t.reshape(x, (64, 64))
    copy = t.reshape(x, (128, 32))
    t.deallocate(x)
    assert t.relu(copy).shape == (128, 32)
    with pytest.raises(UseAfterFree):
        t.relu(view)


@pytest.mark.parametrize(
    ("shape", "into", "tiled", "shared"),
    [
        ((1, 40, 40, 256), (1, 1, 1600, 256), False, True),
        ((1, 40, 40, 256), (1, 1, 1600, 256), True, False),
        ((1, 1, 64, 256), (1, 2, 32, 256), True, True),
        ((1, 1, 40, 256), (40, 1, 1, 256), True, False),
        ((1, 1, 40, 256), (40, 1, 1, 256), False, True),
        ((64,), (1, 1, 1, 64), True, True),
        ((1, 1, 1, 64), (1, 1, 2, 32), False, False),
    ],
)
def test_which_reshapes_are_views(shape: tuple[int, ...], into: tuple[int, ...], tiled: bool, shared: bool) -> None:
    """As the addresses of buffers say on a simulated n150 with ttnn 0.81.1."""
    t, tensor = machine()
    x = tensor(*shape, layout=t.TILE_LAYOUT if tiled else t.ROW_MAJOR_LAYOUT)
    made = t.reshape(x, into, memory_config=t.DRAM_MEMORY_CONFIG)
    assert (made.buffer is x.buffer) == shared


def test_padding_within_tiles_shares_their_memory() -> None:
    t, tensor = machine()
    x = tensor(40, 50)
    within, beyond = t.pad(x, [(0, 24), (0, 14)], 7.0), t.pad(x, [(0, 25), (0, 0)], 7.0)
    assert within.read()[63, 63] == 7
    t.deallocate(x)
    assert t.relu(beyond).shape == (65, 50)
    with pytest.raises(UseAfterFree):
        t.relu(within)


@pytest.mark.parametrize("aliasing", [True, False])
def test_ops_with_nothing_to_do_may_hand_back_their_operand(aliasing: bool) -> None:
    t, tensor = machine(aliasing=aliasing)
    x = tensor(64, 64)
    idle = [
        t.to_layout(x, t.TILE_LAYOUT),
        t.to_memory_config(x, t.DRAM_MEMORY_CONFIG),
        t.permute(x, (0, 1)),
        t.slice(x, [0, 0], [64, 64], [1, 1]),
        t.concat([x], dim=1),
        t.pad(x, [(0, 0), (0, 0)], 0.0),
        t.repeat(x, (1, 1)),
        t.split(x, 64, 1)[0],
        t.transpose(x, 1, 1),
        t.permute(t.unsqueeze(t.unsqueeze(x, 0), 0), (1, 0, 2, 3)),
    ]
    assert all((made.buffer is x.buffer) == aliasing for made in idle)
    assert t.relu(x).buffer is not x.buffer
    assert t.permute(x, (1, 0)).buffer is not x.buffer
    assert t.typecast(x, t.bfloat16).buffer is not x.buffer


def test_results_in_place_are_seen_through_views() -> None:
    t, tensor = machine()
    x = tensor(64, 64)
    view = t.reshape(x, (1, 64, 64))
    made = t.neg(x, output_tensor=x)
    assert made.buffer is x.buffer
    assert view.read()[0, 0, 5] == -5


def test_a_convolution_frees_its_input_in_l1_alone() -> None:
    for where in ("L1", "DRAM"):
        t, tensor = machine()
        x = tensor(1, 1, 64, 32, memory=getattr(t, f"{where}_MEMORY_CONFIG"))
        weight = t.Tensor(np.ones((32, 32, 1, 1), np.float32), t.bfloat16)
        made = t.conv2d(
            input_tensor=x, weight_tensor=weight, device=_device(t), in_channels=32, out_channels=32,
            batch_size=1, input_height=8, input_width=8, kernel_size=(1, 1),
            conv_config=t.Conv2dConfig(deallocate_activation=True), memory_config=t.DRAM_MEMORY_CONFIG,
        )  # fmt: skip
        assert made.read()[0, 0, 0, 0] == np.arange(32).sum()
        if where == "L1":
            with pytest.raises(UseAfterFree, match=r"ttnn\.conv2d freed"):
                t.relu(x)
        else:
            assert t.relu(x).shape == x.shape


def _device(t: Any) -> Any:
    return t.open_device(device_id=0, l1_small_size=32768)


def test_norms_in_place_overwrite_their_operand() -> None:
    t, tensor = machine()
    memory = shards(t, "BLOCK", (1, 2), [32, 64])
    x = t.to_memory_config(tensor(64, 64), memory)
    config = t.LayerNormShardedMultiCoreProgramConfig(
        compute_with_storage_grid_size=t.CoreCoord(1, 2), subblock_w=1, block_h=1, block_w=2, inplace=True
    )
    made = t.layer_norm(x, program_config=config, memory_config=memory)
    assert made.buffer is x.buffer
    assert abs(float(x.read().mean())) < 1e-6


def test_programs_import_ttnn_and_the_standard_library() -> None:
    with pytest.raises(Refused, match="imports numpy"):
        Standin().load("import numpy")


# -- rounding ----------------------------------------------------------------------------------------------
def test_bfloat16_is_rounded_to_the_nearest_and_ties_to_even() -> None:
    given = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -np.inf, np.nan, 3e38], np.float32)
    wanted = np.array([1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -np.inf, np.nan, 3e38], np.float32)
    found = to_bfloat16(given)
    assert np.array_equal(found[:-1], wanted[:-1], equal_nan=True)
    assert abs(found[-1] / 3e38 - 1) < 2**-8


def test_results_are_rounded_when_asked_for() -> None:
    for rounding, wanted in ((False, np.float32(1 / 3)), (True, np.float32(0.333984375))):
        t, tensor = machine(rounding=rounding)
        assert t.divide(tensor(1, 2), 3.0).read()[0, 1] == wanted


# -- signatures --------------------------------------------------------------------------------------------
def test_signatures_are_the_wheels(needs_ttnn: None, request: pytest.FixtureRequest) -> None:
    """The record is what the installed ttnn says; `--update-golden` writes it again."""
    names = {
        "functions": sorted({*OPS, *RECORD["functions"]}),
        "types": list(RECORD["types"]),
        "enums": list(RECORD["enums"]),
    }
    done = subprocess.run(
        [sys.executable, str(STANDIN / "record.py")], input=json.dumps(names), capture_output=True, text=True,
        check=True, env={**os.environ, "LOGURU_LEVEL": "ERROR"},
    )  # fmt: skip
    path = STANDIN / "signatures.json"
    if request.config.getoption("--update-golden"):
        path.write_text(done.stdout, encoding="utf-8")
    assert json.loads(done.stdout) == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("layout", "columns", "shard", "kernel", "kept"),
    [
        ("BLOCK", 4, [32, 64], (1, 1), True),
        ("BLOCK", 3, [32, 96], (1, 1), False),  # 288 columns of shards for 256 channels
        ("BLOCK", 3, [32, 96], (3, 3), True),
        ("BLOCK", 4, [49, 64], (1, 1), False),  # rows that are no whole tiles
        ("HEIGHT", 1, [32, 256], (1, 1), True),
        ("WIDTH", 8, [32, 32], (1, 1), False),
        ("WIDTH", 8, [32, 32], (3, 3), True),
        ("BLOCK", 4, [32, 62], (3, 3), False),
    ],
)
def test_a_convolution_spreads_shards_that_it_cannot_work_on(
    layout: str, columns: int, shard: list[int], kernel: tuple[int, int], kept: bool
) -> None:
    """Only for these may weights be prepared for other shards than the input's."""
    t, _ = machine()
    memory = shards(t, layout, (columns, 1), shard)
    told = {"kernel_size": kernel, "stride": (1, 1), "padding": (kernel[0] // 2,) * 2, "in_channels": 256}
    assert works_on(Arguments("conv2d", told, frozenset(told)), memory) is kept
