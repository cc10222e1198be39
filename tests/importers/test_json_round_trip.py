"""A result fed back is the same problem: the graph of its `graph.json`, op by op, and what its outputs are called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from optimizer import Options, optimize
from optimizer.export.annotated_json import dumps
from optimizer.importers import load
from optimizer.importers.json_graph import INSERTED, INSERTED_ROLES
from optimizer.ir.graph import Graph, Value
from optimizer.result import OptimizedGraph

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SMALL = ("dlrm_like_dynamo20", "whisper_tiny_encoder_dynamo20", "yolov8n_like_legacy17")
MODELS = [
    *sorted((FIXTURES / "graphs").glob("*.json")),
    *(
        path if path.stem in SMALL else pytest.param(path, marks=pytest.mark.slow)
        for path in sorted((FIXTURES / "onnx").glob("*.onnx"))
    ),
]


def without_copies(result: OptimizedGraph) -> Graph:
    """What a result computes, without the copies that were inserted; a value that is copied out keeps its name."""
    graph = result.graph.copy()
    for op in list(graph.ops()):
        if result.records[op.id].role.value in INSERTED_ROLES and op.op in INSERTED:
            source, copy = op.inputs[0], op.outputs[0]
            graph.remove_op(op.id)
            graph.replace_uses(copy, source)
            maker = graph.producer(source)
            if copy in result.graph.outputs and maker is not None:
                outputs = tuple(copy if v == source else v for v in maker.outputs)
                graph.values[copy] = replace(graph.value(source), id=copy)
                graph.replace_op(replace(maker, outputs=outputs))
                graph.replace_uses(source, copy)
    graph.prune()
    return graph


def described(graph: Graph) -> tuple[dict[str, Value], list[tuple[object, ...]]]:
    ops = [(op.id, op.op, op.inputs, op.outputs, op.attrs_key, op.name, op.origin) for op in graph.ops()]
    read = {v for op in graph.ops() for v in (*op.inputs, *op.outputs)} | set(graph.inputs)
    return {v: graph.value(v) for v in sorted(read)}, sorted(ops)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_result_fed_back_is_the_same_graph(path: Path) -> None:
    result = optimize(path, "n150", Options(policy="dram", allow_host_ops=True))

    again = load(dumps(result).encode())

    wanted = without_copies(result)
    assert described(again.graph) == described(wanted)
    assert again.graph.inputs == wanted.inputs
    assert again.graph.outputs == wanted.outputs
    assert again.output_names == result.output_names


def test_copied_outputs_keep_their_names() -> None:
    result = optimize(FIXTURES / "graphs" / "conv2d_relu.json", "n150", Options(policy="dfsharding"))

    again = load(dumps(result).encode())

    spilled = [op for op in result.graph.ops() if op.outputs[0] in result.graph.outputs]
    assert [result.records[op.id].role.value for op in spilled] == ["spill"]
    assert again.graph.outputs == result.graph.outputs
