"""Programs on whole tensors, core after core: what is meant, interpreted and executed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_grid_and_regions import sliced
from test_tensor_backed_buffers import program as backed

from optimizer.errors import LimitError, VerificationError
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import Launch, build
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.text import parse
from optimizer.kernels.tensix.witness.transfers import BlockPlace, transfers
from optimizer.kernels.tensix.witness.whole_tensors import executed, expected, inputs_of
from optimizer.layouts.memory_config import TensorMemoryLayout
from tests.kernels.tensix.sample_kernels import ROWS


def launch(program: Op) -> Launch:
    return build(program, KernelOptions()).launch


def test_a_core_brings_and_takes_its_slice() -> None:
    moved = transfers(sliced(), ((2, 3),))[(2, 3)]
    assert moved.brought == {"2": [BlockPlace("0", (1, 2), 3, 4)]}
    assert moved.taken == {"3": [BlockPlace("1", (1, 2), 3, 4)]}


def test_loops_bring_block_after_block() -> None:
    moved = transfers(parse(Path("fixtures/kernels/looped.ttl").read_text(encoding="utf-8")), ((1, 2),))[(1, 2)]
    assert [(p.row, p.column) for p in moved.brought["x_cb"]] == [(16, 4), (18, 8), (20, 12), (22, 16)]
    assert [(p.row, p.column) for p in moved.taken["y_cb"]] == [(16, 8), (18, 8), (20, 8), (22, 8)]
    assert len(moved.brought["w_cb"]) == 1


def test_a_block_beyond_its_tensor_is_refused() -> None:
    beyond = backed("(d1 * 3 + d2)", "(d1 * 3 + d2 + 1)")
    assert transfers(beyond, ((0, 0),))[(0, 0)].taken["y_cb"][-1].row == 3
    with pytest.raises(VerificationError, match=r"at \(6, 0\) is beyond %y \(tensor<6x4xbf16>\)"):
        transfers(beyond, ((0, 1),))[(0, 1)]


def test_blocks_of_a_shard_are_its_tiles_in_order() -> None:
    shard = np.arange(2 * 4, dtype=np.float32).repeat(32 * 32).reshape(2, 4, 32, 32).swapaxes(1, 2).reshape(64, 128)
    place = BlockPlace("x", (2, 2), first=4)
    assert place.read(shard)[::32, ::32].tolist() == [[4, 5], [6, 7]]
    place.write(shard, np.full((64, 64), 9, np.float32))
    assert shard[::32, ::32].tolist() == [[0, 1, 2, 3], [9, 9, 9, 9]]


def test_a_tensor_that_backs_a_buffer_has_a_shard_on_every_core() -> None:
    x, y = launch(backed()).tensors
    assert (x.shape, x.layout.memory_layout) == ((192, 128), TensorMemoryLayout.BLOCK_SHARDED)
    assert (y.shape, y.layout.is_dram, y.written, y.read) == ((192, 128), True, True, False)


@pytest.mark.parametrize("name", ["sliced", "backed"])
def test_every_core_contributes(name: str) -> None:
    program = {"sliced": sliced, "backed": backed}[name]()
    described, options = launch(program), KernelOptions()
    inputs = inputs_of(program, described, 0)
    ((written, found),) = expected(program, described, options, inputs).items()
    ((_, x),) = inputs.items()
    assert found.written.all()
    assert np.array_equal(found.exact, x.astype(np.float64) ** 2)
    assert (np.abs(found.interpreted - found.exact) <= found.near).all()
    if has_compiler():
        lowered = lower(program)
        here = executed(described, lowered, emit_program(lowered), inputs).tensors
        assert np.array_equal(here[written], found.interpreted)


def test_scalers_of_reductions_are_one_number() -> None:
    program = ROWS["softmax"]()
    x, ones = inputs_of(program, launch(program), 0).values()
    assert np.unique(ones).tolist() == [1.0]
    assert len(np.unique(x)) > 100
    program = ROWS["rms_norm"]()
    _, scaler, gamma = inputs_of(program, launch(program), 0).values()
    assert len(np.unique(scaler)) == 1 < len(np.unique(gamma))


def test_a_grid_that_the_board_lacks_is_refused() -> None:
    add = parse(Path("fixtures/kernels/add_2x2.ttl").read_text(encoding="utf-8"))
    with pytest.raises(LimitError, match=r"a grid of 9 x 4 cores \(columns, rows\); 'n150' has 8 x 8"):
        launch(add.with_attrs(grid=(9, 4)))
    with pytest.raises(LimitError, match=r"a grid of 3 x 4 cores \(columns, rows\) from core \(6, 0\) on"):
        launch(add.with_attrs(grid=(3, 4), origin=(6, 0)))


def test_a_grid_of_three_dimensions_is_folded() -> None:
    add = parse(Path("fixtures/kernels/add_2x2.ttl").read_text(encoding="utf-8"))
    assert launch(add.with_attrs(grid=(2, 2, 3), origin=(1, 2))).cores == ((1, 2, 4, 4),)
