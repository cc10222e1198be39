"""Every registered policy on hand-made and random graphs: verified, never slower than DRAM, deterministic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.errors import InfeasibleError, OptionError, UnknownNameError, UnsupportedOpError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.registry import create_policy, policy_names
from tests.plans import planned
from tests.samples import examples


def run(graph: Graph, policy: str = "dfsharding", board: str = "n150", **options: object) -> OptimizedGraph:
    chosen = Options.from_mapping({"policy": policy, "board": board, **options})
    return planned(graph, DeviceSpec.preset(board), chosen)


def conv_relu() -> Graph:
    b = GraphBuilder("conv_relu")
    x = b.input("x", (1, 1, 4096, 64))
    w = b.parameter("w", (128, 64, 3, 3))
    c = b.op(
        "ttnn.conv2d", x, w, name="conv", batch_size=1, input_height=64, input_width=64, in_channels=64,
        out_channels=128, kernel_size=(3, 3), padding=(1, 1, 1, 1),
    )  # fmt: skip
    return b.finish(b.op("ttnn.relu", c, name="relu"))


def mlp(layers: int = 3, width: int = 1024) -> Graph:
    b = GraphBuilder("mlp")
    x = b.input("x", (1, 1, 512, width))
    for i in range(layers):
        x = b.op("ttnn.linear", x, b.parameter(f"w{i}", (width, width)), name=f"fc{i}", activation="relu")
    return b.finish(x)


def test_the_documented_example_runs_in_one_chain_and_is_spilled_for_its_caller() -> None:
    result = run(conv_relu())
    assert [op.id for op in result.graph.ops()] == ["conv", "relu", "relu_spill"]
    conv, relu, spill = (result.layouts[op.outputs[0]] for op in result.graph.ops())
    assert conv == relu
    assert conv.is_l1
    assert conv.is_sharded
    assert spill.describe() == "dram interleaved tile"
    assert result.records["relu_spill"].role is Role.SPILL
    assert [c.state for c in result.chains] == ["completed"]
    assert result.summary.predicted_time_ns < result.summary.baselines.dram_ns


def test_dram_policy_keeps_everything_in_dram() -> None:
    result = run(mlp(), "dram")
    assert all(not layout.is_l1 for layout in result.layouts.values())
    assert result.summary.predicted_time_ns == result.summary.baselines.dram_ns
    assert result.summary.l1_resident_fraction == 0.0


def test_matmul_chains_carry_program_configs() -> None:
    result = run(mlp())
    for i in range(3):
        record = result.records[f"fc{i}"]
        assert record.config is not None
        assert record.config.to_json()["fused_activation"] == "relu"


def test_a_chain_that_is_slower_than_dram_says_so() -> None:
    """One small op gains nothing from L1: entering and leaving costs more than it saves."""
    b = GraphBuilder("small")
    result = run(b.finish(b.op("ttnn.relu", b.input("x", (1, 1, 32, 32)), name="relu")))
    assert [c.state for c in result.chains] == ["failed"]
    assert "no faster than in DRAM" in str(result.chains[0].reason)
    assert any("no faster than in DRAM" in w for w in result.summary.warnings)
    assert result.summary.predicted_time_ns == result.summary.baselines.dram_ns


@pytest.mark.parametrize("policy", ["dfsharding", "dfsharding2"])
def test_a_chain_is_cut_where_it_does_not_pay(policy: str) -> None:
    """A small matmul pays, the wide one after it does not, and the chain of both is slower than DRAM."""
    b = GraphBuilder("widened")
    x = b.op("ttnn.linear", b.input("x", (1, 1, 32, 128)), b.parameter("w", (128, 128)), name="fc")
    result = run(b.finish(b.op("ttnn.linear", x, b.parameter("v", (128, 1024)), name="wide")), policy=policy)
    whole, *parts = result.chains
    assert whole.state == "failed"
    assert "as a whole no faster than in DRAM" in str(whole.reason)
    assert str(whole.reason).endswith("cut before 'wide'")
    assert [(c.ops, c.state) for c in parts] == [(("fc",), "completed"), (("wide",), "failed")]
    assert result.summary.predicted_time_ns < result.summary.baselines.dram_ns
    assert any("1 chain(s) are cut" in w for w in result.summary.warnings)


@pytest.mark.slow
def test_time_objective_is_at_least_as_fast() -> None:
    cores, time = run(mlp()), run(mlp(), chain_objective="time")
    assert time.summary.predicted_time_ns <= cores.summary.predicted_time_ns


def test_tensors_larger_than_l1_stay_in_dram() -> None:
    b = GraphBuilder("huge")
    x = b.op("ttnn.relu", b.input("x", (1, 1, 65536, 4096)), name="relu")
    result = run(b.finish(b.op("ttnn.exp", x, name="exp")))
    assert result.summary.l1_resident_fraction == 0.0
    assert result.summary.l1_peak_bytes <= result.summary.l1_limit_bytes


def with_unknown_op() -> Graph:
    graph = conv_relu()
    relu = graph.op("relu")
    graph.replace_op(type(relu)("relu", "onnx.Mystery", relu.inputs, relu.outputs, {"alpha": 1}, "relu"))
    return graph


def test_ops_that_ttnn_lacks_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedOpError, match=r"'relu' \(onnx.Mystery\).*allow_host_ops") as caught:
        run(with_unknown_op())
    assert caught.value.node == "relu"


def test_ops_that_ttnn_lacks_may_run_on_the_host_between_two_transfers() -> None:
    result = run(with_unknown_op(), allow_host_ops=True)
    assert result.summary.unsupported == (("onnx.Mystery", "relu"),)
    ops = list(result.graph.ops())
    at = [op.op for op in ops].index("onnx.Mystery")
    assert [op.op for op in ops[at - 1 : at + 2]] == ["ttnn.from_device", "onnx.Mystery", "ttnn.to_device"]
    assert all(result.layouts[v].is_host for v in (*ops[at].inputs, *ops[at].outputs))
    fetched, sent = result.records[ops[at - 1].id].predicted, result.records[ops[at + 1].id].predicted
    assert fetched.bound == sent.bound == "pcie"
    assert 0 < fetched.time_ns < sent.time_ns


def test_optimization_levels() -> None:
    none, configs, sharded = (run(conv_relu(), optimization_level=level) for level in (0, 1, 2))
    assert none.records["conv"].config is None
    assert configs.records["conv"].config is not None
    assert not any(layout.is_l1 for layout in configs.layouts.values())
    assert any(layout.is_l1 for layout in sharded.layouts.values())


def test_layout_override_is_kept() -> None:
    result = run(mlp(), override_output_layout="fc1=block_sharded:l1")
    assert result.layouts[result.graph.op("fc1").outputs[0]].memory_layout.value == "block_sharded"
    result = run(mlp(), override_output_layout="fc1=dram")
    assert result.layouts[result.graph.op("fc1").outputs[0]].is_dram


def test_dtype_override_is_an_explicit_typecast() -> None:
    result = run(mlp(1), override_output_layout="fc0=f32")
    assert [op.op for op in result.graph.ops() if op.op == "ttnn.typecast"] == ["ttnn.typecast"]
    assert result.graph.value(result.graph.outputs[0]).dtype.value == "f32"


def test_memreconfig_forces_a_copy_before_the_op() -> None:
    plain, forced = run(mlp()), run(mlp(), insert_memreconfig="fc1=0")
    assert forced.summary.reshards > plain.summary.reshards


def test_conv_override_reaches_the_config() -> None:
    result = run(conv_relu(), override_conv2d_config="conv=act_block_h_override#32:enable_act_double_buffer#true")
    config = result.records["conv"].config
    assert config is not None
    assert config.to_json()["act_block_h_override"] == 32
    assert config.to_json()["enable_act_double_buffer"] is True


def test_unknown_policy_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="unknown policy 'dfshard', did you mean 'dfsharding'"):
        create_policy("dfshard")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random DAGs of matmuls, elementwise ops, norms, softmax, reshapes and concats over small tensors."""
    b = GraphBuilder("random")
    rows = 32 * draw(st.integers(1, 12))
    width = 32 * draw(st.sampled_from([1, 2, 4, 8, 16]))
    values = [b.input("x", (1, 1, rows, width))]
    for i in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["relu", "gelu", "add", "multiply", "linear", "softmax", "norm", "permute"]))
        a = draw(st.sampled_from(values[-3:]))
        if kind in ("relu", "gelu"):
            values.append(b.op(f"ttnn.{kind}", a))
        elif kind in ("add", "multiply"):
            values.append(b.op(f"ttnn.{kind}", a, draw(st.sampled_from(values))))
        elif kind == "linear":
            values.append(b.op("ttnn.linear", a, b.parameter(f"w{i}", (width, width))))
        elif kind == "softmax":
            values.append(b.op("ttnn.softmax", a))
        elif kind == "norm":
            values.append(b.op("ttnn.layer_norm", a, b.parameter(f"g{i}", (width,))))
        else:
            values.append(b.op("ttnn.permute", b.op("ttnn.permute", a, dims=(0, 1, 3, 2)), dims=(0, 1, 3, 2)))
    outputs = {values[-1], draw(st.sampled_from(values[1:]))}
    return b.finish(*sorted(outputs))


