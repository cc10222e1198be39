"""The ops of the kernel IR on one screen: operands, results, attributes, regions, and where they may stand.

    level      ops
    program    ttl.program > ttl.bind_cb, semaphores and pipes, ttl.compute_thread, ttl.datamovement_thread
    control    ttl.for over a known number of rounds or a run-time one, ttl.if
    block      waits and pushes of circular buffers, block arithmetic, ttl.store, ttl.compute_region
    tile       ttl.compute: a loop nest over tiles with a body of ttl.tile_<op>, later with DST slots
    loop       ttl.for, tile_regs synchronisation, dst.<op> on slots and tiles of blocks, dst.init, dst.pack
    ttkernel   ttkernel.<function>: calls of the kernel API

Block ops are `ttl.<name>` and tile ops `ttl.tile_<name>` for every name of `tile_ops.TILE_OPS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from optimizer.errors import UnknownNameError
from optimizer.kernels.tensix.index_expr import IndexMap
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import (
    BlockType,
    CircularBufferType,
    IndexType,
    PipeNetType,
    PipeType,
    SemaphoreType,
    TensorType,
    TileType,
    TransferType,
)

COMPUTE, DATA_MOVEMENT = "ttl.compute_thread", "ttl.datamovement_thread"
DST_MARKERS = ("ttl.require_dst", "ttl.acquire_dst", "ttl.release_dst")
BOTH = (COMPUTE, DATA_MOVEMENT)
SEMAPHORE, PIPE, PIPE_NET = "ttl.create_semaphore", "ttl.create_pipe", "ttl.create_pipenet"
DECLARED = ("ttl.bind_cb", SEMAPHORE, PIPE, PIPE_NET)
"""What stands in the program beside its threads."""
IF_SRC, IF_DST = "ttl.if_pipe_src", "ttl.if_pipe_dst"
BLOCK_COMPUTE = "ttl.block_compute"
NESTED = ("ttl.for", "ttl.if", IF_SRC, IF_DST)
"""Ops of a thread with ops of the same level in their region."""
SPILL, RESTORE = "ttl.spill_tile_to_l1", "ttl.restore_tile_from_l1"
L1_SUM, L1_SUM_END = "dst.l1_sum", "dst.l1_sum_end"
"""The packer adds to L1 from here on, but for the first round of a loop; it does not any more."""
TILE_PREFIX, BLOCK_PREFIX, DST_PREFIX, CALL_PREFIX = "ttl.tile_", "ttl.", "dst.", "ttkernel."


@dataclass(frozen=True)
class OpSpec:
    """What the verifier holds an op to."""

    operands: tuple[type, ...] | None = ()
    """Type of each operand; None: any number of any type."""
    results: tuple[type, ...] | None = ()
    attrs: Mapping[str, type] = MappingProxyType({})
    """Attributes that must be there."""
    optional: Mapping[str, type] = MappingProxyType({})
    regions: int = 0
    threads: tuple[str, ...] = BOTH
    """Threads it may stand in; empty: outside of threads only."""
    terminator: bool = False


_CONFIG = {
    "math_fidelity": str, "fp32_dest_acc_en": bool, "dst_full_sync_en": bool, "math_approx_mode": bool,
    "dst_capacity": int, "l1_bytes": int, "block_factors": tuple, "origin": tuple,
}  # fmt: skip
_PLACED = {"tensor": str, "page_size": int, "core_ranges": tuple, "unpack_to_dst": bool}
_NEST = {"indexing_maps": tuple, "iterator_types": tuple, "bounds": tuple, "inputs": int}
_DIMS = {"dims": int}
_PARTS = {"parts": bool}
"""Pushed, or waited for, section by section: `push_sections`."""
_ONLY_COMPUTE = (COMPUTE,)
_ONLY_MOVEMENT = (DATA_MOVEMENT,)

_STRUCTURE = {
    "ttl.program": OpSpec(attrs={"sym_name": str, "grid": tuple}, optional=_CONFIG, regions=1, threads=()),
    "ttl.bind_cb": OpSpec((), (CircularBufferType,), {"index": int}, _PLACED, threads=()),
    COMPUTE: OpSpec(attrs={"sym_name": str}, regions=1, threads=()),
    DATA_MOVEMENT: OpSpec(attrs={"sym_name": str, "processor": str}, regions=1, threads=()),
    "ttl.for": OpSpec(None, (), {"lower": int, "step": int}, {"upper": int}, regions=1),
    "ttl.if": OpSpec(None, (), {"tests": tuple}, regions=1),
    "ttl.runtime_arg": OpSpec((), (IndexType,), {"name": str}),
    "ttl.lookup": OpSpec((IndexType,), (IndexType,), {"values": tuple}),
    "ttl.counter": OpSpec((), (IndexType,)),
    "ttl.advance": OpSpec((IndexType,), (), {"modulus": int}),
    "ttl.cb_base": OpSpec((CircularBufferType,), (IndexType,), threads=_ONLY_MOVEMENT),
    "ttl.constant": OpSpec((), (IndexType,), {"value": int}),
    "ttl.index": OpSpec(None, (IndexType,), {"map": IndexMap}),
    "ttl.core": OpSpec((), None, {}, _DIMS),
    "ttl.grid_size": OpSpec((), None, {}, _DIMS),
    "ttl.core_linear": OpSpec((), (IndexType,)),
    "ttl.core_coordinate": OpSpec((), (IndexType,), {"axis": int}),
    "ttl.grid_slice": OpSpec((TensorType,), (IndexType, IndexType), {}, {"block_factors": tuple}),
}
_BUFFERS = {
    "ttl.cb_wait": OpSpec((CircularBufferType,), (BlockType,), {}, _PARTS),
    "ttl.cb_pop": OpSpec((CircularBufferType,)),
    "ttl.cb_reserve": OpSpec((CircularBufferType,), (BlockType,)),
    "ttl.cb_push": OpSpec((CircularBufferType,), (), {}, _PARTS),
    "ttl.cb_push_part": OpSpec((CircularBufferType,), (), {"tiles": int}, threads=_ONLY_COMPUTE),
    "ttl.copy_in": OpSpec((TensorType, IndexType, IndexType, BlockType), (TransferType,), threads=_ONLY_MOVEMENT),
    "ttl.copy_out": OpSpec((BlockType, TensorType, IndexType, IndexType), (TransferType,), threads=_ONLY_MOVEMENT),
    "ttl.transfer_wait": OpSpec((TransferType,), threads=_ONLY_MOVEMENT),
    "ttl.store": OpSpec((BlockType, BlockType), (), {}, {"accumulate": bool}, threads=_ONLY_COMPUTE),
}
_TARGETS = {"dst_core": tuple, "dst_core_range": tuple, "src_receives": bool}
_ON_CORE = (SemaphoreType, IndexType, IndexType, IndexType)
_CROSS_CORE = {
    SEMAPHORE: OpSpec((), (SemaphoreType,), {"initial": int}, threads=()),
    PIPE: OpSpec((), (PipeType,), {"src_core": tuple}, _TARGETS, threads=()),
    PIPE_NET: OpSpec(None, (PipeNetType,), threads=()),
    "ttl.semaphore_wait": OpSpec((SemaphoreType, IndexType), threads=_ONLY_MOVEMENT),
    "ttl.semaphore_wait_min": OpSpec((SemaphoreType, IndexType), threads=_ONLY_MOVEMENT),
    "ttl.semaphore_set": OpSpec((SemaphoreType, IndexType), threads=_ONLY_MOVEMENT),
    "ttl.semaphore_set_remote": OpSpec(_ON_CORE, threads=_ONLY_MOVEMENT),
    "ttl.semaphore_inc_remote": OpSpec(_ON_CORE, threads=_ONLY_MOVEMENT),
    "ttl.semaphore_set_multicast": OpSpec(
        (SemaphoreType, IndexType), (), {"core_range": tuple}, threads=_ONLY_MOVEMENT
    ),
    IF_SRC: OpSpec((PipeNetType,), (), regions=1, threads=_ONLY_MOVEMENT),
    IF_DST: OpSpec((PipeNetType,), (), regions=1, threads=_ONLY_MOVEMENT),
    "ttl.send": OpSpec((BlockType, PipeType), (TransferType,), threads=_ONLY_MOVEMENT),
    "ttl.receive": OpSpec((PipeType, BlockType), (TransferType,), threads=_ONLY_MOVEMENT),
}
_REGIONS = {
    "ttl.compute_region": OpSpec(None, None, {}, {"keep_in_dst": bool}, regions=1, threads=_ONLY_COMPUTE),
    BLOCK_COMPUTE: OpSpec(regions=1, threads=_ONLY_COMPUTE),
    "ttl.compute": OpSpec(None, None, _NEST, regions=1, threads=_ONLY_COMPUTE),
    "ttl.yield": OpSpec(None, (), threads=_ONLY_COMPUTE, terminator=True),
    "ttl.require_dst": OpSpec(None, (), threads=_ONLY_COMPUTE),
    "ttl.acquire_dst": OpSpec((), (IndexType,), {}, {"index": int}, threads=_ONLY_COMPUTE),
    "ttl.release_dst": OpSpec((IndexType,), (), threads=_ONLY_COMPUTE),
    SPILL: OpSpec(None, (TileType,), threads=_ONLY_COMPUTE),
    RESTORE: OpSpec((TileType,), (TileType,), {}, {"dst": IndexMap, "form": int}, threads=_ONLY_COMPUTE),
}
_REGISTERS = {
    f"ttl.tile_regs_{step}": OpSpec(threads=_ONLY_COMPUTE) for step in ("acquire", "commit", "wait", "release")
}
SPECS: Mapping[str, OpSpec] = MappingProxyType({**_STRUCTURE, **_BUFFERS, **_CROSS_CORE, **_REGIONS, **_REGISTERS})
"""All ops but block ops, tile ops and calls, whose specs follow from their names."""


def spec_of(name: str) -> OpSpec:
    """The spec of an op. UnknownNameError if there is none."""
    if name in SPECS:
        return SPECS[name]
    if name.startswith((CALL_PREFIX, DST_PREFIX)):
        return OpSpec(None, None)
    tile = name.startswith(TILE_PREFIX)
    op = TILE_OPS.get(name.removeprefix(TILE_PREFIX if tile else BLOCK_PREFIX))
    if op is None:
        raise UnknownNameError("kernel op", name, [*SPECS, *(f"ttl.{n}" for n in TILE_OPS)])
    value = TileType if tile else BlockType
    operands = None if tile else (value,) * op.arity
    numbers: dict[str, type] = dict.fromkeys(op.attrs, float)
    return OpSpec(operands, (value,), numbers, {"dst": IndexMap, "form": int}, threads=_ONLY_COMPUTE)


def is_block_op(op: Op) -> bool:
    """Whether an op works on whole blocks, element by element or otherwise."""
    return op.name.startswith(BLOCK_PREFIX) and op.name.removeprefix(BLOCK_PREFIX) in TILE_OPS


def stores_sum(op: Op) -> bool:
    """Whether an op adds to what its room holds: a block per round of the loop around it."""
    return op.name == "ttl.store" and bool(op.attr("accumulate", False))
