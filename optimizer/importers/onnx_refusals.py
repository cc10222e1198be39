"""What cannot be imported, each with the reason and what a user can do: ops that TTNN has no counterpart for, and
models that have no static shapes although their inputs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import onnx
import onnx.defs

from optimizer.errors import GraphError, ShapeError
from optimizer.importers.onnx_folding import CONTROL_FLOW, unresolved_nodes
from optimizer.importers.onnx_operands import node_place
from optimizer.importers.onnx_schemas import absent_from_opset

if TYPE_CHECKING:
    import onnx_ir as ir


from optimizer.errors import near

SHOWN_NODES = 3
"""Further nodes without a shape that a message names."""
_BY_ELEMENTS = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Ops that give as much as their operands' elements decide."""
_COUNTED = "how many elements it gives depends on the data; run it on the host, after the last op that is on the device"
_STANDARD = ("", "ai.onnx")
_SIZING = {"Slice": (1, 2, 3, 4), "Pad": (1, 3), "Resize": (2, 3), "OneHot": (1,), "Range": (0, 1, 2)}
"""Op -> operands whose elements decide the shape of its result; of other ops vectors of whole numbers do."""
_GUESSED = ("Slice", "Pad")
"""Ops to which shape inference gives a shape though it does not know the axes."""


def refuse_control_flow(graph: onnx.GraphProto) -> None:
    """GraphError for a node whose subgraphs run by values of run time; an If on a constant folds away."""
    for node in graph.node:
        if node.op_type in CONTROL_FLOW and node.op_type != "If":
            raise _control_flow(node.op_type, node.name or next(iter(node.output), "?"))


def _control_flow(op_type: str, name: str) -> GraphError:
    return GraphError(
        f"{op_type} '{name}' cannot be represented: what runs depends on run-time values; "
        "export the model with the control flow unrolled or removed",
        node=name,
    )


def refuse_unresolved(
    model: ir.Model, parameters: frozenset[str], why_without: Callable[[str], str], versions: Mapping[str, int]
) -> None:
    """ShapeError with the cause of the first node, in the order of the graph, that has no static shape or no type."""
    for node in model.graph:
        if node.op_type in CONTROL_FLOW:
            raise _control_flow(node.op_type, node.name or node.outputs[0].name or "?")
    nodes = unresolved_nodes(model)
    if not nodes:
        return
    first, rest = nodes[0], nodes[1:]
    cause = _cause(first, parameters, why_without, dict(versions))
    more = ", ".join(node_place(node) for node in rest[:SHOWN_NODES])
    more += f" and {len(rest) - SHOWN_NODES} more" if len(rest) > SHOWN_NODES else ""
    after = f"; so without a shape after it: {more}" if rest else ""
    raise ShapeError(f"{node_place(first)}: {cause}{after}", node=first.name or first.outputs[0].name)


def refuse_guessed(model: ir.Model, parameters: frozenset[str]) -> None:
    """ShapeError for a node whose result has a shape that only holds for axes and steps that nobody knows."""
    for node in model.graph:
        standard = node.op_type in _GUESSED and node.domain in _STANDARD
        if standard and any(value.name not in parameters for value in _unknown(node)):
            raise ShapeError(f"{node_place(node)}: {_run_time(node)}", node=node.name or node.outputs[0].name)


def _cause(
    node: ir.Node, parameters: frozenset[str], why_without: Callable[[str], str], versions: dict[str, int]
) -> str:
    remark = absent_from_opset(node.op_type, node.domain, versions)
    if remark is not None:
        return f"{remark}; export with a newer opset, or convert the model with onnx.version_converter"
    if not onnx.defs.has(node.op_type, "" if node.domain in _STANDARD else node.domain):
        return _unknown_op(node, versions)
    for value in node.inputs:
        if value is not None and value.name in parameters and value.dtype is not None and value.dtype.is_integer():
            return f"it needs the elements of '{value.name}': {why_without(value.name)}"
    if node.op_type in _BY_ELEMENTS:
        return _COUNTED
    if node.op_type in REASONS:
        return REASONS[node.op_type]
    return _run_time(node)


