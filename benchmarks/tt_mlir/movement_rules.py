"""Rules for ops of the dialect that move data, and for attention.

Source: tt-mlir's TTNN dialect (`TTNNOps.td`); the attributes are those that its printer writes.
"""

from __future__ import annotations

from optimizer.errors import UnsupportedOpError
from optimizer.ir.graph import Attr
from tt_mlir import configs
from tt_mlir.compute_rules import same_name
from tt_mlir.document import finite
from tt_mlir.site import Rule, Site, Translation, present, refuse, whole_numbers


# -- data movement -----------------------------------------------------------------------------------------
def _reshape(site: Site) -> Translation:
    return Translation("ttnn.reshape", site.operands, {"shape": site.result.shape})


def _permute(site: Site) -> Translation:
    return Translation("ttnn.permute", site.operands, {"dims": whole_numbers(site.need("permutation", "dims"))})


def _transpose(site: Site) -> Translation:
    attrs: dict[str, Attr] = {"dim0": int(site.need("dim0")), "dim1": int(site.need("dim1"))}
    return Translation("ttnn.transpose", site.operands, attrs)


def _concat(site: Site) -> Translation:
    return Translation("ttnn.concat", site.operands, {"dim": int(site.need("dim"))})


def _slice(site: Site) -> Translation:
    shape = site.tensor(0).shape
    begins = [b + s if b < 0 else b for b, s in zip(whole_numbers(site.need("begins")), shape, strict=True)]
    ends = [min(e + s if e < 0 else e, s) for e, s in zip(whole_numbers(site.need("ends")), shape, strict=True)]
    steps = whole_numbers(site.attr("step", "steps", default=[1] * len(shape)))
    attrs: dict[str, Attr] = {"begins": tuple(begins), "ends": tuple(ends)}
    if any(step != 1 for step in steps):
        attrs["steps"] = steps
    return Translation("ttnn.slice", site.operands[:1], attrs)


def _slice_dynamic(site: Site) -> Translation:
    """Where it begins is computed on every run: a slice of the same size from the start stands for it."""
    site.notes.append(f"{site.place}: priced as the first {list(site.result.shape)} elements")
    attrs: dict[str, Attr] = {"begins": (0,) * len(site.result.shape), "ends": site.result.shape}
    return Translation("ttnn.slice", site.operands[:1], attrs)


def _pad(site: Site) -> Translation:
    flat = whole_numbers(site.need("padding"))
    pairs = tuple((flat[i], flat[i + 1]) for i in range(0, len(flat), 2))
    value = finite(float(site.attr("value", default=0.0)))
    return Translation("ttnn.pad", site.operands, {"padding": pairs, "value": value})


def _repeat(site: Site) -> Translation:
    repeats = whole_numbers(site.need("repeat_dims", "repeats", "shape"))
    missing = len(site.tensor(0).shape) - len(repeats)
    return Translation("ttnn.repeat", site.operands, {"repeats": (1,) * missing + repeats})


def _repeat_interleave(site: Site) -> Translation:
    rank = len(site.tensor(0).shape)
    attrs: dict[str, Attr] = {"repeats": int(site.need("repeats")), "dim": int(site.need("dim")) % rank}
    return Translation("ttnn.repeat_interleave", site.operands, attrs)


def _embedding(site: Site) -> Translation:
    return Translation("ttnn.embedding", site.operands[:2])


def _rows_gather(site: Site) -> Translation:
    """Whole rows of one table by one list of numbers, [1, rows, size] by [1, 1, n]: an embedding."""
    refuse(site, "column", "fill_out_of_bounds")
    table, ids = site.operands
    pages, *rows = site.function.tensors[table].shape
    unsplit = len(rows) == 2 and pages == 1 and whole_numbers(site.attr("windows", default=[1])) == (1,)
    if not unsplit or whole_numbers(site.attr("sizes", default=rows[0])) != (rows[0],):
        raise UnsupportedOpError("a gather of anything but the rows of one table", node=site.place)
    wanted = site.result.shape[:-1]
    if site.function.tensors[ids].shape != wanted:
        ids = _unreshaped(site, ids, wanted)
    return Translation("ttnn.embedding", (ids, table), stand_ins={table: tuple(rows)})


def _unreshaped(site: Site, tensor: str, shape: tuple[int, ...]) -> str:
    """The tensor of a shape that another is a reshape of."""
    for op in site.function.ops:
        if op.outputs == (tensor,) and op.op == "ttnn.reshape" and site.function.tensors[op.inputs[0]].shape == shape:
            return op.inputs[0]
    raise UnsupportedOpError(f"indices {tensor} of a shape that their rows do not have", node=site.place)


def _along(name: str) -> Rule:
    """gather, scatter: operands as they are, and the dim."""

    def rule(site: Site) -> Translation:
        return Translation(name, site.operands, {"dim": int(site.need("dim"))})

    return rule


