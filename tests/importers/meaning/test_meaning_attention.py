"""Variants of attention, caches, rotations and onnxruntime's fused ops give what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from op_case import F32, RNG, Case, check, const, scalar, weight

MS = "com.microsoft"
I32 = TensorProto.INT32
Q = (2, 4, 6, 8)
TRI = np.tri(6, 6, dtype=bool)
KEEP = RNG.random((2, 1, 6, 6)) > 0.3
KEEP[..., 0] = True


def attention(*inputs: object, label: str, outputs: tuple[int | None, ...] = (F32,), **attrs: object) -> Case:
    return Case("Attention", inputs, dict(attrs), outputs=outputs, opset=23, label=label, tolerance=1e-4)


def microsoft(op: str, *inputs: object, label: str = "", outputs: tuple[int | None, ...] = (F32,),
              tolerance: float = 1e-4, **attrs: object) -> Case:  # fmt: skip
    return Case(op, inputs, dict(attrs), outputs=outputs, domain=MS, label=label, tolerance=tolerance)


CASES = [
    # -- Attention of opset 23 --------------------------------------------------------------------
    attention(Q, Q, Q, label="scale", scale=0.2),
    attention(Q, Q, Q, ("const", TRI), label="boolean-mask"),
    attention(Q, Q, Q, KEEP, label="run-time-mask"),
    attention(Q, Q, Q, (6, 6), label="float-mask"),
    attention(Q, Q, Q, (2, 4, 6, 6), label="mask-per-head"),
    attention(Q, Q, Q, ("const", np.ones((6, 6), bool)), label="causal-with-mask", is_causal=1),
    attention(Q, Q, Q, (2, 1, 6, 6), label="causal-with-float-mask", is_causal=1),
    attention(Q, (2, 4, 9, 8), (2, 4, 9, 8), label="cross"),
    attention(Q, (2, 4, 9, 8), (2, 4, 9, 8), label="cross-causal", is_causal=1),
    attention(Q, Q, (2, 4, 6, 16), label="wide-values"),
    attention(Q, Q, (2, 4, 6, 4), label="narrow-values"),
    attention((2, 8, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8), label="grouped"),
    attention(Q, Q, Q, label="softcap", softcap=2.0),
    attention(Q, Q, Q, None, (2, 4, 5, 8), (2, 4, 5, 8), label="cache", outputs=(F32, F32, F32)),
    attention((2, 4, 1, 8), (2, 2, 1, 8), (2, 2, 1, 8), None, (2, 2, 7, 8), (2, 2, 7, 8), label="decode",
              outputs=(F32, F32, F32)),
    attention((2, 4, 1, 8), (2, 4, 1, 8), (2, 4, 1, 8), (2, 1, 1, 8), (2, 4, 7, 8), (2, 4, 7, 8), label="decode-mask",
              outputs=(F32, F32, F32)),
    attention((2, 3, 32), (2, 3, 16), (2, 3, 16), None, (2, 2, 7, 8), (2, 2, 7, 8), label="decode-3d",
              outputs=(F32, F32, F32), q_num_heads=4, kv_num_heads=2),
    attention(Q, Q, Q, None, (2, 4, 5, 8), (2, 4, 5, 8), label="cache-causal", outputs=(F32, F32, F32), is_causal=1),
    attention(Q, Q, Q, label="scores", outputs=(F32, None, None, F32)),
    attention(Q, Q, Q, (6, 6), label="scores-mask", outputs=(F32, None, None, F32), qk_matmul_output_mode=3),
    # -- RotaryEmbedding of opset 23 --------------------------------------------------------------
    Case("RotaryEmbedding", ((1, 2, 4, 8), weight(9, 4), weight(9, 4), np.int64([[0, 1, 2, 3]])), {"interleaved": 1},
         opset=23, label="interleaved"),
    Case("RotaryEmbedding", ((1, 2, 4, 8), weight(9, 2), weight(9, 2), np.int64([[0, 1, 2, 3]])),
         {"rotary_embedding_dim": 4}, opset=23, label="partial"),
    Case("RotaryEmbedding", ((1, 2, 4, 8), weight(1, 4, 4), weight(1, 4, 4)), opset=23, label="no-ids"),
    Case("RotaryEmbedding", ((1, 4, 16), weight(9, 4), weight(9, 4), np.int64([[0, 1, 2, 3]])), {"num_heads": 2},
         opset=23, label="3d"),
    Case("RotaryEmbedding", ((2, 4, 16), weight(9, 2), weight(9, 2), np.int64([[0, 1, 2, 3], [5, 6, 7, 8]])),
         {"num_heads": 2, "interleaved": 1, "rotary_embedding_dim": 4}, opset=23, label="3d-partial-interleaved"),
    # -- onnxruntime's own ------------------------------------------------------------------------
    microsoft("Attention", (2, 5, 16), weight(16, 48), weight(48), num_heads=4),
    microsoft("Attention", (2, 5, 16), weight(16, 48), weight(48), num_heads=4, unidirectional=1, label="causal"),
    microsoft("Attention", (2, 5, 16), weight(16, 48), weight(48),
              np.int32([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]), num_heads=4, label="mask"),
    microsoft("Attention", (2, 5, 16), weight(16, 48), weight(48), None, None, (2, 4, 5, 5), num_heads=4, label="bias"),
    microsoft("Attention", (2, 5, 16), weight(16, 64), weight(64), num_heads=4, qkv_hidden_sizes=[24, 24, 16],
              label="sizes"),
    microsoft("MultiHeadAttention", (2, 5, 16), (2, 7, 16), (2, 7, 16), num_heads=4),
    microsoft("MultiHeadAttention", (2, 5, 16), (2, 7, 16), (2, 7, 16), weight(48), num_heads=4, label="bias"),
    microsoft("MultiHeadAttention", (2, 5, 16), (2, 7, 16), (2, 7, 16), None, None, (1, 4, 5, 7), num_heads=4,
              label="scores-bias"),
    microsoft("MultiHeadAttention", (2, 5, 16), (2, 5, 16), (2, 5, 16), num_heads=4, unidirectional=1, label="causal"),
    microsoft("MultiHeadAttention", (2, 5, 16), (2, 7, 16), (2, 7, 16), None, np.int32([[1] * 7, [1] * 4 + [0] * 3]),
              num_heads=4, label="key-mask"),
    microsoft("MultiHeadAttention", (2, 1, 16), (2, 1, 16), (2, 1, 16), None, None, None, (2, 4, 6, 4), (2, 4, 6, 4),
              num_heads=4, outputs=(F32, F32, F32), label="cache"),
    *[microsoft("GroupQueryAttention", (1, new, 32), (1, new, 16), (1, new, 16), (1, 2, past, 8), (1, 2, past, 8),
                const(past + new - 1, dtype=np.int32), scalar(past + new, np.int32), *tables, num_heads=4,
                kv_num_heads=2, outputs=(F32, F32, F32), label=f"{label}-{past}", **attrs)
      for past, new in ((4, 1), (7, 1))
      for label, tables, attrs in (("plain", (), {}), ("softcap", (), {"softcap": 2.0}),
                                   ("window", (), {"local_window_size": 3}))],
    microsoft("GroupQueryAttention", (1, 1, 64), (1, 1, 32), (1, 1, 32), (1, 2, 4, 16), (1, 2, 4, 16),
              const(4, dtype=np.int32), scalar(5, np.int32), weight(9, 8), weight(9, 8), num_heads=4, kv_num_heads=2,
              do_rotary=1, outputs=(F32, F32, F32), label="rotated"),
    microsoft("GroupQueryAttention", (1, 1, 64), None, None, (1, 2, 4, 8), (1, 2, 4, 8), const(4, dtype=np.int32),
              scalar(5, np.int32), num_heads=4, kv_num_heads=2, outputs=(F32, F32, F32), label="packed"),
    microsoft("RotaryEmbedding", (1, 2, 4, 8), np.int64([[0, 1, 2, 3]]), weight(9, 4), weight(9, 4)),
    microsoft("RotaryEmbedding", (1, 4, 16), np.int64([[0, 1, 2, 3]]), weight(9, 4), weight(9, 4), num_heads=2,
              label="3d"),
    microsoft("RotaryEmbedding", (1, 2, 4, 8), np.int64([[0, 1, 2, 3]]), weight(9, 4), weight(9, 4), interleaved=1,
              label="interleaved"),
    microsoft("RotaryEmbedding", (1, 2, 4, 8), np.int64([2]), weight(9, 4), weight(9, 4), label="offset"),
    microsoft("SkipLayerNormalization", (2, 4, 8), (2, 4, 8), weight(8), outputs=(F32, None, None, F32), label="sum"),
    microsoft("SkipSimplifiedLayerNormalization", (2, 4, 8), (2, 4, 8), weight(8), weight(8),
              outputs=(F32, None, None, F32), label="sum-bias"),
    microsoft("FusedMatMul", (2, 3, 4), (2, 3, 5), transA=1, label="transA"),
    microsoft("FusedGemm", (3, 4), weight(4, 5), weight(5), activation="Relu"),
    microsoft("FusedConv", (1, 3, 6, 6), weight(4, 3, 3, 3), weight(4), activation="Relu", pads=[1, 1, 1, 1]),
    microsoft("FusedConv", (1, 3, 6, 6), weight(4, 3, 3, 3), weight(4), (1, 4, 4, 4), label="sum"),
    microsoft("FastGelu", (2, 8), label="no-bias"),
    microsoft("EmbedLayerNormalization", np.int32(RNG.integers(0, 9, (2, 5))), np.int32(RNG.integers(0, 2, (2, 5))),
              weight(9, 8), weight(5, 8), weight(2, 8), weight(8), weight(8), outputs=(F32, None)),
    microsoft("QLinearMul", np.uint8([[5, 7, 255]]), scalar(0.5, np.float32), scalar(3, np.uint8),
              np.uint8([[1], [9]]), scalar(0.25, np.float32), scalar(8, np.uint8), scalar(0.7, np.float32),
              scalar(11, np.uint8), outputs=(TensorProto.UINT8,), tolerance=2e-2),
    Case("SimplifiedLayerNormalization", ((2, 5, 8), weight(8)), {"axis": -1, "epsilon": 1e-5}),
    microsoft("MatMulNBits", (2, 32), ("const", np.uint8(RNG.integers(0, 255, (8, 2, 8)))),
              ("const", np.float32(RNG.random(16))), K=32, N=8, bits=4, block_size=16),
    microsoft("DequantizeLinear", np.uint8([[5, 7, 255]]), scalar(0.5, np.float32), scalar(3, np.uint8)),
    microsoft("QLinearAdd", np.uint8([[5, 7, 255]]), scalar(0.5, np.float32), scalar(3, np.uint8),
              np.uint8([[1], [9]]), scalar(0.25, np.float32), scalar(8, np.uint8), scalar(0.7, np.float32),
              scalar(11, np.uint8), outputs=(TensorProto.UINT8,), tolerance=1e-2),
    microsoft("MatMulNBits", (2, 40), ("const", np.uint8(RNG.integers(0, 255, (8, 3, 8)))),
              ("const", np.float32(RNG.random(24))), ("const", np.uint8(RNG.integers(0, 255, 16))), K=40, N=8, bits=4,
              block_size=16, label="zero-points"),
    microsoft("MatMulNBits", (2, 32), ("const", np.uint8(RNG.integers(0, 255, (8, 2, 16)))),
              ("const", np.float32(RNG.random(16))), K=32, N=8, bits=8, block_size=16, label="bytes"),
    microsoft("QuantizeLinear", (2, 3), scalar(0.05, np.float32), scalar(3, np.uint8), outputs=(TensorProto.UINT8,)),
    microsoft("QuickGelu", (2, 8), alpha=1.0, label="silu"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_keeps_its_meaning(case: Case) -> None:
    check(case)
