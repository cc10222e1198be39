"""Overrides are constraints of every policy: kept exactly in the finished graph, or refused with rule and alternatives.

The finished layouts, configs and copies are read off the result here, without the verifier's own check.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import OptionError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.registry import policy_names
from optimizer.verify.override_rules import broken_overrides
from tests.samples import sampled

pytestmark = pytest.mark.usefixtures("remembered_answers")


def run(graph: Graph, policy: str, **options: object) -> OptimizedGraph:
    return optimize(graph, DeviceSpec.preset("n150"), Options.from_mapping({"policy": policy, **options}))


def chain() -> Graph:
    """A conv, an op in its shadow, a matmul."""
    b = GraphBuilder("chain")
    x, w = b.input("x", (1, 1, 4096, 64)), b.parameter("w", (128, 64, 3, 3))
    y = b.op(
        "ttnn.conv2d", x, w, name="conv", batch_size=1, input_height=64, input_width=64, in_channels=64,
        out_channels=128, kernel_size=(3, 3), padding=(1, 1, 1, 1),
    )  # fmt: skip
    y = b.op("ttnn.relu", y, name="relu")
    return b.finish(b.op("ttnn.linear", y, b.parameter("v", (128, 256)), name="fc"))


def fork() -> Graph:
    """A value with two readers that meet again."""
    b = GraphBuilder("fork")
    a = b.op("ttnn.relu", b.input("x", (1, 1, 512, 1024)), name="a")
    left = b.op("ttnn.linear", a, b.parameter("w", (1024, 1024)), name="left")
    right = b.op("ttnn.exp", a, name="right")
    return b.finish(b.op("ttnn.add", left, right, name="join"))


def concat() -> Graph:
    b = GraphBuilder("concat")
    x = b.input("x", (1, 1, 512, 512))
    both = b.op("ttnn.concat", b.op("ttnn.relu", x, name="p"), b.op("ttnn.exp", x, name="q"), name="cat", dim=3)
    return b.finish(b.op("ttnn.gelu", both, name="g"))


def result_of(result: OptimizedGraph, op: str) -> str:
    """Where an op's first result lies, without its shard and pages: `l1 block_sharded 8x4`."""
    layout = result.layouts[result.graph.op(op).outputs[0]]
    text = f"{layout.memory.buffer_type.value} {layout.memory_layout.value}"
    spec = layout.shard_spec
    return text if spec is None else f"{text} {spec.grid_yx[0]}x{spec.grid_yx[1]}"


LAYOUTS = [
    (chain, "conv=height_sharded", "conv", "l1 height_sharded "),
    (chain, "conv=64x1", "conv", "l1 height_sharded 64x1"),
    (chain, "conv=dram", "conv", "dram interleaved"),
    (chain, "conv=l1:interleaved", "conv", "l1 interleaved"),
    (chain, "relu=l1:block_sharded:4x4", "relu", "l1 block_sharded 4x4"),
    (chain, "relu=l1", "relu", "l1 "),
    (chain, "fc=1x8:l1:width_sharded:tile:bf16", "fc", "l1 width_sharded 1x8"),
    (chain, "conv=row_major:l1", "conv", "l1 "),
    (fork, "a=l1:interleaved", "a", "l1 interleaved"),
    (fork, "x=l1:height_sharded:16x1", "x_layout", "l1 height_sharded 16x1"),
    (fork, "a_in_0_layout=1x1:l1:interleaved:tile:bf16", "a_in_0_layout", "l1 interleaved"),
    (fork, "right=row_major", "right", ""),
    (fork, "join=f32", "join", ""),
    (fork, "a=8x8", "a", "l1 block_sharded 8x8"),
    (fork, "right=interleaved", "right", " interleaved"),
    (fork, "join=l1", "join", "l1 "),
    (concat, "cat=l1:height_sharded", "cat", "l1 height_sharded "),
    (concat, "p=2x2:l1:block_sharded,q=dram", "p", "l1 block_sharded 2x2"),
    (concat, "cat=1x1:dram:interleaved:tile", "cat", "dram interleaved"),
]


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize(("make", "text", "op", "expected"), LAYOUTS, ids=[case[1] for case in LAYOUTS])
@pytest.mark.slow
def test_output_layouts(policy: str, make: Callable[[], Graph], text: str, op: str, expected: str) -> None:
    result = run(make(), policy, override_output_layout=text)
    assert expected in result_of(result, op)
    assert result.records[op].reason["override"]["output_layout"]
    assert list(broken_overrides(result)) == []


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize(
    "text",
    [
        "shard_layout#width_sharded",
        "act_block_h_override#32",
        "weights_dtype#bfp_bf8:enable_act_double_buffer#true",
        "deallocate_activation#False:reallocate_halo_output#FALSE:activation#none",
        "output_layout#row_major",
        "shard_layout#block_sharded:act_block_h_override#64:act_block_w_div#1",
    ],
)
def test_conv_configs(policy: str, text: str) -> None:
    config = run(chain(), policy, override_conv2d_config=f"conv={text}").records["conv"].config
    assert config is not None
    found = config.to_json()
    for part in text.split(":"):
        key, value = part.split("#")
        assert str(found[key]).lower() == value.lower().replace("bfp_bf8", "bfp8_b")


