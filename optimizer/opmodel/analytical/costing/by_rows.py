"""Slices and joins of tiles that begin or end within one: TTNN untilizes the operands, moves rows, tilizes the result.

These are device programs of their own, each with a start and a way through memory (tt-metal 0.81
`data_movement/slice`, `split`, `concat`; `device_run` has what they allocate). Rows whose bytes are not aligned are
turned besides, which is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import interleaved
from optimizer.layouts.tiling import padded_shape
from optimizer.opmodel.analytical.costing import moves
from optimizer.opmodel.analytical.costing.pieces import Job, at_most, elsewhere, of_tensor
from optimizer.opmodel.analytical.device_run.concatenating import joins_by_row
from optimizer.opmodel.analytical.device_run.session import natural_padding
from optimizer.opmodel.analytical.device_run.slicing import slices_by_row
from optimizer.opmodel.analytical.tensors import ROWS, TILED
from optimizer.opmodel.analytical.work import Piece, Work
from optimizer.opmodel.base import TensorSpec


def rearranged(job: Job) -> tuple[Work, ...]:
    """The programs of a slice, split or concat."""
    x = job.query.inputs[0]
    if not x.layout.is_tile or not job.usage.outputs:
        return moves.movement(job)
    if job.name == "concat":
        dim = int(job.attrs["dim"])
        return _joined(job) if any(_joins_by_row(t, dim) for t in job.query.inputs) else moves.movement(job)
    outputs = job.usage.outputs
    begins = _begins(job)
    if not any(slices_by_row(at, job.attrs.get("steps") or ()) for at in begins):
        return moves.movement(job)
    parts = zip(begins, outputs, strict=True)
    return tuple(work for at, out in parts for work in _slice(job, at, out))


def _begins(job: Job) -> Sequence[tuple[int, ...]]:
    """Per result, where it begins."""
    shape = job.query.inputs[0].shape
    if job.name == "slice":
        given = zip(job.attrs["begins"], shape, strict=True)
        return [tuple(int(at) + size if at < 0 else int(at) for at, size in given)]
    dim = int(job.attrs["dim"]) % len(shape)
    starts = accumulate(job.attrs["sizes"][:-1], initial=0)
    return [tuple(start if i == dim else 0 for i in range(len(shape))) for start in starts]


def _slice(job: Job, begins: tuple[int, ...], out: TensorSpec) -> tuple[Work, ...]:
    x = job.query.inputs[0]
    if not slices_by_row(begins, job.attrs.get("steps") or ()):
        written = of_tensor(out)
        return (_moved(job, (at_most(of_tensor(x), (written,)),), out),)
    rows, taken = _in_rows(x), _in_rows(out)
    read = at_most(of_tensor(rows), (of_tensor(taken),))
    return (_retiled(job, x, rows), _moved(job, (read,), taken), _retiled(job, taken, out))


def _joined(job: Job) -> tuple[Work, ...]:
    out = job.usage.outputs[0]
    rows, taken = [_in_rows(t) for t in job.query.inputs], _in_rows(out)
    untilized = [_retiled(job, *pair) for pair in zip(job.query.inputs, rows, strict=True)]
    return (*untilized, _moved(job, map(of_tensor, rows), taken), _retiled(job, taken, out))


def _joins_by_row(tensor: TensorSpec, dim: int) -> bool:
    return joins_by_row(tensor.shape, natural_padding(tensor.shape, TILED, tensor.layout.memory), dim)


def _moved(job: Job, reads: Iterable[Piece], out: TensorSpec) -> Work:
    return Work("movement", job.name, job.cores, tuple(map(elsewhere, reads)), (elsewhere(of_tensor(out)),))


def _retiled(job: Job, x: TensorSpec, out: TensorSpec) -> Work:
    """A tensor in the other page layout."""
    whole = padded_shape(x.shape, TILED) == x.shape
    if x.layout.is_tile:
        name = "untilize" if whole else "untilize_with_unpadding"
    else:
        name = "tilize" if whole else "tilize_with_zero_padding"
    query = replace(job.query, inputs=(x,))
    (work,) = moves.tilize(replace(job, query=query, name=name, reads=(of_tensor(x),), writes=(of_tensor(out),)))
    return work


def _in_rows(tensor: TensorSpec) -> TensorSpec:
    """A tensor as interleaved rows in the same memory; rows of a block format are kept in bf16."""
    dtype = DType.BF16 if tensor.dtype.is_block_float else tensor.dtype
    return TensorSpec(tensor.shape, dtype, interleaved(tensor.layout.memory.buffer_type, ROWS))
