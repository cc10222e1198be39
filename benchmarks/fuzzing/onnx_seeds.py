"""Small ONNX models to mutate: one per op of the standard, and a few whole nets with branches, functions, sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT
Array = np.ndarray[Any, Any]
node = helper.make_node


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: Iterable[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 21,
    kinds: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model whose inputs are float unless `kinds` says otherwise; outputs without shapes."""
    graph = helper.make_graph(
        list(nodes),
        "seed",
        [helper.make_tensor_value_info(n, (kinds or {}).get(n, F), s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, F, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def ints(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def floats(*shape: int) -> Array:
    return (np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) % 7 - 3) / 4


_X = (1, 4, 8, 8)
_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax "
    "Identity IsInf IsNaN LeakyRelu Log LogSoftmax LpNormalization Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid "
    "Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu GlobalAveragePool GlobalMaxPool "
    "GlobalLpPool "
    "Flatten Transpose Shape Size NonZero Unique MeanVarianceNormalization ArgMax ArgMin ReduceMax ReduceMean "
    "ReduceSum "
    "ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMin ReduceSumSquare DynamicQuantizeLinear EyeLike "
    "Bernoulli RandomNormalLike RandomUniformLike Multinomial Det OptionalHasElement Optional Dropout"
)
_BINARY = "Add Sub Mul Div Pow Max Min Mean Sum Mod And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual PRelu"

# op, its operands: a tuple is the shape of an input, an array a constant; attributes
_CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Conv", [_X, floats(6, 4, 3, 3), floats(6)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Conv", [(1, 2, 4, 6, 6), floats(4, 2, 3, 3, 3)], {"pads": [1] * 6}),
    ("ConvTranspose", [_X, floats(4, 6, 2, 2)], {"strides": [2, 2]}),
    ("MaxPool", [_X], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("AveragePool", [_X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", [(1, 2, 4, 6, 6)], {"kernel_shape": [2, 2, 2], "pads": [1, 0, 0, 1, 0, 0]}),
    ("LpPool", [_X], {"kernel_shape": [2, 2]}),
    *((op, [_X], {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [1, 2], "auto_pad": auto, "ceil_mode": 1})
      for op, auto in (("MaxPool", "SAME_UPPER"), ("AveragePool", "SAME_LOWER"), ("LpPool", "SAME_UPPER"))),
    ("Conv", [_X, floats(6, 2, 3, 3)], {"auto_pad": "SAME_UPPER", "group": 2, "dilations": [1, 1]}),
    ("ConvTranspose", [_X, floats(4, 6, 2, 2)], {"auto_pad": "SAME_LOWER", "output_padding": [0, 0]}),
    ("BatchNormalization", [_X, floats(4), floats(4), floats(4), np.ones(4, "f")], {}),
    ("InstanceNormalization", [_X, floats(4), floats(4)], {}),
    ("GroupNormalization", [_X, floats(4), floats(4)], {"num_groups": 2}),
    ("LayerNormalization", [(2, 6, 16), floats(16), floats(16)], {"axis": -1}),
    ("LRN", [_X], {"size": 3}),
    ("MatMul", [(2, 6, 16), floats(16, 8)], {}),
    ("Gemm", [(6, 16), floats(16, 8), floats(8)], {"alpha": 0.5}),
    ("Einsum", [(2, 6, 16), (2, 16, 5)], {"equation": "bij,bjk->bik"}),
    ("Einsum", [(6, 6)], {"equation": "ii->i"}),
    ("Reshape", [(2, 6, 16), ints(2, 96)], {}),
    ("Squeeze", [(2, 1, 16), ints(1)], {}),
    ("Unsqueeze", [(2, 16), ints(1)], {}),
    ("Concat", [(2, 16), (2, 8)], {"axis": 1}),
    ("Slice", [(2, 16), ints(1), ints(9), ints(1), ints(2)], {}),
    ("Slice", [(2, 40), ints(-1), ints(-(1 << 62)), ints(1), ints(-1)], {}),
    ("Expand", [(2, 1, 16), ints(2, 4, 16)], {}),
    ("Tile", [(2, 16), ints(1, 3)], {}),
    ("Pad", [(1, 3, 8), ints(0, 0, 1, 0, 0, 2)], {"mode": "reflect"}),
    ("Pad", [(1, 3, 8), ints(0, 0, 1, 0, 0, 2), np.float32(1)], {}),
    ("CenterCropPad", [(3, 8), ints(5, 6)], {}),
    ("Trilu", [(6, 6), np.int64(1)], {}),
    ("DepthToSpace", [_X], {"blocksize": 2}),
    ("SpaceToDepth", [_X], {"blocksize": 2}),
    ("Resize", [_X, None, np.array([1, 1, 2, 2], "f")], {"mode": "nearest"}),
    ("Resize", [_X, None, np.array([1, 1, 1.5, 1.5], "f")], {"mode": "cubic"}),
    ("Resize", [_X, None, None, ints(1, 4, 5, 12)], {"mode": "linear", "antialias": 1}),
    ("Gather", [(8, 16), ints(1, 7, 3)], {"axis": 0}),
    ("GatherND", [(8, 16), ints(1, 7, 3).reshape(3, 1)], {}),
    ("GatherElements", [(3, 16), np.zeros((3, 16), "int64")], {"axis": 1}),
    ("ScatterND", [(8, 4), ints(1, 3).reshape(2, 1), (2, 4)], {}),
    ("ScatterElements", [(8, 4), np.zeros((2, 4), "int64"), (2, 4)], {"axis": 0}),
    ("ReverseSequence", [(6, 3, 4), ints(2, 3, 6)], {}),
    ("Compress", [(8, 4), np.array([1, 0, 1, 0, 0, 0, 0, 1], bool)], {"axis": 0}),
    ("TopK", [(2, 16), ints(4)], {}),
    ("CumSum", [(2, 16), np.int64(1)], {"exclusive": 1}),
    ("Clip", [(2, 16), np.float32(0), np.float32(6)], {}),
    ("Where", [np.array([[True], [False]]), (2, 16), (2, 16)], {}),
    ("Cast", [(2, 16)], {"to": TensorProto.INT32}),
    ("CastLike", [(2, 16), ints(1)], {}),
    ("QuantizeLinear", [(2, 16), np.float32(0.1), np.int8(0)], {}),
    ("DequantizeLinear", [np.ones((2, 16), "int8"), np.float32(0.1)], {}),
    ("MatMulInteger", [np.ones((4, 8), "uint8"), np.ones((8, 3), "int8")], {}),
    ("QLinearConv", [np.ones((1, 2, 4, 4), "uint8"), np.float32(1), np.uint8(0), np.ones((2, 2, 1, 1), "uint8"),
                     np.float32(1), np.uint8(0), np.float32(1), np.uint8(0)], {}),
    ("OneHot", [np.array([0, 3, 1]), np.int64(5), np.array([0, 1], "f")], {}),
    ("Range", [np.int64(0), np.int64(12), np.int64(1)], {}),
    ("ConstantOfShape", [ints(2, 16)], {"value": numpy_helper.from_array(np.array([2.0], "f"), "fill")}),
    ("HannWindow", [np.int64(16)], {}),
    ("HammingWindow", [np.int64(16)], {}),
    ("BlackmanWindow", [np.int64(16)], {}),
    ("MelWeightMatrix", [np.int64(4), np.int64(16), np.int64(8000), np.float32(0), np.float32(4000)], {}),
    ("Col2Im", [(1, 12, 4), ints(4, 4), ints(2, 2)], {"strides": [2, 2]}),
    ("RandomNormal", [], {"shape": [2, 16]}),
    ("RandomUniform", [], {"shape": [2, 16]}),
    ("DFT", [(1, 16, 1)], {}),
    ("STFT", [(1, 64, 1), np.int64(8), None, np.int64(16)], {}),
    ("GridSample", [_X, (1, 3, 3, 2)], {}),
    ("AffineGrid", [(1, 2, 3), ints(1, 4, 8, 8)], {}),
    ("RoiAlign", [_X, (2, 4), ints(0, 0)], {"output_height": 2, "output_width": 2}),
    ("MaxRoiPool", [_X, (2, 5)], {"pooled_shape": [2, 2]}),
    ("NonMaxSuppression", [(1, 6, 4), (1, 1, 6), ints(3), np.float32(0.5)], {}),
    ("LSTM", [(4, 1, 8), floats(1, 16, 8), floats(1, 16, 4)], {"hidden_size": 4}),
    ("GRU", [(4, 1, 8), floats(1, 12, 8), floats(1, 12, 4)], {"hidden_size": 4}),
    ("BitShift", [np.ones((2, 4), "uint8"), np.ones((2, 4), "uint8")], {"direction": "LEFT"}),
    ("SoftmaxCrossEntropyLoss", [(4, 8), ints(1, 2, 3, 4)], {}),
    ("SplitToSequence", [(6, 4), ints(2, 2, 2)], {"axis": 0}),
    ("SequenceConstruct", [(6, 4), (6, 4)], {}),
    ("Split", [(6, 16)], {"axis": 1, "num_outputs": 1}),
    ("com.microsoft.Gelu", [(2, 16)], {}),
    ("com.microsoft.FusedMatMul", [(2, 6, 16), floats(16, 8)], {"alpha": 0.5}),
    ("com.microsoft.SkipLayerNormalization", [(1, 6, 16), (1, 6, 16), floats(16), floats(16)], {}),
    ("com.microsoft.MultiHeadAttention", [(1, 6, 32), (1, 6, 32), (1, 6, 32)], {"num_heads": 2}),
    ("com.microsoft.MatMulNBits", [(4, 32), np.ones((8, 1, 16), "uint8"), floats(8)],
     {"K": 32, "N": 8, "bits": 4, "block_size": 32}),
    ("my.Unknown", [(2, 16)], {"alpha": 0.5, "mode": "odd"}),
]  # fmt: skip


def _single(op: str, operands: list[Any], attrs: Mapping[str, Any], opset: int = 21) -> onnx.ModelProto:
    """One op between two Relus, so that its operands and results are those of a run."""
    domain, _, name = op.rpartition(".")
    nodes, names, inputs, weights = [], [], {}, {}
    for i, operand in enumerate(operands):
        names.append("" if operand is None else f"x{i}")
        if isinstance(operand, tuple):
            inputs[f"in{i}"] = operand
            nodes.append(node("Relu", [f"in{i}"], [f"x{i}"], name=f"before{i}"))
        elif operand is not None:
            weights[f"x{i}"] = np.asarray(operand)
    nodes.append(node(name, names, ["y"], name="it", domain=domain, **attrs))
    if not inputs:
        inputs["in0"] = (2, 16)
        nodes.append(node("Relu", ["in0"], ["z"], name="other"))
    return model(nodes, inputs, ["y", "z"] if "z" in nodes[-1].output else ["y"], weights, opset)


def _classifier() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], name="relu1"),
        node("MaxPool", ["r1"], ["p1"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"], name="conv2"),
        node("Add", ["c2", "p1"], ["a2"], name="add"),
        node("GlobalAveragePool", ["a2"], ["g"], name="gap"),
        node("Flatten", ["g"], ["f"], name="flat"),
        node("Gemm", ["f", "w3", "b3"], ["y"], name="fc", transB=1),
    ]
    weights = {"w1": floats(32, 3, 3, 3), "b1": floats(32), "w2": floats(32, 32, 1, 1), "w3": floats(10, 32),
               "b3": floats(10)}  # fmt: skip
    return model(nodes, {"x": (1, 3, 16, 16)}, ["y"], weights)


def _attention() -> onnx.ModelProto:
    nodes = [node("MatMul", ["x", f"w{n}"], [n], name=f"{n}_proj") for n in "qkv"]
    nodes += [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["b"]),
              node("Unsqueeze", ["b", "axis0"], ["b1"]), node("Concat", ["b1", "rest"], ["split"], axis=0)]  # fmt: skip
    for n in "qkv":
        perm = [0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]
        nodes += [node("Reshape", [n, "split"], [f"{n}s"]), node("Transpose", [f"{n}s"], [f"{n}t"], perm=perm)]
    nodes += [
        node("MatMul", ["qt", "kt"], ["scores"]),
        node("Div", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "vt"], ["o"]),
        node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "join"], ["y"]),
    ]
    weights = {f"w{n}": floats(32, 32) for n in "qkv"}
    weights |= {"zero": np.int64(0), "axis0": ints(0), "rest": ints(-1, 2, 16), "join": ints(1, -1, 32)}
    return model(nodes, {"x": (1, 8, 32)}, ["y"], weights | {"scale": np.float32(4)})