MEMRECONFIGS = [
    (chain, "relu", (0,)),
    (chain, "fc", (0,)),
    (chain, "conv", (0,)),
    (fork, "join", (0,)),
    (fork, "join", (1,)),
    (fork, "join", (0, 1)),
    (fork, "a", (0,)),
    (concat, "cat", (0, 1)),
    (concat, "g", (0,)),
]


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize(("make", "op", "positions"), MEMRECONFIGS)
@pytest.mark.slow
def test_memreconfigs(policy: str, make: Callable[[], Graph], op: str, positions: tuple[int, ...]) -> None:
    """Each operand comes from a copy in L1 in the memory layout of the result."""
    result = run(make(), policy, insert_memreconfig=f"{op}={':'.join(map(str, positions))}")
    written = result.graph.op(op)
    given = result.layouts[written.outputs[0]]
    for k in positions:
        copy = result.graph.producer(written.inputs[k])
        assert copy is not None
        assert result.records[copy.id].role in (Role.RESHARD, Role.LOAD)
        read = result.layouts[written.inputs[k]]
        assert (read.memory.buffer_type, read.memory_layout) == (given.memory.buffer_type, given.memory_layout)
        assert read.is_l1


@pytest.mark.parametrize("policy", policy_names())
def test_several_overrides_at_once(policy: str) -> None:
    """The producer is fixed to the very layout that its reader's copy would have: the copy gets another grid."""
    result = run(
        fork(),
        policy,
        override_output_layout="a=8x8:l1:block_sharded,left=l1:block_sharded",
        insert_memreconfig="left=0",
    )
    assert result_of(result, "a") == "l1 block_sharded 8x8"
    read = result.layouts[result.graph.op("left").inputs[0]]
    assert read.memory_layout.value == "block_sharded"
    assert read != result.layouts[result.graph.op("a").outputs[0]]
    assert list(broken_overrides(result)) == []


@pytest.mark.parametrize("policy", policy_names())
def test_an_op_read_twice_by_one_reader(policy: str) -> None:
    b = GraphBuilder("square")
    x = b.op("ttnn.relu", b.input("x", (1, 1, 512, 512)), name="r")
    result = run(b.finish(b.op("ttnn.multiply", x, x, name="square")), policy, insert_memreconfig="square=0")
    assert list(broken_overrides(result)) == []


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.slow
def test_dtypes_and_pages(policy: str) -> None:
    result = run(fork(), policy, override_output_layout="a=f32:l1,right=row_major")
    assert result.graph.value(result.graph.op("a_typecast").outputs[0]).dtype.value == "f32"
    assert result_of(result, "a").startswith("l1")
    assert not result.layouts[result.graph.op("right").outputs[0]].is_tile


@pytest.mark.parametrize("level", [0, 1])
def test_an_override_counts_more_than_the_optimization_level(level: int) -> None:
    options = {
        "override_output_layout": "relu=l1:height_sharded",
        "override_conv2d_config": "conv=act_block_h_override#32",
    }
    result = run(chain(), "dram", optimization_level=level, **options)
    assert result_of(result, "relu").startswith("l1 height_sharded")
    config = result.records["conv"].config
    assert config is not None
    assert config.to_json()["act_block_h_override"] == 32


def bmm() -> Graph:
    b = GraphBuilder("bmm")
    x, y = b.input("x", (2, 64, 64)), b.input("y", (2, 64, 64))
    return b.finish(b.op("ttnn.matmul", x, y, name="bmm"))


