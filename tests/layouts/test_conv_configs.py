"""The knobs of convolutions: what is offered, what is left out, and what each gives."""

from __future__ import annotations

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.conv_configs import doubled, is_pointwise
from optimizer.layouts.legal_op_configs import LegalConfigs
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel import registry
from optimizer.opmodel.cached import CachedOpModel
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.sharding.base import PolicyInput

N150 = DeviceSpec.preset("n150")
HEIGHT = TensorMemoryLayout.HEIGHT_SHARDED


def _graph(kernel: int, channels: int = 64, side: int = 56) -> Graph:
    b = GraphBuilder("g")
    x, w = b.input("x", (1, 1, side * side, channels)), b.parameter("w", (channels, channels, kernel, kernel))
    attrs = {
        "in_channels": channels, "out_channels": channels, "batch_size": 1, "input_height": side, "input_width": side,
        "kernel_size": (kernel, kernel), "stride": (1, 1), "padding": (kernel // 2,) * 4, "dilation": (1, 1),
        "groups": 1,
    }  # fmt: skip
    return b.finish(b.op("ttnn.conv2d", x, w, name="conv", **attrs))


def _problem(kernel: int, **options: object) -> tuple[PolicyInput, Op, LegalConfigs]:
    model = CachedOpModel(registry.create("analytical", N150, Options().l1_small_bytes))
    problem = prepare(_graph(kernel), model, Options(**options))  # type: ignore[arg-type]
    return problem, problem.graph.op("conv"), problem.legal["conv"]


def test_second_buffers_of_what_is_read_once_are_left_out() -> None:
    _, op, _ = _problem(3)
    assert not is_pointwise(op.attrs)
    whole, blocks = (
        Conv2dConfig(shard_layout=HEIGHT.value),
        Conv2dConfig(shard_layout=HEIGHT.value, act_block_h_override=32),
    )
    assert [(c.enable_act_double_buffer, c.enable_weights_double_buffer) for c in doubled(op, whole)] == [
        (True, False), (False, True), (True, True),
    ]  # fmt: skip
    assert [(c.enable_act_double_buffer, c.enable_weights_double_buffer) for c in doubled(op, blocks)] == [
        (True, False)
    ]


def test_a_pointwise_convolution_is_a_matmul_without_second_buffers() -> None:
    _, op, legal = _problem(1)
    assert is_pointwise(op.attrs)
    for candidate in legal.tuned:
        config = candidate.config
        assert isinstance(config, Conv2dConfig)
        if config.shard_layout != TensorMemoryLayout.WIDTH_SHARDED.value:
            assert not config.enable_act_double_buffer
            assert not config.enable_weights_double_buffer


def test_second_buffers_take_l1_and_save_time() -> None:
    problem, op, legal = _problem(3)
    operands = problem.pricer.default_operands(op)

    def priced(config: Conv2dConfig) -> tuple[int, int]:
        answer = problem.pricer.constraints(op, operands, config, None)
        assert answer.valid, answer.error
        return problem.pricer.cost(op, operands, config, None).time_ns, answer.peak_bytes

    for candidate in legal.sharded:
        config = candidate.config
        assert isinstance(config, Conv2dConfig)
        time, size = priced(config)
        for variant in doubled(op, config):
            faster, more = priced(variant)
            assert faster < time
            assert more > size


def test_what_the_user_fixes_stays_in_every_config() -> None:
    _, _, legal = _problem(3, override_conv2d_config="conv=enable_act_double_buffer#true")
    found = (*legal.sharded, *legal.dram, *legal.tuned)
    assert legal.tuned
    assert all(isinstance(c.config, Conv2dConfig) and c.config.enable_act_double_buffer for c in found)
    assert len(set(found)) == len(found)
