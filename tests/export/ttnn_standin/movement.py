"""Ops that move elements without computing, and those that change only where a tensor is or its page layout."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ttnn_standin.context import Context, Op, axis_of, on_device, tiled
from ttnn_standin.errors import Refused, Unmodelled
from ttnn_standin.placement import EDGE, physical
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Tensor
from ttnn_standin.values import BLOCK_FLOATS, DRAM, INTEGERS, ROW_MAJOR, TILE, DataType, Value, is_sharded


def _is_view(x: Tensor, shape: tuple[int, ...], memory: Value) -> bool:
    """Whether TTNN reshapes by relabelling: the rows stay, and tiles keep their rows (`ttnn::reshape`)."""
    old, new = ((1,) * (2 - len(s)) + tuple(s) for s in (x.shape, shape))
    have = x.memory_config()
    if old[-1] != new[-1] or (is_sharded(have), have.buffer_type) != (is_sharded(memory), memory.buffer_type):
        return False
    return x.layout == ROW_MAJOR or old[-2] == new[-2] or (old[-2] % EDGE == 0 and new[-2] % EDGE == 0)


def _reshape(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    shape = [int(s) for s in a["shape"]]
    if shape.count(-1) == 1:
        shape[shape.index(-1)] = prod(x.shape) // -prod(shape)
    if prod(shape) != prod(x.shape) or min(shape) < 1:
        raise Refused(f"ttnn.reshape: {x.shape} to {tuple(a['shape'])}")
    if a["pad_value"]:
        raise Unmodelled("ttnn.reshape with padding")
    if not x.on_device:
        return c.make(x.read().reshape(shape), x.dtype, x.layout, None)
    memory = a["memory_config"] or x.memory
    if _is_view(x, tuple(shape), memory) and (not is_sharded(memory) or memory == x.memory):
        return x.view(shape)
    return c.result(a, x.read().reshape(shape), x.dtype, x.layout, x.memory)


def _unsqueeze(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    at = axis_of(a, a["dim"], x.rank + 1)
    shape = (*x.shape[:at], 1, *x.shape[at:])
    if x.on_device and _is_view(x, shape, x.memory_config()):
        return x.view(shape)
    return c.alike(a, x.read().reshape(shape), x)


def _permute(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    dims = [axis_of(a, d, x.rank) for d in a["dims"]]
    if sorted(dims) != list(range(x.rank)):
        raise Refused(f"ttnn.permute: {tuple(a['dims'])} of rank {x.rank}")
    same = c.unchanged(x, a.get("memory_config")) if _moves_nothing(x, dims) else None
    return same or c.alike(a, x.read().transpose(dims), x)


def _moves_nothing(x: Tensor, dims: list[int]) -> bool:
    """Whether only dimensions of size 1 change places, none of them within tiles, and the shape stays."""
    kept = [d for d in dims if x.shape[d] != 1]
    within = x.layout == TILE and dims[-2:] != list(range(x.rank))[-2:]
    return kept == sorted(kept) and tuple(x.shape[d] for d in dims) == x.shape and not within


def _transpose(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    one, other = (axis_of(a, a[name], x.rank) for name in ("dim1", "dim2"))
    dims = list(range(x.rank))
    dims[one], dims[other] = dims[other], dims[one]
    same = c.unchanged(x, a.get("memory_config")) if _moves_nothing(x, dims) else None
    return same or c.alike(a, x.read().transpose(dims), x)


def _concat(c: Context, a: Arguments) -> Tensor:
    parts = a["tensors"]
    on_device(a, *parts)
    first = parts[0]
    axis = axis_of(a, a["dim"], first.rank)
    if a["groups"] != 1:
        raise Unmodelled("ttnn.concat by groups")
    for part in parts[1:]:
        rest = [s for k, s in enumerate(part.shape) if k != axis]
        if rest != [s for k, s in enumerate(first.shape) if k != axis] or part.rank != first.rank:
            raise Refused(f"ttnn.concat: {first.shape} with {part.shape} along {axis}")
        if (part.dtype, part.layout) != (first.dtype, first.layout):
            raise Refused(f"ttnn.concat: {first.dtype} {first.layout} with {part.dtype} {part.layout}")
    if len({is_sharded(part.memory_config()) for part in parts}) > 1:
        raise Refused("ttnn.concat: sharded tensors with interleaved ones")
    same = c.unchanged(first, a["memory_config"]) if len(parts) == 1 else None
    return same or c.result(a, np.concatenate([p.read() for p in parts], axis), first.dtype, first.layout, DRAM)


def _slice(c: Context, a: Arguments) -> Tensor:
    x, starts, ends, steps = (a[name] for name in list(a)[:4])
    if not isinstance(starts, (list, tuple)):
        raise Unmodelled("ttnn.slice by tensors")
    steps = steps or [1] * x.rank
    if not len(starts) == len(ends) == len(steps) == x.rank:
        raise Refused(f"ttnn.slice: {starts} to {ends} by {steps} of {x.shape}")
    for size, start, end, step in zip(x.shape, starts, ends, steps, strict=True):
        if not (0 <= start < end <= size and step >= 1):
            raise Refused(f"ttnn.slice: {starts} to {ends} by {steps} of {x.shape}")
    made = x.read()[tuple(slice(*window) for window in zip(starts, ends, steps, strict=True))]
    same = c.unchanged(x, a["memory_config"]) if made.shape == x.shape else None
    return same or c.alike(a, made, x)


def _split(c: Context, a: Arguments) -> list[Tensor]:
    x, size = a["input_tensor"], a["split_size"]
    axis = axis_of(a, a["dim"], x.rank)
    length = x.shape[axis]
    bounds = [*range(0, length, size), length] if isinstance(size, int) else np.cumsum([0, *size]).tolist()
    if bounds[-1] != length or any(before >= after for before, after in pairwise(bounds)):
        raise Refused(f"ttnn.split: {size} of {length}")
    values = x.read()
    same = c.unchanged(x, a["memory_config"]) if len(bounds) == 2 else None
    if same is not None:
        return [same]
    parts = [values.take(np.arange(*window), axis) for window in pairwise(bounds)]
    return [c.alike(a, part, x) for part in parts]


def _pad(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    if "padding" not in a:
        raise Unmodelled("ttnn.pad to a shape")
    padding = [tuple(sides) for sides in a["padding"]]
    if len(padding) != x.rank or any(len(sides) != 2 or min(sides) < 0 for sides in padding):
        raise Refused(f"ttnn.pad: {padding} of {x.shape}")
    if x.layout == TILE and any(before for before, _ in padding):
        raise Refused("ttnn.pad: no padding in front of tiled tensors")
    made = np.pad(x.read(), padding, constant_values=a["value"])
    if x.on_device and a["memory_config"] in (None, x.memory) and _fills_tiles(x, made.shape):
        return x.inside(made)  # the rest of the tiles is filled where it is
    same = c.unchanged(x, a["memory_config"]) if made.shape == x.shape else None
    return same or c.alike(a, made, x)


def _fills_tiles(x: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a tiled tensor of this other shape has the very tiles that it has."""
    return x.layout == TILE and shape != x.shape and physical(shape, TILE) == physical(x.shape, TILE)


