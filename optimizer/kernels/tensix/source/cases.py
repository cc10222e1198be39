"""Tile DAG cases (JSON, "neutral tile DAG v1") as programs, and what the compiler did with them.

    {"cases": [{"id", "inputs": [names], "outputs": [names], "ops": [{"name", "op", "args": [names]}], "yield": [names],
                "block": [rows, columns], "dtype": "bf16" | "f32", "capacity": slots, "l1_bytes": bytes}]}

Circular buffer `i` holds input `i`, then come the outputs. The reader brings one block of every input, the writer takes
one of every output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from optimizer.errors import FormatError, InfeasibleError, InputError, LimitError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import COMPUTE, DATA_MOVEMENT
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode
from optimizer.kernels.tensix.emit_cpp import KernelSource
from optimizer.kernels.tensix.emitted import emitted, slots_by_value
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes
from optimizer.kernels.tensix.launch import BuiltKernel, build
from optimizer.kernels.tensix.passes.assign_dst import dst_capacity
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.rules import MAX_INTEGER, MAX_OPS, MAX_TILES
from optimizer.kernels.tensix.source.text import IR_NAMES
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, TensorType, TransferType, Type
from optimizer.kernels.tensix.verify import MAX_CIRCULAR_BUFFERS
from optimizer.process.identifiers import Identifiers
from optimizer.process.json_document import Node, records
from optimizer.wording.documents import other_kind


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
    l1_bytes: int | None = None
    """What circular buffers may take of a core's L1; by default the board's."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.inputs, *(name for name, _ in self.ops))

    @property
    def dag(self) -> TileDag:
        numbers = {name: k for k, name in enumerate(self.names)}
        yields = tuple(numbers[y] for y in self.yields)
        return TileDag(len(self.inputs), tuple(node for _, node in self.ops), yields, self.dtype.value)


_CASE_KEYS = frozenset(("id", "inputs", "outputs", "ops", "yield", "block", "dtype", "capacity", "l1_bytes"))
_IGNORED_KEYS = frozenset(("source", "note", "expect", "ref", "kind"))
"""What documents say about a case besides."""
_OP_KEYS = frozenset(("name", "op", "args", "attrs"))
_SLOTS = {"bf16": 8, "f32": 4}
"""Of DST, by element type, where a case does not say."""


def read_cases(document: Any) -> tuple[TileCase, ...]:
    """Cases of a decoded document, which may be one by itself.

    FormatError, LimitError and UnknownNameError name the field: `cases[3].ops[2]`.
    """
    cases: list[TileCase] = []
    known: dict[str, str] = {}
    given = document.value if isinstance(document, Node) else document
    if (other := other_kind(given, "kernel")) is not None:
        raise FormatError(f"{other}; docs/formats.md describes tile DAGs")
    single = isinstance(given, Mapping) and "yield" in given
    for record in [Node(given, "")] if single else records(document):
        case = _case(record)
        if case.id in known:
            raise record.error(f"the id '{case.id}' is that of {known[case.id]}, too")
        known[case.id] = record.place
        cases.append(case)
    return tuple(cases)


