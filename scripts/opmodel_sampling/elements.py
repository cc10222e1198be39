"""The element types of a sampled row drawn again, among those that an optimizer chooses from."""

from __future__ import annotations

from random import Random
from typing import Any

from opmodel_sampling.ops import BINARY, COMPARISONS
from opmodel_sampling.places import pick

KINDS = (("bf16", 40), ("bfp8_b", 36), ("bfp4_b", 24))
TAKE_A_TYPE = {"matmul", "linear", "conv2d", "conv_transpose2d", "typecast", "clone", "to_layout", "to_memory_config"}
TAKE_A_TYPE |= {*BINARY, *COMPARISONS, "tilize", "interleaved_to_sharded"}
"""Ops with a `dtype=` argument."""


def in_block_floats(rng: Random, op: str, built: dict[str, Any]) -> dict[str, Any]:
    """The row with tiled floats of types drawn for each tensor: all alike in a third of the rows."""
    same = pick(rng, KINDS) if rng.random() < 0.34 else None
    inputs = [_drawn(rng, tensor, same) for tensor in built["inputs"]]
    attrs = dict(built["attrs"])
    if op.startswith("conv") and rng.random() < 0.8:
        attrs["config"] = {**(attrs.get("config") or {}), "weights_dtype": pick(rng, KINDS)}
    asked = built["request_dtype"]
    if op in TAKE_A_TYPE:
        asked = pick(rng, ((None, 35), *KINDS)) if op != "typecast" else pick(rng, KINDS)
    return {**built, "attrs": attrs, "inputs": inputs, "request_dtype": asked}


def _drawn(rng: Random, tensor: dict[str, Any], same: str | None) -> dict[str, Any]:
    if tensor["layout"] != "tile" or tensor.get("host") or tensor["dtype"] not in ("bf16", "f32", "bfp8_b"):
        return tensor
    return {**tensor, "dtype": same or pick(rng, KINDS)}
