"""Matrix products."""

from __future__ import annotations

import numpy as np

from ttnn_standin.context import Context, Op, broadcast, tiled, with_shards
from ttnn_standin.eltwise import activation
from ttnn_standin.errors import Refused
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Array, Tensor
from ttnn_standin.values import DRAM, FLOATS, TILE, BufferType, Value


def _operand(a: Arguments, side: str) -> Array:
    x = a[f"input_tensor_{side}"]
    tiled(a, x)
    if x.rank < 2 or x.dtype not in FLOATS:
        raise Refused(f"ttnn.{a.function}: operand {side} is {x.dtype} of shape {x.shape}")
    values: Array = x.read()
    return np.swapaxes(values, -1, -2) if a[f"transpose_{side}"] else values


def _from_banks(a: Arguments, config: Value | None) -> None:
    """Operand B and a bias lie in shards over the DRAM banks exactly where the program config reads them there."""
    reads = config is not None and config.kind == "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig"
    for name in ("input_tensor_b", "bias"):
        x = a.get(name)
        over_banks = x is not None and x.memory.is_sharded() and x.memory.buffer_type == BufferType.DRAM
        if x is not None and over_banks is not reads:
            raise Refused(f"ttnn.{a.function}: {name} in {x.memory} for {config}")


def _matmul(c: Context, a: Arguments) -> Tensor:
    left, right = _operand(a, "a"), _operand(a, "b")
    if left.shape[-1] != right.shape[-2]:
        raise Refused(f"ttnn.{a.function}: {left.shape} times {right.shape}")
    broadcast(a, left.shape[:-2], right.shape[:-2])
    made = left @ right
    bias = a.get("bias")
    if bias is not None:
        tiled(a, bias)
        if bias.shape[-1] != made.shape[-1] or any(size != 1 for size in bias.shape[:-1]):
            raise Refused(f"ttnn.{a.function}: bias {bias.shape} for a result {made.shape}")
        made = made + bias.read().reshape(-1)
    config = a["program_config"]
    _from_banks(a, config)
    fused = None if config is None else config.fields.get("fused_activation")
    if fused is not None and a["activation"] is not None:
        raise Refused(f"ttnn.{a.function}: an activation and one fused into the program config")
    made = activation(a["activation"] if fused is None else fused)(made)
    return c.make(made, a["dtype"] or a["input_tensor_a"].dtype, TILE, with_shards(a["memory_config"] or DRAM))


OPS: dict[str, Op] = {"matmul": _matmul, "linear": _matmul}
"""Function of `ttnn` -> what it does."""
