"""Predicted times: orderings that plans depend on, and the constants' files."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import UnknownNameError
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.timing import FORMULAS, Timing
from optimizer.opmodel.analytical.work import Work
from optimizer.opmodel.base import OpModel, OpQuery

BOARDS = ("n150", "p150")
SHAPE = (2048, 1024)


@pytest.fixture(params=BOARDS)
def model(request: pytest.FixtureRequest) -> OpModel:
    return registry.create("analytical", DeviceSpec.preset(request.param))


def _time(model: OpModel, op: str, inputs, out, attrs=()) -> int:
    query = OpQuery(op, inputs, attrs, None, out)
    answer = model.constraints(query)
    assert answer.valid, answer.error
    return model.runtime_ns(query)


def test_elementwise_ops_on_shards_are_several_times_faster(model: OpModel, layouts) -> None:
    shard, t = layouts.height(64, 32, 1024), layouts.tensor
    in_dram = _time(model, "ttnn.add", (t(SHAPE), t(SHAPE)), layouts.dram)
    in_l1 = _time(model, "ttnn.add", (t(SHAPE, layouts.l1), t(SHAPE, layouts.l1)), layouts.l1)
    in_shards = _time(model, "ttnn.add", (t(SHAPE, shard), t(SHAPE, shard)), shard)
    assert 4 * in_shards < in_dram
    assert in_shards < in_l1 < in_dram


def test_a_matmul_into_interleaved_l1_is_the_slowest(model: OpModel, layouts) -> None:
    inputs = (layouts.tensor(SHAPE), layouts.tensor((1024, 1024)))
    assert _time(model, "ttnn.matmul", inputs, layouts.l1) > 2 * _time(model, "ttnn.matmul", inputs, layouts.dram)


def test_moving_between_dram_and_l1_costs_its_bytes(model: OpModel, layouts) -> None:
    small, large = (2048, 32), (2048, 1024)
    times = [
        _time(model, "ttnn.to_memory_config", (layouts.tensor(s),), layouts.height(64, 32, s[1]))
        for s in (small, large)
    ]
    least = 2048 * 1024 * 2 / model.device.dram_peak_gbps
    assert times[0] < times[1]
    assert times[1] > least


def test_staying_in_shards_beats_a_round_trip(model: OpModel, layouts) -> None:
    height, block, t = layouts.height(64, 32, 1024), layouts.block((8, 8), 256, 128), layouts.tensor
    direct = _time(model, "ttnn.to_memory_config", (t(SHAPE, height),), block)
    out = _time(model, "ttnn.to_memory_config", (t(SHAPE, height),), layouts.dram)
    back = _time(model, "ttnn.to_memory_config", (t(SHAPE),), block)
    assert direct < out + back


def test_repacking_costs_more_than_a_view(model: OpModel, layouts) -> None:
    view = _time(model, "ttnn.reshape", (layouts.tensor(SHAPE),), None, (("shape", (4, 512, 1024)),))
    repack = _time(model, "ttnn.reshape", (layouts.tensor(SHAPE),), None, (("shape", (1024, 2048)),))
    assert view == 1
    assert repack > 10_000


@pytest.mark.parametrize("arch", ["wormhole_b0", "blackhole"])
def test_every_constant_names_its_unit_and_source(arch: str) -> None:
    text = (resources.files("optimizer.opmodel.analytical") / "constants" / f"{arch}.json").read_text("utf-8")
    record = json.loads(text)
    assert list(record) == sorted(record)
    for name, entry in record.items():
        assert set(entry) == {"value", "unit", "source"}, name
        assert entry["value"] >= 0, name
        assert entry["unit"], name
        assert entry["source"], name


def test_both_architectures_have_the_same_constants() -> None:
    assert list(Timing("wormhole_b0", 1000).k) == list(Timing("blackhole", 1350).k)


@pytest.mark.parametrize("family", sorted(FORMULAS))
def test_an_empty_work_takes_its_start(family: str) -> None:
    assert Timing("blackhole", 1350).time(Work(family, "none", 1))[0] >= 1


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(UnknownNameError, match="alchemy"):
        Timing("blackhole", 1350).time(Work("alchemy", "none", 1))
