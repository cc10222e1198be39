"""The real graphs: all import without unsupported ops, and a good part is run against onnxruntime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from optimizer.importers import load
from optimizer.ir.graph import Graph
from tests.plans import imported
from tests.samples import sampled

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "onnx"
MODELS = sorted(path.stem for path in FOLDER.glob("*.onnx"))

RUN_OPS = {
    "resnet50_b1_legacy17": {"conv2d": 53, "add": 16, "permute": 1, "reshape": 2, "max_pool2d": 1, "mean": 1,
                             "linear": 1},
    "resnet50_b8_dynamo20": {"conv2d": 53, "add": 16, "permute": 1, "reshape": 4, "max_pool2d": 1, "mean": 1,
                             "linear": 1},
    "mobilenetv2_legacy17": {"conv2d": 52, "add": 10, "permute": 1, "reshape": 2, "mean": 1, "linear": 1},
    "convnext_tiny_dynamo20": {"linear": 37, "layer_norm": 23, "conv2d": 22, "add": 18, "reshape": 2,
                               "permute": 1, "mean": 1},
    "gpt2_s128_dynamo20": {"linear": 48, "add": 25, "layer_norm": 25, "split_query_key_value_and_split_heads": 12,
                           "scaled_dot_product_attention": 12, "concatenate_heads": 12, "embedding": 1, "typecast": 1,
                           "nez": 1, "reshape": 1, "logical_and": 1, "where": 1, "matmul": 1},
    "llama32_1b_2l_dynamo20": {"matmul": 11, "split_query_key_value_and_split_heads": 2, "rms_norm": 5,
                               "rotary_embedding": 4, "add": 4, "scaled_dot_product_attention": 2,
                               "concatenate_heads": 2, "multiply": 2, "embedding": 1, "typecast": 1, "nez": 1,
                               "reshape": 1, "logical_and": 1, "where": 1},
}  # fmt: skip

FUSED = {
    "bert_base_s128_legacy17": {"attention": 12, "gelu": 12, "linear": 72, "concat-heads": 12},
    "bert_qa_s384_dynamo20": {"attention": 12, "concat-heads": 12},
    "clip_b32_dynamo20": {"attention": 24, "concat-heads": 24},
    "vit_b16_dynamo20": {"attention": 12, "concat-heads": 12},
    "whisper_tiny_encoder_dynamo20": {"attention": 4, "concat-heads": 4},
    "sd_unet_small_dynamo20": {"attention": 8, "group-norm": 21, "silu": 19},
    "yolov8n_like_legacy17": {"silu": 57},
    "llama32_1b_16l_dynamo20": {"attention": 16, "rotary": 32, "rms-norm": 33, "silu": 16},
}


def run_ops(graph: Graph) -> Counter[str]:
    return Counter(op.op.removeprefix("ttnn.") for op in graph.run_ops())


@pytest.mark.parametrize("name", MODELS)
def test_every_op_is_supported(name: str) -> None:
    model = imported(FOLDER / f"{name}.onnx")

    assert model.report.unsupported == ()
    assert model.graph.name == "main_graph"
    if name in RUN_OPS:
        assert run_ops(model.graph) == RUN_OPS[name]
    for fusion, count in FUSED.get(name, {}).items():
        assert model.report.fused[fusion] == count


@pytest.mark.parametrize("name", ["densenet121_legacy17", "llama32_1b_2l_dynamo20", "sd_unet_small_dynamo20"])
def test_two_imports_are_the_same(name: str) -> None:
    first, second = (load(FOLDER / f"{name}.onnx") for _ in range(2))

    assert list(first.graph.ops()) == list(second.graph.ops())
    assert first.graph.values == second.graph.values
    assert first.report == second.report


def test_every_foreign_node_that_matters_is_remembered() -> None:
    model = imported(FOLDER / "resnet50_b1_legacy17.onnx")

    named = {name for op in model.graph.ops() for name in op.origin}
    convs = {n.name for n in onnx.load(FOLDER / "resnet50_b1_legacy17.onnx", load_external_data=False).graph.node
             if n.op_type in ("Conv", "Relu", "Add", "MaxPool", "Gemm")}  # fmt: skip

    assert convs <= named


UNFUSED = ("whisper_tiny_encoder_dynamo20", "sd_unet_small_dynamo20")


@pytest.mark.parametrize(
    "name",
    sampled(
        [
            "resnet50_b1_legacy17",
            "densenet121_legacy17",
            "sd_unet_small_dynamo20",
            "yolov8n_like_legacy17",
            "whisper_tiny_encoder_dynamo20",
            "gpt2_s128_dynamo20",
        ],
        kept=["resnet50_b1_legacy17", "densenet121_legacy17", "yolov8n_like_legacy17"],
        slow=["sd_unet_small_dynamo20", "whisper_tiny_encoder_dynamo20"],
    ),
)
def test_meaning_is_kept(name: str, witness: ModuleType) -> None:
    proto = onnx.load(FOLDER / f"{name}.onnx", load_external_data=False)

    result = witness.compare(proto)

    assert result.error < 1e-4


@pytest.mark.parametrize("name", sampled(UNFUSED, [], UNFUSED[1:]))
def test_meaning_is_kept_without_fusions(name: str, witness: ModuleType) -> None:
    proto = onnx.load(FOLDER / f"{name}.onnx", load_external_data=False)

    result = witness.compare(proto, fuse=False)

    assert result.error < 1e-4


def test_the_witness_notices_a_changed_graph(witness: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong interpreter of one op shows: the comparison is not blind to any layer."""
    proto = onnx.load(FOLDER / "resnet50_b1_legacy17.onnx", load_external_data=False)
    pool = witness.interpreter._OPS["max_pool2d"]
    monkeypatch.setitem(witness.interpreter._OPS, "max_pool2d", lambda x, a: 0.9 * pool(x, a))

    with pytest.raises(AssertionError, match="not what they stand for"):
        witness.compare(proto)
