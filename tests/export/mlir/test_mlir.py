"""`model.mlir`, read by a reader of its own: sound as a module, and the plan of the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer import families
from optimizer.export.mlir import write
from optimizer.export.mlir.module import Module
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.vocabulary import op_names
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from tests.export.mlir.checking import problems
from tests.export.mlir.plan import differences
from tests.export.mlir.syntax import Operation, read
from tests.export.placed_graphs import placed
from tests.opmodel.test_ttnn_calls import EXAMPLES
from tests.plans import planned_file
from tests.samples import sampled

GRAPHS = Path(__file__).resolve().parents[3] / "fixtures" / "graphs"
SMALL = ("attention", "concat", "conv2d_relu", "fork", "mlp", "opaque", "pool_then_eltwise")
MODELS = ("resnet50_b1_legacy17", "llama32_1b_2l_dynamo20", "yolov8n_like_legacy17", "vit_b16_dynamo20")
EXAMPLES = {**EXAMPLES, "ttnn.gather": (EXAMPLES["ttnn.gather"][0], {"dim": -1})}


def checked(result: OptimizedGraph) -> str:
    """The module of a result, which is sound and tells the plan."""
    text = Module(result).text()
    module = read(text)
    assert problems(module, result.device.grid_yx) == []
    assert differences(module, result) == []
    return text


def ops(text: str, function: str = "main") -> list[Operation]:
    return list(read(text).functions[function].body or ())


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("name", SMALL)
def test_small_graphs(name: str, board: str) -> None:
    options = Options.from_mapping({"board": board, "allow_host_ops": True})
    checked(planned_file(GRAPHS / f"{name}.json", options))


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "global"])
def test_policies(mlp_onnx: Path, policy: str) -> None:
    result = planned_file(mlp_onnx, Options.from_mapping({"board": "n150", "policy": policy}))
    text = checked(result)
    assert f'ttopt.policy = "{policy}"' in text
    assert ("#l1" in text) == (policy != "dram")


def test_block_formats_are_elements_of_tiles() -> None:
    options = Options.from_mapping({"board": "n150", "policy": "dram", "weights_dtype": "bfp8_b"})
    text = checked(planned_file(GRAPHS / "mlp.json", options))
    assert "tensor<1024x1024x!ttcore.tile<32x32, bfp_bf8>, #ttnn_layout" in text


@pytest.mark.parametrize("model", sampled(MODELS, [], [MODELS[0]]))
def test_whole_models(fixtures: Path, model: str) -> None:
    checked(planned_file(fixtures / f"{model}.onnx", Options.from_mapping({"board": "n150"})))


def one_op(op: str) -> OptimizedGraph:
    """The example of an op, everything where its example has it."""
    specs, attrs = EXAMPLES[op]
    graph = GraphBuilder("one")
    names = [f"x{k}" for k in range(len(specs))]
    for k, (name, spec) in enumerate(zip(names, specs, strict=True)):
        (graph.parameter if k and "conv" in op else graph.input)(name, spec.shape, spec.dtype)
    results = graph.ops(op, *names, name="it", **attrs)
    return placed(graph.finish(*results), {n: spec.layout for n, spec in zip(names, specs, strict=True)})


@pytest.mark.parametrize("op", op_names())
def test_every_op(op: str) -> None:
    said = {o.name for o in ops(checked(one_op(op))) if o.location == "it"}
    if not EXAMPLES[op][0]:
        assert not said, "what depends on nothing is no part of a run"
    elif op in families.table("MLIR"):
        assert said
        assert "func.call" not in said
    else:
        assert said == {"func.call"}


def test_what_the_dialect_has_no_words_for_is_called_by_name() -> None:
    graph = GraphBuilder("one")
    x = graph.input("x", (1, 1, 64, 64))
    y = graph.op("ttnn.cumsum", x, name="it", dim=-1, reverse_order=True)
    text = checked(placed(graph.finish(y), {}))
    (call,) = [op for op in ops(text) if op.location == "it"]
    assert call.name == "func.call"
    assert call.attributes["reverse_order"] is True
    assert read(text).functions["ttnn.cumsum"].body is None


def test_names_of_any_kind_come_back() -> None:
    graph = GraphBuilder('net "of" \\ Größe')
    x = graph.input("in put", (32, 32))
    y = graph.op("ttnn.relu", x, name='a "b" \\ c, 1=2 é')
    result = placed(graph.finish(y), {})
    text = checked(result)
    assert text.isascii()
    assert read(text).name == graph.finish(y).name


def test_weights_are_prepared_once() -> None:
    text = Module(planned_file(GRAPHS / "conv2d_relu.json", Options.from_mapping({"board": "n150"}))).text()
    module = read(text)
    kinds = {name: f.attributes.get("tt.function_type") for name, f in module.functions.items()}
    assert kinds == {**dict.fromkeys(kinds, "const_eval"), "main": "forward_device"}
    loads = [op for op in ops(text) if op.name == "ttcore.load_cached"]
    assert len(loads) == len(kinds) - 1
    prepared = {op.name for name in kinds if name != "main" for op in ops(text, name)}
    assert "ttnn.prepare_conv2d_weights" in prepared


def test_copies_are_ops_without_attributes_of_memory() -> None:
    result = planned_file(GRAPHS / "fork.json", Options.from_mapping({"board": "n150", "policy": "dfsharding"}))
    copies = [op for op in ops(checked(result)) if op.name == "ttnn.to_memory_config"]
    assert copies
    assert all(op.properties == {} and "ttopt.role" in op.attributes for op in copies)


def test_the_same_result_gives_the_same_bytes(tmp_path: Path, mlp_onnx: Path) -> None:
    options = Options.from_mapping({"board": "n150"})
    written = [write(planned_file(mlp_onnx, options), tmp_path / name).read_bytes() for name in ("a", "b")]
    assert written[0] == written[1]