def _branching() -> onnx.ModelProto:
    def branch(op: str) -> onnx.GraphProto:
        value = numpy_helper.from_array(floats(16), "w")
        return helper.make_graph(
            [node(op, ["x", "w"], ["t"], name=f"inner{op}")],
            op,
            [],
            [helper.make_tensor_value_info("t", F, None)],
            [value],
        )

    nodes = [
        node("If", ["c"], ["y"], name="choice", then_branch=branch("Add"), else_branch=branch("Mul")),
        node("Relu", ["y"], ["z"]),
    ]
    return model(nodes, {"x": (2, 16)}, ["z"], {"c": np.array(True)})


def _calling() -> onnx.ModelProto:
    body = [
        node("Constant", [], ["k"], value=numpy_helper.from_array(floats(16), "k")),
        node("Add", ["a", "k"], ["t"]),
        node("Relu", ["t"], ["b"]),
    ]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    result = model(
        [node("Twice", ["x"], ["u"], domain="my"), node("Twice", ["u"], ["y"], domain="my")], {"x": (2, 16)}, ["y"]
    )
    result.functions.append(helper.make_function("my", "Twice", ["a"], ["b"], body, imports))
    return result


def _sequences() -> onnx.ModelProto:
    nodes = [
        node("SplitToSequence", ["x", "two"], ["parts"], axis=0, name="cut"),
        node("SequenceAt", ["parts", "one"], ["p"], name="at"),
        node("ConcatFromSequence", ["parts"], ["all"], axis=1, name="join"),
        node("Relu", ["p"], ["y"]),
        node("Relu", ["all"], ["z"]),
    ]
    return model(nodes, {"x": (6, 4)}, ["y", "z"], {"two": np.int64(2), "one": np.int64(1)})


