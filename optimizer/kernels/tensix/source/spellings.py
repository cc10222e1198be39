"""How ops may be written in text besides the one way in which they are printed, and result types that may be left out.

written                                           read as
ttl.block_add(%a, %b), ttl.math.add(%a, %b)       ttl.add(%a, %b)
ttl.block_reduce_sum(%x, %ones) {axis = 1}        ttl.reduce_sum_row(%x, %ones)
ttl.block_reduce_max(%x) {axis = 1}               ttl.fill {value = 1.0}, ttl.reduce_max_row of that and %x
ttl.block_bcast(%s) {axis = 1}                    ttl.bcast_col(%s)
ttl.block_store(%room, %value)                    ttl.store(%value, %room)
ttl.cb_pop(%block), ttl.cb_push(%room)            the same of their circular buffer
ttl.create_cb {shape = [2, 2], element_type = "bf16", buffer_factor = 2}      ttl.bind_cb : cb<2x2xbf16, 2>
ttl.tensor_accessor(%tensor)                      nothing: the tensor itself
ttl.compute_region ins(%x) outs(%room) {...}      ttl.compute_region(%x) {...}, ttl.store of its result

What a program says about itself is gone once it is read (`settled`):

ttl.bind_cb without an index                      the lowest free index
^(%x: tensor<..>, %n: index) {compile_time_args = [1], compile_time_values = [8]}
                                                  no %n; ttl.constant {value = 8} in every thread that reads it
memory_space = "L1" | "DRAM", tiled = true        nothing: accessors find tensors in either, blocks are of tiles
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from optimizer.errors import FormatError, GraphError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, SPECS, spec_of
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes, substitute, walk
from optimizer.kernels.tensix.rounding import FORMAT_NUMBERS, widest
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, TileType, TransferType, Type
from optimizer.kernels.tensix.verify import block_result_shape

REDUCED: Mapping[tuple[int, ...], str] = MappingProxyType({(1,): "row", (0,): "col", (0, 1): "scalar"})
"""tt-metal's name of a reduction along these dimensions."""
BROADCAST: Mapping[tuple[int, ...], str] = MappingProxyType({(0,): "row", (1,): "col", (0, 1): "scalar"})
"""tt-metal's name of a broadcast along these dimensions."""
_PREFIXES = ("ttl.block_", "ttl.math.", BLOCK_PREFIX)
_ALONG = {"reduce_sum": REDUCED, "reduce_max": REDUCED, "bcast": BROADCAST}
_CREATED = {"cb_index": "index", "buffer_index": "index"}
_DESCRIBED = ("shape", "element_type", "buffer_factor")
"""Attributes of `ttl.create_cb` that are in the type of its result."""


