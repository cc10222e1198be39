"""The ops of onnxruntime's own domain that exporters and its optimizer write, attention among them."""

from __future__ import annotations

import numpy as np

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops import norm
from optimizer.importers.onnx_ops.attention import (
    Scores,
    attend,
    boolean_mask,
    check_rotary_dim,
    extended,
    join_heads,
    rotate,
    split_heads,
    table_of,
    with_past,
)
from optimizer.importers.onnx_ops.computed import counting
from optimizer.importers.onnx_ops.conv import conv
from optimizer.importers.onnx_ops.matmul import gemm, multiply
from optimizer.ir.dtype import DType


def gelu(ctx: Lowering) -> str:
    return ctx.emit("gelu", ctx.x(0))


def bias_gelu(ctx: Lowering) -> str:
    return ctx.emit("gelu", _biased(ctx))


def fast_gelu(ctx: Lowering) -> str:
    """The tanh form, after a bias that may be absent."""
    return ctx.emit("gelu_tanh", _biased(ctx))


def _biased(ctx: Lowering) -> str:
    return ctx.emit("add", ctx.x(0), ctx.x(1)) if ctx.has(1) else ctx.x(0)


def quick_gelu(ctx: Lowering) -> str:
    alpha = float(ctx.attr("alpha", 1.702))
    return ctx.emit("multiply", ctx.x(0), ctx.emit("sigmoid", ctx.emit("multiply", ctx.x(0), scalar=alpha)))


def fused_matmul(ctx: Lowering) -> str:
    operands = []
    for index, side in enumerate("AB"):
        x, rank = ctx.x(index), len(ctx.shape(index))
        if ctx.attr(f"transBatch{side}", 0):  # the batch dims stand between rows and columns
            x = ctx.permute(x, (*range(1, rank - 1), 0, rank - 1))
        operands.append(x)
    a, b = operands
    turned = [bool(ctx.attr(name, 0)) for name in ("transA", "transB")]
    result = multiply(ctx, a, b, *turned)
    alpha = float(ctx.attr("alpha", 1.0))
    return result if alpha == 1.0 else ctx.emit("multiply", result, scalar=alpha)


_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Gelu": "gelu"}


def _activated(ctx: Lowering, x: str, default: str = "") -> str:
    """The activation that a fused op names, without parameters."""
    name = str(ctx.attr("activation", default))
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise NotMappedError(f"a fused activation '{name}'")
    return ctx.emit(_ACTIVATIONS[name], x)


def fused_gemm(ctx: Lowering) -> str:
    return _activated(ctx, gemm(ctx))


def fused_conv(ctx: Lowering) -> str:
    """activation(conv(X, W, B) + Z)"""
    result = conv(ctx)
    return _activated(ctx, ctx.emit("add", result, ctx.x(3)) if ctx.has(3) else result)


def embed_layer_norm(ctx: Lowering) -> list[str | None]:
    """layer_norm(word + position + segment embeddings)."""
    if any(ctx.is_needed(v) for v in list(ctx.node.outputs)[1:2]):
        raise NotMappedError("the number of unmasked tokens as a result")
    length = ctx.shape(0)[1]
    words = ctx.emit("embedding", ctx.typecast(ctx.x(0), DType.U32), ctx.x(2))
    if ctx.has(8):
        places = ctx.emit("embedding", ctx.typecast(ctx.x(8), DType.U32), ctx.x(3))
    else:
        table = ctx.x(3)
        places = ctx.reshape(ctx.slice(table, 0, 0, length), (1, length, ctx.vshape(table)[1]))
    total = ctx.emit("add", words, places)
    if ctx.has(1) and ctx.has(4):
        total = ctx.emit("add", total, ctx.emit("embedding", ctx.typecast(ctx.x(1), DType.U32), ctx.x(4)))
    epsilon = float(ctx.attr("epsilon", 1e-12))
    result = norm.over_tail(ctx, "layer_norm", total, 2, [ctx.x(5), ctx.x(6)], epsilon)
    return [result, None, total][: len(ctx.node.outputs)]


def skip_norm(op: str) -> NodeMapping:
    """norm(input + skip [+ bias]); output 3 is the sum."""

    def lower(ctx: Lowering) -> list[str | None]:
        outputs = list(ctx.node.outputs)
        if any(ctx.is_needed(v) for v in outputs[1:3]):
            raise NotMappedError("mean or deviation as a result")
        total = ctx.emit("add", ctx.x(0), ctx.x(1))
        count = 2 if op == "layer_norm" else 1
        if ctx.has(2 + count):
            total = ctx.emit("add", total, ctx.x(2 + count))
        scales = [ctx.x(2 + i) for i in range(count) if ctx.has(2 + i)]
        axis = len(ctx.vshape(total)) - 1
        result = norm.over_tail(ctx, op, total, axis, scales, float(ctx.attr("epsilon", 1e-5)))
        return [result, None, None, total][: len(outputs)]

    return lower


