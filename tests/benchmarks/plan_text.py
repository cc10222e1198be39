"""Plans of one op, as tt-mlir's would be written down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Shape = tuple[int, ...]

DRAM = {"buffer": "dram", "memory": "interleaved", "page": "tile"}


def tensor(shape: Shape, dtype: str = "bf16", role: str | None = None, **layout: Any) -> dict[str, Any]:
    """A tensor of a plan, in DRAM tiles unless its layout says otherwise."""
    return {"shape": list(shape), "dtype": dtype, "role": role, "layout": {**DRAM, "dtype": dtype, **layout}}


def plan_record(
    op: str,
    operands: Sequence[dict[str, Any]],
    results: Sequence[dict[str, Any]],
    attrs: Mapping[str, Any] | None = None,
    returned: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A plan that runs one op on its arguments and returns its results (or those of these positions)."""
    args = [f"%arg{k}" for k in range(len(operands))]
    outs = [f"%{k}" for k in range(len(results))]
    tensors = {**dict(zip(args, operands, strict=True)), **dict(zip(outs, results, strict=True))}
    body = {"op": op, "in": args, "out": outs, "attrs": dict(attrs or {}), "loc": "the_op"}
    function = {
        "kind": "forward_device",
        "args": args,
        "tensors": tensors,
        "ops": [body],
        "returns": outs if returned is None else [outs[k] for k in returned],
    }
    return {"system": {"num_dram_channels": 12}, "functions": {"main": function}}


def written(folder: Path, record: Mapping[str, Any], name: str = "one") -> Path:
    path = folder / f"{name}.ops.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    return path
