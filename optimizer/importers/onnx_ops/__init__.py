"""One function per ONNX op type, by family; `TABLE` maps `[domain.]OpType` to it."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.importers.onnx_lowering import NodeMapping
from optimizer.importers.onnx_ops import (
    attention,
    conv,
    eltwise,
    indexing,
    matmul,
    microsoft,
    movement,
    norm,
    pool,
    quantize,
    reduce,
    resize,
)
from optimizer.process.plugins import added_tables

_FAMILIES = (eltwise, matmul, conv, pool, resize, norm, reduce, movement, indexing, attention,
             quantize, microsoft)  # fmt: skip

TABLE: dict[str, NodeMapping] = {name: fn for family in _FAMILIES for name, fn in family.OPS.items()}


def table() -> Mapping[str, NodeMapping]:
    """`TABLE` with the functions of other distributions."""
    added = added_tables("OPS", TABLE)
    return {**TABLE, **added} if added else TABLE