_MS = "com.microsoft."
BARRED = 1e4
"""How far below all others a score is without any weight, as onnxruntime masks by default."""


def _key_mask(ctx: Lowering, index: int, keys: int) -> str | None:
    """A padding mask [B, Sk] or [B, Sq, Sk] of zeros and ones, as numbers to add to [B, H, Sq, Sk]."""
    if not ctx.has(index):
        return None
    if float(ctx.attr("mask_filter_value", -BARRED)) > -BARRED:
        raise NotMappedError("masked scores that count")
    shape = ctx.shape(index)
    if len(shape) not in (2, 3) or shape[-1] != keys:
        raise NotMappedError(f"a mask of shape {list(shape)} for {keys} keys")
    mask = ctx.typecast(ctx.x(index), ctx.float_dtype)
    return boolean_mask(ctx, ctx.reshape(mask, (shape[0], 1, *((1,) if len(shape) == 2 else ()), *shape[1:])))


def _sum(ctx: Lowering, *terms: str | None) -> str | None:
    """Of the masks that there are."""
    there = [t for t in terms if t is not None]
    if not there:
        return None
    total = there[0]
    for term in there[1:]:
        total = ctx.emit("add", total, term)
    return total


def _outputs(ctx: Lowering, result: str, keys: str | None, values: str | None) -> list[str | None]:
    found = [result, keys, values]
    for value, value_id in zip(list(ctx.node.outputs)[1:], [*found[1:], None, None], strict=False):
        if value_id is None and ctx.is_needed(value):
            raise NotMappedError(f"the output '{value.name}'")
    return [*found, None, None][: len(ctx.node.outputs)]


