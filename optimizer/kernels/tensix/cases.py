"""Tile DAG cases (JSON, "neutral tile DAG v1") as programs, and what the compiler did with them.

    {"cases": [{"id", "inputs": [names], "outputs": [names], "ops": [{"name", "op", "args": [names]}], "yield": [names],
                "block": [rows, columns], "dtype": "bf16" | "f32", "capacity": slots}]}

Circular buffer `i` holds input `i`, then come the outputs. The reader brings one block of every input, the writer takes
one of every output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.errors import FormatError, TtoptError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import COMPUTE, DATA_MOVEMENT
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode
from optimizer.kernels.tensix.dst.plan import BodyPlan, plan_body
from optimizer.kernels.tensix.dst.seed_allocator import SeedPlan, seed_plan
from optimizer.kernels.tensix.emit_cpp import KernelSource
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes
from optimizer.kernels.tensix.pipeline import KernelOptions, compile_program
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, TensorType, TransferType


@dataclass(frozen=True)
class TileCase:
    """One case, checked."""

    id: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: tuple[tuple[str, TileNode], ...]
    """Name and node; arguments count inputs first."""
    yields: tuple[str, ...]
    block: tuple[int, int]
    dtype: DType
    capacity: int

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.inputs, *(name for name, _ in self.ops))

    @property
    def dag(self) -> TileDag:
        numbers = {name: k for k, name in enumerate(self.names)}
        yields = tuple(numbers[y] for y in self.yields)
        return TileDag(len(self.inputs), tuple(node for _, node in self.ops), yields, self.dtype.value)


def read_cases(document: Any) -> tuple[TileCase, ...]:
    """Cases of a decoded document. FormatError names the case and the field."""
    cases = document.get("cases") if isinstance(document, Mapping) else document
    if not isinstance(cases, Sequence) or isinstance(cases, str):
        raise FormatError("a document of tile cases has a list 'cases'", node="cases")
    return tuple(_case(record, k) for k, record in enumerate(cases))


def _case(record: Any, number: int) -> TileCase:
    place = f"cases[{number}]"
    if not isinstance(record, Mapping):
        raise FormatError("a case is an object", node=place)
    place = str(record.get("id", place))
    inputs, outputs = _names(record, "inputs", place), _names(record, "outputs", place)
    known = {name: k for k, name in enumerate(inputs)}
    ops: list[tuple[str, TileNode]] = []
    for op in record.get("ops", ()):
        node = _node(op, known, place)
        known[str(op["name"])] = len(known)
        ops.append((str(op["name"]), node))
    yields = _names(record, "yield", place)
    for name in yields:
        if name not in known:
            raise UnknownNameError("value in 'yield'", name, known, node=place)
    if len(yields) != len(outputs):
        raise FormatError(f"{len(outputs)} outputs, but {len(yields)} values are yielded", node=place)
    block = record.get("block", (1, 1))
    if not isinstance(block, Sequence) or len(block) != 2 or not all(type(b) is int and b > 0 for b in block):
        raise FormatError(f"'block' is rows and columns of tiles, got {block!r}", node=place)
    dtype = record.get("dtype", "bf16")
    if dtype not in ("bf16", "f32"):
        raise FormatError(f"'dtype' is bf16 or f32, got {dtype!r}", node=place)
    capacity = record.get("capacity", 8 if dtype == "bf16" else 4)
    if type(capacity) is not int or not 1 <= capacity <= 16:
        raise FormatError(f"'capacity' is 1 to 16 slots, got {capacity!r}", node=place, limit=16)
    return TileCase(place, inputs, outputs, tuple(ops), yields, (block[0], block[1]), DType(dtype), capacity)


def _names(record: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    names = record.get(key)
    if not isinstance(names, Sequence) or isinstance(names, str) or not all(isinstance(n, str) for n in names):
        raise FormatError(f"'{key}' is a list of names, got {names!r}", node=place)
    if key == "inputs" and len(set(names)) != len(names):
        raise FormatError(f"'{key}' names a value twice", node=place)
    return tuple(names)


def _node(op: Any, known: Mapping[str, int], place: str) -> TileNode:
    if not isinstance(op, Mapping) or not {"name", "op", "args"} <= set(op):
        raise FormatError(f"an op has 'name', 'op' and 'args', got {op!r}", node=place)
    name, kind, args = str(op["name"]), str(op["op"]), op["args"]
    if name in known:
        raise FormatError(f"value '{name}' is defined twice", node=place)
    if kind not in TILE_OPS:
        raise UnknownNameError("tile op", kind, TILE_OPS, node=f"{place}: {name}")
    if len(args) != TILE_OPS[kind].arity:
        raise FormatError(f"'{kind}' takes {TILE_OPS[kind].arity} operands, got {len(args)}", node=f"{place}: {name}")
    for a in args:
        if a not in known:
            raise UnknownNameError("operand", str(a), known, node=f"{place}: {name}")
    given = op.get("attrs", {})
    missing = [a for a in TILE_OPS[kind].attrs if a not in given]
    if missing:
        raise FormatError(f"'{kind}' needs 'attrs' with {', '.join(missing)}", node=f"{place}: {name}")
    attrs = tuple((a, float(given[a])) for a in TILE_OPS[kind].attrs)
    return TileNode(kind, tuple(known[a] for a in args), attrs)


# -- programs ---------------------------------------------------------------------------------------------
def case_program(case: TileCase) -> Op:
    """Reader, compute and writer threads for one block."""
    block = BlockType(case.block, case.dtype)
    names = (*case.inputs, *case.outputs)
    tensors = [Value(f"{name}_t", TensorType(case.block, case.dtype)) for name in names]
    buffers = [Value(f"{name}_cb", CircularBufferType(case.block, case.dtype, 2)) for name in names]
    binds = [Op("ttl.bind_cb", (), (cb,), attributes({"index": k})) for k, cb in enumerate(buffers)]
    count = len(case.inputs)
    reader = _movement("reader", tensors[:count], buffers[:count], block)
    writer = _movement("writer", tensors[count:], buffers[count:], block)
    compute = _compute(case, block, buffers)
    wide = case.dtype is DType.F32
    config: dict[str, Attr] = {"fp32_dest_acc_en": wide, "dst_capacity": case.capacity}
    attrs = attributes({"sym_name": case.id, "grid": (1, 1), **config})
    return Op("ttl.program", (), (), attrs, (Region(tuple(tensors), (*binds, reader, compute, writer)),))


def _compute(case: TileCase, block: BlockType, buffers: list[Value]) -> Op:
    count = len(case.inputs)
    values = [Value(name, block) for name in case.names]
    ops = [Op("ttl.cb_wait", (cb,), (v,)) for cb, v in zip(buffers[:count], values[:count], strict=True)]
    rooms = [Value(f"{name}_room", block) for name in case.outputs]
    ops += [Op("ttl.cb_reserve", (cb,), (room,)) for cb, room in zip(buffers[count:], rooms, strict=True)]
    for v, (_, node) in zip(values[count:], case.ops, strict=True):
        attrs = attributes(dict(node.attrs))
        ops.append(Op(f"ttl.{node.op}", tuple(values[a] for a in node.args), (v,), attrs))
    by_name = {v.name: v for v in values}
    ops += [Op("ttl.store", (by_name[y], room)) for y, room in zip(case.yields, rooms, strict=True)]
    ops += [Op("ttl.cb_pop", (cb,)) for cb in buffers[:count]]
    ops += [Op("ttl.cb_push", (cb,)) for cb in buffers[count:]]
    return Op(COMPUTE, (), (), attributes({"sym_name": "compute"}), (Region((), tuple(ops)),))


def _movement(kind: str, tensors: list[Value], buffers: list[Value], block: BlockType) -> Op:
    """One block of every tensor, in order."""
    reads = kind == "reader"
    zero = Value(f"{kind}_zero", IndexType())
    ops = [Op("ttl.constant", (), (zero,), attributes({"value": 0}))]
    for tensor, cb in zip(tensors, buffers, strict=True):
        at = Value(f"{cb.name}_{kind}", block)
        moved = Value(f"{cb.name}_{kind}_moved", TransferType())
        ops.append(Op("ttl.cb_reserve" if reads else "ttl.cb_wait", (cb,), (at,)))
        operands = (tensor, zero, zero, at) if reads else (at, tensor, zero, zero)
        ops.append(Op("ttl.copy_in" if reads else "ttl.copy_out", operands, (moved,)))
        ops.append(Op("ttl.transfer_wait", (moved,)))
        ops.append(Op("ttl.cb_push" if reads else "ttl.cb_pop", (cb,)))
    attrs = attributes({"sym_name": kind, "processor": kind})
    return Op(DATA_MOVEMENT, (), (), attrs, (Region((), tuple(ops)),))


# -- results -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CaseResult:
    """What became of a case: the record that is printed, and its kernels."""

    record: dict[str, Any]
    kernels: tuple[KernelSource, ...] = ()


def compile_case(case: TileCase, options: KernelOptions) -> CaseResult:
    """Plan and kernels of a case; a refusal is a record with its error."""
    try:
        kernels = compile_program(case_program(case), options)
        tiles = case.block[0] * case.block[1]
        if options.allocator == "seed":
            record = _seed_record(case, seed_plan(case.dag, tiles, case.capacity), tiles)
        else:
            record = _record(case, plan_body(case.dag, tiles, case.capacity))
    except TtoptError as error:
        empty = dict.fromkeys(
            ("dst", "loads", "footprint", "copies", "unroll", "sections", "max_dst", "spills", "relief")
        )
        return CaseResult({"id": case.id, **empty, "error": str(error)})
    return CaseResult({"id": case.id, **record, "error": None}, kernels)


def _record(case: TileCase, plan: BodyPlan) -> dict[str, Any]:
    """Slots of the first tile of a section, by value."""
    dst: dict[str, int] = {}
    known = {node: name for name, node in case.ops}
    for stage in plan.stages:
        slots = stage.slots
        unroll = min(plan.unroll, plan.tiles)
        where = {i.result: slots.slot(i.result, plan.scheme, unroll)[0] for i in slots.instructions}
        for i in slots.instructions:
            value = stage.inputs[i.value] if i.value < stage.dag.inputs else None
            name = case.names[value] if value is not None and value < len(case.inputs) else None
            if name is None and i.op not in ("copy", "copy_dst") and plan.dag.inputs == len(case.inputs):
                name = _node_name(case, plan, stage.dag.node(i.value), stage.inputs, known)
            if name is not None and i.op != "copy_dst":
                dst.setdefault(name, where[i.result])
    return {
        "dst": dst,
        "loads": sum(stage.slots.loads for stage in plan.stages),
        "footprint": max(stage.slots.footprint for stage in plan.stages),
        "copies": sum(stage.slots.copies for stage in plan.stages),
        "unroll": min(plan.unroll, plan.tiles),
        "sections": plan.sections,
        "max_dst": plan.max_dst,
        "spills": len(plan.spilled),
        "relief": plan.relief.value,
    }


def _node_name(
    case: TileCase, plan: BodyPlan, node: TileNode, inputs: tuple[int, ...], known: Mapping[TileNode, str]
) -> str | None:
    """Name of a node of a plan without splits: its arguments are numbered as in the case."""
    return known.get(node) if len(plan.stages) == 1 and inputs == tuple(range(len(case.inputs))) else None


def _seed_record(case: TileCase, plan: SeedPlan, tiles: int) -> dict[str, Any]:
    names = dict(enumerate(case.names))
    count: dict[int, int] = {}
    for copy, source in plan.copies.items():
        names[copy] = f"{case.names[source]}_copy_{count.get(source, 0)}"
        count[source] = count.get(source, 0) + 1
    return {
        "dst": {names[v]: slot for v, slot in sorted(plan.slots.items())},
        "loads": sum(v < len(case.inputs) for v in plan.slots),
        "footprint": plan.footprint,
        "copies": len(plan.copies),
        "unroll": plan.unroll,
        "sections": -(-tiles // plan.unroll),
        "max_dst": plan.footprint + plan.outputs * plan.unroll,
        "spills": 0,
        "relief": "none",
    }