@settings(max_examples=examples(25))
@given(graph=graphs(), board=st.sampled_from(["n150", "p150"]), policy=st.sampled_from(policy_names()))
@pytest.mark.slow
def test_any_graph_verifies_is_no_slower_than_dram_and_is_deterministic(graph: Graph, board: str, policy: str) -> None:
    """`optimize` raises if its own re-check fails, so returning at all is the first property."""
    options, device = Options.from_mapping({"policy": policy, "board": board}), DeviceSpec.preset(board)
    first, second = (optimize(graph, device, options) for _ in range(2))
    slower = first.summary.predicted_time_ns > first.summary.baselines.dram_ns
    assert not slower
    documents = [{k: v for k, v in r.to_json().items() if k != "timings"} for r in (first, second)]
    assert json.dumps(documents[0]) == json.dumps(documents[1])


def test_an_op_that_cannot_run_at_all_is_named() -> None:
    """137 GB fit no board."""
    b = GraphBuilder("too_large")
    graph = b.finish(b.op("ttnn.relu", b.input("x", (1, 1, 1 << 18, 1 << 16)), name="impossible"))
    with pytest.raises(InfeasibleError, match=r"impossible: ttnn\.relu cannot run from DRAM to DRAM"):
        run(graph)


def test_math_fidelity_reaches_the_price() -> None:
    fast, exact = run(mlp(), math_fidelity="lofi"), run(mlp(), math_fidelity="hifi4")
    assert fast.summary.predicted_time_ns < exact.summary.predicted_time_ns


