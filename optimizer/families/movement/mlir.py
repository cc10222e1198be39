"""Ops that move data in the TTNN dialect."""

from __future__ import annotations

from optimizer.export.mlir.spelling import Device, Rule, Said, Site, told
from optimizer.export.mlir.text import SI32, UI32, dense, listed, real
from optimizer.ir.graph import Attr


def _reshape(site: Site) -> tuple[Said, ...]:
    return (Said(site.op.op, site.operands, {"shape": listed(site.outputs[0].shape)}),)


def _permute(site: Site) -> tuple[Said, ...]:
    dims = [d % site.rank for d in site.attrs["dims"]]
    return (Said(site.op.op, site.operands, {"permutation": dense(dims, "i64")}),)


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


def _shape(sizes: Attr) -> str:
    assert isinstance(sizes, tuple)
    return f"#ttnn.shape<{'x'.join(map(str, sizes))}>"


def _to_layout(site: Site) -> tuple[Said, ...]:
    """The dialect's op changes pages alone; what changes the place too is another."""
    alike = site.inputs[0].layout.memory == site.outputs[0].layout.memory
    return (Said(site.op.op if alike else "ttnn.to_tensor_spec", site.operands),)


def _to_device(site: Site) -> tuple[Said, ...]:
    return (Said(site.op.op, (*site.operands, Device())),)


MLIR: dict[str, Rule] = {
    "ttnn.reshape": _reshape,
    "ttnn.permute": _permute,
    "ttnn.transpose": told(dim0=("dim0", SI32), dim1=("dim1", SI32)),
    "ttnn.concat": told(dim=("dim", SI32)),
    "ttnn.gather": told(dim=("dim", SI32)),
    "ttnn.scatter": told(dim=("dim", SI32), scatter_reduce_type="#ttcore.reduce_type<invalid>"),
    "ttnn.scatter_add": told("ttnn.scatter", dim=("dim", SI32), scatter_reduce_type="#ttcore.reduce_type<sum>"),
    "ttnn.slice": _slice,
    "ttnn.split": _split,
    "ttnn.pad": _pad,
    "ttnn.repeat": told(repeat_dims=("repeats", _shape)),
    "ttnn.repeat_interleave": told(repeats=("repeats", UI32), dim=("dim", SI32)),
    "ttnn.embedding": told(),
    "ttnn.to_memory_config": told(),
    "ttnn.to_layout": _to_layout,
    "ttnn.from_device": told(),
    "ttnn.to_device": _to_device,
}
