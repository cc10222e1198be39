"""Cost of an accepted query: its `Work` read off the query and its usage, timed by the formulas."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape
from optimizer.opmodel.analytical.case import Usage
from optimizer.opmodel.analytical.tensors import HEIGHT, TILED, tiles
from optimizer.opmodel.analytical.timing import Timing
from optimizer.opmodel.analytical.work import Piece, Place, Work
from optimizer.opmodel.base import OpCost, OpQuery, TensorSpec

_FAMILIES = {
    CostClass.MATMUL: "matmul",
    CostClass.CONV: "conv",
    CostClass.ELTWISE: "eltwise",
    CostClass.SOFTMAX: "norm",
    CostClass.NORM: "norm",
    CostClass.REDUCE: "reduce",
    CostClass.DATA_MOVEMENT: "movement",
    CostClass.LAYOUT: "reshard",
    CostClass.POOL: "pool",
    CostClass.UPSAMPLE: "movement",
    CostClass.EMBEDDING: "movement",
    CostClass.SDPA: "sdpa",
    CostClass.HOST: "view",
}
"""Formula of each cost class."""
_RETILING = frozenset({"ttnn.to_layout", "ttnn.tilize", "ttnn.tilize_with_zero_padding", "ttnn.untilize"})
_TRANSFERS = frozenset({"ttnn.from_device", "ttnn.to_device"})
_PARTIAL_READS = frozenset({"ttnn.slice", "ttnn.split", "ttnn.gather"})
"""Ops that read no more than they write."""


@lru_cache(maxsize=65536)
def piece(shape: tuple[int, ...], dtype: DType, layout: TensorLayout) -> Piece:
    """What moving a whole tensor takes."""
    rows, columns = tiles(shape)
    place = _place(layout)
    if layout.is_tile:
        return Piece(rows * columns * dtype.tile_bytes, rows * columns, place)
    count = prod(shape)
    sticks = count // shape[-1] if shape and shape[-1] else 0
    return Piece(count * dtype.element_bytes, max(1, count // (TILE * TILE)), place, sticks)


def _place(layout: TensorLayout) -> Place:
    if layout.is_host:
        return Place.HOST
    if layout.is_dram:
        return Place.DRAM
    return Place.SHARD if layout.is_sharded else Place.L1


class CostModel:
    """Time of accepted queries on one board."""

    def __init__(self, device: DeviceSpec) -> None:
        self.device = device
        self.timing = Timing(device.arch, device.clock_mhz)

    def cost(self, query: OpQuery, usage: Usage) -> OpCost:
        work = self.work(query, usage)
        time, bound = self.timing.time(work)
        read = sum(p.size for p in work.reads if p.place is Place.DRAM)
        write = sum(p.size for p in work.writes if p.place is Place.DRAM)
        return OpCost(time, bound, read, write)

    def work(self, query: OpQuery, usage: Usage) -> Work:
        """What the op does. An op whose results are not described is taken to write as much as it reads."""
        op = query.op
        reads = tuple(piece(t.shape, t.dtype, t.layout) for t in query.inputs)
        writes = tuple(piece(t.shape, t.dtype, t.layout) for t in usage.outputs) or reads[:1]
        if usage.view:
            return Work("view", op.removeprefix("ttnn."), 1)
        name = _short_name(query)
        if op in _TRANSFERS:
            return Work("transfer", name, 1, reads, writes)
        cores = max(1, min(usage.cores, self.device.num_cores))
        family = "tilize" if op in _RETILING else _FAMILIES[opdef(op).cost_class]
        if family in ("matmul", "conv", "sdpa") and len(query.inputs) > 1 and usage.outputs:
            attrs = dict(query.attrs)
            if family == "sdpa":
                return self._sdpa(query, name, cores, reads, writes)
            build = self._matmul if family == "matmul" else self._conv
            return build(query, usage, attrs, name, cores, reads, writes)
        if family in ("matmul", "conv", "sdpa"):
            family = "movement"
        if op in _PARTIAL_READS or name == "embedding":
            reads = tuple(_at_most(p, writes) for p in reads)
        if family == "reshard" and usage.outputs and query.inputs[0].layout.memory != usage.outputs[0].layout.memory:
            reads, writes = tuple(map(_across, reads)), tuple(map(_across, writes))
        passes = 1.0
        if family == "pool":
            kernel: Any = dict(query.attrs).get("kernel_size", (1, 1))
            passes = float(prod(kernel)) if isinstance(kernel, tuple) else float(kernel) ** 2
        return Work(family, name, cores, reads, writes, passes=passes, traits=_traits(query))

    def _matmul(
        self,
        query: OpQuery,
        usage: Usage,
        attrs: dict[str, Any],
        name: str,
        cores: int,
        reads: tuple[Piece, ...],
        writes: tuple[Piece, ...],
    ) -> Work:
        a, b, out = query.inputs[0], query.inputs[1], usage.outputs[0]
        rows, columns = tiles(out.shape)
        block = usage.block or (1, ceil_div(rows * columns, cores))
        depth = tiles(a.shape[-2:])[0 if attrs.get("transpose_a") else 1]
        traits = frozenset(("height_sharded",)) if a.layout.memory_layout is HEIGHT else frozenset[str]()
        return Work(
            "matmul", name, cores, reads, writes, block, usage.blocks, depth,
            (a.dtype.tile_bytes, b.dtype.tile_bytes), *_fidelity(attrs, "HiFi2"), traits=traits,
        )  # fmt: skip

    def _conv(
        self,
        query: OpQuery,
        usage: Usage,
        attrs: dict[str, Any],
        name: str,
        cores: int,
        reads: tuple[Piece, ...],
        writes: tuple[Piece, ...],
    ) -> Work:
        """A matmul of gathered windows; weights are read from DRAM wherever they are prepared."""
        weight, out = query.inputs[1], usage.outputs[0]
        rows, columns = tiles(out.shape)
        spec = out.layout.shard_spec
        block = (ceil_div(rows, cores), columns)
        if spec is not None and out.layout.is_l1:
            block = (ceil_div(spec.shape[0], TILE), ceil_div(spec.shape[1], TILE))
        channels = query.inputs[0].shape[-1]
        window = prod(weight.shape[2:]) if len(weight.shape) == 4 else 1
        depth = ceil_div(max(1, channels) * window, TILE)
        if spec is not None and out.layout.memory_layout is not HEIGHT:
            depth = max(1, depth)
        dtype = DType(attrs.get("weights_dtype") or weight.dtype)
        size = depth * columns * dtype.tile_bytes
        pieces = (reads[0], Piece(size, depth * columns, Place.DRAM), *reads[2:])
        pointwise = window == 1 and tuple(attrs.get("stride") or (1, 1)) == (1, 1)
        traits = frozenset(("height_sharded", "pointwise")) if pointwise else frozenset(("height_sharded",))
        if out.layout.memory_layout is not HEIGHT and out.layout.is_sharded:
            traits -= {"height_sharded"}
        return Work(
            "conv", name, cores, tuple(_at_home(p) for p in pieces), writes, block, 1, depth,
            (2048, dtype.tile_bytes), *_fidelity(attrs, "HiFi4"), traits=traits,
        )  # fmt: skip

    def _sdpa(self, query: OpQuery, name: str, cores: int, reads: tuple[Piece, ...], writes: tuple[Piece, ...]) -> Work:
        q, k = query.inputs[0], query.inputs[1]
        rows, width = tiles(q.shape)
        keys = padded_shape(k.shape, TILED)[-2] // TILE
        return Work(
            "sdpa", name, cores, reads, writes, (ceil_div(rows, cores), width), 1, keys,
            (q.dtype.tile_bytes, k.dtype.tile_bytes), *_fidelity(dict(query.attrs), "HiFi2"),
        )  # fmt: skip


def _short_name(query: OpQuery) -> str:
    """The name whose constants apply: retiling differs with padding, permutations by what they move."""
    name = query.op.removeprefix("ttnn.")
    if name == "to_layout":
        x = query.inputs[0]
        padded = padded_shape(x.shape, TILED) != x.shape
        if x.layout.is_tile:
            return "untilize_with_unpadding" if padded else "untilize"
        return "tilize_with_zero_padding" if padded else "tilize"
    if name == "permute":
        given = dict(query.attrs).get("dims", ())
        dims = given if isinstance(given, tuple) else ()
        rank = len(dims)
        last = rank > 1 and dims[-2:] == (rank - 1, rank - 2) and dims[:-2] == tuple(range(rank - 2))
        return "transpose" if last else "permute"
    if name == "transpose":
        attrs, rank = dict(query.attrs), len(query.inputs[0].shape)
        pair = (attrs.get("dim0", -2), attrs.get("dim1", -1))
        moved = [d for d in pair if isinstance(d, int) and d % rank == rank - 1]
        return "transpose" if moved else "transpose_hc"
    return name


_SPELLED = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}
"""Option `math_fidelity` -> tt-metal's spelling."""


