"""What one refusal says about other questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_TILE, HOST_ROW_MAJOR, TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.base import OpConstraints, OpQuery, Rejection, TensorSpec
from optimizer.opmodel.cached import CachedOpModel
from optimizer.pipeline.refusals import Refusals, refusal_case, refusal_class

N150 = DeviceSpec.preset("n150")


def height(rows: int, cores: int) -> TensorLayout:
    return sharded_layout((1, 1, rows, 64), TensorMemoryLayout.HEIGHT_SHARDED, (cores, 1), N150)


def relu(rows: int, layout: TensorLayout) -> OpQuery:
    return OpQuery("ttnn.relu", (TensorSpec((1, 1, rows, 64), DType.BF16, layout),), (), None, layout.memory)


class Strict(AnalyticalOpModel):
    """Refuses relus of height shards on fewer than 8 cores, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(N150, 32768)
        self.questions = 0

    def constraints(self, query: OpQuery) -> OpConstraints:
        self.questions += 1
        spec = query.inputs[0].layout.shard_spec
        if spec is not None and spec.num_cores < 8:
            return OpConstraints.rejected(Rejection.VALIDATION, "too few cores")
        return super().constraints(query)


@pytest.fixture
def refusals() -> Refusals:
    return Refusals(Strict())


@pytest.fixture
def model(refusals: Refusals) -> CachedOpModel:
    cached = CachedOpModel(AnalyticalOpModel(N150, 32768))
    cached.correct_by(refusals.answer)
    return cached


def test_the_judge_is_asked_the_whole_class(refusals: Refusals, model: CachedOpModel) -> None:
    others = (relu(1024, height(1024, 4)), relu(1024, height(1024, 32)), relu(1024, DRAM_TILE))
    assert all(model.constraints(query).valid for query in others)

    refusals.suspect(relu(256, height(256, 2)))

    assert [model.constraints(query).valid for query in others] == [False, True, True]
    assert isinstance(refusals.judge, Strict)
    assert refusals.judge.questions == 2  # not the one in DRAM, which is of another class


def test_a_case_is_refused_with_all_its_shards(refusals: Refusals, model: CachedOpModel) -> None:
    refusals.refuse_case(relu(256, height(256, 2)), "a hole in L1")

    answers = [model.constraints(q) for q in (relu(256, height(256, 8)), relu(512, height(512, 8)))]
    assert [a.valid for a in answers] == [False, True]
    assert "a hole in L1" in str(answers[0].error)


def test_a_class_and_a_shape_stay_out_of_l1(refusals: Refusals, model: CachedOpModel) -> None:
    refusals.refuse_class(relu(256, height(256, 2)), "never")
    refusals.refuse_shape(relu(256, height(256, 2)), "never")

    wide = sharded_layout((1, 1, 256, 64), TensorMemoryLayout.WIDTH_SHARDED, (1, 2), N150)
    queries = (relu(512, height(512, 8)), relu(256, wide), replace(relu(512, DRAM_TILE)), relu(256, DRAM_TILE))
    assert [model.constraints(query).valid for query in queries] == [False, False, True, True]


def test_classes_have_no_sizes_and_cases_no_shards() -> None:
    few, many, larger = relu(256, height(256, 2)), relu(256, height(256, 8)), relu(512, height(512, 8))
    assert refusal_class(few) == refusal_class(many) == refusal_class(larger)
    assert refusal_case(few) == refusal_case(many) != refusal_case(larger)


def test_convolutions_are_told_apart_by_how_they_are_sharded_and_sliced() -> None:
    def conv(**fields: object) -> OpQuery:
        inputs = (
            TensorSpec((1, 1, 64, 32), DType.BF16, DRAM_TILE),
            TensorSpec((32, 32, 1, 1), DType.BF16, HOST_ROW_MAJOR),
        )
        return OpQuery("ttnn.conv2d", inputs, (), Conv2dConfig(**fields))  # type: ignore[arg-type]

    same = refusal_class(conv(shard_layout="height_sharded", slice="l1"))
    assert same == refusal_class(conv(shard_layout="height_sharded", slice="l1", act_block_h_override=32))
    assert same != refusal_class(conv(shard_layout="block_sharded", slice="l1"))
    assert refusal_class(conv(slice="dram_width:2")) == refusal_class(conv(slice="dram_width:4"))
