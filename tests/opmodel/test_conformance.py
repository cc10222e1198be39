"""What every OpModel backend must keep to, asked of all registered ones.

Backends that need something this machine lacks fail to start with OpModelError and are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError
from optimizer.layouts.memory_config import MemoryConfig, PageLayout, TensorMemoryLayout
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastProgramConfig
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpModel, OpQuery, Rejection

DIMS = (("dim", -1),)


def _startable() -> list[str]:
    found = []
    for name in registry.names():
        try:
            registry.create(name, DeviceSpec.preset("n150"))
        except OpModelError:
            continue
        found.append(name)
    return found


@pytest.fixture(params=_startable())
def model(request: pytest.FixtureRequest, make: Callable[[str], OpModel]) -> OpModel:
    return make(request.param)


@pytest.fixture
def accepted(layouts) -> list[OpQuery]:
    """Queries that any backend accepts."""
    t, d, l1, h = layouts.tensor, layouts.dram, layouts.l1, layouts.height(8, 32, 128)
    square = (256, 128)
    return [
        OpQuery("ttnn.relu", (t(square),), output=d),
        OpQuery("ttnn.relu", (t(square, l1),), output=l1),
        OpQuery("ttnn.relu", (t(square, h),), output=h),
        OpQuery("ttnn.add", (t(square), t(square)), output=l1),
        OpQuery("ttnn.add", (t(square, h), t(square, h)), output=h),
        OpQuery("ttnn.matmul", (t(square), t((128, 64))), output=d),
        OpQuery("ttnn.linear", (t(square), t((128, 64)), t((1, 64))), output=d),
        OpQuery("ttnn.softmax", (t(square),), DIMS, output=d),
        OpQuery("ttnn.layer_norm", (t(square),), output=d),
        OpQuery("ttnn.reshape", (t(square),), (("shape", (2, 128, 128)),), output=d),
        OpQuery("ttnn.to_memory_config", (t(square),), output=h),
        OpQuery("ttnn.to_memory_config", (t(square, h),), output=d),
        OpQuery("ttnn.to_layout", (t(square),), (("layout", "row_major"),), output=d),
        OpQuery("ttnn.concat", (t(square), t(square)), DIMS, output=d),
    ]


def test_equal_questions_have_equal_answers(model: OpModel, accepted: list[OpQuery]) -> None:
    again = registry.create(model.name, model.device, model.l1_small_bytes)
    for query in accepted:
        assert model.constraints(query) == model.constraints(query) == again.constraints(query)
        assert model.cost(query) == again.cost(query)


def test_an_accepted_query_is_fully_answered(model: OpModel, accepted: list[OpQuery]) -> None:
    for query in accepted:
        answer = model.constraints(query)
        assert answer.valid, (query, answer.error)
        assert (answer.kind, answer.error) == (None, None)
        assert answer.outputs
        for out in answer.outputs:
            memory = out.layout.memory
            assert all(size > 0 for size in out.shape)
            assert not memory.is_sharded or memory.shard_spec is not None
        assert 1 <= answer.cores <= model.device.num_cores


def test_bytes_are_consistent_and_fit(model: OpModel, accepted: list[OpQuery]) -> None:
    bank = model.device.l1_bank_bytes(model.l1_small_bytes)
    for query in accepted:
        answer = model.constraints(query)
        assert 0 <= answer.cb_bytes <= model.device.cb_limit_bytes
        assert 0 <= answer.l1_peak_bytes <= bank
        low = max(answer.cb_bytes, answer.l1_peak_bytes)
        assert low <= answer.peak_bytes <= answer.cb_bytes + answer.l1_peak_bytes


def test_the_requested_output_is_produced(model: OpModel, accepted: list[OpQuery]) -> None:
    for query in accepted:
        assert model.constraints(query).outputs[0].layout.memory == query.output


def test_times_are_positive_integers(model: OpModel, accepted: list[OpQuery]) -> None:
    for query in accepted:
        cost = model.cost(query)
        assert isinstance(cost.time_ns, int)
        assert cost.time_ns >= 1
        assert model.runtime_ns(query) == cost.time_ns
        assert min(cost.dram_read_bytes, cost.dram_write_bytes) >= 0


def test_traffic_counts_only_what_is_in_dram(model: OpModel, layouts) -> None:
    size = 256 * 128 * 2
    h = layouts.height(8, 32, 128)
    from_dram = model.cost(OpQuery("ttnn.relu", (layouts.tensor((256, 128)),), output=h))
    to_dram = model.cost(OpQuery("ttnn.relu", (layouts.tensor((256, 128), h),), output=layouts.dram))
    assert (from_dram.dram_read_bytes, from_dram.dram_write_bytes) == (size, 0)
    assert (to_dram.dram_read_bytes, to_dram.dram_write_bytes) == (0, size)


@pytest.mark.parametrize("where", ["operand", "result"])
def test_impossible_shards_are_refused(model: OpModel, layouts, where: str) -> None:
    bad: list[MemoryConfig] = [
        layouts.height(8, 33, 128),  # not whole tiles
        layouts.height(8, 32, 64),  # narrower than the tensor
        layouts.height(4, 32, 128),  # too few cores
        layouts.width(4, 128, 32),  # shorter than the tensor
        layouts.block((8, 10), 32, 32),  # off the grid
    ]
    for memory in bad:
        shape = (256, 320) if memory.memory_layout is TensorMemoryLayout.BLOCK_SHARDED else (256, 128)
        tensor = layouts.tensor(shape, memory) if where == "operand" else layouts.tensor(shape)
        answer = model.constraints(OpQuery("ttnn.relu", (tensor,), output=memory))
        assert not answer.valid, memory
        assert answer.kind is Rejection.VALIDATION
        assert answer.error


def test_tensors_beyond_l1_are_refused(model: OpModel, layouts) -> None:
    huge = layouts.tensor((16384, 16384), layouts.l1)
    answer = model.constraints(OpQuery("ttnn.relu", (huge,), output=layouts.dram))
    assert (answer.valid, answer.kind) == (False, Rejection.OOM_L1)


def test_a_smaller_l1_accepts_no_more(model: OpModel, layouts, n150: DeviceSpec) -> None:
    tight = registry.create(model.name, n150, n150.cb_limit_bytes - 40_000)
    query = OpQuery("ttnn.relu", (layouts.tensor((2048, 512), layouts.l1),), output=layouts.l1)
    assert model.constraints(query).valid
    assert not tight.constraints(query).valid


def test_an_unknown_op_stays_in_dram(model: OpModel, layouts) -> None:
    free = OpQuery("ttnn.unheard_of", (layouts.tensor((64, 64)),))
    assert model.constraints(free).valid
    assert not model.constraints(OpQuery("ttnn.unheard_of", (layouts.tensor((64, 64), layouts.l1),))).valid
    assert not model.constraints(OpQuery("ttnn.unheard_of", (layouts.tensor((64, 64)),), output=layouts.l1)).valid
    assert model.cost(free).time_ns >= 1


def test_a_program_config_must_fit_the_problem(model: OpModel, layouts) -> None:
    config = MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_yx=(8, 8), in0_block_w=3, out_subblock_h=1, out_subblock_w=1, per_core_M=1,
        per_core_N=1,
    )  # fmt: skip
    query = OpQuery("ttnn.matmul", (layouts.tensor((256, 256)), layouts.tensor((256, 256))), config=config)
    answer = model.constraints(query)
    assert (answer.valid, answer.kind) == (False, Rejection.VALIDATION)


def test_page_layouts_follow_the_op(model: OpModel, layouts) -> None:
    query = OpQuery("ttnn.to_layout", (layouts.tensor((64, 64)),), (("layout", "row_major"),), output=layouts.dram)
    assert model.constraints(query).outputs[0].layout.page_layout is PageLayout.ROW_MAJOR


def test_times_of_launches_are_positive_or_unknown(model: OpModel) -> None:
    assert model.launch is None or (model.launch.gap_ns > 0 and model.launch.dispatch_ns > 0)
