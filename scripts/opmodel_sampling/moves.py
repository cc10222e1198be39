"""Samplers of data-movement ops: reshape, permute, transpose, concat, slice, split, pad, repeat, unsqueeze."""

from __future__ import annotations

import math
from typing import Any

from opmodel_sampling import shapes
from opmodel_sampling.ops import Builder, asked, first_input, row
from opmodel_sampling.places import Sharder

# Data movement is recorded row-major in three rows of ten.
ROW_MAJOR = 0.31
DTYPES = (("bf16", 87), ("f32", 6), ("bfp8_b", 7))


def _operand(sharder: Sharder, family: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    shape = shapes.activation(sharder.rng, family)
    return shape, first_input(sharder, shape, ROW_MAJOR, DTYPES)


def reshape(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape, x = _operand(sharder, family)
    count, last = math.prod(shape), shape[-1]
    targets = [
        (1, count),
        (count // last, last),
        (1, 1, count // last, last),
        (*shape[:-2], 1, shape[-2] * last) if len(shape) > 1 else (count,),
    ]
    for size in (32, 64, 128):
        if count % size == 0:
            targets += [(count // size, size), (1, count // size, 1, size)]
    if len(shape) == 4:
        targets += [
            (shape[0], shape[1] * shape[2], last),
            (shape[0] * shape[1], 1, shape[2], last),
            (shape[0], 1, shape[1] * shape[2], last),
        ]
    if len(shape) == 3:
        targets += [(1, *shape), (shape[0] * shape[1], last)]
    target = rng.choice(targets)
    return row({"shape": list(target)}, [x], asked(sharder, target, x))


def permute(sharder: Sharder, family: str) -> dict[str, Any]:
    shape, x = _operand(sharder, family)
    dims = sharder.rng.sample(range(len(shape)), len(shape))
    return row({"dims": dims}, [x], asked(sharder, tuple(shape[axis] for axis in dims), x))


def transpose(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape, x = _operand(sharder, family)
    while len(shape) < 2:
        shape, x = _operand(sharder, family)
    rank = len(shape)
    a, b = (rank - 2, rank - 1) if rng.random() < 0.4 else rng.sample(range(rank), 2)
    out = list(shape)
    out[a], out[b] = out[b], out[a]
    return row({"d0": a, "d1": b}, [x], asked(sharder, tuple(out), x))


def concat(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape, x = _operand(sharder, family)
    axis = rng.randrange(len(shape))
    inputs = [x]
    for index in range(rng.choice((1, 1, 2))):
        other, draw = list(shape), rng.random()
        if draw < 0.18:
            other[axis] = max(1, shape[axis] // 2)
        elif draw < 0.26 and index == 0:
            wrong = rng.randrange(len(shape))
            other[wrong] += 1
        if draw < 0.1 or other != list(shape):
            inputs.append(first_input(sharder, tuple(other), float(x["layout"] == "rm"), ((x["dtype"], 1),)))
        else:
            inputs.append(dict(x))
    out = list(shape)
    out[axis] = sum(item["shape"][axis] for item in inputs)
    return row({"dim": axis}, inputs, asked(sharder, tuple(out), x))


def slice_(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape, x = _operand(sharder, family)
    begin, end = [0] * len(shape), list(shape)
    draw = rng.random()
    if draw < 0.25:
        begin = [rng.randrange(size) for size in shape]
        end = [rng.randint(low + 1, size) for low, size in zip(begin, shape, strict=True)]
    elif draw < 0.9:
        axis = rng.randrange(len(shape))
        end[axis] = rng.choice(
            [max(1, shape[axis] // 2), max(1, shape[axis] - 1), shape[axis], max(1, shape[axis] // 64 * 32)]
        )
    else:
        end[rng.randrange(len(shape))] += 1
    attrs: dict[str, Any] = {"begin": begin, "end": end}
    if rng.random() < 0.07:
        attrs["step"] = [rng.choice((1, 1, 2)) for _ in shape]
    steps = attrs.get("step", [1] * len(shape))
    out = tuple(-(-(high - low) // step) for low, high, step in zip(begin, end, steps, strict=True))
    return row(attrs, [x], asked(sharder, out, x))


def split(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape, x = _operand(sharder, family)
    axis = rng.randrange(len(shape))
    size = rng.choice((max(1, shape[axis] // 2), max(1, shape[axis] // 4), max(1, shape[axis] // 3), shape[axis]))
    out = tuple(size if index == axis else extent for index, extent in enumerate(shape))
    return row({"size": size, "dim": axis}, [x], asked(sharder, out, x))


def pad(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    shape, x = _operand(sharder, family)
    rank = len(shape)
    padding = []
    for axis in range(rank):
        low = rng.choice((1, 32)) if axis >= rank - 2 and rng.random() < 0.08 else 0
        choices = ((0, 1, 8, 32), (0, 3, 32, 1))[rank - 1 - axis] if axis >= rank - 2 else (0, 0, 0, 1, 3)
        padding.append([low, rng.choice(choices)])
    out = tuple(size + low + high for size, (low, high) in zip(shape, padding, strict=True))
    return row({"padding": padding}, [x], asked(sharder, out, x))


def repeat(sharder: Sharder, family: str) -> dict[str, Any]:
    shape, x = _operand(sharder, family)
    reps = [1] * len(shape)
    reps[sharder.rng.randrange(len(shape))] = 2
    out = tuple(size * count for size, count in zip(shape, reps, strict=True))
    return row({"reps": reps}, [x], asked(sharder, out, x))


def repeat_interleave(sharder: Sharder, family: str) -> dict[str, Any]:
    shape, x = _operand(sharder, family)
    axis = sharder.rng.randrange(len(shape))
    out = tuple(size * 4 if index == axis else size for index, size in enumerate(shape))
    return row({"n": 4, "dim": axis}, [x], asked(sharder, out, x))


def unsqueeze(sharder: Sharder, family: str) -> dict[str, Any]:
    return row({"dim": 0}, [_operand(sharder, family)[1]])


BUILDERS: dict[str, Builder] = {
    "reshape": reshape,
    "permute": permute,
    "transpose": transpose,
    "concat": concat,
    "slice": slice_,
    "split": split,
    "pad": pad,
    "repeat": repeat,
    "repeat_interleave": repeat_interleave,
    "unsqueeze": unsqueeze,
}
