"""A region as a kernel program: reader, compute and writer over the blocks of one core's shard.

    reader    pushes what lies on the core already as it is; brings the rest, tile by tile
    compute   the ops on one block after the other, values between them in DST
    writer    pops what stays on the core; takes the rest where it belongs

Circular buffers of tensors that lie on the core are those tensors' shards: nothing is copied. Blocks are those of
`regions.py`. Names in the program are numbered, so equal kernels have equal texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.fusion.operations import FUSED_OPS
from optimizer.fusion.placement import Kind, Operand
from optimizer.fusion.regions import Region, blocks_of
from optimizer.fusion.sharing import by_writer, rectangle, senders, shared
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op as GraphOp
from optimizer.ir.vocabulary import COPY, opdef
from optimizer.kernels.tensix.dialect import COMPUTE, DATA_MOVEMENT, IF_DST, IF_SRC
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, const, dim
from optimizer.kernels.tensix.ir import Attr, Op, Value, attributes
from optimizer.kernels.tensix.ir import Region as Body
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.types import (
    BlockType,
    CircularBufferType,
    IndexType,
    PipeNetType,
    PipeType,
    TensorType,
    TransferType,
)

_FACTORS = (Kind.LEFT, Kind.RIGHT)


def program_of(region: Region) -> Op:
    """The `ttl.program` of a region. Its arguments are the inputs `x0`, `x1`, ..., then the outputs `y0`, ..."""
    return _Lowering(region).program()


@lru_cache(maxsize=4096)
def lowered(program: Op, device: DeviceSpec) -> Op:
    """The program as calls of the kernel API, kept as regions are often alike. InfeasibleError, or LimitError where its
    circular buffers do not fit into a core's L1, among other limits."""
    return lower(program, KernelOptions(board=device), verify_passes=False)


def compute_threads(program: Op) -> tuple[Op, ...]:
    """The threads of a program that compute."""
    return tuple(op for op in program.body.ops if op.name == COMPUTE)


@dataclass
class _Thread:
    """Ops of a thread, or of a loop in one."""

    ops: list[Op] = field(default_factory=list)

    def emit(self, name: str, operands: Sequence[Value] = (), result: Value | None = None, **attrs: Attr) -> None:
        results = () if result is None else (result,)
        self.ops.append(Op(name, tuple(operands), results, attributes(attrs)))

    def inside(self, name: str, operands: Sequence[Value] = (), arguments: Sequence[Value] = (), **attrs: Attr) -> Op:
        """An op with these ops in it."""
        return Op(name, tuple(operands), (), attributes(attrs), (Body(tuple(arguments), tuple(self.ops)),))