def attention(ctx: Lowering) -> list[str | None]:
    """Input, packed projection weights and bias, key mask, (past), bias of the scores."""
    if ctx.attr("do_rotary", 0):
        raise NotMappedError("Attention with rotation")
    heads = int(ctx.attr("num_heads"))
    width = ctx.shape(1)[1]
    sizes = tuple(int(s) for s in ctx.attr("qkv_hidden_sizes") or (width // 3,) * 3)
    operands = [ctx.x(0), ctx.x(1), *ctx.there((2,))]
    packed = ctx.emit("linear", *operands)
    bounds = np.cumsum((0, *sizes)).tolist()
    q, k, v = (split_heads(ctx, ctx.slice(packed, 2, *bounds[i : i + 2]), heads) for i in range(3))
    keys = ctx.vshape(k)[2]
    bias = ctx.x_or_none(5)
    how = Scores(
        scale=float(ctx.attr("scale") or ctx.vshape(q)[-1] ** -0.5),
        mask=_sum(ctx, _key_mask(ctx, 3, keys), bias),
        causal=bool(ctx.attr("unidirectional", 0)),
    )
    return _outputs(ctx, join_heads(ctx, attend(ctx, q, k, v, how)), None, None)


def multi_head_attention(ctx: Lowering) -> list[str | None]:
    """Query, key, value, bias, key mask, bias of the scores, past key, past value."""
    if not (ctx.has(1) and ctx.has(2)):
        raise NotMappedError("packed queries, keys and values")
    heads = int(ctx.attr("num_heads"))
    operands = [ctx.x(i) for i in range(3)]
    if ctx.has(3):
        bounds = np.cumsum([0, *(ctx.vshape(t)[-1] for t in operands)]).tolist()
        if len(ctx.shape(1)) != 3 or len(ctx.shape(2)) != 3:
            raise NotMappedError("a bias of keys that are already split into heads")
        operands = [ctx.emit("add", t, ctx.slice(ctx.x(3), 0, *bounds[i : i + 2])) for i, t in enumerate(operands)]
    q, k, v = (t if len(ctx.vshape(t)) == 4 else split_heads(ctx, t, heads) for t in operands)
    k, v, past = with_past(ctx, (6, 7), k, v)
    how = Scores(
        scale=float(ctx.attr("scale") or ctx.vshape(q)[-1] ** -0.5),
        mask=_sum(ctx, _key_mask(ctx, 4, ctx.vshape(k)[2]), ctx.x_or_none(5)),
        causal=bool(ctx.attr("unidirectional", 0)),
        offset=past,
    )
    return _outputs(ctx, join_heads(ctx, attend(ctx, q, k, v, how)), k, v)


def group_query_attention(ctx: Lowering) -> list[str | None]:
    """Query, key, value, past key, past value, lengths, total length, cosines, sines (positions, bias).

    The cache grows by concatenation, which is what the shapes say; every sequence is taken to fill it.
    """
    if not (ctx.has(1) and ctx.has(2)):
        q, k, v = _packed_heads(ctx)
    else:
        counts = (int(ctx.attr("num_heads")), *[int(ctx.attr("kv_num_heads"))] * 2)
        q, k, v = (split_heads(ctx, ctx.x(i), n) for i, n in enumerate(counts))
    past = ctx.shape(3)[2] if ctx.has(3) and 0 not in ctx.shape(3) else 0
    new = ctx.vshape(q)[2]
    if list(ctx.node.outputs)[1:] and ctx.out_shape(1)[2] != past + new:
        raise NotMappedError(f"a cache of {past} that becomes {ctx.out_shape(1)[2]} with {new} new keys")
    if ctx.attr("do_rotary", 0):
        tables = [table_of(ctx, ctx.slice(ctx.x(i), 0, past, past + new), None, new) for i in (7, 8)]
        q, k = (rotate(ctx, t, tables, bool(ctx.attr("rotary_interleaved", 0))) for t in (q, k))
    if past:
        k, v = extended(ctx, ctx.x(3), k), extended(ctx, ctx.x(4), v)
    window = int(ctx.attr("local_window_size", -1))
    how = Scores(
        scale=float(ctx.attr("scale") or ctx.vshape(q)[-1] ** -0.5),
        mask=ctx.x_or_none(10),
        causal=True,
        offset=past,
        softcap=float(ctx.attr("softcap", 0.0)),
        window=max(window, 0),
    )
    ctx.warnings.append(f"{ctx.label}: every sequence is taken to fill the cache; the lengths are not read")
    return _outputs(ctx, join_heads(ctx, attend(ctx, q, k, v, how)), k, v)


def _packed_heads(ctx: Lowering) -> tuple[str, str, str]:
    """Queries, keys and values that lie side by side in operand 0."""
    heads, kv = int(ctx.attr("num_heads")), int(ctx.attr("kv_num_heads"))
    size = ctx.shape(0)[-1] // (heads + 2 * kv)
    bounds = [0, heads * size, (heads + kv) * size, (heads + 2 * kv) * size]
    parts = [ctx.slice(ctx.x(0), 2, *bounds[i : i + 2]) for i in range(3)]
    q, k, v = (split_heads(ctx, t, n) for t, n in zip(parts, (heads, kv, kv), strict=True))
    return q, k, v


def rotary_embedding(ctx: Lowering) -> str:
    """Input, positions, cosines, sines; a single position is that of the first token."""
    if ctx.attr("is_packed_batching", 0):
        raise NotMappedError("packed batches")
    x = ctx.x(0)
    packed = len(ctx.shape(0)) == 3
    if packed:
        heads = int(ctx.needed("num_heads") if ctx.attr("rotary_embedding_dim", 0) else ctx.attr("num_heads", 0))
        x = split_heads(ctx, x, heads or ctx.shape(0)[-1] // (2 * ctx.shape(2)[-1]))
    check_rotary_dim(ctx, ctx.shape(2)[-1])
    length = ctx.vshape(x)[2]
    positions: str | None = ctx.x(1)
    if ctx.shape(1) == (1,):
        start = ctx.const(1)
        steps = counting(ctx, length)
        if start is None:
            offsets = ctx.constant(steps, ctx.vdtype(ctx.x(1)), "steps")
            positions = ctx.reshape(ctx.emit("add", offsets, ctx.x(1)), (1, length))
        else:
            positions = ctx.constant((steps + int(start.reshape(-1)[0])).reshape(1, -1), DType.U32, "positions")
    tables = [table_of(ctx, ctx.x(index), positions, length) for index in (2, 3)]
    result = rotate(ctx, x, tables, bool(ctx.attr("interleaved", 0)))
    return join_heads(ctx, result) if packed else result


OPS: dict[str, NodeMapping] = {
    f"{_MS}Gelu": gelu,
    f"{_MS}FastGelu": fast_gelu,
    f"{_MS}BiasGelu": bias_gelu,
    f"{_MS}QuickGelu": quick_gelu,
    f"{_MS}FusedMatMul": fused_matmul,
    f"{_MS}FusedGemm": fused_gemm,
    f"{_MS}FusedConv": fused_conv,
    f"{_MS}EmbedLayerNormalization": embed_layer_norm,
    f"{_MS}SkipLayerNormalization": skip_norm("layer_norm"),
    f"{_MS}SkipSimplifiedLayerNormalization": skip_norm("rms_norm"),
    f"{_MS}SimplifiedLayerNormalization": norm.rms_norm,
    "SimplifiedLayerNormalization": norm.rms_norm,
    f"{_MS}Attention": attention,
    f"{_MS}MultiHeadAttention": multi_head_attention,
    f"{_MS}GroupQueryAttention": group_query_attention,
    f"{_MS}RotaryEmbedding": rotary_embedding,
}
