"""Rules for ops that move data, that make tensors, and for attention."""

from __future__ import annotations

from optimizer.export.mlir.compute_rules import plain
from optimizer.export.mlir.spelling import Device, Rule, Said, Site
from optimizer.export.mlir.text import boolean, dense, integer, listed, real
from optimizer.ir.graph import Attr


# -- data movement -----------------------------------------------------------------------------------------
def _reshape(site: Site) -> tuple[Said, ...]:
    return (Said(site.op.op, site.operands, {"shape": listed(site.outputs[0].shape)}),)


def _permute(site: Site) -> tuple[Said, ...]:
    dims = [d % site.rank for d in site.attrs["dims"]]
    return (Said(site.op.op, site.operands, {"permutation": dense(dims, "i64")}),)


def _transpose(site: Site) -> tuple[Said, ...]:
    properties = {name: integer(site.attrs[name], "si32") for name in ("dim0", "dim1")}
    return (Said(site.op.op, site.operands, properties),)


def _along(site: Site) -> tuple[Said, ...]:
    """concat, gather: the dim."""
    return (Said(site.op.op, site.operands, {"dim": integer(site.attrs["dim"], "si32")}),)


def _scatter(site: Site) -> tuple[Said, ...]:
    kind = "sum" if site.name == "scatter_add" else "invalid"
    properties = {
        "dim": integer(site.attrs["dim"], "si32"),
        "scatter_reduce_type": f"#ttcore.reduce_type<{kind}>",
    }
    return (Said("ttnn.scatter", site.operands, properties),)


def _sliced(begins: list[int], ends: list[int], steps: list[int]) -> dict[str, str]:
    return {"begins": listed(begins), "ends": listed(ends), "step": listed(steps)}


def _slice(site: Site) -> tuple[Said, ...]:
    steps = site.attrs["steps"] or (1,) * site.rank
    properties = _sliced(list(site.attrs["begins"]), list(site.attrs["ends"]), list(steps))
    return (Said("ttnn.slice_static", site.operands, properties),)


def _split(site: Site) -> tuple[Said, ...]:
    """The dialect has no split: a slice for every result."""
    dim, shape = site.attrs["dim"] % site.rank, site.inputs[0].shape
    found, start = [], 0
    for position, spec in enumerate(site.outputs):
        begins, ends = [0] * site.rank, list(shape)
        begins[dim], ends[dim] = start, start + spec.shape[dim]
        start = ends[dim]
        properties = _sliced(begins, ends, [1] * site.rank)
        found.append(Said("ttnn.slice_static", site.operands, properties, results=(position,)))
    return tuple(found)


def _pad(site: Site) -> tuple[Said, ...]:
    flat = [size for pair in site.attrs["padding"] for size in pair]
    flat = [0] * (2 * site.rank - len(flat)) + flat
    properties = {"padding": dense(flat), "value": real(site.attrs["value"]), "use_multicore": "true"}
    return (Said(site.op.op, site.operands, properties),)


def _repeat(site: Site) -> tuple[Said, ...]:
    return (Said(site.op.op, site.operands, {"repeat_dims": _shape(site.attrs["repeats"])}),)


def _repeat_interleave(site: Site) -> tuple[Said, ...]:
    properties = {"repeats": integer(site.attrs["repeats"], "ui32"), "dim": integer(site.attrs["dim"], "si32")}
    return (Said(site.op.op, site.operands, properties),)


def _shape(sizes: Attr) -> str:
    assert isinstance(sizes, tuple)
    return f"#ttnn.shape<{'x'.join(map(str, sizes))}>"


def _to_layout(site: Site) -> tuple[Said, ...]:
    """The dialect's op changes pages alone; what changes the place too is another."""
    alike = site.inputs[0].layout.memory == site.outputs[0].layout.memory
    return (Said(site.op.op if alike else "ttnn.to_tensor_spec", site.operands),)


def _to_device(site: Site) -> tuple[Said, ...]:
    return (Said(site.op.op, (*site.operands, Device())),)


# -- attention ---------------------------------------------------------------------------------------------
def _sdpa(site: Site) -> tuple[Said, ...]:
    """The dialect's op has no configs: attributes here."""
    mask = int(len(site.inputs) > 3)
    properties = {"is_causal": boolean(site.attrs["is_causal"]), **site.segments(1, 1, 1, mask, 0)}
    if site.attrs["scale"] is not None:
        properties["scale"] = real(site.attrs["scale"])
    return (Said(site.op.op, site.operands, properties, {**site.program("program_config"), **site.compute()}),)


def _split_heads(site: Site) -> tuple[Said, ...]:
    properties = {
        "num_heads": integer(site.attrs["num_heads"], "ui32"),
        "transpose_key": boolean(site.attrs["transpose_key"]),
    }
    if site.attrs["num_kv_heads"] is not None:
        properties["num_kv_heads"] = integer(site.attrs["num_kv_heads"], "ui32")
    return (Said(site.op.op, site.operands, properties),)


def _rotary(site: Site) -> tuple[Said, ...]:
    return (Said(site.op.op, site.operands, site.compute()),)


MOVEMENT_RULES: dict[str, Rule] = {
    "ttnn.reshape": _reshape,
    "ttnn.permute": _permute,
    "ttnn.transpose": _transpose,
    "ttnn.concat": _along,
    "ttnn.gather": _along,
    "ttnn.scatter": _scatter,
    "ttnn.scatter_add": _scatter,
    "ttnn.slice": _slice,
    "ttnn.split": _split,
    "ttnn.pad": _pad,
    "ttnn.repeat": _repeat,
    "ttnn.repeat_interleave": _repeat_interleave,
    "ttnn.embedding": plain,
    "ttnn.to_memory_config": plain,
    "ttnn.to_layout": _to_layout,
    "ttnn.from_device": plain,
    "ttnn.to_device": _to_device,
    "ttnn.scaled_dot_product_attention": _sdpa,
    "ttnn.split_query_key_value_and_split_heads": _split_heads,
    "ttnn.concatenate_heads": plain,
    "ttnn.nlp_concat_heads": plain,
    "ttnn.rotary_embedding": _rotary,
}
"""Op of ours -> its rule."""
