"""Times of programs whose reader, arithmetic and writer run behind each other, and of what shares a link or a core."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.calibration import row_work
from optimizer.opmodel.analytical.timing import Timing
from optimizer.opmodel.analytical.work import Piece, Place, Window, Work
from optimizer.opmodel.base import OpQuery, TensorSpec

WORMHOLE, BLACKHOLE = Timing("wormhole_b0", 1000), Timing("blackhole", 1350)
TILE_BYTES = 2048


def _ns(timing: Timing, work: Work) -> float:
    return timing.breakdown(work).total_ns


def _tilize(rows: int, where: Place) -> Work:
    """Rows of eight tiles of one core."""
    tiles = rows * 8
    window = Window(rows * 32, untilized=(rows, tiles))
    source, target = (Piece(tiles * TILE_BYTES, tiles, where, sticks) for sticks in (rows * 32, 0))
    return Work("tilize", "tilize", 1, (source,), (target,), window=window)


def test_a_row_of_tiles_goes_through_reader_unpacker_and_writer() -> None:
    """One row hides nothing; of many only the slowest thread shows: twice the rows take less than twice the time."""
    one, two, many = (_ns(BLACKHOLE, _tilize(rows, Place.DRAM)) for rows in (1, 2, 64))
    assert two < 1.8 * one
    assert many / 64 < 0.7 * one


def test_tilizing_shards_waits_for_nobody() -> None:
    home, away = (_ns(BLACKHOLE, _tilize(1, where)) for where in (Place.SHARD, Place.DRAM))
    assert 4 * home < away


def test_a_cut_row_is_read_piece_by_piece() -> None:
    """19 rows of 40 tiles on 40 cores: every core reads a piece of each row (measured on Wormhole: 10.2 us)."""
    row = {
        "arch": "wormhole_b0", "op": "TilizeWithValPaddingDeviceOperation", "op_class": "tilize", "cores": "40",
        "in0_shape": "1x1x19x1280", "out_shape": "1x1x32x1280", "in0_dtype": "bf16", "out_dtype": "bf16",
        "in0_mem": "DRAM_INTERLEAVED", "out_mem": "DRAM_INTERLEAVED", "in0_layout": "ROW_MAJOR", "out_layout": "TILE",
    }  # fmt: skip
    work = row_work(row)
    assert work.reads[0].sticks == 19 * 40
    assert work.window is not None
    assert work.window.padding == 13
    assert _ns(WORMHOLE, work) == pytest.approx(10_200, rel=0.3)


def test_the_first_tile_of_an_elementwise_op_waits_for_read_and_write() -> None:
    tile = Piece(TILE_BYTES, 1, Place.DRAM)
    home = replace(tile, place=Place.SHARD)
    near = _ns(BLACKHOLE, Work("eltwise", "relu", 1, (home,), (home,)))
    far = _ns(BLACKHOLE, Work("eltwise", "relu", 1, (tile,), (tile,)))
    k = BLACKHOLE.k
    least = BLACKHOLE.cycles(
        k["tile_wait_dram_cycles"] + k["tile_write_cycles"] + 2 * TILE_BYTES / k["tile_bytes_per_cycle"]
    )
    assert far - near > 0.9 * least


def test_a_number_is_spread_over_a_tile_first(layouts) -> None:
    x = layouts.tensor((32, 2048))
    model = registry.create("analytical", DeviceSpec.preset("n150"))
    single = model.cost(OpQuery("ttnn.multiply", (x,), (("scalar", 2.0),), None, layouts.dram))
    copy = model.cost(OpQuery("ttnn.abs", (x,), (), None, layouts.dram))
    assert single.time_ns - copy.time_ns > 1000


def test_cores_of_one_column_share_its_link() -> None:
    """8 cores in a column read 2 MiB from DRAM in 48 us, 8 in two rows a quarter of it in 5 us (measured)."""

    def read(size: int, columns: int) -> float:
        pieces = (Piece(size, size // TILE_BYTES, Place.DRAM),), (Piece(size, 0, Place.SHARD),)
        return _ns(WORMHOLE, Work("reshard", "trace", 8, *pieces, columns=columns))

    assert read(2_097_152, 1) == pytest.approx(48_000, rel=0.25)
    assert read(524_288, 4) == pytest.approx(5_100, rel=0.35)


def test_a_pool_over_an_image_has_the_channels_of_a_core() -> None:
    """A pool that is sharded by width goes through its own channels only."""
    row = {
        "arch": "blackhole", "op": "Pool2D", "op_class": "pool", "cores": "64", "variant": "k32;64 s1;1",
        "in0_shape": "1x1x2048x2048", "out_shape": "1x1x1x2048", "in0_dtype": "bf16", "out_dtype": "bf16",
        "in0_mem": "L1_WIDTH_SHARDED", "out_mem": "L1_WIDTH_SHARDED", "in0_layout": "ROW_MAJOR",
        "out_layout": "ROW_MAJOR",
    }  # fmt: skip
    window = row_work(row).window
    assert window is not None
    assert (window.sticks, window.stick_bytes) == (1, 64)
    flat = row_work({**row, "in0_mem": "L1_HEIGHT_SHARDED", "out_mem": "L1_HEIGHT_SHARDED"})
    assert _ns(BLACKHOLE, flat) > 20 * _ns(BLACKHOLE, row_work(row))


def test_running_sums_are_cut_into_whole_runs() -> None:
    """24 runs of 24 tiles on 20 cores: the busiest core has two, not one and a fifth."""
    row = {
        "arch": "blackhole", "op": "AccumulationDeviceOperation", "op_class": "pool", "cores": "20",
        "in0_shape": "24x1x96x256", "out_shape": "24x1x96x256", "in0_dtype": "bf16", "out_dtype": "bf16",
        "in0_mem": "DRAM_INTERLEAVED", "out_mem": "DRAM_INTERLEAVED",
    }  # fmt: skip
    assert row_work(row).share == 48


def test_a_running_sum_of_a_query_is_cut_alike(layouts) -> None:
    x = TensorSpec((40, 12, 32, 256), DType.BF16, DRAM_TILE)
    model = registry.create("analytical", DeviceSpec.preset("n150"))
    first, last = (model.cost(OpQuery("ttnn.cumsum", (x,), (("dim", dim),), None, layouts.dram)) for dim in (0, -1))
    assert [part.name for part in first.parts] == ["scan"]
    assert first.time_ns > last.time_ns