def _fill_padding(c: Context, a: Arguments) -> Tensor:
    """Works on its operand's buffer, whatever memory config it is given."""
    x = a["input_tensor"]
    tiled(a, x)
    if x.dtype in BLOCK_FLOATS:
        raise Unmodelled("ttnn.fill_implicit_tile_padding of block floats, which takes a buffer of its own")
    x.buffer.padding = float(a["fill_value"])
    return x


def _repeat(c: Context, a: Arguments) -> Tensor:
    x, times = a["input_tensor"], a["repeat_dims"]
    if len(times) < x.rank or min(times) < 1:
        raise Refused(f"ttnn.repeat: {times} of {x.shape}")
    made = np.tile(x.read(), times)
    same = c.unchanged(x, a["memory_config"]) if made.shape == x.shape else None
    return same or c.alike(a, made, x)


def _repeat_interleave(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    made = np.repeat(x.read(), a["repeats"], axis_of(a, a["dim"], x.rank))
    same = c.unchanged(x, a["memory_config"]) if made.shape == x.shape else None
    return same or c.alike(a, made, x)


def _embedding(c: Context, a: Arguments) -> Tensor:
    ids, table = a["input_tensor"], a["weight"]
    on_device(a, ids, table)
    if a["padding_idx"] is not None or a["embeddings_type"].name != "GENERIC":
        raise Unmodelled("ttnn.embedding of another type")
    rows, width = prod(table.shape[:-1]), table.shape[-1]
    if any(size != 1 for size in table.shape[:-2]) or table.layout != ROW_MAJOR:
        raise Refused(f"ttnn.embedding: a table {table.shape} in {table.layout}")
    wanted = ids.read()
    if ids.dtype not in INTEGERS and ids.dtype != DataType.BFLOAT16:
        raise Refused(f"ttnn.embedding: indices of {ids.dtype}")
    if (wanted < 0).any() or (wanted >= rows).any():
        raise Refused(f"ttnn.embedding: indices up to {wanted.max()} of {rows} rows")
    made = table.read().reshape(rows, width)[wanted.astype(np.int64)]
    return c.result(a, made, a["dtype"] or table.dtype, a["layout"] or table.layout, ids.memory)


def _gather(c: Context, a: Arguments) -> Tensor:
    x, index = a["input"], a["index"]
    on_device(a, x, index)
    if index.dtype not in INTEGERS:
        raise Refused(f"ttnn.gather: indices of {index.dtype}")
    return c.alike(a, np.take_along_axis(x.read(), index.read(), axis_of(a, a["dim"], x.rank)), x)


def _scatter(add: bool) -> Op:
    def op(c: Context, a: Arguments) -> Tensor:
        x, index, source = a["input"], a["index"], a["src"]
        on_device(a, x, index, source)
        if a.get("reduce") is not None:
            raise Unmodelled(f"ttnn.{a.function} reducing")
        made, place = x.read().copy(), list(np.indices(index.shape))
        place[axis_of(a, a["dim"], x.rank)] = index.read()
        if add:
            np.add.at(made, tuple(place), source.read())
        else:
            made[tuple(place)] = source.read()
        return c.alike(a, made, x)

    return op


# -- only where, and in which pages ----------------------------------------------------------------------
def _to_layout(c: Context, a: Arguments) -> Tensor:
    x, layout = a["tensor"], a["layout"]
    dtype = a["dtype"] or x.dtype
    if a["pad_value"]:
        raise Unmodelled("ttnn.to_layout with padding")
    if not x.on_device:
        return c.make(x.read(), dtype, layout, None)
    same = c.unchanged(x, a["memory_config"]) if (layout, dtype) == (x.layout, x.dtype) else None
    return same or c.result(a, x.read(), dtype, layout, x.memory)


def _to_memory_config(c: Context, a: Arguments) -> Tensor:
    x = a["tensor"]
    on_device(a, x)
    dtype = a["dtype"] or x.dtype
    same = c.unchanged(x, a["memory_config"]) if dtype == x.dtype else None
    if same is None:
        same = c.result(a, x.read(), dtype, x.layout, None)
        same.buffer.padding = x.buffer.padding  # whole tiles are copied
    return same


def _between(target: str, sharded: bool) -> Op:
    """Ops that move between interleaved and sharded tensors; `target` names the parameter that says where to."""

    def op(c: Context, a: Arguments) -> Tensor:
        x = a["input_tensor"]
        on_device(a, x)
        memory = a[target] or DRAM
        if is_sharded(memory) != sharded:
            raise Refused(f"ttnn.{a.function}: a result in {memory.memory_layout}")
        if a.function == "interleaved_to_sharded" and is_sharded(x.memory_config()):
            raise Refused("ttnn.interleaved_to_sharded: a sharded operand")
        if a.function != "interleaved_to_sharded" and not is_sharded(x.memory_config()):
            raise Refused(f"ttnn.{a.function}: an interleaved operand")
        return c.make(x.read(), a.get("output_dtype") or x.dtype, x.layout, memory)

    return op


def _to_device(c: Context, a: Arguments) -> Tensor:
    x = a["tensor"]
    if x.on_device:
        raise Refused("ttnn.to_device: a tensor that is on the device")
    return c.make(x.read(), x.dtype, x.layout, a["memory_config"] or DRAM)


def _from_device(c: Context, a: Arguments) -> Tensor:
    x = a["tensor"]
    return c.make(x.read(), x.dtype, x.layout, None)


def _paged(layout: Any) -> Op:
    def op(c: Context, a: Arguments) -> Tensor:
        x = a["input_tensor"]
        on_device(a, x)
        if a.function != "untilize" and x.layout == TILE:
            raise Refused(f"ttnn.{a.function}: a tiled operand")
        return c.result(a, x.read(), a.get("dtype") or x.dtype, layout, x.memory)

    return op


def _clone(c: Context, a: Arguments) -> Tensor:
    x = a["input"]
    return c.alike(a, x.read(), x, a["dtype"])


def _deallocate(c: Context, a: Arguments) -> None:
    buffer = a["tensor"].buffer
    if buffer.where != "host":
        buffer.free(a.function)
        buffer.values = np.empty(0)


OPS: dict[str, Op] = {
    "reshape": _reshape,
    "unsqueeze": _unsqueeze,
    "permute": _permute,
    "transpose": _transpose,
    "concat": _concat,
    "slice": _slice,
    "split": _split,
    "pad": _pad,
    "fill_implicit_tile_padding": _fill_padding,
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "embedding": _embedding,
    "gather": _gather,
    "scatter": _scatter(add=False),
    "scatter_add": _scatter(add=True),
    "to_layout": _to_layout,
    "to_memory_config": _to_memory_config,
    "interleaved_to_sharded": _between("sharded_memory_config", sharded=True),
    "sharded_to_interleaved": _between("memory_config", sharded=False),
    "reshard": _between("output_memory_config", sharded=True),
    "to_device": _to_device,
    "from_device": _from_device,
    "tilize": _paged(TILE),
    "tilize_with_zero_padding": _paged(TILE),
    "untilize": _paged(ROW_MAJOR),
    "clone": _clone,
    "deallocate": _deallocate,
}
"""Function of `ttnn` -> what it does."""