IMPOSSIBLE = [
    (fork, {"override_output_layout": "a=9x8:l1:block_sharded"}, "n150 has 8x8 cores", "8x8:l1:block_sharded"),
    (fork, {"override_output_layout": "a=7x7"}, "would leave others of 7x7 empty", "8x7:l1:block_sharded"),
    (fork, {"override_output_layout": "a=2x2:height_sharded"}, "height sharding has one column", ":l1:height_sharded"),
    (fork, {"override_output_layout": "a=dram:block_sharded"}, "only one in L1 is sharded", "l1:block_sharded"),
    (fork, {"override_output_layout": "a=40x1:height_sharded"}, "16x32 tiles, a shard at least one", "16x1:l1"),
    (bmm, {"override_output_layout": "bmm=l1:block_sharded"}, "no program config", "l1:interleaved"),
    (chain, {"override_output_layout": "conv=4x4:block_sharded"}, "chooses the grid", "8x4:l1:block_sharded"),
    (chain, {"override_output_layout": "fc=1x1:l1"}, "2097152 B of results", "2x2:l1:block_sharded"),
    (
        chain,
        {"override_conv2d_config": "conv=override_sharding_config#true"},
        "core_grid must be set",
        "override_sharding_config#false",
    ),
    (chain, {"override_conv2d_config": "conv=activation#relu"}, "change what the model computes", ""),
    (chain, {"override_conv2d_config": "conv=deallocate_activation#true"}, "frees 'x'", "deallocate_activation#false"),
    (chain, {"insert_memreconfig": "fc=1"}, "a weight", "operand 0"),
    (chain, {"insert_memreconfig": "fc=0", "override_output_layout": "fc=dram"}, "keeps in DRAM", ""),
    (
        chain,
        {"override_output_layout": "conv=l1:interleaved,relu=l1:interleaved", "insert_memreconfig": "relu=0"},
        "has the layout of the result already",
        "",
    ),
]  # fmt: skip


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize(
    ("make", "options", "rule", "nearest"), IMPOSSIBLE, ids=[str(i) for i in range(len(IMPOSSIBLE))]
)
def test_impossible_overrides(
    policy: str, make: Callable[[], Graph], options: dict[str, str], rule: str, nearest: str
) -> None:
    """OptionError (exit code 2) names the op, the rule that forbids it, and what comes nearest."""
    with pytest.raises(OptionError) as caught:
        run(make(), policy, **options)
    assert rule in str(caught.value)
    assert caught.value.node in ("a", "bmm", "conv", "fc", "relu")
    assert nearest in " ".join(caught.value.alternatives)


def test_the_nearest_layouts_are_accepted() -> None:
    with pytest.raises(OptionError) as caught:
        run(chain(), "dram", override_output_layout="fc=1x1:l1")
    for alternative in caught.value.alternatives:
        result = run(chain(), "dram", override_output_layout=f"fc={alternative}")
        assert list(broken_overrides(result)) == []


def test_ops_of_weights_only_take_no_override() -> None:
    b = GraphBuilder("weights")
    w = b.op("ttnn.relu", b.parameter("w", (64, 64)), name="prepare")
    graph = b.finish(b.op("ttnn.add", b.input("x", (64, 64)), w, name="add"))
    with pytest.raises(OptionError, match="runs once"):
        run(graph, "dram", override_output_layout="prepare=l1")


MODELS = {
    "whisper_tiny_encoder_dynamo20": {
        "override_output_layout": "node_add_1=l1:interleaved,node_MatMul_65=l1:block_sharded,node_layer_norm_4=dram",
        "override_conv2d_config": "node_Conv_263=act_block_h_override#32:weights_dtype#bfp_bf8",
        "insert_memreconfig": "node_add_2=0:1,node_layer_norm_1=0",
    },
    "mobilenetv2_legacy17": {
        "override_output_layout": "m_mobilenet_v2_layer_3_Add=l1:height_sharded,m_mobilenet_v2_layer_6_Add=l1",
        "override_conv2d_config": "m_mobilenet_v2_layer_4_expand_1x1_convolution_Conv=shard_layout#block_sharded",
        "insert_memreconfig": "m_mobilenet_v2_layer_6_Add=1",
    },
}


@pytest.mark.parametrize(
    ("model", "policy"),
    sampled(
        product(sorted(MODELS), policy_names()),
        kept=[("mobilenetv2_legacy17", "dfsharding2"), ("whisper_tiny_encoder_dynamo20", "dram")],
        slow=[("mobilenetv2_legacy17", "global"), ("whisper_tiny_encoder_dynamo20", "dfsharding2")],
    ),
)
def test_whole_models(project_root: Path, model: str, policy: str) -> None:
    """Ops in the middle of real networks."""
    options = Options.from_mapping({"policy": policy, **MODELS[model]})
    result = optimize_file(project_root / "fixtures" / "onnx" / f"{model}.onnx", options)
    assert list(broken_overrides(result)) == []
    overridden = {op_id for op_id, record in result.records.items() if "override" in record.reason}
    named = {entry.partition("=")[0] for text in MODELS[model].values() for entry in text.split(",")}
    assert overridden == named
    if "whisper" in model:
        assert result_of(result, "node_add_1") == "l1 interleaved"
        assert result_of(result, "node_MatMul_65").startswith("l1 block_sharded")
        assert result_of(result, "node_layer_norm_4") == "dram interleaved"
