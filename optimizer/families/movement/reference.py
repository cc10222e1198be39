"""Ops that move values without changing them, and those that make them from nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.errors import ExecutionError
from optimizer.values.reference.kinds import Array, Attrs, Rule, of_one, unchanged


def _slice(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    steps = attrs.get("steps") or (1,) * len(attrs["begins"])
    window = zip(attrs["begins"], attrs["ends"], steps, strict=True)
    return [operands[0][tuple(slice(*bounds) for bounds in window)]]


def _scatter(adds: bool) -> Rule:
    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
        x, index, source = operands
        axis, result = int(attrs["dim"]) % x.ndim, x.copy()
        place: list[Any] = list(np.indices(index.shape))
        place[axis] = index.astype(np.int64)
        if adds:
            np.add.at(result, tuple(place), source)
        else:
            result[tuple(place)] = source
        return [result]

    return rule


def _made(function: Callable[[Attrs], Array]) -> Rule:
    """An op without operands."""

    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
        assert not operands
        return [function(attrs)]

    return rule


def _embedding(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    assert "dim" not in attrs
    rows, indices = operands[1], operands[0].astype(np.int64)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < len(rows):
        raise ExecutionError(f"an index is beyond the {len(rows)} rows of its table")
    return [rows[indices]]


RULES: Mapping[str, Rule] = {
    "ttnn.reshape": of_one(lambda x, attrs: x.reshape(attrs["shape"])),
    "ttnn.permute": of_one(lambda x, attrs: x.transpose(attrs["dims"])),
    "ttnn.transpose": of_one(lambda x, attrs: x.swapaxes(attrs["dim0"], attrs["dim1"])),
    "ttnn.concat": lambda attrs, operands: [np.concatenate(operands, axis=attrs["dim"])],
    "ttnn.slice": _slice,
    "ttnn.split": lambda attrs, operands: np.split(operands[0], np.cumsum(attrs["sizes"])[:-1], axis=int(attrs["dim"])),
    "ttnn.pad": of_one(lambda x, attrs: np.pad(x, attrs["padding"], constant_values=attrs.get("value", 0.0))),
    "ttnn.repeat": of_one(lambda x, attrs: np.tile(x, attrs["repeats"])),
    "ttnn.repeat_interleave": of_one(lambda x, attrs: x.repeat(attrs["repeats"], axis=attrs["dim"])),
    "ttnn.embedding": _embedding,
    "ttnn.gather": lambda attrs, operands: [
        np.take_along_axis(operands[0], operands[1].astype(np.int64), axis=attrs["dim"])
    ],
    "ttnn.scatter": _scatter(adds=False),
    "ttnn.scatter_add": _scatter(adds=True),
    "ttnn.to_layout": unchanged,
    "ttnn.to_memory_config": unchanged,
    "ttnn.to_device": unchanged,
    "ttnn.fill_implicit_tile_padding": of_one(lambda x, _: x),
    "ttnn.from_device": unchanged,
    "ttnn.full": _made(lambda attrs: np.full(attrs["shape"], attrs["value"])),
    "ttnn.zeros": _made(lambda attrs: np.zeros(attrs["shape"])),
    "ttnn.ones": _made(lambda attrs: np.ones(attrs["shape"])),
    "ttnn.arange": _made(lambda attrs: np.arange(attrs["start"], attrs["end"], attrs["step"])),
}
