"""What every op of the stand-in uses: its machine, and how results come about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttnn_standin.errors import Refused
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Array, Machine, Maker, Tensor
from ttnn_standin.values import CHOSEN, TILE, Member, Value, is_chosen, memory_config

INERT = frozenset(
    {"memory_config", "program_config", "compute_kernel_config", "compute_config", "core_grid", "device", "force",
     "sub_core_grids", "applied_shard_scheme", "slice_config", "dram_slice_config", "num_out_blocks",
     "numeric_stable", "reallocate_halo_output", "config_tensor_in_dram", "use_multicore",
     "fast_and_approximate_mode", "blocking"}
)  # fmt: skip
"""Arguments that decide where, how fast or how exactly, but not what: nobody has to look at them."""


@dataclass(frozen=True)
class Context:
    """The surroundings of a call."""

    machine: Machine
    make: Maker
    """Elements, type, page layout, memory config (None: host) -> tensor."""

    def result(self, a: Arguments, values: Array, dtype: Member, layout: Member, default: Value | None) -> Tensor:
        """A call's result: in `output_tensor` where one is given, else where `memory_config` or the default says."""
        asked = a.get("memory_config")
        into = a.get("output_tensor")
        if into is None:
            return self.make(values, dtype, layout, default if asked is None else asked)
        if (into.shape, into.dtype, into.layout) != (values.shape, dtype, layout):
            raise Refused(f"ttnn.{a.function}: {dtype} {values.shape} does not fit output_tensor {into.shape}")
        if asked is not None and asked != into.memory:
            raise Refused(f"ttnn.{a.function}: memory_config is not that of output_tensor")
        return into.write(values)

    def alike(self, a: Arguments, values: Array, x: Tensor, dtype: Member | None = None) -> Tensor:
        """The result of an op that by default leaves type, page layout and memory config as they are."""
        return self.result(a, values, dtype or x.dtype, x.layout, x.memory)

    def unchanged(self, x: Tensor, memory: Value | None) -> Tensor | None:
        """The operand itself, where an op has nothing to do and hands it back; None where it makes a copy."""
        same = memory is None or (memory == x.memory and is_chosen(memory) == is_chosen(x.memory))
        return x.view(x.shape) if self.machine.aliasing and same else None


Op = Callable[[Context, Arguments], Any]


def with_shards(memory: Value) -> Value:
    """A memory config as an op takes it that chooses shards by itself where none are given."""
    if memory.memory_layout.name == "INTERLEAVED" or memory.shard_spec is not None:
        return memory
    return memory_config(memory.memory_layout, memory.buffer_type, CHOSEN)


def on_device(a: Arguments, *tensors: Any) -> None:
    """Refused for host tensors."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and not tensor.on_device:
            raise Refused(f"ttnn.{a.function}: an operand is on the host")


def tiled(a: Arguments, *tensors: Any) -> None:
    """Refused for tensors on the host or in row-major layout."""
    on_device(a, *tensors)
    for tensor in tensors:
        if isinstance(tensor, Tensor) and tensor.layout != TILE:
            raise Refused(f"ttnn.{a.function}: an operand is not tiled")


def axis_of(a: Arguments, dim: int, rank: int) -> int:
    """A dimension counted from the front; Refused when there is none such."""
    if not -rank <= dim < rank:
        raise Refused(f"ttnn.{a.function}: dim {dim} of a tensor of rank {rank}")
    return dim % rank


def broadcast(a: Arguments, *shapes: Sequence[int]) -> None:
    """Refused where sizes differ and neither is 1."""
    try:
        np.broadcast_shapes(*(tuple(s) for s in shapes))
    except ValueError as error:
        raise Refused(f"ttnn.{a.function}: {error}") from None
