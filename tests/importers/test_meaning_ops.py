"""Every mapped ONNX op gives what onnxruntime gives, alone and in f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]
BOOL, I64, I32, F32 = TensorProto.BOOL, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT
KINDS = {
    np.dtype(bool): BOOL,
    np.dtype(np.int64): I64,
    np.dtype(np.int32): I32,
    np.dtype(np.float32): F32,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
}
RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    """One node. Inputs: a shape for a random f32 input, an array for an input with these elements,
    `("const", array)` for an initializer, None for an absent one."""

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] = (F32,)
    opset: int = 17
    domain: str = ""
    positive: bool = False
    tolerance: float = 2e-5
    label: str = ""

    def __str__(self) -> str:
        return f"{self.op}{'-' + self.label if self.label else ''}-{self.opset}"


def const(*values: Any, dtype: Any = np.int64) -> tuple[str, Array]:
    return ("const", np.asarray(values, dtype=dtype))


def scalar(value: Any, dtype: Any = np.int64) -> tuple[str, Array]:
    return ("const", np.asarray(value, dtype=dtype))


def weight(*shape: int) -> tuple[str, Array]:
    return ("const", RNG.standard_normal(shape).astype(np.float32))


X = (2, 3, 8, 6)
IDS = RNG.integers(0, 5, (2, 4))
MASK = RNG.random((2, 3)) > 0.5

UNARY = ["Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Sin", "Cos", "Erf", "Softsign", "HardSwish", "Floor", "Ceil",
         "Sign", "Atan", "Sinh", "Cosh", "Softplus", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid",
         "ThresholdedRelu", "Asinh", "Tan", "Round", "Identity", "Mish"]  # fmt: skip
POSITIVE = ["Sqrt", "Log", "Reciprocal"]
COMPARE = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]

CASES = [
    *[Case(op, (X,), opset=18) for op in UNARY],
    *[Case(op, (X,), positive=True) for op in POSITIVE],
    Case("Asin", (np.float32([[0.1, -0.9]]),)),
    Case("Acos", (np.float32([[0.1, -0.9]]),)),
    Case("Atanh", (np.float32([[0.1, -0.9]]),)),
    Case("Acosh", (np.float32([[1.1, 3.0]]),)),
    *[Case(op, (X, (3, 1, 1))) for op in ("Add", "Sub", "Mul", "Div")],
    *[Case(op, (X, scalar(2.5, np.float32)), label="scalar-right") for op in ("Add", "Sub", "Mul", "Div")],
    *[Case(op, (scalar(2.5, np.float32), X), label="left", positive=True) for op in ("Add", "Sub", "Mul", "Div")],
    *[Case(op, ((2, 3), (2, 3)), outputs=(BOOL,)) for op in COMPARE],
    *[Case(op, (scalar(0.1, np.float32), (2, 3)), outputs=(BOOL,), label="scalar-left") for op in COMPARE],
    Case("Equal", (IDS, scalar(3)), outputs=(BOOL,), label="integers"),
    *[Case(op, (MASK, ~MASK), outputs=(BOOL,)) for op in ("And", "Or", "Xor")],
    Case("And", (MASK, scalar(True, bool)), outputs=(BOOL,), label="true"),
    Case("Not", (MASK,), outputs=(BOOL,)),
    Case("Pow", (X, scalar(2.0, np.float32)), label="square"),
    Case("Pow", (X, scalar(3.0, np.float32)), label="cube"),
    Case("Pow", (X, scalar(0.5, np.float32)), label="root", positive=True),
    Case("Pow", (X, (3, 1, 1)), label="tensor", positive=True),
    Case("Pow", (scalar(2.0, np.float32), X), label="base"),
    Case("Mod", (IDS, scalar(3)), outputs=(I64,)),
    Case("Mod", (X, scalar(0.7, np.float32)), {"fmod": 1}, label="fmod"),
    Case("Div", (IDS, scalar(2)), outputs=(I64,), label="integers"),
    Case("Clip", (X, scalar(0.0, np.float32), scalar(6.0, np.float32)), label="relu6"),
    Case("Clip", (X, scalar(-0.5, np.float32), None), label="low"),
    Case("Clip", (X,), {"min": -0.3, "max": 0.4}, opset=7),
    Case("Clip", (X, np.float32(-0.2), np.float32(0.2)), label="tensors"),
    Case("Where", (MASK, (2, 3), (2, 3))),
    Case("Where", (MASK, scalar(0.0, np.float32), (2, 3)), label="scalar-first"),
    Case("Where", (MASK, (2, 3), scalar(-9.0, np.float32)), label="scalar-second"),
    Case("Where", (MASK, (4, 2, 3), (2, 3)), label="broadcast"),
    Case("Cast", (IDS,), {"to": F32}),
    Case("Cast", (X,), {"to": I64}, outputs=(I64,), label="to-integer"),
    Case("Cast", (IDS,), {"to": BOOL}, outputs=(BOOL,), label="to-bool"),
    Case("Cast", (MASK,), {"to": F32}, label="from-bool"),
    Case("Cast", (MASK,), {"to": I64}, outputs=(I64,), label="bool-to-integer"),
    Case("PRelu", (X, weight(3, 1, 1))),
    Case("Gelu", (X,), opset=20),
    Case("Gelu", (X,), {"approximate": "tanh"}, opset=20, tolerance=1e-3, label="tanh"),
    Case("Shrink", (X,), {"bias": 0.2, "lambd": 0.4}),
    Case("HardSigmoid", (X,), {"alpha": 1 / 6, "beta": 0.5}, label="sixth"),
    Case("Selu", (X,), {"alpha": 1.2, "gamma": 0.9}, label="own"),
    Case("IsNaN", (np.float32([[np.nan, 1.0]]),), outputs=(BOOL,)),
    Case("IsInf", (np.float32([[np.inf, -np.inf, 1.0]]),), {"detect_negative": 0}, outputs=(BOOL,)),
    *[Case(op, ((2, 3), (2, 3), (3,))) for op in ("Sum", "Max", "Min", "Mean")],
    Case("Sum", ((2, 3),), label="single"),
    Case("Dropout", (X,)),
    # -- matmul -----------------------------------------------------------------------------------
    Case("MatMul", ((2, 4, 5), weight(5, 6))),
    Case("MatMul", ((2, 1, 4, 5), (3, 5, 6)), label="broadcast"),
    Case("MatMul", ((5,), weight(5, 6)), label="vector-left"),
    Case("MatMul", ((2, 4, 5), (5,)), label="vector-right"),
    Case("MatMul", ((5,), (5,)), label="dot"),
    Case("Gemm", ((4, 5), weight(6, 5), weight(6)), {"transB": 1}),
    Case("Gemm", ((5, 4), weight(5, 6), weight(4, 6)), {"transA": 1, "alpha": 0.5, "beta": 2.0}, label="general"),
    Case("Gemm", ((4, 5), (6, 5)), {"transB": 1}, label="activations"),
    *[
        Case("Einsum", shapes, {"equation": equation}, label=equation.replace(",", "_").replace("->", "_"))
        for equation, shapes in {
            "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
            "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)),
            "bqhd,bkhd->bhqk": ((2, 4, 3, 5), (2, 6, 3, 5)),
            "ij,jk": ((3, 4), (4, 5)),
            "bij->bji": ((2, 3, 4),),
            "bij->b": ((2, 3, 4),),
            "i,j->ij": ((3,), (4,)),
            "bc,bc->": ((2, 3), (2, 3)),
        }.items()
    ],
    # -- windows ----------------------------------------------------------------------------------
    Case("Conv", (X, weight(4, 3, 3, 3), weight(4)), {"pads": [1, 1, 1, 1]}),
    Case("Conv", (X, weight(4, 3, 3, 2)), {"strides": [2, 1], "pads": [0, 1, 1, 0], "dilations": [2, 1]}, label="odd"),
    Case("Conv", ((1, 4, 6, 6), weight(8, 2, 3, 3)), {"group": 2}, label="groups"),
    Case("Conv", ((1, 4, 6, 6), weight(4, 1, 3, 3)), {"group": 4, "auto_pad": "SAME_UPPER"}, label="depthwise"),
    Case("Conv", ((2, 3, 9), weight(4, 3, 3), weight(4)), {"strides": [2], "pads": [1, 1]}, label="1d"),
    Case("ConvTranspose", (X, weight(3, 4, 3, 3), weight(4)), {"strides": [2, 2], "pads": [1, 1, 0, 1]}),
    Case("ConvTranspose", (X, weight(3, 4, 2, 2)), {"strides": [2, 2], "output_padding": [1, 0]}, label="extra"),
    Case("ConvTranspose", ((1, 4, 5, 5), weight(4, 2, 3, 3)), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]},
         label="groups"),
    Case("ConvTranspose", ((2, 3, 9), weight(3, 4, 3)), {"strides": [2]}, label="1d"),
    Case("MaxPool", (X,), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    Case("MaxPool", (X,), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, label="ceil"),
    Case("MaxPool", ((2, 3, 9),), {"kernel_shape": [3], "strides": [2]}, label="1d"),
    Case("AveragePool", (X,), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    Case("AveragePool", (X,), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1],
                               "count_include_pad": 1}, label="padding-counts"),
    Case("GlobalAveragePool", (X,)),
    Case("GlobalMaxPool", (X,)),
    Case("Resize", (X, None, scalar([1, 1, 2, 2], np.float32)), {"coordinate_transformation_mode": "asymmetric",
                                                                "nearest_mode": "floor"}, label="nearest"),
    Case("Resize", (X, None, None, const(2, 3, 16, 18)), {"mode": "linear"}, label="linear"),
    Case("Resize", (X, None, None, const(2, 3, 4, 3)), {"coordinate_transformation_mode": "asymmetric",
                                                       "nearest_mode": "floor"}, label="thinning"),
    Case("Upsample", (X, scalar([1, 1, 2, 3], np.float32)), opset=9),
    Case("DepthToSpace", ((1, 8, 2, 3),), {"blocksize": 2}),
    Case("DepthToSpace", ((1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"}, label="crd"),
    Case("SpaceToDepth", ((1, 2, 4, 6),), {"blocksize": 2}),
    # -- norms ------------------------------------------------------------------------------------
    Case("Softmax", (X,), {"axis": 1}),
    Case("Softmax", (X,), {"axis": 1}, opset=11, label="flattened"),
    Case("LogSoftmax", (X,), {"axis": -1}),
    Case("LayerNormalization", ((2, 5, 8), weight(8), weight(8)), {"axis": -1}),
    Case("LayerNormalization", ((2, 5, 8), weight(5, 8)), {"axis": 1}, label="two-dims"),
    Case("RMSNormalization", ((2, 5, 8), weight(8)), opset=23),
    Case("BatchNormalization", (X, weight(3), weight(3), weight(3), ("const", np.float32([0.5, 1.5, 2.0])))),
    Case("BatchNormalization", ((4, 3), weight(3), weight(3), weight(3), ("const", np.float32([0.5, 1.5, 2.0]))),
         label="rank-2"),
    Case("InstanceNormalization", (X, weight(3), weight(3))),
    Case("InstanceNormalization", ((2, 3, 7), weight(3), weight(3)), label="1d"),
    Case("GroupNormalization", ((2, 6, 4, 4), weight(6), weight(6)), {"num_groups": 3}, opset=21),
    Case("GroupNormalization", ((2, 6, 4, 4), weight(3), weight(3)), {"num_groups": 3}, opset=18),
    Case("LRN", ((1, 7, 4, 4),), {"size": 5, "alpha": 0.1, "beta": 0.75, "bias": 1.5}),
    Case("LRN", ((1, 4, 4, 4),), {"size": 9, "alpha": 0.1, "beta": 0.75, "bias": 1.5}, label="clamped"),
    Case("LpNormalization", (X,), {"axis": 1}),
    Case("MeanVarianceNormalization", (X,)),
    # -- reductions -------------------------------------------------------------------------------
    *[Case(op, (X,), {"axes": [2, 3]}, opset=11) for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")],
    *[Case(op, (X, const(1)), {"keepdims": 0}, opset=18)
      for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                 "ReduceSumSquare", "ReduceLogSumExp")],
    Case("ReduceLogSum", (X, const(-1)), opset=18, positive=True),
    Case("ReduceMean", (X,), {"keepdims": 0}, opset=18, label="all"),
    Case("ReduceSum", (X,), {"noop_with_empty_axes": 1}, opset=18, label="none"),
    Case("ArgMax", (X,), {"axis": 2, "keepdims": 0}, outputs=(I64,)),
    Case("ArgMin", (X,), {"axis": -1}, outputs=(I64,)),
    Case("TopK", ((3, 9), const(4)), outputs=(F32, I64)),
    Case("CumSum", (X, scalar(2))),
    # -- movement ---------------------------------------------------------------------------------
    Case("Reshape", (X, const(0, -1, 6))),
    Case("Flatten", (X,), {"axis": 2}),
    Case("Squeeze", ((1, 3, 1, 4), const(0))),
    Case("Squeeze", ((1, 3, 1, 4),), {"axes": [2]}, opset=11),
    Case("Unsqueeze", ((3, 4), const(0, 3))),
    Case("Unsqueeze", ((3, 4),), {"axes": [1]}, opset=11),
    Case("Transpose", (X,), {"perm": [0, 2, 3, 1]}),
    Case("Transpose", (X,), label="default"),
    Case("Concat", ((2, 3), (2, 4)), {"axis": 1}),
    Case("Split", ((2, 7), const(3, 4)), {"axis": 1}, outputs=(F32, F32)),
    Case("Split", ((2, 6),), {"axis": 1}, outputs=(F32, F32), opset=11),
    Case("Slice", (X, const(1, 0), const(7, 5), const(2, 3), const(2, 1))),
    Case("Slice", (X,), {"starts": [1, -3], "ends": [7, 1000], "axes": [2, 3]}, opset=9),
    Case("Slice", ((2, 6), const(-1), const(-1000), const(1), const(-1)), label="reverse"),
    Case("Expand", ((3, 1), const(2, 3, 4))),
    Case("Tile", ((2, 3), const(2, 1))),
    Case("Pad", (X, const(0, 0, 1, 2, 0, 0, 0, 1), scalar(1.5, np.float32))),
    Case("Pad", (X,), {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 0.5}, opset=9),
    Case("Pad", (X, const(0, 0, 1, 2, 0, 0, 0, 1)), {"mode": "reflect"}, label="reflect"),
    Case("Pad", (X, const(0, 0, 1, 2, 0, 0, 0, 1)), {"mode": "edge"}, label="edge"),
    Case("Pad", (X, const(0, 0, -1, 2, 0, 0, 0, -1)), label="crop"),
    Case("Trilu", ((2, 5, 5),)),
    Case("Trilu", ((2, 5, 5), scalar(1)), {"upper": 0}, label="lower"),
    # -- indexing ---------------------------------------------------------------------------------
    Case("Gather", (weight(9, 4), IDS), label="table"),
    Case("Gather", (X, scalar(1)), {"axis": 1}, label="scalar"),
    Case("Gather", (X, scalar(-1)), {"axis": 2}, label="last"),
    Case("Gather", (X, const(0, 2, 4)), {"axis": 2}, label="regular"),
    Case("Gather", (X, const(4, 0, 5)), {"axis": 2}, label="few"),
    Case("Gather", (X, IDS), {"axis": 2}, label="run-time"),
    Case("Gather", ((9, 4), ("const", RNG.integers(0, 9, (3, 5)))), label="many"),
    Case("Gather", (weight(9, 4), np.int64(3)), label="scalar-run-time"),
    Case("GatherND", ((3, 4, 5), ("const", RNG.integers(0, 3, (6, 2)))), label="constant"),
    Case("GatherND", ((3, 4, 5), RNG.integers(0, 3, (2, 6, 2))), label="run-time"),
    Case("GatherElements", ((3, 5), RNG.integers(0, 5, (2, 4))), {"axis": 1}),
    Case("OneHot", (IDS, scalar(5), ("const", np.float32([0.0, 2.0])))),
    Case("OneHot", (IDS, scalar(5), ("const", np.float32([-1.0, 2.0]))), {"axis": 1}, label="axis"),
    # -- quantisation -----------------------------------------------------------------------------
    Case("DequantizeLinear", (np.int8([[-5, 7, 127]]), scalar(0.5, np.float32), scalar(3, np.int8))),
    Case("DequantizeLinear", (np.uint8([[5, 7, 255]]), ("const", np.float32([0.5, 1.0, 2.0]))), {"axis": 1},
         label="per-axis"),
    Case("QuantizeLinear", ((2, 3), scalar(0.02, np.float32), scalar(100, np.uint8)), outputs=(TensorProto.UINT8,)),
    # -- attention --------------------------------------------------------------------------------
    Case("Attention", ((2, 4, 6, 8), (2, 4, 6, 8), (2, 4, 6, 8)), opset=23, label="4d"),
    Case("Attention", ((2, 6, 32), (2, 5, 16), (2, 5, 16)), {"q_num_heads": 4, "kv_num_heads": 2}, opset=23,
         label="gqa"),
    Case("Attention", ((1, 4, 6, 8), (1, 4, 6, 8), (1, 4, 6, 8)), {"is_causal": 1}, opset=23, label="causal"),
    Case("Attention", ((1, 4, 6, 8), (1, 4, 6, 8), (1, 4, 6, 8), weight(6, 6)), opset=23, label="mask"),
    Case("RotaryEmbedding", ((1, 2, 4, 64), weight(9, 32), weight(9, 32), np.arange(4).reshape(1, 4)), opset=23),
    # -- onnxruntime's own ------------------------------------------------------------------------
    Case("Gelu", (X,), domain="com.microsoft"),
    Case("FastGelu", ((2, 8), weight(8)), domain="com.microsoft", tolerance=1e-3),
    Case("BiasGelu", ((2, 8), weight(8)), domain="com.microsoft"),
    Case("QuickGelu", ((2, 8),), {"alpha": 1.702}, domain="com.microsoft"),
    Case("FusedMatMul", ((4, 5), (6, 5)), {"transB": 1, "alpha": 0.5}, domain="com.microsoft"),
    Case("SkipLayerNormalization", ((2, 4, 8), (2, 4, 8), weight(8), weight(8), weight(8)), domain="com.microsoft"),
    Case("SkipSimplifiedLayerNormalization", ((2, 4, 8), (2, 4, 8), weight(8)), domain="com.microsoft"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_keeps_its_meaning(case: Case, witness: ModuleType, make_model: Callable[..., onnx.ModelProto]) -> None:
    inputs: dict[str, Any] = {}
    weights: dict[str, Array] = {}
    feeds: dict[str, Array] = {}
    names: list[str] = []
    for index, given in enumerate(case.inputs):
        name = "" if given is None else f"in{index}"
        names.append(name)
        if isinstance(given, tuple) and len(given) == 2 and given[0] == "const":
            weights[name] = np.asarray(given[1])
        elif isinstance(given, tuple):
            data = np.random.default_rng(index).standard_normal(given).astype(np.float32)
            feeds[name] = np.abs(data) + 0.1 if case.positive else data
            inputs[name] = given
        elif given is not None:
            feeds[name] = np.asarray(given)
            inputs[name] = (feeds[name].shape, KINDS[feeds[name].dtype])
    outputs = {f"out{i}": kind for i, kind in enumerate(case.outputs)}
    node = helper.make_node(case.op, names, list(outputs), name="node", domain=case.domain, **case.attrs)
    domains = [case.domain] if case.domain else []
    proto = make_model([node], inputs, outputs, weights, case.opset, domains)
    if case.domain:  # shapes of foreign ops come from the file
        _state_shapes(proto, weights, feeds, witness)

    result = witness.compare(proto, inputs=feeds)

    assert result.model.report.unsupported == ()
    assert result.error <= case.tolerance


def _state_shapes(
    proto: onnx.ModelProto, weights: dict[str, Array], feeds: dict[str, Array], witness: ModuleType
) -> None:
    for info, array in zip(proto.graph.output, witness.run_onnx(proto, {}, feeds), strict=True):
        info.CopyFrom(helper.make_tensor_value_info(info.name, F32, list(array.shape)))