def _case(record: Node) -> TileCase:
    fields = record.any_fields(("inputs", "outputs", "yield"))
    if unknown := sorted(set(fields) - _CASE_KEYS - _IGNORED_KEYS):
        raise UnknownNameError("field", unknown[0], _CASE_KEYS, node=record.place or None)
    place = record.place
    name = fields["id"].text() if "id" in fields else place or "kernel"
    inputs, outputs = (_names(fields[key], MAX_CIRCULAR_BUFFERS) for key in ("inputs", "outputs"))
    for key, names in (("inputs", inputs), ("outputs", outputs)):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise fields[key].error(f"names '{twice[0]}' twice")
    known = {name: n for n, name in enumerate(inputs)}
    ops: list[tuple[str, TileNode]] = []
    for op in fields["ops"].items(MAX_OPS) if "ops" in fields else ():
        made, node = _node(op, known)
        known[made] = len(known)
        ops.append((made, node))
    yields = _names(fields["yield"], MAX_CIRCULAR_BUFFERS)
    for y in yields:
        if y not in known:
            raise UnknownNameError("value in 'yield'", y, known, node=fields["yield"].place)
    if len(yields) != len(outputs):
        raise record.error(f"{len(outputs)} outputs, but {len(yields)} values are yielded")
    if not outputs:
        raise fields["outputs"].error("a case has at least one output")
    dtype = fields["dtype"].text(tuple(_SLOTS)) if "dtype" in fields else "bf16"
    most = dst_capacity(dtype == "f32", dst_full_sync_en=True)
    capacity = fields["capacity"].integer(1, most) if "capacity" in fields else _SLOTS[dtype]
    block = _block(fields["block"]) if "block" in fields else (1, 1)
    l1_bytes = fields["l1_bytes"].integer(0, MAX_INTEGER) if "l1_bytes" in fields else None
    return TileCase(name, inputs, outputs, tuple(ops), yields, block, DType(dtype), capacity, l1_bytes)


def _block(node: Node) -> tuple[int, int]:
    sides = node.items(2)
    if len(sides) != 2:
        raise node.error("rows and columns of tiles are due")
    rows, columns = (side.integer(1, MAX_TILES) for side in sides)
    if rows * columns > MAX_TILES:
        raise LimitError(f"a block of {rows} x {columns} tiles", node=node.place, limit=MAX_TILES)
    return rows, columns


def _names(node: Node, most: int) -> tuple[str, ...]:
    return tuple(item.text() for item in node.items(most))


def _node(record: Node, known: Mapping[str, int]) -> tuple[str, TileNode]:
    fields = record.fields(_OP_KEYS, ("name", "op", "args"))
    name, kind = fields["name"].text(), fields["op"].text()
    if name in known:
        raise fields["name"].error(f"value '{name}' is defined twice")
    if kind not in TILE_OPS:
        raise UnknownNameError("tile op", kind, TILE_OPS, node=fields["op"].place)
    op = TILE_OPS[kind]
    args = _names(fields["args"], MAX_OPS)
    if len(args) != op.arity:
        raise fields["args"].error(f"'{kind}' takes {op.arity} operands, got {len(args)}")
    for a in args:
        if a not in known:
            raise UnknownNameError("operand", a, known, node=fields["args"].place)
    attrs = fields["attrs"].fields(op.attrs) if "attrs" in fields else {}
    missing = [a for a in op.attrs if a not in attrs]
    if missing:
        raise record.error(f"'{kind}' needs 'attrs' with {', '.join(missing)}")
    numbers = tuple((a, attrs[a].number()) for a in op.attrs)
    return name, TileNode(kind, tuple(known[a] for a in args), numbers)


# -- programs ---------------------------------------------------------------------------------------------
def case_program(case: TileCase) -> Op:
    """Reader, compute and writer threads for one block. Names of the case become names of the IR."""
    return _Programmer(case).program()