def _fidelity(attrs: dict[str, Any], default: str) -> tuple[str, bool]:
    given = dict(attrs.get("compute") or ())
    chosen = _SPELLED.get(str(attrs.get("math_fidelity")), default)
    return (str(given.get("fid", chosen)), bool(given.get("fp32", False)))


def _at_most(part: Piece, writes: tuple[Piece, ...]) -> Piece:
    """An operand of which only what the results need is read."""
    size = min(part.size, sum(w.size for w in writes))
    count = min(part.tiles, sum(w.tiles for w in writes))
    sticks = min(part.sticks, max(1, sum(w.sticks or w.tiles for w in writes)))
    return Piece(size, count, part.place, sticks if part.sticks else 0)


def _across(part: Piece) -> Piece:
    """A shard that goes to another core."""
    return Piece(part.size, part.tiles, Place.L1, part.sticks) if part.place is Place.SHARD else part


def _at_home(part: Piece) -> Piece:
    return Piece(part.size, part.tiles, Place.DRAM, 0) if part.place is Place.HOST else part


def _traits(query: OpQuery) -> frozenset[str]:
    """Traits of an eltwise query."""
    inputs: tuple[TensorSpec, ...] = query.inputs
    traits = set()
    if inputs and inputs[0].dtype.tile_bytes == 4096:
        traits.add("wide")
    if len(inputs) > 1 and any(
        padded_shape(t.shape, TILED)[-2:] != padded_shape(inputs[0].shape, TILED)[-2:] for t in inputs[1:]
    ):
        traits.add("broadcast")
    return frozenset(traits)