def _shapes() -> onnx.ModelProto:
    """Shape arithmetic on constants, in which sizes grow."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Mul", ["s", "two"], ["s2"]),
        node("Concat", ["s2", "s"], ["s4"], axis=0),
        node("ReduceProd", ["s4"], ["n"], keepdims=1),
        node("ConstantOfShape", ["n"], ["zeros"]),
        node("Range", ["zero", "limit", "one"], ["r"]),
        node("Tile", ["r", "two"], ["rt"]),
        node("Cast", ["rt"], ["rf"], to=F),
        node("ReduceSum", ["zeros"], ["total"], keepdims=0),
        node("Add", ["rf", "total"], ["k"]),
        node("ReduceMax", ["k"], ["m"], keepdims=0),
        node("Mul", ["x", "m"], ["y"]),
    ]
    weights = {"two": ints(2), "zero": np.int64(0), "one": np.int64(1), "limit": np.int64(24)}
    return model(nodes, {"x": (2, 3)}, ["y"], weights)


def _loop() -> onnx.ModelProto:
    info, whole, truth = helper.make_tensor_value_info, TensorProto.INT64, TensorProto.BOOL
    nodes = [node("Identity", ["go"], ["go_on"]), node("Relu", ["a"], ["b"])]
    reads = [info("i", whole, ()), info("go", truth, ()), info("a", F, (2, 16))]
    body = helper.make_graph(nodes, "body", reads, [info("go_on", truth, ()), info("b", F, (2, 16))])
    weights = {"n": np.array(3), "c": np.array(True)}
    return model([node("Loop", ["n", "c", "x"], ["y"], body=body)], {"x": (2, 16)}, ["y"], weights)


def _sparse() -> onnx.ModelProto:
    values = numpy_helper.from_array(np.array([1.0, 2.0], "f"), "sw")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(ints(1, 5), "at"), [2, 16])
    nodes = [node("Constant", [], ["k"], sparse_value=sparse), node("Add", ["x", "k"], ["y"])]
    return model(nodes, {"x": (2, 16)}, ["y"])


@cache
def seeds() -> dict[str, onnx.ModelProto]:
    """Every seed by name, always in the same order."""
    found = {f"{op}:{i}": _single(op, operands, attrs) for i, (op, operands, attrs) in enumerate(_CASES)}
    found |= {op: _single(op, [_X if op != "Det" else (6, 6)], {}) for op in _UNARY.split()}
    found |= {op: _single(op, [(2, 16), (2, 16)], {}) for op in _BINARY.split()}
    found |= {f"constant {op}": _single(op, [floats(2, 16), floats(2, 16)], {}) for op in _BINARY.split()}
    whole = (_classifier, _attention, _branching, _calling, _sequences, _shapes)
    found |= {"loop": _loop(), "sparse": _sparse()}
    # whole nets come up as often as all single ops together
    for copy in range(1 + len(found) // len(whole)):
        found |= {f"{make.__name__[1:]} {copy}": make() for make in whole}
    return found
