"""Attention and RotaryEmbedding of opset 23."""

from __future__ import annotations

import onnx_ir as ir

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.attending import (
    Scores,
    attend,
    boolean_mask,
    extended,
    join_heads,
    rotate,
    spelled_out,
    split_heads,
    table_of,
)


def attention(ctx: Lowering) -> list[str | None]:
    """Y, and where asked for the keys and values with their past, and the scores."""
    wanted = [v.uses() or v.is_graph_output() for v in ctx.node.outputs]
    q, k, v = ctx.x(0), ctx.x(1), ctx.x(2)
    packed = len(ctx.shape(0)) == 3
    if packed:
        q = split_heads(ctx, q, int(ctx.attr("q_num_heads")))
        k, v = (split_heads(ctx, t, int(ctx.attr("kv_num_heads"))) for t in (k, v))
    past = 0
    if ctx.has(4) and ctx.has(5):
        past = ctx.shape(4)[2]
        k, v = extended(ctx, ctx.x(4), k), extended(ctx, ctx.x(5), v)
    mask = ctx.x(3) if ctx.has(3) else None
    if mask is not None and ctx.input(3).dtype == ir.DataType.BOOL:
        mask = boolean_mask(ctx, mask)
    how = Scores(
        scale=float(ctx.attr("scale") or ctx.vshape(q)[-1] ** -0.5),
        mask=mask,
        causal=bool(ctx.attr("is_causal", 0)),
        offset=past,
        softcap=float(ctx.attr("softcap", 0.0)),
    )
    scores: str | None = None
    if len(wanted) > 3 and wanted[3]:
        mode = int(ctx.attr("qk_matmul_output_mode", 0))
        result, stages = spelled_out(ctx, q, k, v, how)
        scores = stages[(0, 2, 1, 3)[mode]]
        if mode == 1 and how.softcap:
            raise NotMappedError("scores with mask and without cap")
    else:
        result = attend(ctx, q, k, v, how)
    return [join_heads(ctx, result) if packed else result, k, v, scores][: len(wanted)]


def rotary_embedding(ctx: Lowering) -> str:
    x = ctx.x(0)
    packed = len(ctx.shape(0)) == 3
    if packed:
        x = split_heads(ctx, x, int(ctx.attr("num_heads")))
    positions = ctx.x(3) if ctx.has(3) else None
    tables = [table_of(ctx, ctx.x(index), positions, ctx.vshape(x)[2]) for index in (1, 2)]
    result = rotate(ctx, x, tables, bool(ctx.attr("interleaved", 0)))
    return join_heads(ctx, result) if packed else result


OPS: dict[str, NodeMapping] = {"Attention": attention, "RotaryEmbedding": rotary_embedding}
