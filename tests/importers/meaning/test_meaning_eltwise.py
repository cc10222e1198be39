"""Variants of elementwise, logical, reducing and sorting ONNX ops give what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from op_case import BOOL, F32, I32, I64, RNG, Case, check, const, scalar, weight

X = (2, 3, 8, 6)
A = RNG.random((2, 3)) > 0.5
B = RNG.random((1, 3)) > 0.5
IDS = RNG.integers(-7, 8, (2, 4))
NATURAL = RNG.integers(0, 9, (2, 4))
U32 = TensorProto.UINT32
LEVELS = np.float32(RNG.integers(0, 4, (2, 5, 6)))
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceLogSum", "ReduceSumSquare", "ReduceLogSumExp")  # fmt: skip

CASES = [
    # -- activations ------------------------------------------------------------------------------
    Case("HardSigmoid", (X,), {"alpha": 0.3, "beta": 0.4}),
    Case("HardSwish", (X,), opset=14),
    Case("LeakyRelu", (X,), {"alpha": 0.3}),
    Case("LeakyRelu", (X,), {"alpha": 0.0}, label="relu"),
    Case("PRelu", (X, weight(1)), label="scalar"),
    Case("PRelu", (X, scalar(0.25, np.float32)), label="rank-0"),
    Case("PRelu", (X, weight(3, 1, 1)), label="channel"),
    Case("PRelu", (X, weight(8, 6)), label="plane"),
    Case("PRelu", (X, weight(6)), label="last"),
    Case("PRelu", ((2, 3), (2, 3)), label="run-time"),
    Case("Elu", (X,), {"alpha": 0.4}),
    Case("Celu", (X,), {"alpha": 0.4}),
    Case("ThresholdedRelu", (X,), {"alpha": 0.6}),
    Case("Shrink", (X,), {"lambd": 0.7}, label="hard"),
    Case("Shrink", (X,), {"lambd": 0.7, "bias": 0.7}, label="soft"),
    Case("Shrink", (X,), {"lambd": 0.0}, label="nothing"),
    Case("Softplus", ((2, 3),)),
    Case("Selu", (X,)),
    Case("Mish", (X,), opset=18),
    Case("Hardmax", ((2, 5, 6),), {"axis": 1}),
    Case("Hardmax", (LEVELS,), {"axis": -1}, label="ties"),
    Case("Hardmax", ((2, 5, 6),), {"axis": 1}, opset=11, label="flattened"),
    Case("LogSoftmax", ((2, 5, 6),), {"axis": 1}),
    Case("LogSoftmax", ((2, 5, 6),), {"axis": 1}, opset=11, label="flattened"),
    Case("LogSoftmax", (np.float32([[200.0, 0.0, -200.0]]),), label="large"),
    Case("Softmax", ((7,),), label="rank-1"),
    # -- arithmetic -------------------------------------------------------------------------------
    *[Case(op, ((2, 3), (1, 3), (3,), ()), label="four") for op in ("Sum", "Max", "Min", "Mean")],
    *[Case(op, ((2, 3),), label="single") for op in ("Max", "Min", "Mean")],
    *[Case(op, (IDS, scalar(2)), outputs=(I64,), label="integers") for op in ("Max", "Min")],
    *[Case(op, (scalar(0.1, np.float32), (2, 3), scalar(0.3, np.float32)), label="constants") for op in ("Max", "Min")],
    *[Case(op, (IDS, scalar(3)), outputs=(I64,), label="integers") for op in ("Add", "Sub", "Mul", "Div")],
    *[Case(op, (scalar(7), NATURAL + 1), outputs=(I64,), label="integers-left") for op in ("Sub", "Div")],
    Case("Div", (np.int32([[-7, 7, 8]]), np.int32([[2, -2, 3]])), outputs=(I32,), label="negative"),
    Case("Mod", (IDS, scalar(3)), outputs=(I64,), label="negative"),
    Case("Mod", (IDS, scalar(-3)), outputs=(I64,), label="negative-divisor"),
    Case("Mod", (IDS, scalar(3)), {"fmod": 1}, outputs=(I64,), label="fmod-integers"),
    Case("Mod", (X, (3, 1, 1)), {"fmod": 1}, label="fmod-tensor", tolerance=1e-4),
    Case("Pow", (NATURAL, scalar(2)), outputs=(I64,), label="integers"),
    Case("Pow", ((2, 3), scalar(2)), label="integer-exponent"),
    Case("Pow", ((2, 3), scalar(-1.0, np.float32)), label="inverse", positive=True),
    Case("Pow", ((2, 3), scalar(0.0, np.float32)), label="zero"),
    Case("Pow", ((2, 3), scalar(-2.0, np.float32)), label="negative", positive=True),
    Case("Pow", (scalar(2.0, np.float32), np.int64([[1, 3]])), label="base-integers"),
    Case("Pow", (scalar(-2.0, np.float32), np.float32([[1, 3, 2]])), label="negative-base"),
    Case("Abs", (IDS,), outputs=(I64,), label="integers"),
    Case("Neg", (IDS,), outputs=(I64,), label="integers"),
    Case("Sign", (IDS,), outputs=(I64,), label="integers"),
    Case("Relu", (np.int32([[-2, 3]]),), outputs=(I32,), label="integers"),
    Case("BitShift", (NATURAL.astype(np.uint32), scalar(2, np.uint32)), {"direction": "LEFT"}, outputs=(U32,)),
    Case("BitShift", (NATURAL.astype(np.uint32), scalar(1, np.uint32)), {"direction": "RIGHT"}, outputs=(U32,)),
    Case("BitShift", (NATURAL.astype(np.uint32), NATURAL.astype(np.uint32)), {"direction": "LEFT"}, outputs=(U32,),
         label="tensor"),
    *[Case(op, (np.int32([[6, 3]]), np.int32([[5, 9]])), outputs=(I32,), opset=18)
      for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")],
    Case("BitwiseNot", (np.int32([[6, 3]]),), outputs=(I32,), opset=18),
    # -- clip, where, casts -----------------------------------------------------------------------
    Case("Clip", (X, None, scalar(0.5, np.float32)), label="high"),
    Case("Clip", (X,), label="none"),
    Case("Clip", (IDS, scalar(-2), scalar(3)), outputs=(I64,), label="integers"),
    Case("Clip", (X, scalar(0.5, np.float32), scalar(-0.5, np.float32)), label="crossed"),
    Case("Where", (A, (2, 3), scalar(-1e30, np.float32)), label="mask"),
    Case("Where", (A, scalar(1.0, np.float32), scalar(0.0, np.float32)), label="two-scalars"),
    Case("Where", (A, np.int64([[1, 2, 3]]), np.int64([[7], [8]])), outputs=(I64,), label="integers"),
    Case("Where", (("const", A), (2, 3), (2, 3)), label="constant"),
    Case("Where", (("const", np.array(True)), (2, 3), (4, 2, 3)), label="rank-0"),
    Case("Cast", (np.float32([[-1.7, 1.7, 0.2]]),), {"to": I32}, outputs=(I32,), label="truncates"),
    Case("Cast", ((2, 3),), {"to": TensorProto.FLOAT16}, outputs=(TensorProto.FLOAT16,), label="half", tolerance=1e-3),
    Case("Cast", ((2, 3),), {"to": BOOL}, outputs=(BOOL,), label="float-to-bool"),
    Case("CastLike", ((2, 3), IDS), outputs=(I64,), label="like"),
    Case("CastLike", (IDS, A), outputs=(BOOL,), label="like-bool"),
    # -- comparisons and logic --------------------------------------------------------------------
    *[Case(op, (A, B), outputs=(BOOL,), label="broadcast") for op in ("And", "Or", "Xor", "Equal")],
    *[Case(op, (A, scalar(False, bool)), outputs=(BOOL,), label="false") for op in ("And", "Or", "Xor", "Equal")],
    *[Case(op, (A, scalar(True, bool)), outputs=(BOOL,), label="true") for op in ("Or", "Xor", "Equal")],
    *[Case(op, (IDS, NATURAL), outputs=(BOOL,), label="integers")
      for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")],
    *[Case(op, (scalar(3), NATURAL), outputs=(BOOL,), label="integer-left") for op in ("Less", "GreaterOrEqual")],
    Case("Not", (("const", A),), outputs=(BOOL,), label="constant"),
    Case("IsInf", (np.float32([[np.inf, -np.inf, 1.0]]),), outputs=(BOOL,), label="both"),
    Case("IsInf", (np.float32([[np.inf, -np.inf, 1.0]]),), {"detect_positive": 0}, outputs=(BOOL,), label="negative"),
    Case("IsInf", (np.float32([[np.inf, -np.inf, 1.0]]),), {"detect_positive": 0, "detect_negative": 0},
         outputs=(BOOL,), label="neither"),
    # -- reductions -------------------------------------------------------------------------------
    *[Case(op, (X,), {"axes": [1, -1], "keepdims": 0}, opset=11, positive=True, label="axes") for op in REDUCTIONS],
    *[Case(op, (X,), opset=18, positive=True, label="all", tolerance=1e-4) for op in REDUCTIONS],
    *[Case(op, (X,), {"noop_with_empty_axes": 1}, opset=18, positive=True, label="none")
      for op in REDUCTIONS],
    *[Case(op, (X, const(dtype=np.int64)), {"keepdims": 0}, opset=18, positive=True, label="empty", tolerance=1e-4)
      for op in ("ReduceSum", "ReduceMax")],
    *[Case(op, (X, const(-2, 0)), opset=18, positive=True, label="axes") for op in REDUCTIONS],
    *[Case(op, (IDS, const(1)), {"keepdims": 0}, outputs=(I64,), opset=18, label="integers")
      for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")],
    *[Case(op, (A, const(1)), outputs=(BOOL,), opset=20, label="booleans") for op in ("ReduceMax", "ReduceMin")],
    Case("ReduceLogSumExp", (np.float32([[300.0, 299.0]]), const(1)), opset=18, label="large"),
    Case("ReduceSum", ((2, 3, 2, 3, 2), const(1, 3)), opset=18, label="rank-5"),
    Case("ReduceMean", ((2, 3, 4), const(0)), {"keepdims": 0}, opset=18, label="first"),
    Case("ArgMax", (X,), {"axis": 1}, outputs=(I64,), label="channels"),
    Case("ArgMax", (LEVELS,), {"axis": -1, "select_last_index": 1}, outputs=(I64,), label="last"),
    Case("ArgMax", (LEVELS,), {"axis": 1, "select_last_index": 1, "keepdims": 0}, outputs=(I64,), label="last-flat"),
    Case("ArgMin", (LEVELS,), {"axis": 1, "keepdims": 0}, outputs=(I64,), label="first"),
    Case("ArgMin", (LEVELS,), {"axis": 2, "select_last_index": 1}, outputs=(I64,), label="last"),
    Case("ArgMax", (NATURAL,), {"axis": 1}, outputs=(I64,), label="integers"),
    # -- sorting and scans ------------------------------------------------------------------------
    Case("TopK", ((3, 9), const(4)), {"largest": 0}, outputs=(F32, I64), label="smallest"),
    Case("TopK", ((3, 9, 4), const(5)), {"axis": 1}, outputs=(F32, I64), label="middle"),
    Case("TopK", ((3, 9), const(9)), outputs=(F32, I64), label="all"),
    Case("TopK", ((3, 9),), {"k": 3}, outputs=(F32, I64), opset=9, label="attribute"),
    Case("TopK", ((3, 9), const(4)), outputs=(F32, I64), returned=(1,), label="indices"),
    Case("CumSum", (X, scalar(1)), {"exclusive": 1}, label="exclusive"),
    Case("CumSum", (X, scalar(-1)), {"reverse": 1}, label="reverse"),
    Case("CumSum", (X, scalar(0)), {"reverse": 1, "exclusive": 1}, label="both"),
    Case("CumSum", (NATURAL, scalar(1)), outputs=(I64,), label="integers"),
    # -- norms ------------------------------------------------------------------------------------
    *[Case("LpNormalization", (X,), {"axis": axis, "p": p}, label=f"{p}-{axis}") for axis, p in ((1, 1), (-1, 2))],
    Case("MeanVarianceNormalization", (X,), {"axes": [2, 3]}, label="planes"),
    Case("LayerNormalization", ((2, 5, 8), weight(8), weight(8)), {"axis": -1, "stash_type": 1}, label="stash"),
    Case("LayerNormalization", ((2, 5, 8), weight(5, 8), weight(5, 8)), {"axis": -2}, label="plane"),
    Case("LayerNormalization", ((2, 5, 8), weight(8)), {"axis": 2}, label="no-bias"),
    Case("LayerNormalization", ((2, 5, 8), weight(8), weight(8)), outputs=(F32, F32, F32), label="statistics"),
    Case("LayerNormalization", ((2, 5, 8), (8,), (8,)), label="run-time"),
    Case("RMSNormalization", ((2, 5, 8), weight(5, 8)), {"axis": 1}, opset=23, label="plane"),
    Case("RMSNormalization", ((2, 5, 8), weight(8)), {"epsilon": 1e-2}, opset=23, label="epsilon"),
    Case("BatchNormalization", ((2, 3, 7), weight(3), weight(3), weight(3), ("const", np.float32([0.5, 1.5, 2.0])))),
    Case("BatchNormalization", (X, (3,), (3,), (3,), (3,)), positive=True, label="run-time"),
    Case("BatchNormalization", ((2, 3, 2, 4, 5), weight(3), weight(3), weight(3),
         ("const", np.float32([0.5, 1.5, 2.0]))),
         label="3d"),
    Case("InstanceNormalization", ((2, 3, 4, 5, 6), weight(3), weight(3)), {"epsilon": 1e-3}, label="3d"),
    Case("GroupNormalization", ((2, 6, 7), weight(6), weight(6)), {"num_groups": 2}, opset=21, label="1d"),
    Case("GroupNormalization", ((2, 6, 3, 4), weight(6), weight(6)), {"num_groups": 6, "epsilon": 1e-3}, opset=21,
         label="instance"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_keeps_its_meaning(case: Case) -> None:
    check(case)
