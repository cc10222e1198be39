"""What every op of a plan cannot do without: its share of the model's compulsory DRAM traffic, and its products.

The traffic of the model is every weight that does not lie in L1 between runs and every input, each read once, and every
output, written once, in the plan's element types and without padding. It counts for the op that first reads a weight or
an input, and for the one that writes an output; views move nothing. Products count at the peak of all worker cores at
the op's own fidelity; element-wise work counts nothing (docs/cost-model.md, "The physical limit").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.ir.compulsory import TILE, Products
from optimizer.ir.compute_config import PASSES, TILE_PRODUCT_CYCLES
from optimizer.ir.dtype import DType
from optimizer.ir.graph import STATIC, Graph, Op, Value, ValueKind
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.stated_compute import stated_compute
from optimizer.result import OptimizedGraph, Role

_TILE_ELEMENTS = TILE * TILE


@dataclass(frozen=True)
class OpLimit:
    """The least that one op takes on one board, in bytes, operations and nanoseconds."""

    dram_bytes: int = 0
    """Compulsory, all cores together."""
    flops: int = 0
    """Of products of elements, 2 per multiply-add."""
    dram_ns: float = 0.0
    """The bytes at the best bandwidth that kernels reach."""
    compute_ns: float = 0.0
    """The products of elements at the peak of all worker cores."""
    padded_ns: float = 0.0
    """The same with every matrix filled up to whole tiles."""

    @property
    def ns(self) -> float:
        """Both at once, neither waiting for the other."""
        return max(self.dram_ns, self.compute_ns)

    def __add__(self, other: OpLimit) -> OpLimit:
        """Of two ops that run as one."""
        return OpLimit(
            self.dram_bytes + other.dram_bytes,
            self.flops + other.flops,
            self.dram_ns + other.dram_ns,
            self.compute_ns + other.compute_ns,
            self.padded_ns + other.padded_ns,
        )


def op_limits(result: OptimizedGraph) -> dict[str, OpLimit]:
    """The limit of every op of a run that is not on the host, in schedule order."""
    graph, device = result.graph, result.device
    moved = _Compulsory(result).bytes_by_op()
    found = {}
    for op in graph.ops():
        if result.records[op.id].role is not Role.HOST:
            products, passes = _products(graph, op)
            peak = _ns_of_tile_product(device) * passes
            found[op.id] = OpLimit(
                moved.get(op.id, 0),
                2 * products.multiply_adds,
                moved.get(op.id, 0) / device.dram_best_gbps,
                products.multiply_adds / TILE**3 * peak,
                products.tile_products * peak,
            )
    return found


def _ns_of_tile_product(device: DeviceSpec) -> float:
    """Nanoseconds of a pass over 32x32x32 elements where all worker cores share it."""
    return TILE_PRODUCT_CYCLES * 1000.0 / device.clock_mhz / device.num_cores


def _products(graph: Graph, op: Op) -> tuple[Products, int]:
    """The products of an op, and the passes of each at the fidelity that its calls state."""
    row = opdef(op.op)
    if row.products is None:
        return Products(0, 0), 0
    stated: dict[str, Any] = dict(stated_compute(graph, op) or ())  # type: ignore[arg-type]
    shapes = [graph.value(v).shape for v in op.inputs]
    return row.products(row.full_attrs(op), shapes), PASSES[stated.get("fid", "LoFi")]


class _Compulsory:
    """Which op first reads a weight or an input from DRAM, and which writes an output there."""

    def __init__(self, result: OptimizedGraph) -> None:
        self._graph, self._layouts, self._records = result.graph, result.layouts, result.records
        self._run = [op for op in result.graph.ops() if result.records[op.id].role is not Role.HOST]
        self._homes = result.program.homes

    def bytes_by_op(self) -> dict[str, int]:
        """What is read of a value is as much as the reader takes that needs most of it."""
        reader: dict[str, str] = {}
        needed: dict[str, int] = {}
        found: dict[str, int] = {}
        outputs = {self._homes.get(v, v) for v in self._graph.outputs}
        for op in self._run:
            if self._records[op.id].role is Role.VIEW:
                continue
            for value, size in self._read(op):
                reader.setdefault(value, op.id)
                needed[value] = max(needed.get(value, 0), size)
            written = [v for v in op.outputs if v in outputs and self._layouts[v].is_dram]
            found[op.id] = sum(_stored_bytes(self._graph.value(v)) for v in written)
        for value, op_id in reader.items():
            found[op_id] += needed[value]
        return found

    def _read(self, op: Op) -> Iterator[tuple[str, int]]:
        """(value, bytes) of the weights and inputs that an op of a run needs from DRAM."""
        row = opdef(op.op)
        shapes, results = ([self._graph.value(v).shape for v in ids] for ids in (op.inputs, op.outputs))
        for k, v in enumerate(op.inputs):
            root = self._graph.value(self._homes.get(v, v))
            prepared = row.operand_page(k) is Page.HOST and root.kind in STATIC
            if (root.kind in STATIC or root.kind is ValueKind.INPUT) and (prepared or self._layouts[root.id].is_dram):
                elements = root.volume if row.opaque else row.must_read(row.full_attrs(op), k, shapes, results)
                yield root.id, _bytes(elements, self._read_as(op, k, root))

    def _read_as(self, op: Op, position: int, value: Value) -> DType:
        """The element type of a value in DRAM: convolutions have weights and bias prepared in one of their own."""
        config = self._records[op.id].config
        named = config.weights_dtype if isinstance(config, Conv2dConfig) and position else None
        return value.dtype if named is None else DType(named)


def _stored_bytes(value: Value) -> int:
    return _bytes(value.volume, value.dtype)


def _bytes(elements: int, dtype: DType) -> int:
    """Bytes of so many elements, with the exponents that block floats share."""
    return -(-elements * dtype.tile_bytes // _TILE_ELEMENTS)