class _Programmer:
    def __init__(self, case: TileCase) -> None:
        self._case = case
        self._names = Identifiers(IR_NAMES)
        self._block = BlockType(case.block, case.dtype)
        self._values = [self._value(name, self._block) for name in case.names]
        names = (*case.inputs, *case.outputs)
        self._tensors = [self._value(f"{name}_t", TensorType(case.block, case.dtype)) for name in names]
        self._buffers = [self._value(f"{name}_cb", CircularBufferType(case.block, case.dtype, 2)) for name in names]
        self._count = len(case.inputs)

    def _value(self, name: str, type_: Type) -> Value:
        return Value(self._names.fresh(name), type_)

    def program(self) -> Op:
        count, tensors, buffers = self._count, self._tensors, self._buffers
        binds = [Op("ttl.bind_cb", (), (cb,), attributes({"index": k})) for k, cb in enumerate(buffers)]
        reader = self._movement("reader", tensors[:count], buffers[:count])
        writer = self._movement("writer", tensors[count:], buffers[count:])
        wide = self._case.dtype is DType.F32
        config: dict[str, Attr] = {"fp32_dest_acc_en": wide, "dst_capacity": self._case.capacity}
        if self._case.capacity > dst_capacity(wide, dst_full_sync_en=False):
            config["dst_full_sync_en"] = True
        if self._case.l1_bytes is not None:
            config["l1_bytes"] = self._case.l1_bytes
        name = Identifiers(IR_NAMES).of(self._case.id)
        attrs = attributes({"sym_name": name, "grid": (1, 1), **config})
        threads = (reader, self._compute(), writer)
        return Op("ttl.program", (), (), attrs, (Region(tuple(tensors), (*binds, *threads)),))

    def _compute(self) -> Op:
        case, count, buffers, values = self._case, self._count, self._buffers, self._values
        ops = [Op("ttl.cb_wait", (cb,), (v,)) for cb, v in zip(buffers[:count], values[:count], strict=True)]
        rooms = [self._value(f"{name}_room", self._block) for name in case.outputs]
        ops += [Op("ttl.cb_reserve", (cb,), (room,)) for cb, room in zip(buffers[count:], rooms, strict=True)]
        for v, (_, node) in zip(values[count:], case.ops, strict=True):
            attrs = attributes(dict(node.attrs))
            ops.append(Op(f"ttl.{node.op}", tuple(values[a] for a in node.args), (v,), attrs))
        by_name = dict(zip(case.names, values, strict=True))
        ops += [Op("ttl.store", (by_name[y], room)) for y, room in zip(case.yields, rooms, strict=True)]
        ops += [Op("ttl.cb_pop", (cb,)) for cb in buffers[:count]]
        ops += [Op("ttl.cb_push", (cb,)) for cb in buffers[count:]]
        return Op(COMPUTE, (), (), attributes({"sym_name": "compute"}), (Region((), tuple(ops)),))

    def _movement(self, kind: str, tensors: list[Value], buffers: list[Value]) -> Op:
        """One block of every tensor, in order."""
        reads = kind == "reader"
        zero = self._value(f"{kind}_zero", IndexType())
        ops = [Op("ttl.constant", (), (zero,), attributes({"value": 0}))]
        for tensor, cb in zip(tensors, buffers, strict=True):
            at = self._value(f"{cb.name}_{kind}", self._block)
            moved = self._value(f"{cb.name}_{kind}_moved", TransferType())
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
    """What became of a case: the record that is printed, and its kernel if there is one."""

    record: dict[str, Any]
    kernel: BuiltKernel | None = None

    @property
    def kernels(self) -> tuple[KernelSource, ...]:
        """C++ of every thread."""
        return () if self.kernel is None else self.kernel.sources


_FIELDS = (
    *("dst", "loads", "footprint", "copies", "unroll", "sections", "inits", "max_dst", "spills", "relief", "computes"),
    "compute_config",
)
"""Of a record, between the id and the error."""


def compile_case(case: TileCase, options: KernelOptions) -> CaseResult:
    """Kernels of a case, and what they do; a refusal is a record with its error."""
    program = case_program(case)
    stages: dict[str, Op] = {}
    try:
        kernel = build(program, options, stages.__setitem__)
    except (InputError, InfeasibleError) as error:
        return CaseResult({"id": case.id, **dict.fromkeys(_FIELDS), "error": str(error)})
    dst = slots_by_value(stages["assign-dst"], case.names, [node for _, node in case.ops])
    figures = {"dst": dst, **asdict(emitted(stages["assign-dst"], stages["insert-inits"]))}
    config = kernel.launch.config.to_json()
    told = {key: figures[key] for key in _FIELDS if key in figures}
    return CaseResult({"id": case.id, **told, "compute_config": config, "error": None}, kernel)
