"""A region as `Work`: what its kernel does on the busiest core, counted in the kernel, timed by the OpModel's formulas.

Calls of the compute thread are counted with their loops. TTNN's ops are the measure: a function on a tile takes
what the op of that name takes per tile, a norm at least what TTNN's norm does, and the kernel starts as slowly as the
slowest of its ops. How far a kernel of one op is from that op: `docs/fusing-by-time.md`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.fusion.lowering import compute_threads, lowered, program_of
from optimizer.fusion.placement import Kind, Operand
from optimizer.fusion.regions import Region, blocks_of
from optimizer.fusion.sharing import by_writer, senders, shared
from optimizer.ir.graph import Op as GraphOp
from optimizer.ir.opdef import CostClass, short_name
from optimizer.ir.vocabulary import COPY, opdef
from optimizer.kernels.tensix.compute_config import compute_config
from optimizer.kernels.tensix.dialect import CALL_PREFIX
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.types import CircularBufferType
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.analytical.timing import Timing
from optimizer.opmodel.analytical.work import Compute, Feed, Kernel, Piece, Place, Transfer, Work
from optimizer.opmodel.base import CostPart, OpCost

_FAMILIES = {
    CostClass.ELTWISE: "eltwise",
    CostClass.MATMUL: "matmul",
    CostClass.SOFTMAX: "norm",
    CostClass.NORM: "norm",
    CostClass.REDUCE: "reduce",
}
"""Time formula of the ops that a region may hold."""
_RATED = ("norm", "reduce")
_SMALL = (Kind.ROW, Kind.COLUMN, Kind.SCALAR)
"""Parts of a frame that TTNN's ops read on every core, too, at no charge for the one bank that then serves them all."""
_NAMES = {
    "negative": "neg", "recip": "reciprocal", "power": "pow", "sub": "subtract", "mul": "multiply", "div": "divide",
    "rsub": "rsub", "max": "maximum", "min": "minimum", "binary_max": "maximum", "binary_min": "minimum",
    "unary_max": "maximum", "unary_min": "minimum", "copy_dest_values": "fill", "rounding_op": "floor",
}  # fmt: skip
"""Function of the kernel API -> op of TTNN."""
_ON_SFPU = ("add_binary", "sub_binary", "mul_binary", "rsub_binary")
"""Sums and products of two tiles in DST: one pass of the SFPU, while TTNN's ops are on the FPU."""
_FPU = re.compile(r"(add|sub|mul)_(reuse_dest_)?tiles(_bcast_(rows|cols|scalar))?")
_BROUGHT = ("copy_tile", "transpose_tile", "unary_bcast")
_PRODUCTS = (f"{CALL_PREFIX}matmul_tiles", f"{CALL_PREFIX}matmul_block")
_TILE_ARGS = 5
"""Arguments of `matmul_tiles`; `matmul_block` has the block's shape besides."""
_SETUP = re.compile(r".*_(un)?init|.*reconfig_data_format|compute_kernel_hw_startup|.*_init_\w+|pack_reconfig_l1_acc")


@dataclass
class _Counted:
    """Calls of a compute thread, added up."""

    arithmetic: Counter[tuple[str, int]] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    blocks: set[tuple[int, int]] = field(default_factory=set)
    """Rows and columns of products that one call computes."""

    def take(self, ops: tuple[Op, ...], times: int) -> None:
        for op in ops:
            if op.name == "ttl.for":
                trips = range(op.integer("lower"), op.integer("upper"), op.integer("step"))
                self.take(op.body.ops, times * len(trips))
            elif op.name.startswith(CALL_PREFIX):
                self._call(op, op.name.removeprefix(CALL_PREFIX), times)

    def _call(self, op: Op, name: str, times: int) -> None:
        if name.startswith("cb_"):
            self.sums["waits"] += times
        elif name == "tile_regs_acquire":
            self.sums["sections"] += times
        elif name.startswith("tile_regs_"):
            return
        elif name in ("pack_tile", "pack_block"):
            self.sums["packed"] += times * (int(op.strings("args")[2]) if name == "pack_block" else 1)
        elif op.name in _PRODUCTS:
            args = op.strings("args")
            columns, rows = (1, 1) if len(args) == _TILE_ARGS else (int(args[6]), int(args[7]))
            self.sums["products"] += times * columns * rows
            self.blocks.add((rows, columns))
        elif _SETUP.fullmatch(name):
            self.sums["inits"] += times
        else:
            self.sums["unpacked_bytes"] += times * sum(_tile_bytes(op))
            self.arithmetic[_priced_as(name)] += times


def _tile_bytes(op: Op) -> Iterator[int]:
    """Of the tiles that a call brings from circular buffers."""
    for v in op.operands:
        if isinstance(v.type, CircularBufferType):
            yield v.type.dtype.tile_bytes


def _priced_as(function: str) -> tuple[str, int]:
    """(op of TTNN with the same cost per tile, operands in DST) of a function of the kernel API."""
    if function in _BROUGHT:
        return ("copy", 0)
    if function == "reduce_tile":
        return ("reduce", 0)
    if found := _FPU.fullmatch(function):
        return (_NAMES.get(found[1], found[1]), 0)
    if function == "copy_dest_values":
        return ("fill", 0)
    stem = function.removesuffix("_tile")
    if stem == function:
        raise StateError(f"no time is known of {function}")
    if stem in _ON_SFPU:
        return ("square", 2)
    name = stem.removesuffix("_binary").removesuffix("_unary")
    operands = 3 if name == "where" else 2 if "binary" in stem else 0 if name == "fill" else 1
    return (_NAMES.get(name, name), operands)


