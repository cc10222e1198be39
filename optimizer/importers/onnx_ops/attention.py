"""Attention and RotaryEmbedding of opset 23; what all attention ops share: heads, masks, SDPA and rotary embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from optimizer.errors import GraphError
from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError, Shape
from optimizer.importers.onnx_ops.computed import counting, filled
from optimizer.importers.onnx_ops.selecting import broadcast_to, full
from optimizer.ir.dtype import DType
from optimizer.layouts.tiling import TILE

NORMALISED = 3
"""`qk_matmul_output_mode` of the scores behind the softmax."""
MASKED = -1e9
"""What a masked score gets; finite, since rows without any key would become NaN."""


@dataclass(frozen=True)
class Scores:
    """How scores are made of queries [B, H, Sq, D] and keys [B, Hkv, Sk, D]."""

    scale: float
    mask: str | None = None
    """Added to the scores; any rank, broadcasts to [B, H, Sq, Sk]."""
    causal: bool = False
    offset: int = 0
    """Keys before the first query: query i sees keys up to i + offset."""
    softcap: float = 0.0
    window: int = 0
    """Keys that a query sees, itself included; 0 for all."""


def split_heads(ctx: Lowering, x: str, heads: int) -> str:
    """[B, S, H*D] to [B, H, S, D]."""
    b, s, width = ctx.vshape(x)
    if width % heads:
        raise GraphError(f"{heads} heads of a width of {width}")
    return ctx.permute(ctx.reshape(x, (b, s, heads, width // heads)), (0, 2, 1, 3))


def join_heads(ctx: Lowering, x: str) -> str:
    """[B, H, S, D] to [B, S, H*D]."""
    b, h, s, d = ctx.vshape(x)
    return ctx.reshape(ctx.permute(x, (0, 2, 1, 3)), (b, s, h * d))


def extended(ctx: Lowering, past: str, new: str) -> str:
    """A cache [B, H, P, D] with the new keys or values behind."""
    return ctx.emit("concat", past, ctx.typecast(new, ctx.vdtype(past)), dim=2)


def with_past(ctx: Lowering, at: tuple[int, int], k: str, v: str) -> tuple[str, str, int]:
    """Keys and values behind those of the caches at two inputs, and how many these have; as they are without caches."""
    if not ctx.has_both(*at):
        return k, v, 0
    return extended(ctx, ctx.x(at[0]), k), extended(ctx, ctx.x(at[1]), v), ctx.shape(at[0])[2]


def boolean_mask(ctx: Lowering, mask: str) -> str:
    """A mask that is nonzero where a key is seen, as numbers to add."""
    return ctx.emit("where", mask, x=0.0, y=MASKED)


def _causal(ctx: Lowering, queries: int, keys: int, offset: int, window: int) -> str:
    """[1, 1, Sq, Sk]: 0 where a query may see a key, else `MASKED`; computed once."""
    barred = full(ctx, (1, 1, queries, keys), MASKED)
    later = ctx.emit("triu", barred, diagonal=offset + 1)
    if not window:
        return later
    return ctx.emit("add", later, ctx.emit("tril", barred, diagonal=offset - window))


def _whole_mask(ctx: Lowering, how: Scores, shape: tuple[int, int, int, int]) -> str | None:
    """Everything that is added to the scores, as [B|1, H|1, Sq, Sk]; None when nothing is."""
    queries, keys = shape[2:]
    mask = how.mask
    if mask is not None:
        given = (1,) * (4 - len(ctx.vshape(mask))) + ctx.vshape(mask)
        if any(m not in (1, s) for m, s in zip(given, shape, strict=True)):
            raise NotMappedError(f"mask {list(given)} for scores {list(shape)}")
        mask = ctx.typecast(ctx.reshape(mask, given), ctx.float_dtype)
    hides_none = queries == 1 and how.offset >= keys - 1
    if (how.causal and not hides_none) or how.window:
        limits = _causal(ctx, queries, keys, how.offset, how.window)
        mask = limits if mask is None else ctx.emit("add", mask, limits)
    if mask is None:
        return None
    lead = ctx.vshape(mask)[:2]
    return broadcast_to(ctx, mask, ctx.vshape(mask), (*lead, queries, keys))


def attend(ctx: Lowering, q: str, k: str, v: str, how: Scores) -> str:
    """softmax(q k^T * scale + mask) v: [B, H, Sq, Dv].

    TTNN's op takes one head size for all, in whole tiles (zeros add nothing and are cut off again), causal
    scores only for as many queries as keys, and no cap; anything else is spelled out.
    """
    if how.softcap:
        return spelled_out(ctx, q, k, v, how)[0]
    b, h, queries, size = ctx.vshape(q)
    keys, values = ctx.vshape(k)[2], ctx.vshape(v)[3]
    square = how.causal and how.mask is None and queries == keys and not how.offset and not how.window
    mask = None if square else _whole_mask(ctx, how, (b, h, queries, keys))
    width = -(-max(size, values) // TILE) * TILE
    padded = [_widened(ctx, t, width) for t in (q, k, v)]
    operands = [*padded, *([mask] if mask is not None else [])]
    result = ctx.emit("scaled_dot_product_attention", *operands, scale=how.scale, is_causal=square)
    if values == width:
        return result
    return ctx.emit("slice", result, begins=(0, 0, 0, 0), ends=(b, h, queries, values))


def _widened(ctx: Lowering, x: str, width: int) -> str:
    missing = width - ctx.vshape(x)[3]
    return ctx.emit("pad", x, padding=((0, 0), (0, 0), (0, 0), (0, missing)), value=0.0) if missing else x


def spelled_out(ctx: Lowering, q: str, k: str, v: str, how: Scores) -> tuple[str, list[str]]:
    """Attention as single ops: the result, and the scores raw, masked, capped and normalised."""
    b, h, queries, _ = ctx.vshape(q)
    repeats = h // ctx.vshape(k)[1]
    if repeats > 1:
        k, v = (ctx.emit("repeat_interleave", t, repeats=repeats, dim=1) for t in (k, v))
    scores = ctx.emit("matmul", ctx.emit("multiply", q, scalar=how.scale), ctx.permute(k, (0, 1, 3, 2)))
    capped = scores
    if how.softcap:
        inner = ctx.emit("multiply", scores, scalar=1 / how.softcap)
        capped = ctx.emit("multiply", ctx.emit("tanh", inner), scalar=how.softcap)
    mask = _whole_mask(ctx, how, (b, h, queries, ctx.vshape(k)[2]))
    masked = capped if mask is None else ctx.emit("add", capped, mask)
    weights = ctx.emit("softmax", masked, dim=-1)
    return ctx.emit("matmul", weights, v), [scores, capped, masked, weights]


def _without_blind(ctx: Lowering, rows: str, how: Scores, scores: Shape) -> str:
    """Zeros for the queries that see no key, as ONNX has it where a boolean mask chooses the keys."""
    mask = _whole_mask(ctx, how, (scores[0], scores[1], scores[2], scores[3]))
    assert mask is not None
    sees = ctx.emit("gt", ctx.emit("max", mask, dim=(3,), keepdim=True), scalar=MASKED / 2)
    return ctx.emit("multiply", rows, sees)


# -- rotary embedding ------------------------------------------------------------------------------
def rotate(ctx: Lowering, x: str, tables: Sequence[str], interleaved: bool) -> str:
    """Rotate the first dims of heads [B, H, S, D] by cosines and sines [B|1, S, R/2], R <= D."""
    d = ctx.vshape(x)[-1]
    turned_size = 2 * ctx.vshape(tables[0])[-1]
    if turned_size > d:
        raise GraphError(f"a rotation of {turned_size} of the {d} elements of a head")
    part = ctx.slice(x, 3, 0, turned_size)
    cos, sin = (_doubled(ctx, table, interleaved) for table in tables)
    result = _rotate_pairs(ctx, part, cos, sin) if interleaved else rotate_half(ctx, part, cos, sin)
    return result if turned_size == d else ctx.emit("concat", result, ctx.slice(x, 3, turned_size, d), dim=3)


def check_rotary_dim(ctx: Lowering, half: int) -> None:
    """GraphError where a node states another number of turned elements than its tables have."""
    stated = int(ctx.attr("rotary_embedding_dim", 0))
    if stated not in (0, 2 * half):
        raise GraphError(
            f"attribute 'rotary_embedding_dim' {stated} for tables of {half} elements, which turn {2 * half}"
        )


def _doubled(ctx: Lowering, table: str, interleaved: bool) -> str:
    """[B|1, S, R/2] to [B|1, 1, S, R]: each number for both elements that it turns."""
    b, s, half = ctx.vshape(table)
    table = ctx.reshape(table, (b, 1, s, half))
    if interleaved:
        return ctx.emit("repeat_interleave", table, repeats=2, dim=3)
    return ctx.emit("concat", table, table, dim=3)


def rotate_half(ctx: Lowering, x: str, cos: str, sin: str) -> str:
    """x*cos + concat(-x[D/2:], x[:D/2])*sin, the form that the rotary pass recognises."""
    d = ctx.vshape(x)[-1]
    low, high = ctx.slice(x, 3, 0, d // 2), ctx.slice(x, 3, d // 2, d)
    turned = ctx.emit("concat", ctx.emit("neg", high), low, dim=3)
    return ctx.emit("add", ctx.emit("multiply", x, cos), ctx.emit("multiply", turned, sin))


def _rotate_pairs(ctx: Lowering, x: str, cos: str, sin: str) -> str:
    """Neighbours are turned together; a matrix of zeros and ones swaps them, as TTNN's own decoders do."""
    d = ctx.vshape(x)[-1]
    swap = filled(ctx, (d, d), 0.0)
    even = 2 * counting(ctx, d // 2)
    swap[even + 1, even], swap[even, even + 1] = -1.0, 1.0
    turned = ctx.emit("matmul", x, ctx.constant(swap, ctx.vdtype(x), "swap"))
    return ctx.emit("add", ctx.emit("multiply", x, cos), ctx.emit("multiply", turned, sin))


def table_of(ctx: Lowering, table: str, positions: str | None, length: int) -> str:
    """Rows of a cosine or sine cache as [B|1, S, R/2]; without positions the cache is in order."""
    if positions is not None:
        ids = ctx.typecast(positions, DType.U32)
        ids = ids if len(ctx.vshape(ids)) == 2 else ctx.reshape(ids, (1, length))
        return ctx.emit("embedding", ids, table)
    shape = ctx.vshape(table)
    return table if len(shape) == 3 else ctx.reshape(ctx.slice(table, 0, 0, length), (1, length, shape[1]))


def attention(ctx: Lowering) -> list[str | None]:
    """Y, and where asked for the keys and values with their past, and the scores."""
    wanted = [ctx.is_needed(v) for v in ctx.node.outputs]
    q, k, v = ctx.x(0), ctx.x(1), ctx.x(2)
    packed = len(ctx.shape(0)) == 3
    if packed:
        q = split_heads(ctx, q, int(ctx.needed("q_num_heads")))
        k, v = (split_heads(ctx, t, int(ctx.needed("kv_num_heads"))) for t in (k, v))
    k, v, past = with_past(ctx, (4, 5), k, v)
    mask = ctx.x_or_none(3)
    chooses = mask is not None and ctx.input(3).dtype == ir.DataType.BOOL
    if mask is not None and chooses:
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
        scores = stages[mode]
        if chooses and mode == NORMALISED:
            scores = _without_blind(ctx, scores, how, ctx.vshape(stages[0]))
    else:
        result = attend(ctx, q, k, v, how)
    if chooses:
        result = _without_blind(ctx, result, how, (*ctx.vshape(q)[:3], ctx.vshape(k)[2]))
    return [join_heads(ctx, result) if packed else result, k, v, scores][: len(wanted)]


def rotary_embedding(ctx: Lowering) -> str:
    x = ctx.x(0)
    packed = len(ctx.shape(0)) == 3
    if packed:
        x = split_heads(ctx, x, int(ctx.needed("num_heads")))
    check_rotary_dim(ctx, ctx.shape(1)[-1])
    positions = ctx.x_or_none(3)
    tables = [table_of(ctx, ctx.x(index), positions, ctx.vshape(x)[2]) for index in (1, 2)]
    result = rotate(ctx, x, tables, bool(ctx.attr("interleaved", 0)))
    return join_heads(ctx, result) if packed else result


OPS: dict[str, NodeMapping] = {"Attention": attention, "RotaryEmbedding": rotary_embedding}