class _Lowering:
    def __init__(self, region: Region) -> None:
        self.region = region
        self.blocks = blocks_of(region)
        self.count = 0
        self.operands = [*region.inputs, *region.outputs]
        names = [f"x{k}" for k in range(len(region.inputs))] + [f"y{k}" for k in range(len(region.outputs))]
        self.tensors = [Value(n, self._tensor_type(o)) for n, o in zip(names, self.operands, strict=True)]
        self.buffers = [Value(f"{n}_cb", self._buffer_type(o)) for n, o in zip(names, self.operands, strict=True)]
        self.inputs = range(len(region.inputs))
        self.outputs = range(len(region.inputs), len(self.operands))
        self.sum = Value("sum_cb", CircularBufferType(self.blocks.shape, region.dtype, 1))
        """Where a product over several pieces of depth is summed up."""
        multicast = {o.value for o in shared(region)}
        self.nets = {k: Value(f"x{k}_net", PipeNetType()) for k in self.inputs if self.operands[k].value in multicast}

    # -- the program -------------------------------------------------------------------------------------
    def program(self) -> Op:
        region = self.region
        wide = region.dtype is DType.F32 or region.needs_rows or region.multiplies
        rows, columns = region.home.grid
        attrs: dict[str, Attr] = {"sym_name": "kernel", "grid": (columns, rows), "fp32_dest_acc_en": wide}
        size, core_map = rectangle(region.home), region.home.core_map
        if self.nets and size is not None and core_map is not None:  # pipes are between cores, not between shards
            attrs |= {"grid": size, "origin": core_map.origin}
        threads = (self._compute(), self._movement("reader"), self._movement("writer"))
        ops = (*self._binds(), *self._pipes(), *threads)
        return Op("ttl.program", (), (), attributes(attrs), (Body(tuple(self.tensors), ops),))

    def _binds(self) -> list[Op]:
        binds = []
        for k, (operand, cb) in enumerate(zip(self.operands, self.buffers, strict=True)):
            attrs: dict[str, Attr] = {"index": k}
            if operand.resident:
                attrs["tensor"] = self.tensors[k].name
            binds.append(Op("ttl.bind_cb", (), (cb,), attributes(attrs)))
        if self.region.scheme.k_block:
            binds.append(Op("ttl.bind_cb", (), (self.sum,), attributes({"index": len(self.operands)})))
        return binds

    def _pipes(self) -> Iterator[Op]:
        """Of every operand that is multicast."""
        for k, net in self.nets.items():
            pipes = []
            for n, pipe in enumerate(senders(self.region.home, self.operands[k].kind)):
                pipes.append(Value(f"x{k}_pipe{n}", PipeType()))
                attrs = attributes({"src_core": pipe.source, "dst_core_range": pipe.ranges, "src_receives": False})
                yield Op("ttl.create_pipe", (), (pipes[-1],), attrs)
            yield Op("ttl.create_pipenet", tuple(pipes), (net,))

    def _tensor_type(self, operand: Operand) -> TensorType:
        """Of a resident operand the core's shard, of others the whole tensor."""
        shard = operand.kind.tiles(*self.region.home.shard, operand.depth)
        return TensorType(shard if operand.resident else operand.tiles, operand.dtype)

    def _buffer_type(self, operand: Operand) -> CircularBufferType:
        if self.in_pieces(operand):
            k_block = self.region.scheme.k_block
            count = operand.depth // k_block if operand.resident else 2
            return CircularBufferType(self.blocks.of(operand.kind, k_block), operand.dtype, count)
        count = 1 if self._once(operand) else self.blocks.count if operand.resident else 2
        return CircularBufferType(self.blocks.of(operand.kind, operand.depth), operand.dtype, count)

    def in_pieces(self, operand: Operand) -> bool:
        """Whether an operand of a product comes piece by piece along its depth."""
        return bool(self.region.scheme.k_block and operand.depth)

    def _once(self, operand: Operand) -> bool:
        return self.blocks.once(operand.kind)

    def value(self, type_: BlockType | IndexType | TransferType | PipeType, stem: str = "") -> Value:
        self.count += 1
        return Value(f"{stem}{self.count - 1}", type_)

    def _loop(self, thread: _Thread, inner: _Thread, counter: Value, rounds: int) -> None:
        """The inner ops so many times."""
        thread.ops.append(inner.inside("ttl.for", (), (counter,), lower=0, upper=rounds, step=1))

    def _pieces(self) -> int:
        """Pieces of the depth."""
        return next(o.depth for o in self.operands if o.depth) // self.region.scheme.k_block

    # -- compute -------------------------------------------------------------------------------------------
    def _compute(self) -> Op:
        thread, inner = _Thread(), _Thread()
        body = thread if self.blocks.count == 1 else inner
        values: dict[str, Value] = {}
        product = self._summed(thread) if self.region.scheme.k_block else None
        taken = [k for k in self.inputs if not self.in_pieces(self.operands[k])]
        for k in taken:
            target = thread if self._once(self.operands[k]) else body
            values[self.operands[k].value] = self._take(target, "ttl.cb_wait", k)
        rooms = {k: self._take(body, "ttl.cb_reserve", k) for k in self.outputs}
        writer = _BlockWriter(self, body, values, product)
        for op in self.region.ops:
            writer.write(op)
        for k, room in rooms.items():
            body.emit("ttl.store", (values[self.operands[k].value], room))
        for k in taken:
            if not self._once(self.operands[k]):
                body.emit("ttl.cb_pop", (self.buffers[k],))
        for k in self.outputs:
            body.emit("ttl.cb_push", (self.buffers[k],))
        if body is inner:
            self._loop(thread, inner, self.value(IndexType(), "n"), self.blocks.count)
        for k in taken:
            if self._once(self.operands[k]):
                thread.emit("ttl.cb_pop", (self.buffers[k],))
        if product is not None:
            thread.emit("ttl.cb_pop", (self.sum,))
        return thread.inside(COMPUTE, sym_name="compute")

    def _summed(self, thread: _Thread) -> Value:
        """The region's product, summed up piece by piece along its depth."""
        block = self.sum.typed(CircularBufferType).block
        room, total = self.value(block), self.value(block)
        inner = _Thread()
        cbs = [next(self.buffers[k] for k in self.inputs if self.operands[k].kind is kind) for kind in _FACTORS]
        factors = [self.value(cb.typed(CircularBufferType).block) for cb in cbs]
        thread.emit("ttl.cb_reserve", (self.sum,), room)
        for cb, factor in zip(cbs, factors, strict=True):
            inner.emit("ttl.cb_wait", (cb,), factor)
        product = self.value(block)
        inner.emit("ttl.matmul", factors, product)
        inner.emit("ttl.store", (product, room), accumulate=True)
        for cb in cbs:
            inner.emit("ttl.cb_pop", (cb,))
        self._loop(thread, inner, self.value(IndexType(), "n"), self._pieces())
        thread.emit("ttl.cb_push", (self.sum,))
        thread.emit("ttl.cb_wait", (self.sum,), total)
        return total

    def _take(self, thread: _Thread, what: str, k: int) -> Value:
        cb = self.buffers[k]
        block = self.value(cb.typed(CircularBufferType).block)
        thread.emit(what, (cb,), block)
        return block

    # -- data movement -------------------------------------------------------------------------------------
    def _movement(self, kind: str) -> Op:
        thread = _Thread()
        brings = [k for k in self.inputs if by_writer(self.region, self.operands[k]) == (kind == "writer")]
        chosen = [*brings, *(self.outputs if kind == "writer" else ())]
        where: tuple[Value, ...] = ()
        if any(not self.operands[k].resident for k in chosen):
            where = (self.value(IndexType(), "x"), self.value(IndexType(), "y"))
            thread.ops.append(Op("ttl.core", (), where, attributes({"dims": 2})))
        if pieces := [k for k in chosen if self.in_pieces(self.operands[k])]:
            self._repeat(thread, pieces, where, self._pieces())
        whole = [k for k in chosen if k not in pieces]
        for k in whole:
            if self._once(self.operands[k]):
                self._transfer(thread, k, where)
        each = [k for k in whole if not self._once(self.operands[k])]
        if self.blocks.count == 1:
            for k in each:
                self._transfer(thread, k, where)
        elif each:
            self._repeat(thread, each, where, self.blocks.count)
        return thread.inside(DATA_MOVEMENT, sym_name=kind, processor=kind)

    def _repeat(self, thread: _Thread, chosen: Sequence[int], where: tuple[Value, ...], rounds: int) -> None:
        """One block or piece of each operand per round."""
        inner, counter = _Thread(), self.value(IndexType(), "n")
        for k in chosen:
            self._transfer(inner, k, (*where, counter) if where else ())
        self._loop(thread, inner, counter, rounds)

    def _transfer(self, thread: _Thread, k: int, where: tuple[Value, ...]) -> None:
        """One block of an operand; `where`: the core's coordinates and, within a loop, the number of its round."""
        at: list[Value] = []
        if not self.operands[k].resident:
            at = [self._index(thread, e, where) for e in self._first_tile(self.operands[k], len(where))]
        if k not in self.nets:
            self._moved(thread, k, at)
            return
        for role in (IF_SRC, IF_DST):
            inner, pipe = _Thread(), self.value(PipeType(), "pipe")
            self._moved(inner, k, at if role == IF_SRC else (), pipe)
            thread.ops.append(inner.inside(role, (self.nets[k],), (pipe,)))

    def _moved(self, thread: _Thread, k: int, at: Sequence[Value], pipe: Value | None = None) -> None:
        """One block read or written at this row and column, and sent through a pipe; or received from there."""
        reads = k in self.inputs
        block = self._take(thread, "ttl.cb_reserve" if reads else "ttl.cb_wait", k)
        moves: list[tuple[str, tuple[Value, ...]]] = []
        if at and reads:
            moves.append(("ttl.copy_in", (self.tensors[k], *at, block)))
        elif at:
            moves.append(("ttl.copy_out", (block, self.tensors[k], *at)))
        if pipe is not None:
            moves.append(("ttl.send", (block, pipe)) if at else ("ttl.receive", (pipe, block)))
        for name, operands in moves:
            moved = self.value(TransferType(), "moved")
            thread.emit(name, operands, moved)
            thread.emit("ttl.transfer_wait", (moved,))
        thread.emit("ttl.cb_push" if reads else "ttl.cb_pop", (self.buffers[k],))

    def _first_tile(self, operand: Operand, rank: int) -> tuple[IndexExpr, IndexExpr]:
        """Row and column of an operand's first tile, of the core's coordinates and the number of the block or piece."""
        core_map = self.region.home.core_map
        if core_map is None:
            raise StateError(f"'{operand.value}' is brought to cores that do not know their shards")
        if self.nets:  # the grid begins at the first core
            core_map = replace(core_map, origin=(0, 0))
        row, column = core_map.first_tile(self.region.home.shard, dim(0), dim(1))
        if self.in_pieces(operand):
            along = dim(2) * self.region.scheme.k_block
            return (row, along) if operand.kind is Kind.LEFT else (along, column)
        if rank > 2:
            row = row + dim(2) // self.blocks.across * self.blocks.shape[0]
            column = column + dim(2) % self.blocks.across * self.blocks.shape[1]
        return row if operand.kind.has_rows else const(0), column if operand.kind.has_columns else const(0)

    def _index(self, thread: _Thread, expr: IndexExpr, where: tuple[Value, ...]) -> Value:
        value = self.value(IndexType(), "at")
        if expr.is_const:
            thread.emit("ttl.constant", (), value, value=expr.value)
        else:
            thread.emit("ttl.index", where, value, map=IndexMap(len(where), (expr,)))
        return value


