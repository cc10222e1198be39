"""The scheduled graph as a graph of Model Explorer: a node per op, input, weight and output, nested by their names."""

from __future__ import annotations

from typing import Any

from optimizer.export.facts import as_text, attributes_of, model_name
from optimizer.ir.graph import Op
from optimizer.result import OptimizedGraph

Record = dict[str, Any]
INPUTS, WEIGHTS, OUTPUTS = "inputs", "weights", "outputs"
"""Groups of the nodes that are no ops of a run."""


def graph_record(result: OptimizedGraph) -> Record:
    """`{id, nodes, groupNodeAttributes}`."""
    graph = result.graph
    read = dict.fromkeys(v for op in graph.ops() for v in op.inputs)
    sources = [v for v in (*graph.inputs, *read) if graph.producer(v) is None]
    nodes = [_source(result, value) for value in dict.fromkeys(sources)]
    nodes += [_op(result, op) for op in graph.ops()]
    nodes += [_output(result, position, value) for position, value in enumerate(graph.outputs)]
    return {"id": graph_id(result), "nodes": nodes, "groupNodeAttributes": {"": _whole(result)}}


def graph_id(result: OptimizedGraph) -> str:
    return f"{model_name(result)} on {result.device.name}"


def _source(result: OptimizedGraph, value: str) -> Record:
    group = INPUTS if value in result.graph.inputs else WEIGHTS
    return {
        "id": _source_id(value),
        "label": value,
        "namespace": group,
        "attrs": _attrs({"kind": result.graph.value(value).kind.value}),
        "incomingEdges": [],
        "outputsMetadata": [_result(result, 0, value)],
    }


def _output(result: OptimizedGraph, position: int, value: str) -> Record:
    return {
        "id": f"output {position}",
        "label": value,
        "namespace": OUTPUTS,
        "attrs": [],
        "incomingEdges": [_edge(result, 0, value)],
        "outputsMetadata": [],
    }


def _op(result: OptimizedGraph, op: Op) -> Record:
    return {
        "id": op.id,
        "label": op.op.removeprefix("ttnn."),
        "namespace": WEIGHTS if result.graph.is_const_eval(op) else _namespace(op.name),
        "attrs": _attrs(_facts(result, op)),
        "incomingEdges": [_edge(result, position, value) for position, value in enumerate(op.inputs)],
        "inputsMetadata": [
            {"id": str(position), "attrs": _attrs({"tensor_name": v, "layout": result.layouts[v].describe()})}
            for position, v in enumerate(op.inputs)
        ],
        "outputsMetadata": [_result(result, position, value) for position, value in enumerate(op.outputs)],
    }


def _facts(result: OptimizedGraph, op: Op) -> dict[str, object]:
    """What the side panel shows of an op, in this order."""
    record = result.records[op.id]
    predicted = record.predicted
    found: dict[str, object] = {"op": op.op, "name": op.name, "role": record.role.value}
    if predicted is not None:
        found |= {
            "predicted ns": predicted.time_ns,
            "bound by": predicted.bound,
            "cores": predicted.cores,
            "peak L1 bytes per core": predicted.peak_l1_bytes,
            "circular buffer bytes": predicted.cb_bytes,
            "DRAM bytes read": predicted.dram_read_bytes,
            "DRAM bytes written": predicted.dram_write_bytes,
        }
    if record.chain is not None:
        found["chain"] = record.chain
    found |= attributes_of(op)
    if record.config is not None:
        found |= {f"config.{name}": value for name, value in record.config.to_json().items()}
    found |= {f"reason.{name}": value for name, value in record.reason.items()}
    if op.origin:
        found["origin"] = list(op.origin)
    return found


def _edge(result: OptimizedGraph, position: int, value: str) -> Record:
    producer = result.graph.producer(value)
    return {
        "sourceNodeId": _source_id(value) if producer is None else producer.id,
        "sourceNodeOutputId": str(0 if producer is None else producer.outputs.index(value)),
        "targetNodeInputId": str(position),
    }


def _result(result: OptimizedGraph, position: int, value_id: str) -> Record:
    value, layout = result.graph.value(value_id), result.layouts[value_id]
    spec = layout.shard_spec
    facts: dict[str, object] = {
        "tensor_name": value_id,
        "tensor_shape": f"{value.dtype.value}[{','.join(map(str, value.shape))}]",
        "layout": layout.describe(),
        "buffer": layout.memory.buffer_type.value,
    }
    if spec is not None:
        facts["cores"] = ", ".join(f"({x0},{y0})-({x1},{y1})" for x0, y0, x1, y1 in spec.core_ranges)
    return {"id": str(position), "attrs": _attrs(facts)}


def _whole(result: OptimizedGraph) -> dict[str, str]:
    """Shown when no node is selected."""
    summary = result.summary_json()
    names = ("status", "policy", "predicted_time_ns", "l1_peak_bytes", "l1_limit_bytes", "reshards", "loads", "spills")
    found = {name: str(summary[name]) for name in names if name in summary}
    return {"board": result.device.name, "figures": "predicted, nothing was measured", **found}


def _namespace(name: str) -> str:
    """The path before the last part of a name: exporters of PyTorch name nodes by the modules that they are in."""
    return "/".join([part for part in name.split("/") if part][:-1])


def _source_id(value: str) -> str:
    return f"source {value}"


def _attrs(facts: dict[str, object]) -> list[dict[str, str]]:
    return [{"key": key, "value": as_text(value)} for key, value in facts.items()]
