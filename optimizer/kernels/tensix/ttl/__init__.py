"""The tile language by its own names: `from optimizer.kernels.tensix import ttl`, functions on blocks in `ttl.math`.

docs/tile-language.md describes it.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.ttl import math
from optimizer.kernels.tensix.ttl.blocks import (
    Block,
    CircularBuffer,
    Tensor,
    TensorSlice,
    block_op,
    compute_region,
    make_circular_buffer_like,
)
from optimizer.kernels.tensix.ttl.dataflow import (
    Pipe,
    PipeEnd,
    PipeNet,
    Semaphore,
    create_semaphore,
    loop,
    runtime_arg,
    when,
)
from optimizer.kernels.tensix.ttl.kernels import (
    Program,
    Transfer,
    compute,
    copy,
    core,
    core_linear,
    datamovement,
    grid_size,
    grid_slice,
    kernel,
)
from optimizer.kernels.tensix.ttl.math import transpose, typecast, where

__all__ = [
    "Block",
    "CircularBuffer",
    "DType",
    "Pipe",
    "PipeEnd",
    "PipeNet",
    "Program",
    "Semaphore",
    "Tensor",
    "TensorSlice",
    "Transfer",
    "block_op",
    "compute",
    "compute_region",
    "copy",
    "core",
    "core_linear",
    "create_semaphore",
    "datamovement",
    "grid_size",
    "grid_slice",
    "kernel",
    "loop",
    "make_circular_buffer_like",
    "math",
    "runtime_arg",
    "transpose",
    "typecast",
    "when",
    "where",
]
