"""Scatter along the last dim, on row-major rows.

Rule measured on mock devices (tt-metal 0.81.1, `scatter_device_operation.cpp`): one program, whose buffers hold a row
of the operand, of the result, of the index and of the source, each rounded up to 32 B; sums of bf16 take a row in f32
besides. Scatter along another dim is a chain of transposes inside TTNN; the importer writes those out, so it is
refused here.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.ops.generic import result_shapes
from optimizer.opmodel.base import TensorSpec

ALIGNMENT = 32
"""Bytes to which rows are rounded up, on either board and in either memory."""
_INDEX = (DType.U32, DType.I32, DType.U16)


def scatter(case: Case) -> Usage:
    x, index, source = case.inputs
    for tensor in case.inputs:
        need(not tensor.layout.is_sharded, f"{case.query.op}: sharded operands are not supported")
        need(not tensor.layout.is_tile, f"{case.query.op}: only row-major operands are supported")
    need(x.dtype is source.dtype, "the source must have the operand's element type")
    need(index.dtype in _INDEX, "the index must be an integer tensor")
    need(int(case.attrs["dim"]) % len(x.shape) == len(x.shape) - 1, "only the last dim is supported")
    memory = case.follow()
    need(not memory.is_sharded, f"{case.query.op}: sharded output is not supported")
    out = case.result(result_shapes(case)[0], x.dtype, memory, PageLayout.ROW_MAJOR)
    cb = sum(_row_bytes(tensor, tensor.dtype) for tensor in (x, out, index, source))
    if case.query.op == "ttnn.scatter_add" and x.dtype is DType.BF16:
        cb += _row_bytes(x, DType.F32)
    return Usage((out,), cb=cb, cores=min(prod(x.shape[:-1]), case.device.num_cores))


def _row_bytes(tensor: TensorSpec, dtype: DType) -> int:
    return -(-tensor.shape[-1] * dtype.element_bytes // ALIGNMENT) * ALIGNMENT