# -- attention ---------------------------------------------------------------------------------------------
def _sdpa(site: Site) -> Translation:
    refuse(site, "sliding_window_size")
    q, k, v, mask, sink = site.segments(5)[:5]
    if sink is not None:
        raise UnsupportedOpError("an attention sink", node=site.place)
    scale = site.attr("scale")
    attrs: dict[str, Attr] = {
        "is_causal": bool(site.attr("is_causal", default=mask is None)),
        "scale": None if scale is None else float(scale),
        **configs.compute_attrs(site.attr("compute_config")),
    }
    config = configs.sdpa_config(site.attr("program_config"))
    return Translation("ttnn.scaled_dot_product_attention", present([q, k, v, mask]), attrs, config)


def _sdpa_decode(site: Site) -> Translation:
    """Positions are numbers to us: a tensor of them stands for the end of the cache, where a step costs most."""
    q, k, v, mask, _, sink = site.segments(6)[:6]
    return _decode(site, q, k, v, mask, sink)


def _paged_sdpa_decode(site: Site) -> Translation:
    """A cache in pages reads as one of as many rows as a user's pages hold."""
    q, k, v, table, mask, _, sink = site.segments(7)[:7]
    assert k is not None, "keys are missing"
    assert table is not None, "the page table is missing"
    _, heads, rows, size = site.function.tensors[k].shape
    users, pages = site.function.tensors[table].shape
    site.notes.append(f"{site.place}: priced as attention to a cache in one piece")
    return _decode(site, q, k, v, mask, sink, (users, heads, rows * pages, size))


def _decode(
    site: Site,
    q: str | None,
    k: str | None,
    v: str | None,
    mask: str | None,
    sink: str | None,
    cache: tuple[int, ...] | None = None,
) -> Translation:
    if sink is not None or site.op.attrs.get("sliding_window_size"):
        raise UnsupportedOpError("an attention sink or a sliding window", node=site.place)
    scale = site.attr("scale")
    assert q is not None, "queries are missing"
    assert k is not None, "keys are missing"
    assert v is not None, "values are missing"
    users = site.function.tensors[q].shape[1]
    length = (cache or site.function.tensors[k].shape)[2]
    attrs: dict[str, Attr] = {
        "cur_pos": (length - 1,) * users,
        "is_causal": bool(site.attr("is_causal", default=True)),
        "scale": None if scale is None else float(scale),
        **configs.compute_attrs(site.attr("compute_config")),
    }
    config = configs.sdpa_config(site.attr("program_config"))
    pages = {} if cache is None else {k: cache, v: cache}
    return Translation("ttnn.scaled_dot_product_attention_decode", present([q, k, v, mask]), attrs, config, pages)


def _split_heads(site: Site) -> Translation:
    if len(site.operands) != 1:
        raise UnsupportedOpError("keys and values in a tensor of their own", node=site.place)
    kv = site.attr("num_kv_heads")
    attrs: dict[str, Attr] = {
        "num_heads": int(site.need("num_heads", "num_q_heads")),
        "transpose_key": bool(site.attr("transpose_key", "transpose_k_heads", default=False)),
    }
    if kv is not None:
        attrs["num_kv_heads"] = int(kv)
    return Translation(site.op.op, site.operands, attrs)


def _rotary_llama(site: Site) -> Translation:
    """Ours swaps halves by itself; theirs multiplies by a constant matrix that does."""
    site.notes.append(f"{site.place}: priced as ttnn.rotary_embedding")
    return Translation("ttnn.rotary_embedding", site.operands[:3])


def _rotary(site: Site) -> Translation:
    return Translation("ttnn.rotary_embedding", site.operands[:3])


MOVEMENT_RULES: dict[str, Rule] = {
    "ttnn.reshape": _reshape,
    "ttnn.permute": _permute,
    "ttnn.transpose": _transpose,
    "ttnn.concat": _concat,
    "ttnn.slice_static": _slice,
    "ttnn.slice": _slice,
    "ttnn.slice_dynamic": _slice_dynamic,
    "ttnn.pad": _pad,
    "ttnn.repeat": _repeat,
    "ttnn.repeat_interleave": _repeat_interleave,
    "ttnn.embedding": _embedding,
    "ttnn.rows_gather": _rows_gather,
    "ttnn.gather": _along("ttnn.gather"),
    "ttnn.scatter": _along("ttnn.scatter"),
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.scaled_dot_product_attention_decode": _sdpa_decode,
    "ttnn.paged_scaled_dot_product_attention_decode": _paged_sdpa_decode,
    "ttnn.split_query_key_value_and_split_heads": _split_heads,
    "ttnn.nlp_create_qkv_heads": _split_heads,
    "ttnn.concatenate_heads": same_name,
    "ttnn.nlp_concat_heads": same_name,
    "ttnn.rotary_embedding": _rotary,
    "ttnn.rotary_embedding_llama": _rotary_llama,
}
"""Op of the dialect -> its rule."""
