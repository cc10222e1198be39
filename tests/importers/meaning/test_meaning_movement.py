"""Variants of ONNX ops that move, select or make data give what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from op_case import BOOL, F32, I64, RNG, Case, check, const, scalar, weight

X = (2, 3, 8, 6)
IDS = RNG.integers(0, 5, (2, 4))
TABLE = np.int64(RNG.integers(-9, 9, (7, 4)))
MASK = RNG.random((2, 3)) > 0.5
U8, I8 = TensorProto.UINT8, TensorProto.INT8


def ids(*shape: int, below: int, low: int = 0) -> tuple[str, object]:
    return ("const", RNG.integers(low, below, shape))


CASES = [
    # -- gather -----------------------------------------------------------------------------------
    Case("Gather", (X, scalar(-2)), {"axis": -1}, label="negative-axis"),
    Case("Gather", (X, const(5, 4, 3, 2, 1, 0)), {"axis": -1}, label="reversed"),
    Case("Gather", (X, ids(3, 2, below=8)), {"axis": 2}, label="constant"),
    Case("Gather", (X, ids(20, below=8)), {"axis": 2}, label="many"),
    Case("Gather", (X, const(1, 1, 1)), {"axis": 1}, label="repeated"),
    Case("Gather", (X, const(-1, -3)), {"axis": 2}, label="negative"),
    Case("Gather", (X, IDS), {"axis": 3}, label="last-axis"),
    Case("Gather", (X, np.int64(1)), {"axis": 0}, label="run-time-scalar"),
    Case("Gather", (("const", TABLE), IDS), outputs=(I64,), label="integers"),
    Case("Gather", (TABLE, const(0, 2, 4)), outputs=(I64,), label="integer-slices"),
    Case("Gather", (TABLE, IDS), outputs=(I64,), label="run-time-integers"),
    Case("Gather", (MASK, np.int64([1, 0])), outputs=(BOOL,), label="booleans"),
    Case("GatherElements", ((3, 5), ids(3, 5, below=3)), label="first-axis"),
    Case("GatherElements", ((3, 5), ids(3, 2, below=5, low=-5)), {"axis": 1}, label="negative"),
    Case("GatherElements", ((3, 4, 5), RNG.integers(0, 5, (3, 4, 5))), {"axis": -1}, label="rank-3"),
    Case("GatherElements", (TABLE, RNG.integers(0, 4, (7, 2))), {"axis": 1}, outputs=(I64,), label="integers"),
    Case("GatherND", ((3, 4, 5), const([0], [2])), label="plain"),
    Case("GatherND", ((3, 4, 5), const([0, 1], [2, 3])), label="rows"),
    Case("GatherND", ((3, 4, 5), const([0, 1, 2], [2, 3, -1])), label="elements"),
    Case("GatherND", ((2, 4, 5), ids(2, 3, 1, below=4)), {"batch_dims": 1}, label="batch-constant"),
    Case("GatherND", ((2, 4, 5), RNG.integers(0, 4, (2, 3, 1))), {"batch_dims": 1}, label="batch-run-time"),
    Case("OneHot", (IDS, scalar(5), ("const", np.int64([0, 1]))), {"axis": 0}, outputs=(I64,), label="integers"),
    # -- scatter ----------------------------------------------------------------------------------
    Case("ScatterElements", ((4, 5), RNG.permuted(np.tile(np.arange(5), (2, 1)), axis=1)[:, :3], (2, 3)), {"axis": 1}),
    Case("ScatterElements", ((4, 5), const([1, 0], [2, 3]), (2, 2)), {"axis": 0}, label="constant"),
    Case("ScatterElements", ((4, 5), const([1, 1], [2, 3]), (2, 2)), {"axis": 0, "reduction": "add"}, opset=18,
         label="add"),
    Case("ScatterND", ((4, 5), const([1], [3]), (2, 5)), label="rows"),
    Case("ScatterND", ((4, 5), const([1, 2], [3, 4]), (2,)), label="elements"),
    Case("ScatterND", ((4, 5), np.int64([[1], [3]]), (2, 5)), label="run-time"),
    Case("ScatterND", ((1, 4, 5), ("const", np.stack(np.meshgrid([0], [1, 2], np.arange(5), indexing="ij"), -1)),
                       (1, 2, 5)), label="block"),
    Case("Scatter", ((4, 5), const([1, 0], [2, 3]), (2, 2)), {"axis": 0}, opset=10),
    # -- pad --------------------------------------------------------------------------------------
    Case("Pad", (X, const(1, 2, 3, 4, 0, 0, 0, 0)), label="front"),
    Case("Pad", (X, const(0, 0, -1, -1, 0, 0, -2, -1)), label="crop-only"),
    Case("Pad", (X, const(1, 2, 2, 1), scalar(2.0, np.float32), const(-1, 2)), opset=18, label="axes"),
    Case("Pad", (X, const(0, 0, 3, 2, 0, 0, 4, 3)), {"mode": "reflect"}, label="reflect-wide"),
    Case("Pad", ((1, 2, 80, 4), const(0, 0, 40, 0, 0, 0, 40, 0)), {"mode": "reflect"}, label="reflect-long"),
    Case("Pad", ((1, 2, 8, 4), const(0, 0, 40, 0, 0, 0, 40, 0)), {"mode": "edge"}, label="edge-long"),
    Case("Pad", (X, const(0, 0, 1, 2, 0, 0, 0, 1)), {"mode": "wrap"}, opset=19, label="wrap"),
    Case("Pad", (X,), {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "reflect"}, opset=10, label="attribute-reflect"),
    Case("Pad", ((2, 3), const(0, 1, 0, 1), np.float32(3.5)), label="run-time-value"),
    Case("Pad", (TABLE, const(0, 1, 0, 1), scalar(7)), outputs=(I64,), label="integers"),
    Case("Pad", (np.int64([[1, 2]]), const(0, 1, 0, 1)), outputs=(I64,), label="integers-zero"),
    # -- split, slice, concat ---------------------------------------------------------------------
    Case("Split", ((2, 7),), {"axis": 1, "num_outputs": 3}, outputs=(F32, F32, F32), opset=18, label="uneven"),
    Case("Split", ((6, 2),), outputs=(F32, F32), label="equal"),
    Case("Split", ((2, 6),), {"axis": -1, "split": [2, 4]}, outputs=(F32, F32), opset=11, label="attribute"),
    Case("Split", ((2, 6), const(2, 3, 1)), {"axis": 1}, outputs=(F32, F32, F32), returned=(0, 2), label="some"),
    Case("Slice", (X, const(-3), const(-1), const(-1)), label="negative"),
    Case("Slice", (X, const(0), const(9223372036854775807), const(1), const(2)), label="int-max"),
    Case("Slice", ((2, 200), const(-1), const(-1000), const(1), const(-1)), label="reverse-long"),
    Case("Slice", ((2, 200, 3), const(150), const(10), const(1), const(-3)), label="reverse-steps"),
    Case("Slice", (np.arange(12).reshape(3, 4), const(1), const(3), const(0)), outputs=(I64,), label="integers"),
    Case("Slice", (X, const(1, 2), const(2, 5), const(0, 2)), label="two"),
    Case("Concat", ((2, 3), (2, 4), (2, 1)), {"axis": -1}, label="negative"),
    Case("Concat", ((2, 3), weight(2, 3)), {"axis": 0}, label="weight"),
    Case("Concat", (IDS, IDS), {"axis": 0}, outputs=(I64,), label="integers"),
    Case("Concat", ((2, 3), ("const", np.zeros((0, 3), np.float32))), {"axis": 0}, label="empty"),
    # -- shapes -----------------------------------------------------------------------------------
    Case("Reshape", ((2, 3, 4), const(0, 0, 2, 2)), label="zeros"),
    Case("Reshape", ((2, 6), const(3, 4)), {"allowzero": 1}, label="allowzero"),
    Case("Flatten", (X,), {"axis": 0}, label="first"),
    Case("Flatten", (X,), {"axis": -1}, label="last"),
    Case("Squeeze", ((1, 3, 1),), label="all"),
    Case("Unsqueeze", ((3,), const(-1, 0)), label="negative"),
    Case("Transpose", ((2, 3, 4, 5, 6),), {"perm": [0, 3, 1, 4, 2]}, label="rank-5"),
    Case("Transpose", (np.uint8(RNG.integers(0, 255, (1, 4, 5, 3))),), {"perm": [0, 3, 1, 2]}, outputs=(U8,),
         label="bytes"),
    Case("Cast", (np.uint8([[5, 7, 255]]),), {"to": F32}, label="bytes"),
    Case("Expand", ((3, 1), const(1, 4)), label="smaller"),
    Case("Expand", (IDS[:, :1], const(2, 4)), outputs=(I64,), label="integers"),
    Case("Expand", (MASK[:, :1], const(2, 4)), outputs=(BOOL,), label="booleans"),
    Case("Tile", ((2, 3, 1), const(2, 1, 3)), label="rank-3"),
    Case("Tile", (IDS, const(1, 2)), outputs=(I64,), label="integers"),
    Case("Shape", (X,), outputs=(I64,)),
    Case("Shape", (X,), {"start": 1, "end": -1}, outputs=(I64,), label="part"),
    Case("Size", (X,), outputs=(I64,)),
    Case("ConstantOfShape", (const(100, 100),), label="large"),
    Case("Range", (scalar(0.0, np.float32), scalar(9000.0, np.float32), scalar(1.0, np.float32)), label="large"),
    Case("Range", (scalar(0.5, np.float32), scalar(2500.0, np.float32), scalar(0.25, np.float32)), label="fractions"),
    Case("Trilu", ((2, 5, 7),), {"upper": 0}, label="oblong"),
    Case("Trilu", ((2, 5, 5), scalar(-1)), label="below"),
    Case("Trilu", ((1, 300, 300),), {"upper": 0}, label="large"),
    Case("Trilu", (np.arange(25).reshape(5, 5),), outputs=(I64,), label="integers"),
    Case("EyeLike", ((4, 6),), {"k": 1}),
    Case("EyeLike", ((300, 300),), label="large"),
    Case("ReverseSequence", ((4, 3, 2), const(4, 2, 1)), {"batch_axis": 1, "time_axis": 0}),
    Case("CenterCropPad", (X, const(6, 10)), {"axes": [2, 3]}, opset=18),
    Case("CenterCropPad", (X, const(5, 9)), {"axes": [2, 3]}, opset=18, label="odd"),
    Case("CenterCropPad", ((7, 5), const(4, 8)), opset=18, label="odd-sizes"),
    Case("Compress", ((3, 4), ("const", np.array([True, False, True]))), {"axis": 0}, label="constant"),
    Case("Compress", ((3, 4), ("const", np.array([True, False, True, True, False]))), label="flat"),
    Case("NonZero", (("const", np.float32([[1, 0], [0, 2]])),), outputs=(I64,), label="constant"),
    Case("Det", (("const", np.float32([[1, 2], [3, 4]])),), label="constant"),
    Case("BlackmanWindow", (scalar(8),), label="constant"),
    Case("HannWindow", (scalar(8),), {"periodic": 0}, label="constant"),
    # -- quantisation -----------------------------------------------------------------------------
    Case("DequantizeLinear", (("const", np.int8(RNG.integers(-99, 99, (4, 6)))), ("const", np.float32([0.5, 1, 2, 3]))),
         {"axis": 0}, label="weight"),
    Case("DequantizeLinear", (("const", np.int8(RNG.integers(-99, 99, (4, 6)))),
                              ("const", np.float32(RNG.random((4, 3))))), {"axis": 1, "block_size": 2}, opset=21,
         label="blocked"),
    Case("DequantizeLinear", (np.uint8([[5, 7, 255]]), scalar(0.5, np.float32), scalar(128, np.uint8)), label="bytes"),
    Case("QuantizeLinear", ((2, 3), ("const", np.float32([0.02, 0.1, 0.5])), ("const", np.int8([3, 0, -9]))),
         {"axis": 1}, outputs=(I8,), label="per-axis"),
    Case("DynamicQuantizeLinear", ((2, 3),), outputs=(U8, F32, U8)),
    Case("MatMulInteger", (np.uint8(RNG.integers(0, 255, (3, 4))), ("const", np.int8(RNG.integers(-9, 9, (4, 5)))),
                           scalar(100, np.uint8)), outputs=(TensorProto.INT32,)),
    Case("QLinearMatMul", (np.uint8(RNG.integers(0, 255, (3, 4))), scalar(0.02, np.float32), scalar(100, np.uint8),
                           ("const", np.uint8(RNG.integers(0, 255, (4, 5)))), scalar(0.01, np.float32),
                           scalar(120, np.uint8), scalar(0.03, np.float32), scalar(110, np.uint8)), outputs=(U8,)),
    Case("QLinearConv", (np.uint8(RNG.integers(0, 255, (1, 2, 5, 5))), scalar(0.02, np.float32), scalar(100, np.uint8),
                         ("const", np.uint8(RNG.integers(0, 255, (3, 2, 3, 3)))), scalar(0.01, np.float32),
                         scalar(120, np.uint8), scalar(0.03, np.float32), scalar(110, np.uint8),
                         ("const", np.int32([10, -20, 30]))), {"pads": [1, 1, 1, 1]}, outputs=(U8,), tolerance=5e-3),
    Case("ConvInteger", (np.uint8(RNG.integers(0, 255, (1, 2, 5, 5))),
                         ("const", np.uint8(RNG.integers(0, 255, (3, 2, 3, 3)))), scalar(100, np.uint8)),
         outputs=(TensorProto.INT32,)),
    # -- einsum -----------------------------------------------------------------------------------
    *[
        Case("Einsum", shapes, {"equation": equation}, label=equation.replace(",", "_").replace("->", "_"))
        for equation, shapes in {
            "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)),
            "b...d,de->b...e": ((2, 3, 4, 5), (5, 6)),
            "...ij->...ji": ((2, 3, 4),),
            "ii->i": ((4, 4),),
            "bii->b": ((2, 4, 4),),
            "bij,bij->b": ((2, 3, 4), (2, 3, 4)),
            "bij,bjk,bkl->bil": ((2, 3, 4), (2, 4, 5), (2, 5, 6)),
            "a,b,c->abc": ((2,), (3,), (4,)),
            "bhwc,hkc->bhwk": ((2, 3, 4, 5), (3, 6, 5)),
            "bnij,bnj->bni": ((2, 3, 4, 5), (2, 3, 5)),
            "ij,ij->ij": ((3, 4), (3, 4)),
            "bij,j->bij": ((2, 3, 4), (4,)),
            "...ij,jk": ((2, 3, 4), (4, 5)),
            " b i j , b j k -> b i k ": ((2, 3, 4), (2, 4, 5)),
            "bqnh,bknh->bnqk": ((2, 4, 3, 5), (2, 6, 3, 5)),
        }.items()
    ],
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_keeps_its_meaning(case: Case) -> None:
    check(case)