@cache
def compute_of(program: Op, arch: str) -> Compute:
    """What the compute thread of a lowered program does."""
    return _computed(program, arch, [op for thread in compute_threads(program) for op in thread.body.ops])


@cache
def compute_in_turn(program: Op, arch: str) -> tuple[Compute, Compute]:
    """The same of a program that sums a product up in a loop: up to the end of that loop, and after it."""
    ops = [op for thread in compute_threads(program) for op in thread.body.ops]
    end = 1 + next(n for n, op in enumerate(ops) if any(inner.name in _PRODUCTS for inner in walk(op)))
    return _computed(program, arch, ops[:end]), _computed(program, arch, ops[end:])


def _computed(program: Op, arch: str, ops: Sequence[Op]) -> Compute:
    """What some ops of the compute thread do."""
    counted = _Counted()
    counted.take(tuple(ops), 1)
    arithmetic = tuple((name, operands, times) for (name, operands), times in sorted(counted.arithmetic.items()))
    sums, config = counted.sums, compute_config(program, arch)
    return Compute(
        arithmetic,
        sums["unpacked_bytes"],
        sums["packed"],
        sums["sections"],
        sums["inits"],
        sums["waits"],
        sums["products"],
        config.math_fidelity,
        config.fp32_dest_acc_en,
        min(counted.blocks, key=prod, default=(1, 1)),
    )


def work_of(region: Region, program: Op, layouts: Mapping[str, TensorLayout], device: DeviceSpec) -> Work:
    """A region's kernel; `program`: its calls of the kernel API."""
    local = any(o.kind is Kind.LEFT and o.resident for o in region.inputs)
    writer = tuple(o for o in region.inputs if by_writer(region, o))
    k_block = region.scheme.k_block
    compute, after = compute_in_turn(program, device.arch) if k_block else (compute_of(program, device.arch), None)
    kernel = Kernel(
        replace(compute, local=local),
        blocks_of(region).count,
        tuple(_transfers(region, tuple(o for o in region.inputs if o not in writer), layouts, device)),
        tuple(_transfers(region, writer, layouts, device)),
        tuple(_transfers(region, region.outputs, layouts, device)),
        tuple((short_name(op.op), _family(op)) for op in region.ops),
        tuple(_rated(region, device)),
        next(o.depth for o in region.inputs if o.depth) // k_block if k_block else 1,
        after,
    )
    return Work("kernel", "kernel", region.home.cores, kernel=kernel)


def _family(op: GraphOp) -> str:
    return "reshard" if op.op == COPY else _FAMILIES[opdef(op.op).cost_class]


def _transfers(
    region: Region, operands: tuple[Operand, ...], layouts: Mapping[str, TensorLayout], device: DeviceSpec
) -> Iterator[Transfer]:
    """Of the tensors that do not lie on the region's cores."""
    blocks = blocks_of(region)
    multicast = shared(region)
    for o in operands:
        if o.resident:
            continue
        once, layout = blocks.once(o.kind), layouts[o.value]
        bursts = 1 if once else blocks.count
        tiles = prod(blocks.of(o.kind, o.depth)) * bursts
        if o.depth and region.scheme.k_block:
            bursts = o.depth // region.scheme.k_block
        pipes = senders(region.home, o.kind) if o in multicast else ()
        spec = layout.shard_spec
        holders = device.dram_banks if layout.is_dram else device.num_cores if spec is None else spec.num_cores
        yield Transfer(
            tiles,
            o.dtype.tile_bytes,
            bursts,
            Place.DRAM if layout.is_dram else Place.L1,
            holders if o.kind in _SMALL else prod(o.tiles),
            holders,
            once and blocks.count > 1,
            bool(o.depth),
            _feed(region, o, layout, bool(pipes)),
            len(pipes),
            len(pipes) == 1 and all(last - first > 1 for first, last in pipes[0].ranges),
        )


def _feed(region: Region, operand: Operand, layout: TensorLayout, multicast: bool) -> Feed | None:
    """How a matmul of TTNN would say that an operand is brought."""
    if not region.scheme.multicast or not (multicast or operand.depth):
        return None
    if layout.is_dram:
        return Feed.DRAM_SHARED if multicast else Feed.DRAM_EACH
    return Feed.L1_SHARED if multicast else Feed.L1_EACH


def _rated(region: Region, device: DeviceSpec) -> Iterator[tuple[Work, Compute]]:
    """Norms and reductions, of which TTNN's time per tile is known as a whole."""
    for op in region.ops:
        family = _family(op)
        if family in _RATED:
            tiles = region.home.tiles * region.home.cores
            piece = Piece(tiles * region.dtype.tile_bytes, tiles, Place.SHARD)
            work = Work(family, short_name(op.op), region.home.cores, (piece,), (piece,))
            yield work, compute_of(lowered(program_of(region.alone(op)), device), device.arch)


def cost_of(region: Region, program: Op, layouts: Mapping[str, TensorLayout], device: DeviceSpec) -> OpCost:
    """The predicted time of a region's kernel, and its traffic with DRAM."""
    work = work_of(region, program, layouts, device)
    assert work.kernel is not None
    found = Timing(device.arch, device.clock_mhz).breakdown(work)
    part = CostPart("kernel", found.total_ns, found.start_ns, tuple(found.terms.items()), found.tail_ns)
    read, written = (
        sum(x.tiles * x.tile_bytes * (x.readers or work.cores) for x in moved if x.place is Place.DRAM)
        for moved in ((*work.kernel.reads, *work.kernel.read_by_writer), work.kernel.writes)
    )
    return OpCost(found.time_ns, found.bound, read, written, (part,))