class _BlockWriter:
    """Block ops of the compute thread; see `operations.BlockWriter`."""

    def __init__(self, lowering: _Lowering, thread: _Thread, values: dict[str, Value], product: Value | None) -> None:
        self._lowering, self._thread, self._values = lowering, thread, values
        self._product = product
        """Of the region's one product, if it is summed up already."""
        self._region = lowering.region
        self._shape = lowering.blocks.shape
        self._kind: dict[str, Kind] = {values[o.value].name: o.kind for o in self._region.inputs if o.value in values}
        if product is not None:
            self._kind[product.name] = Kind.FULL
            self._values |= {o.value: product for o in self._region.inputs if lowering.in_pieces(o)}
        self._ones: Value | None = None

    @property
    def columns(self) -> int:
        return self._region.shape[-1]

    def write(self, op: GraphOp) -> None:
        """One op of the region."""
        operands = [self._values[v] for v in op.inputs]
        if op.op == COPY:
            self._values[op.outputs[0]] = operands[0]
            return
        self._values[op.outputs[0]] = FUSED_OPS[op.op].recipe(self, opdef(op.op).full_attrs(op), operands)

    # -- what recipes call ---------------------------------------------------------------------------------
    def op(self, name: str, *operands: Value, **attrs: float) -> Value:
        values = list(operands)
        kinds = [self._kind[v.name] for v in values]
        wanted = _joined(kinds)
        if len(values) == 2 and name in ("add", "sub", "mul") and kinds[0] is not kinds[1]:
            if kinds[0] is not wanted and name != "sub":
                values, kinds = values[::-1], kinds[::-1]
            if kinds[0] is wanted:
                return self._emit(f"{name}_bcast_{_AXIS[kinds[1]]}", values, wanted, attrs)
        values = [self._repeated(v, wanted) for v in values]
        return self._emit(name, values, wanted, attrs)

    def fill(self, value: float) -> Value:
        return self._emit("fill", [], Kind.FULL, {"value": value})

    def matmul(self, left: Value, right: Value) -> Value:
        if self._product is not None:
            return self._product
        return self._emit("matmul", [left, right], Kind.FULL, {})

    def reduce(self, kind: str, operand: Value) -> Value:
        if self._ones is None:
            self._ones = self._emit("fill", [], Kind.SCALAR, {"value": 1.0})
        return self._emit(f"reduce_{kind}_row", [operand, self._ones], Kind.COLUMN, {})

    def _repeated(self, v: Value, wanted: Kind) -> Value:
        kind = self._kind[v.name]
        return v if kind is wanted else self._emit(f"bcast_{_AXIS[kind]}", [v], wanted, {})

    def _emit(self, name: str, operands: list[Value], kind: Kind, attrs: dict[str, float]) -> Value:
        shape = self._lowering.blocks.of(kind)
        result = self._lowering.value(BlockType(shape, self._region.dtype))
        self._kind[result.name] = kind
        self._thread.emit(f"ttl.{name}", operands, result, **attrs)
        return result


_AXIS = {Kind.ROW: "row", Kind.COLUMN: "col", Kind.SCALAR: "scalar"}


def _joined(kinds: Sequence[Kind]) -> Kind:
    """What operands of these kinds make together."""
    found = set(kinds) - {Kind.SCALAR}
    if len(found) > 1 or Kind.FULL in found:
        return Kind.FULL
    return found.pop() if found else Kind.SCALAR
