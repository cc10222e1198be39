"""What it takes to evaluate a node on constants, estimated before anybody does it; what the ONNX libraries raise."""

from __future__ import annotations

from math import prod

import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
LIBRARY_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
)
"""What the ONNX libraries raise on models that they cannot digest."""
MOST_STEPS = 1 << 22
"""Steps of one evaluation, each some nanoseconds; a node that takes more is left in the graph."""
_SLOW_STEPS = 64
"""Steps of one turn of a loop that the reference evaluator makes in Python."""
_NEVER = frozenset(
    {"ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"}
    | {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Ops on text or compressed images, whose work no shape bounds, and those that draw lots."""
_SHRINKING = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Ops whose result depends on the elements and is bounded by the operands."""
_PRODUCTS = frozenset({"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"})
_WINDOWS = frozenset(
    {"Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"}
    | {"AveragePool", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "RoiAlign", "Col2Im"}
    | {"GridSample", "Resize", "Upsample", "LRN"}
)
_LOOPS = frozenset(
    {"GRU", "LSTM", "RNN", "Attention", "CumSum", "DFT", "STFT", "Det", "Einsum", "GatherElements", "GatherND"}
    | {"MelWeightMatrix", "NonMaxSuppression", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND"}
    | {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "TopK", "BitShift", "EyeLike", "CenterCropPad"}
)


def is_never_evaluated(node: ir.Node) -> bool:
    """Whether a node stays in the graph although its operands are constants."""
    return node.domain not in ("", "ai.onnx") or node.op_type in CONTROL_FLOW or node.op_type in _NEVER


def evaluation_steps(node: ir.Node, size: int | None) -> int | None:
    """Steps of evaluating a node that gives `size` elements (None: not known before); None when they are too many."""
    operands = [v.const_value for v in node.inputs if v is not None and v.const_value is not None]
    shapes = [tuple(int(str(d)) for d in operand.shape) for operand in operands]
    sizes = [prod(shape) for shape in shapes]
    if size is None:
        if node.op_type not in _SHRINKING:
            return None
        size = sum(sizes)
    steps = size + sum(sizes)
    if node.op_type in _PRODUCTS:
        steps += size * max((s[-1] for s in shapes if s), default=1)
    elif node.op_type in _WINDOWS:
        steps = _SLOW_STEPS * (steps + size * _window(node, sizes))
    elif node.op_type == "Einsum":
        steps += _letters(node, shapes)
    elif node.op_type == "NonMaxSuppression":
        steps = _SLOW_STEPS * (steps + sizes[0] ** 2)
    elif node.op_type in _LOOPS:
        steps *= _SLOW_STEPS
        if node.op_type in ("GRU", "LSTM", "RNN", "DFT", "STFT", "Attention"):
            steps += size * max(sizes, default=1)
    return steps if steps <= MOST_STEPS else None


def _window(node: ir.Node, sizes: list[int]) -> int:
    """Elements that one element of the result is made of."""
    kernel = node.attributes.get("kernel_shape")
    if kernel is not None:
        return prod(max(1, abs(int(k))) for k in kernel.as_ints())
    span = node.attributes.get("size")
    if span is not None:
        return max(1, abs(span.as_int()))
    return max(sizes[1:], default=1)


def _letters(node: ir.Node, shapes: list[tuple[int, ...]]) -> int:
    """Products that an Einsum adds up when done at once: one for each choice of all its letters."""
    equation = node.attributes.get("equation")
    terms = equation.as_string().replace(" ", "").partition("->")[0].split(",") if equation is not None else []
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=False):
        dots = len(shape) - len(term.replace("...", ""))
        letters = list(term.partition("...")[0]) + [f"dot{i}" for i in range(dots)] + list(term.partition("...")[2])
        for letter, dim in zip(letters, shape, strict=False):
            sizes[letter] = max(sizes.get(letter, 1), dim)
    return prod(sizes.values())