@pytest.mark.parametrize("dtype", ["f32", "bfp8_b"])
def test_dtype_override_in_the_middle_flows_on(dtype: str) -> None:
    result = run(mlp(), override_output_layout=f"fc0={dtype}")
    assert result.graph.value(result.graph.op("fc1").outputs[0]).dtype.value == dtype


def test_l1_interleaved_override_of_a_matmul_and_a_conv() -> None:
    linear = run(mlp(), override_output_layout="fc0=l1:interleaved")
    assert linear.layouts[linear.graph.op("fc0").outputs[0]].describe() == "l1 interleaved tile"
    conv = run(conv_relu(), override_output_layout="conv=l1:interleaved")
    assert conv.layouts[conv.graph.op("conv").outputs[0]].describe() == "l1 interleaved tile"


def test_an_override_that_the_op_cannot_follow_is_an_option_error() -> None:
    """A batched second operand has no program config, so no sharded result."""
    b = GraphBuilder("bmm")
    x, y = b.input("x", (2, 64, 64)), b.input("y", (2, 64, 64))
    graph = b.finish(b.op("ttnn.matmul", x, y, name="bmm"))
    with pytest.raises(OptionError, match=r"bmm: .*cannot give l1:block_sharded: no program config") as caught:
        run(graph, override_output_layout="bmm=l1:block_sharded")
    assert caught.value.alternatives == ("l1:interleaved", "dram:interleaved")


def test_padding_in_front_runs_row_major() -> None:
    b = GraphBuilder("pad")
    x = b.op("ttnn.pad", b.input("x", (1, 1, 30, 30)), name="pad", padding=((0, 0), (0, 0), (1, 1), (1, 1)))
    result = run(b.finish(b.op("ttnn.relu", x, name="relu")))
    assert [op.op.removeprefix("ttnn.") for op in result.graph.ops()] == ["pad", "to_layout", "relu"]


def test_l1_small_must_leave_room() -> None:
    with pytest.raises(OptionError, match="'l1_small_bytes' must be less than the 1393312 B of L1 on n150"):
        run(mlp(), l1_small_bytes=2_000_000)
