"""Attention and RotaryEmbedding of opset 23."""

from __future__ import annotations

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.ir.dtype import DType

TILE = 32


def attention(ctx: Lowering) -> list[str | None]:
    outputs = list(ctx.node.outputs)
    if ctx.has(4) or ctx.has(5) or any(v.uses() or v.is_graph_output() for v in outputs[1:]):
        raise NotMappedError("Attention with a key/value cache or score outputs")
    if ctx.attr("softcap", 0.0):
        raise NotMappedError("Attention with softcap")
    q, k, v = ctx.x(0), ctx.x(1), ctx.x(2)
    packed = len(ctx.shape(0)) == 3
    if packed:
        q = split_heads(ctx, q, int(ctx.attr("q_num_heads")))
        k, v = (split_heads(ctx, t, int(ctx.attr("kv_num_heads"))) for t in (k, v))
    scale = float(ctx.attr("scale") or ctx.vshape(q)[-1] ** -0.5)
    operands = [q, k, v]
    if ctx.has(3):
        operands.append(_mask(ctx, ctx.vshape(q)[2], ctx.vshape(k)[2]))
    if ctx.vshape(q)[-1] != ctx.vshape(v)[-1]:
        raise NotMappedError("value heads of another size than query heads")
    causal = bool(ctx.attr("is_causal", 0))
    if causal and ctx.has(3):
        raise NotMappedError("Attention that is causal and has a mask")
    size = ctx.vshape(q)[-1]
    if size % TILE:  # TTNN takes heads of whole tiles: zeros add nothing to the scores and are cut off again
        padding = ((0, 0), (0, 0), (0, 0), (0, -size % TILE))
        operands[:3] = [ctx.emit("pad", t, padding=padding, value=0.0) for t in operands[:3]]
    result = ctx.emit("scaled_dot_product_attention", *operands, scale=scale, is_causal=causal)
    if size % TILE:
        result = ctx.emit("slice", result, begins=(0, 0, 0, 0), ends=(*ctx.vshape(result)[:3], size))
    if packed:
        b, h, s, d = ctx.vshape(result)
        result = ctx.reshape(ctx.permute(result, (0, 2, 1, 3)), (b, s, h * d))
    return [result] + [None] * (len(outputs) - 1)


def split_heads(ctx: Lowering, x: str, heads: int) -> str:
    """[B, S, H*D] to [B, H, S, D]."""
    b, s, width = ctx.vshape(x)
    return ctx.permute(ctx.reshape(x, (b, s, heads, width // heads)), (0, 2, 1, 3))


def _mask(ctx: Lowering, queries: int, keys: int) -> str:
    import onnx_ir as ir

    mask = ctx.x(3)
    if ctx.input(3).dtype == ir.DataType.BOOL:
        mask = ctx.emit("where", mask, x=0.0, y=-1e9)
    shape = ctx.vshape(mask)
    if shape[-2:] != (queries, keys):
        raise NotMappedError(f"mask {list(shape)} for {queries} x {keys} scores")
    return ctx.reshape(mask, (*(1,) * (4 - len(shape)), *shape))


def rotary_embedding(ctx: Lowering) -> str:
    if ctx.attr("interleaved", 0) or ctx.attr("rotary_embedding_dim", 0):
        raise NotMappedError("interleaved or partial rotary embedding")
    x = ctx.x(0)
    packed = len(ctx.shape(0)) == 3
    if packed:
        x = split_heads(ctx, x, int(ctx.attr("num_heads")))
    b, h, s, d = ctx.vshape(x)
    tables = [_table(ctx, index, s, d) for index in (1, 2)]
    result = rotate_half(ctx, x, tables[0], tables[1])
    if packed:
        result = ctx.reshape(ctx.permute(result, (0, 2, 1, 3)), (b, s, h * d))
    return result


def _table(ctx: Lowering, index: int, length: int, width: int) -> str:
    """The cosine or sine cache as [B|1, 1, S, D], each half the same."""
    table = ctx.x(index)
    if ctx.has(3):
        ids = ctx.typecast(ctx.x(3), DType.U32)
        table = ctx.emit("embedding", ids, table)
    shape = ctx.vshape(table)
    table = ctx.reshape(table, (shape[0] if len(shape) == 3 else 1, 1, length, width // 2))
    return ctx.emit("concat", table, table, dim=3)


def rotate_half(ctx: Lowering, x: str, cos: str, sin: str) -> str:
    """x*cos + concat(-x[D/2:], x[:D/2])*sin, the form that the rotary pass recognises."""
    d = ctx.vshape(x)[-1]
    low, high = ctx.slice(x, 3, 0, d // 2), ctx.slice(x, 3, d // 2, d)
    turned = ctx.emit("concat", ctx.emit("neg", high), low, dim=3)
    return ctx.emit("add", ctx.emit("multiply", x, cos), ctx.emit("multiply", turned, sin))


OPS: dict[str, NodeMapping] = {"Attention": attention, "RotaryEmbedding": rotary_embedding}
