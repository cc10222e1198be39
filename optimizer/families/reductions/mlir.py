"""Norms, softmax, reductions and sorting in the TTNN dialect."""

from __future__ import annotations

from typing import Any

from optimizer.export.mlir.spelling import Rule, Said, Site, told
from optimizer.export.mlir.text import I32, SI8, SI32, boolean, integer, listed, real


def _norm(site: Site) -> tuple[Said, ...]:
    """The layer norm of the dialect has no compute config, and neither norm a program config: attributes here."""
    weight, bias = int(len(site.inputs) > 1), int(len(site.inputs) > 2)
    properties = {"epsilon": real(site.attrs["epsilon"]), **site.segments(1, weight, bias)}
    rest = site.program("program_config")
    if site.name == "rms_norm":
        properties |= site.compute()
    else:
        rest |= site.compute()
    return (Said(site.op.op, site.operands, properties, rest),)


def _group_norm(site: Site) -> tuple[Said, ...]:
    weight, bias = int(len(site.inputs) > 1), int(len(site.inputs) > 2)
    properties = {
        "num_groups": integer(site.attrs["num_groups"], "i64"),
        "epsilon": real(site.attrs["epsilon"]),
        **site.segments(1, 0, weight, bias),
    }
    return (Said(site.op.op, site.operands, properties, site.compute()),)


def _batch_norm(site: Site) -> tuple[Said, ...]:
    given = len(site.inputs)
    present = [int(k < given) for k in range(5)]
    properties = {"epsilon": real(site.attrs["epsilon"]), **site.segments(*present), **site.compute()}
    return (Said("ttnn.batch_norm_inference", site.operands, properties),)


def _dims(dim: Any) -> str:
    return listed(dim if isinstance(dim, tuple | list) else (dim,))


def _prod(site: Site) -> tuple[Said, ...]:
    dim = site.attrs["dim"]
    properties = {"keep_dim": boolean(site.attrs["keepdim"])}
    if isinstance(dim, tuple | list):
        if len(dim) != 1:
            return ()
        dim = dim[0]
    if dim is not None:
        properties["dim_arg"] = integer(dim, "si64")
    return (Said(site.op.op, site.operands, properties),)


def _cumsum(site: Site) -> tuple[Said, ...]:
    if site.attrs["reverse_order"]:
        return ()
    return (Said(site.op.op, site.operands, {"dim": integer(site.attrs["dim"], "si32")}),)


MLIR: dict[str, Rule] = {
    "ttnn.softmax": told(compute=True, dimension=("dim", SI32), numericStable=("numeric_stable", boolean)),
    "ttnn.layer_norm": _norm,
    "ttnn.rms_norm": _norm,
    "ttnn.group_norm": _group_norm,
    "ttnn.batch_norm": _batch_norm,
    **{
        f"ttnn.{name}": told(compute=True, keep_dim=("keepdim", boolean), dim_arg=("dim", _dims))
        for name in ("sum", "mean", "max", "min")
    },
    "ttnn.prod": _prod,
    "ttnn.argmax": told(keep_dim=("keepdim", boolean), dim=("dim", SI32)),
    "ttnn.topk": told(k=("k", I32), dim=("dim", SI32), largest=("largest", boolean), sorted="true"),
    "ttnn.sort": told(dim=("dim", SI8), descending=("descending", boolean)),
    "ttnn.cumsum": _cumsum,
}