def _unknown_op(node: ir.Node, versions: Mapping[str, int]) -> str:
    """An op that the libraries do not know: a slip of the pen, or a vendor's, whose shapes the file must tell."""
    if node.domain in _STANDARD:
        return no_such_op(node.op_type)
    value = next((v for v in node.outputs if v.name and (v.uses() or v.is_graph_output())), node.outputs[0])
    names = [] if value.shape is None else [str(dim.value) for dim in value.shape if not isinstance(dim, int)]
    if names and all(name.isidentifier() for name in names):
        flags = " ".join(f"--dim {name}=1" for name in dict.fromkeys(names))
        return f"the file states the shape {value.shape} for its result '{value.name}'; give numbers, such as {flags}"
    missing = "" if node.domain in versions else f" (the model does not import '{node.domain}' either)"
    return (
        f"{node.op_type} is a custom op of the domain '{node.domain}', so only the file can state the shape of its "
        f"result '{value.name}', and it does not{missing}; add value_info for '{value.name}' with static sizes, or "
        "export the op as standard ones"
    )


def _run_time(node: ir.Node) -> str:
    """A shape that depends on what operands hold at run time, where that can be told."""
    unknown = list(_unknown(node))
    if not unknown:
        return "the shape of its result cannot be inferred; export the model with static shapes"
    source = unknown[0].producer()
    whose = "is an input of the model" if source is None else f"is computed at run time by {node_place(source)}"
    more = "".join(f", and '{value.name}'" for value in unknown[1:])
    names = " and ".join(f"'{value.name}'" for value in unknown)
    return (
        f"the shape of its result depends on the elements of '{unknown[0].name}', which {whose}{more}; export the "
        f"model with {names} as {'constants' if more else 'a constant'}"
    )


def _unknown(node: ir.Node) -> Iterator[ir.Value]:
    """Operands that decide the shape of a node's result and are no constants."""
    for position, value in enumerate(node.inputs):
        if value is None or not value.name or value.const_value is not None or value.dtype is None:
            continue
        if node.op_type in _SIZING:
            if position in _SIZING[node.op_type]:
                yield value
        elif value.dtype.is_integer() and value.shape is not None and len(value.shape) < 2:
            yield value
            return


_RECURRENT = "TTNN has no recurrent net; export it unrolled over the time steps, or run it on the host"
_RANDOM = "random numbers are drawn on the host; feed them as an input instead"
_COUNT = "the shape of the result depends on the data; run it on the host, after the last op that is on the device"
_TEXT = "strings exist on the host only; tokenize before the model"
_SEQUENCE = "tensors have static shapes; use Split, Concat and Slice instead of sequences"
_TRAINING = "a loss is for training; export the model for inference"
_SIGNAL = "TTNN has no such transform for models; compute the features on the host and feed them"
_BOXES = "TTNN has no op on regions; cut the model before it and post-process on the host"
_OPTIONAL = "what is present must be known at export; export one variant"
_FLOW = "what runs depends on run-time values; export the model with the control flow unrolled or removed"

REASONS: dict[str, str] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
    **dict.fromkeys(("Loop", "Scan", "If", "SequenceMap"), _FLOW),
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _RANDOM
    ),
    **dict.fromkeys(("NonZero", "Unique"), _COUNT),
    **dict.fromkeys(("NonMaxSuppression", "MaxRoiPool", "RoiAlign"), _BOXES),
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer", "ImageDecoder"), _TEXT
    ),
    **dict.fromkeys(
        ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
         "SplitToSequence", "ConcatFromSequence"), _SEQUENCE,
    ),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), _OPTIONAL),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _TRAINING),
    **dict.fromkeys(
        ("DFT", "STFT", "MelWeightMatrix", "BlackmanWindow", "HammingWindow", "HannWindow"), _SIGNAL
    ),
    "AffineGrid": "TTNN makes no grids; compute the grid on the host and feed it to GridSample",
    "DeformConv": "TTNN moves no taps of a kernel by computed offsets; run it on the host",
    "MaxUnpool": "TTNN's pools give no indices to undo; use ConvTranspose or Resize",
    "Col2Im": "TTNN puts no overlapping blocks together; use ConvTranspose",
    "Det": "TTNN has no determinants; compute it on the host",
}  # fmt: skip
"""Op type -> why it does not run on the device and what to do; ops on constants only are folded before."""


def reason(key: str) -> str:
    """Why an op without a mapping becomes opaque; `key` is `[domain.]OpType`."""
    known = REASONS.get(key)
    if known is not None:
        return known
    domain, _, op_type = key.rpartition(".")
    if not domain and not onnx.defs.has(op_type):
        return no_such_op(op_type)
    whose = f"the domain '{domain}'" if domain else "ONNX"
    return f"TTNN has no counterpart of this op of {whose}; export it as standard ops, or run it on the host"


def no_such_op(op_type: str) -> str:
    """What to say of an op type that ONNX itself does not have."""
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    return f"ONNX has no op '{op_type}'{near(op_type, known)}"