@dataclass(frozen=True)
class Written:
    """An op as it is written; `rooms` are the blocks of `outs(...)`, `types` is empty where they are left out."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[str, ...]
    types: tuple[Type, ...]
    attrs: Mapping[str, Attr]
    regions: tuple[Region, ...] = ()
    rooms: tuple[Value, ...] = ()


@dataclass
class Spellings:
    """What one text says, op by op."""

    same: dict[str, Value] = field(default_factory=dict)
    """Names that stand for a value with another one."""
    _acquired: set[str] = field(default_factory=set)
    """Registers that are acquired."""
    _buffer: dict[str, Value] = field(default_factory=dict)
    """Block -> its circular buffer."""

    def ops(self, written: Written) -> tuple[Op, ...]:
        """The ops that are meant. FormatError (without a place) if that is not clear."""
        if written.name == "ttl.tensor_accessor":
            self._accessor(written)
            return ()
        written = self._renamed(written)
        scaler = tuple(_missing_scaler(written))
        if scaler:
            written = replace(written, operands=(*written.operands, scaler[0].result))
        written = _stored(written)
        types = written.types or _types(written)
        if len(types) != len(written.results):
            raise FormatError(f"{written.name} has {len(written.results)} results and {len(types)} result types")
        results = tuple(Value(n, t) for n, t in zip(written.results, types, strict=True))
        op = Op(written.name, written.operands, results, attributes(written.attrs), written.regions)
        if op.name in ("ttl.cb_wait", "ttl.cb_reserve") and op.operands and results:
            self._buffer[results[0].name] = op.operands[0]
        if op.name == "ttl.acquire_dst":
            self._acquired.update(v.name for v in results)
        stores = (Op("ttl.store", pair) for pair in zip(results, written.rooms, strict=True)) if written.rooms else ()
        return (*scaler, op, *stores)

    def _accessor(self, written: Written) -> None:
        if len(written.results) != 1 or len(written.operands) != 1:
            raise FormatError("ttl.tensor_accessor takes a tensor and gives its accessor")
        self.same[written.results[0]] = written.operands[0]

    def _renamed(self, written: Written) -> Written:
        name, attrs = written.name, dict(written.attrs)
        register = attrs.pop("dst_reg", None)
        if register is not None and str(register)[1:] not in self._acquired:
            raise FormatError(f"attribute 'dst_reg' is {register}, which no ttl.acquire_dst gives")
        written = replace(written, attrs=attrs)
        short = _short(name)
        if name in ("ttl.block_store", "ttl.math.store"):
            return replace(written, name="ttl.store", operands=written.operands[::-1])
        if short in _ALONG:
            axes = _axes(attrs.pop("axis", None), name)
            return replace(written, name=f"{BLOCK_PREFIX}{short}_{_ALONG[short][axes]}", attrs=attrs)
        if short in TILE_OPS:
            return replace(written, name=BLOCK_PREFIX + short)
        if name in ("ttl.cb_pop", "ttl.cb_push"):
            operands = tuple(self._buffer.get(v.name, v) for v in written.operands)
            return replace(written, operands=operands)
        return _bound(written) if name in ("ttl.create_cb", "ttl.bind_cb") else written


def _short(name: str) -> str:
    """What a block op is called by itself; empty for other ops."""
    if name in SPECS:
        return ""
    found = next((name.removeprefix(p) for p in _PREFIXES if name.startswith(p)), "")
    return {"broadcast": "bcast"}.get(found, found)


def _axes(axis: Attr | None, name: str) -> tuple[int, ...]:
    found = axis if isinstance(axis, tuple) else (axis,)
    numbers = tuple(sorted(n for n in found if isinstance(n, int) and not isinstance(n, bool)))
    if numbers not in REDUCED or len(numbers) != len(found):
        raise FormatError(f"{name} lacks attribute 'axis': 0 (down the rows), 1 (along the columns) or [0, 1]")
    return numbers


def _bound(written: Written) -> Written:
    """A circular buffer, whose type may be given by attributes."""
    given = dict(written.attrs)
    attrs: dict[str, Attr] = {_CREATED.get(key, key): v for key, v in given.items() if key not in _DESCRIBED}
    if attrs.get("memory_space", "L1") != "L1":
        raise FormatError(f"circular buffers lie in L1, not in {attrs['memory_space']}")
    attrs.pop("memory_space", None)
    types = written.types
    if any(key in given for key in _DESCRIBED):
        wanted = _described(given, types)
        if types not in ((), (wanted,)):
            raise FormatError(f"{written.name} says {wanted} by its attributes and {types[0]} by its type")
        types = (wanted,)
    return replace(written, name="ttl.bind_cb", attrs=attrs, types=types)


def _described(given: Mapping[str, Attr], types: Sequence[Type]) -> CircularBufferType:
    """The type that attributes say; what they leave out is that of the type that is written."""
    known = next((t for t in types if isinstance(t, CircularBufferType)), None)
    shape = given.get("shape", known.shape if known else None)
    element = str(given.get("element_type", TileType(known.dtype) if known else ""))
    count = given.get("buffer_factor", known.block_count if known else 2)
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(type(n) is int for n in shape):
        raise FormatError("attribute 'shape' of a circular buffer is rows and columns of tiles")
    if element in {d.value for d in DType}:
        raise FormatError(
            f"a circular buffer of {element} elements is row-major: unpacker, packer and every op work on tiles; "
            f"element_type = tile<{element}> has them"
        )
    dtype = next((d for d in DType if str(TileType(d)) == element), None)
    if dtype is None:
        raise FormatError(f"attribute 'element_type' of a circular buffer is a tile type, not {element!r}")
    if type(count) is not int:
        raise FormatError(f"attribute 'buffer_factor' of a circular buffer is a number of blocks, not {count!r}")
    rows, columns = (int(str(n)) for n in shape)
    return CircularBufferType((rows, columns), dtype, count)


def _missing_scaler(written: Written) -> Iterator[Op]:
    """A tile of ones, for a reduction that names no scaler."""
    reduces = written.name.startswith(f"{BLOCK_PREFIX}reduce_")
    if not reduces or len(written.operands) != 1 or len(written.results) != 1:
        return
    wide = getattr(written.operands[0].type, "dtype", None) is DType.F32
    ones = Value(f"{written.results[0]}.ones", BlockType((1, 1), DType.F32 if wide else DType.BF16))
    yield Op(f"{BLOCK_PREFIX}fill", (), (ones,), attributes({"value": 1.0}))


def _stored(written: Written) -> Written:
    """With a result for every block of `outs(...)`."""
    if written.rooms and not written.results:
        return replace(written, results=tuple(f"{v.name}.value" for v in written.rooms))
    if written.rooms and len(written.rooms) != len(written.results):
        raise FormatError(f"{written.name} has {len(written.results)} results and {len(written.rooms)} blocks in outs")
    return written


# -- result types -----------------------------------------------------------------------------------------
def _types(written: Written) -> tuple[Type, ...]:
    """Types of results that follow from the operands. FormatError if they do not."""
    if not written.results:
        return ()
    name = written.name
    first = written.operands[0].type if written.operands else None
    if name in ("ttl.cb_wait", "ttl.cb_reserve") and isinstance(first, CircularBufferType):
        return (first.block,)
    if name == "ttl.compute_region" and written.regions and written.regions[0].ops:
        return tuple(v.type for v in written.regions[0].ops[-1].operands)
    if name in ("ttl.core", "ttl.grid_size"):
        return (IndexType(),) * len(written.results)
    if name.removeprefix(BLOCK_PREFIX) in TILE_OPS:
        return (_block_type(name.removeprefix(BLOCK_PREFIX), written),)
    try:
        kinds = spec_of(name).results
    except UnknownNameError as error:
        raise FormatError(error.message) from error
    if kinds and set(kinds) <= {IndexType, TransferType}:
        return tuple(kind() for kind in kinds)
    raise FormatError(f"{name} has {len(written.results)} results and 0 result types")


def _block_type(name: str, written: Written) -> BlockType:
    blocks = [v.type for v in written.operands if isinstance(v.type, BlockType)]
    if len(blocks) != len(written.operands) or len(blocks) != TILE_OPS[name].arity or not blocks:
        raise FormatError(f"the result type of {written.name} does not follow from its operands")
    shape = block_result_shape(name, tuple(b.shape for b in blocks))
    if shape is None:
        raise FormatError(f"operands {', '.join(map(str, blocks))} do not fit each other")
    if name == "typecast":
        target = written.attrs.get("target")
        dtype = next((d for d, number in FORMAT_NUMBERS.items() if number == target), None)
        if dtype is None:
            raise FormatError(f"attribute 'target' of {written.name} is no number of an element type: {target!r}")
        return BlockType(shape, dtype)
    return BlockType(shape, widest(b.dtype for b in blocks))


# -- program spellings ------------------------------------------------------------------------------------
_SPACES = ("L1", "DRAM")
_CONSTANTS = ("compile_time_args", "compile_time_values")


def settled(program: Op) -> Op:
    """The program in the form that is printed; other ops as they are. GraphError if it contradicts itself."""
    if program.name != "ttl.program" or len(program.regions) != 1:
        return program
    return _numbered(_baked(_where(program)))


def _where(program: Op) -> Op:
    attrs = dict(program.attrs)
    space = attrs.pop("memory_space", "L1")
    if space not in _SPACES:
        raise GraphError(f"tensors lie in {' or '.join(_SPACES)}, not in {space}", node=program.name)
    if attrs.pop("tiled", True) is not True:
        raise GraphError(
            "row-major tensors are not read: unpacker, packer and every op work on tiles; ttnn.to_layout makes them",
            node=program.name,
        )
    return replace(program, attrs=attributes(attrs))


def _baked(program: Op) -> Op:
    """With a constant in every thread for each argument that is one."""
    args = program.body.args
    named, numbers = (_whole_numbers(program, name) for name in _CONSTANTS)
    positions = tuple(n for n, v in enumerate(args) if isinstance(v.type, IndexType))
    if named != positions or len(numbers) != len(positions):
        raise GraphError(
            f"compile_time_args names the arguments that are indices ({list(positions)}), compile_time_values has a "
            f"number for each: {list(named)}, {list(numbers)}",
            node=program.name,
        )
    if not positions:
        return program
    known = dict(zip((args[n].name for n in positions), numbers, strict=True))
    ops = tuple(_with_constants(op, known, n) for n, op in enumerate(program.body.ops))
    tensors = tuple(v for v in args if v.name not in known)
    body = replace(program.body, args=tensors, ops=ops)
    return replace(program, regions=(body,)).without_attrs(*_CONSTANTS)


def _whole_numbers(program: Op, name: str) -> tuple[int, ...]:
    value = program.attr(name, ())
    items = value if isinstance(value, tuple) else (value,)
    found = tuple(n for n in items if isinstance(n, int) and not isinstance(n, bool))
    if found != value:
        raise GraphError(f"attribute '{name}' is no list of whole numbers", node=program.name)
    return found


def _with_constants(thread: Op, known: dict[str, int], number: int) -> Op:
    read = {v.name for op in walk(thread) for v in op.operands} & known.keys()
    if not read:
        return thread
    values = {name: Value(f"{name}.{number}", IndexType()) for name in sorted(read)}
    constants = tuple(Op("ttl.constant", (), (v,), attributes({"value": known[name]})) for name, v in values.items())
    thread = substitute(thread, values)
    return thread.with_body((*constants, *thread.body.ops))


def _numbered(program: Op) -> Op:
    binds = [op for op in program.body.ops if op.name == "ttl.bind_cb"]
    used = {op.attr("index") for op in binds if op.has_attr("index")}
    free = iter([n for n in range(2 * len(binds)) if n not in used])

    def index(op: Op) -> Op:
        lacks = op.name == "ttl.bind_cb" and not op.has_attr("index")
        return op.with_attrs(index=next(free)) if lacks else op

    return program.with_body(tuple(map(index, program.body.ops)))
