"""What a program that is given has to keep beyond `verify`, which holds for every stage: ops of the block level only,
exact types of attributes, numbers within limits, names that the text can spell.

The passes rely on these rules; a program that breaks one is refused before the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from optimizer.errors import GraphError, LimitError, near
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.compute_config import FIDELITIES
from optimizer.kernels.tensix.dialect import (
    BLOCK_COMPUTE,
    BLOCK_PREFIX,
    BOTH,
    COMPUTE,
    DATA_MOVEMENT,
    DECLARED,
    DST_MARKERS,
    NESTED,
    SPECS,
    is_block_op,
    spec_of,
)
from optimizer.kernels.tensix.grid import DEFAULT_DIMS
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap
from optimizer.kernels.tensix.ir import Attr, Op, Value, walk
from optimizer.kernels.tensix.passes.assign_dst import dst_capacity
from optimizer.kernels.tensix.rounding import FLOATS
from optimizer.kernels.tensix.source.block_rules import block_errors, buffer_errors, sum_errors
from optimizer.kernels.tensix.source.cross_core_rules import CROSS_CORE, LISTS, RULES, pipe_errors
from optimizer.kernels.tensix.source.index_rules import index_errors
from optimizer.kernels.tensix.source.placement_rules import placement_errors
from optimizer.kernels.tensix.source.text import IR_NAMES
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, TensorType, TileType
from optimizer.kernels.tensix.verify import MAX_SLOTS, check
from optimizer.process.json_document import FLOAT32_MAX

MAX_TILES = 1 << 24
"""Of a tensor or block."""
MAX_OPS = 2000
"""Of a program: planning takes time with the number of ops of a body."""
MAX_BLOCKS = 1 << 16
"""Of a circular buffer."""
MAX_GRID_RANK = 8
MAX_INTEGER = (1 << 31) - 1
"""Index arithmetic of kernels has 32 bits."""
PROCESSORS = ("reader", "writer")
_PROGRAM = "ttl.program"
_SOURCE = frozenset((
    _PROGRAM, "ttl.bind_cb", *BOTH, "ttl.for", "ttl.if", "ttl.runtime_arg", *CROSS_CORE, "ttl.constant",
    "ttl.index", "ttl.core", "ttl.grid_size",
    "ttl.core_linear", "ttl.grid_slice", "ttl.cb_wait", "ttl.cb_pop", "ttl.cb_reserve", "ttl.cb_push", "ttl.copy_in",
    "ttl.copy_out", "ttl.transfer_wait", "ttl.store", BLOCK_COMPUTE, "ttl.compute_region", "ttl.yield", *DST_MARKERS,
    *(f"{BLOCK_PREFIX}{name}" for name in TILE_OPS),
))  # fmt: skip
_IN_BLOCK_COMPUTE = (
    "ttl.cb_wait", "ttl.cb_pop", "ttl.cb_reserve", "ttl.cb_push", "ttl.store", "ttl.compute_region", *DST_MARKERS,
)  # fmt: skip
_RANGES = {
    "index": (0, MAX_INTEGER), "value": (-MAX_INTEGER, MAX_INTEGER), "lower": (0, MAX_INTEGER),
    "upper": (0, MAX_INTEGER), "step": (1, MAX_INTEGER), "dims": (1, MAX_GRID_RANK), "dst_capacity": (1, MAX_SLOTS),
    "l1_bytes": (0, MAX_INTEGER), "initial": (0, MAX_INTEGER),
}  # fmt: skip
"""Of attributes that are whole numbers."""
_LISTS_OF_LISTS = frozenset(("block_factors", "core_ranges"))
"""Attributes checked by `placement_rules`."""
_CHOICES = {"math_fidelity": FIDELITIES}
"""Of attributes that are text."""


def check_source(program: Op) -> None:
    """GraphError with the first rule that a given program breaks, LimitError where that is a limit."""
    count = sum(1 for _ in walk(program))
    if count > MAX_OPS:
        raise LimitError(f"a program of {count} ops", node=program.name, limit=MAX_OPS)
    if program.name != _PROGRAM:
        raise GraphError(f"a {_PROGRAM} is due", node=program.name)
    for place, error in _Rules().of(program, program.name, ""):
        if isinstance(error, _Limit):
            raise LimitError(error.message, node=place, limit=error.limit)
        raise GraphError(error, node=place)
    for place, message in (*buffer_errors(program), *_carried(program, program.name, frozenset())):
        raise GraphError(message, node=place)
    check(program)
    for place, message in (*sum_errors(program), *pipe_errors(program), *index_errors(program), *block_errors(program)):
        raise GraphError(message, node=place)


@dataclass(frozen=True)
class _Limit:
    message: str
    limit: int


_Errors = Iterator[tuple[str, str | _Limit]]


@dataclass
class _Rules:
    rooms: set[str] = field(default_factory=set)
    """Blocks that are reserved."""
    taken: set[str] = field(default_factory=set)
    """Blocks that are waited for or reserved, which have a circular buffer."""

    def of(self, op: Op, place: str, parent: str) -> _Errors:
        """Of an op and everything in it."""
        if op.name not in _SOURCE:
            yield place, f"'{op.name}' is what a pass makes, or nothing: a given program does not have it"
            return
        if len(op.regions) != spec_of(op.name).regions:
            yield place, f"has {len(op.regions)} regions, takes {spec_of(op.name).regions}"
            return
        yield from ((place, e) for e in _names(op))
        yield from ((place, e) for e in _attributes(op))
        if "sym_name" in spec_of(op.name).attrs and not op.has_attr("sym_name"):
            yield place, "has no name: '@NAME' is due behind it"
        for v in (*op.results, *(v for region in op.regions for v in region.args)):
            yield from ((place, e) for e in _type(v))
        rule = _RULES.get(op.name)
        if rule is not None:
            yield from ((place, e) for e in rule(op))
        yield from ((place, e) for e in self._context(op, parent))
        if op.name in ("ttl.cb_wait", "ttl.cb_reserve"):
            self.taken.update(v.name for v in op.results)
            self.rooms.update(v.name for v in op.results if op.name == "ttl.cb_reserve")
        for region in op.regions:
            for n, inner in enumerate(region.ops):
                yield from self.of(inner, f"{place} / {inner.name} #{n}", op.name)

    def _context(self, op: Op, parent: str) -> Iterator[str]:
        """What depends on where an op stands and what came before it."""
        if op.name == "ttl.yield" and parent != "ttl.compute_region":
            yield "may stand in a ttl.compute_region only"
        if parent == "ttl.compute_region" and not (is_block_op(op) or op.name in ("ttl.yield", *DST_MARKERS)):
            yield "does not stand in a ttl.compute_region, which holds block ops"
        if parent == BLOCK_COMPUTE and not (is_block_op(op) or op.name in _IN_BLOCK_COMPUTE):
            yield f"does not stand in a {BLOCK_COMPUTE}, which holds block ops, regions of them and circular buffers"
        if parent == _PROGRAM and op.name not in (*DECLARED, *BOTH):
            yield "does not stand in the program itself: circular buffers, semaphores, pipes and threads do"
        if op.name in (*DECLARED, *BOTH) and parent != _PROGRAM:
            yield "stands in the program itself only"
        if op.name == "ttl.store" and len(op.operands) == 2 and op.operands[1].name not in self.rooms:
            yield f"stores into {op.operands[1]}, which is not reserved"
        for v in op.operands if op.name in ("ttl.copy_in", "ttl.copy_out", "ttl.send", "ttl.receive") else ():
            if isinstance(v.type, BlockType) and v.name not in self.taken:
                yield f"{v} is no block of a circular buffer"


def _names(op: Op) -> Iterator[str]:
    symbol = dict(op.attrs).get("sym_name")
    named = [v.name for v in (*op.results, *(v for region in op.regions for v in region.args))]
    for name in (*named, *((symbol,) if isinstance(symbol, str) else ())):
        if IR_NAMES.kept.fullmatch(name) is None:
            yield f"a name has letters, digits, '_', '.' and '$', not {ascii(name)[:60]}"


def _carried(op: Op, place: str, outside: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Reads, within a loop, of what block ops outside of it made: DST does not keep it that long."""
    made: set[str] = set()
    for n, inner in enumerate(op.body.ops):
        here = f"{place} / {inner.name} #{n}"
        if any(region.ops for region in inner.regions):
            computed = outside | made if inner.name in NESTED else outside
            yield from _carried(inner, here, frozenset(computed))
        for v in inner.operands:
            if v.name in outside:
                yield here, f"reads {v}, which is computed outside of the loop: a circular buffer has to hand it on"
        if is_block_op(inner) or inner.name == "ttl.compute_region":
            made.update(v.name for v in inner.results)


# -- attributes -------------------------------------------------------------------------------------------
def _attributes(op: Op) -> Iterator[str | _Limit]:
    """Those that an op has, each of its very type."""
    spec = spec_of(op.name)
    optional = spec.optional if op.name in SPECS else {}
    known = {**spec.attrs, **optional}
    for name, value in op.attrs:
        if name not in known:
            yield f"has no attribute '{name}'{near(name, known)}"
        elif known[name] is float:
            yield from _number(name, value)
        elif type(value) is not known[name]:
            yield f"attribute '{name}' is {_shown(value)}, not a {known[name].__name__}"
        elif isinstance(value, int) and not isinstance(value, bool):
            low, high = _RANGES.get(name, (-MAX_INTEGER, MAX_INTEGER))
            if not low <= value <= high:
                yield _Limit(f"attribute '{name}' is {value}, not {low} to {high}", high)
        elif name in _CHOICES and value not in _CHOICES[name]:
            close, choices = near(str(value), _CHOICES[name]), ", ".join(_CHOICES[name])
            yield f"attribute '{name}' is {_shown(value)}{close} (one of: {choices})"
        elif isinstance(value, tuple) and not (name in {*LISTS, *_LISTS_OF_LISTS} or _integers(value)):
            yield f"attribute '{name}' is no list of whole numbers from 1 to {MAX_INTEGER}"


def _number(name: str, value: Attr) -> Iterator[str]:
    if type(value) not in (int, float):
        yield f"attribute '{name}' is {_shown(value)}, not a number"
    elif isinstance(value, float) and not math.isfinite(value):
        return
    elif isinstance(value, int | float) and abs(value) > FLOAT32_MAX:
        yield f"attribute '{name}' is beyond float32"


def _integers(values: Sequence[Attr]) -> bool:
    return all(isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= MAX_INTEGER for v in values)


def _shown(value: Attr) -> str:
    return ascii(value)[:60]


# -- types ------------------------------------------------------------------------------------------------
def _type(v: Value) -> Iterator[str | _Limit]:
    t = v.type
    if isinstance(t, TileType):
        yield f"{v} is a tile, which only passes make"
    if not isinstance(t, BlockType | CircularBufferType | TensorType):
        return
    if t.dtype not in FLOATS:
        yield f"{v} is of {t.dtype.value}; kernels take {', '.join(d.value for d in FLOATS)}"
    rows, columns = t.shape
    if rows < 1 or columns < 1:
        yield f"{v} has {rows} x {columns} tiles"
    if rows * columns > MAX_TILES:
        yield _Limit(f"{v} has {rows} x {columns} tiles", MAX_TILES)
    if isinstance(t, CircularBufferType) and not 1 <= t.block_count <= MAX_BLOCKS:
        yield _Limit(f"{v} has {t.block_count} blocks", MAX_BLOCKS)


# -- ops ----------------------------------------------------------------------------------------------------
def _program(op: Op) -> Iterator[str | _Limit]:
    grid = dict(op.attrs).get("grid")
    if not isinstance(grid, tuple) or not 1 <= len(grid) <= MAX_GRID_RANK:
        yield f"a grid has 1 to {MAX_GRID_RANK} dimensions"
    origin = op.attr("origin", (0, 0))
    if not isinstance(origin, tuple) or len(origin) != 2 or any(type(n) is not int or n < 0 for n in origin):
        yield "attribute 'origin' is column and row of the core at which the grid begins"
    for v in op.body.args:
        if not isinstance(v.type, TensorType):
            yield f"argument {v} is a {v.type}, not a tensor"
    yield from placement_errors(op)
    threads = [inner for inner in op.body.ops if inner.name in BOTH]
    if not threads:
        yield "has no thread"
    wide, full = (dict(op.attrs).get(name) is True for name in ("fp32_dest_acc_en", "dst_full_sync_en"))
    slots, most = dict(op.attrs).get("dst_capacity"), dst_capacity(wide, full)
    if isinstance(slots, int) and slots > most:
        yield _Limit(_too_many_slots(slots, most, wide, full), most)
    kinds = [dict(t.attrs).get("processor", t.name) for t in threads]
    if len(set(kinds)) < len(kinds):
        yield "has two threads of one kind"


def _too_many_slots(slots: int, most: int, wide: bool, full: bool) -> str:
    width = "32" if wide else "16"
    more = "" if full else f"; with 'dst_full_sync_en' it has {dst_capacity(wide, dst_full_sync_en=True)}"
    return f"attribute 'dst_capacity' is {slots}, a DST of {width} bits has {most} slots{more}"


def _thread(op: Op) -> Iterator[str]:
    if op.body.args:
        yield "a thread's region has no arguments"
    if op.name == DATA_MOVEMENT and dict(op.attrs).get("processor") not in PROCESSORS:
        yield f"attribute 'processor' is '{PROCESSORS[0]}' or '{PROCESSORS[1]}'"


def _for(op: Op) -> Iterator[str]:
    if [v.type for v in op.body.args] != [IndexType()]:
        yield "a loop's region has one argument, an index"


def _index(op: Op) -> Iterator[str]:
    index_map = dict(op.attrs).get("map")
    if not isinstance(index_map, IndexMap):
        return
    if index_map.rank != len(op.operands) or len(index_map.results) != 1:
        yield f"a map from {len(op.operands)} numbers to one is due"
    if any(not isinstance(v.type, IndexType) for v in op.operands):
        yield "takes indices"
    for expr in index_map.results:
        yield from _expression(expr)


def _expression(expr: IndexExpr) -> Iterator[str]:
    if expr.kind == "const" and abs(expr.value) > MAX_INTEGER:
        yield f"{expr.value} has more than 32 bits"
    if expr.kind in ("floordiv", "mod") and expr.args[1].value < 1:
        yield f"divides by {expr.args[1].value}"
    for arg in expr.args:
        yield from _expression(arg)


def _coordinates(op: Op) -> Iterator[str]:
    dims = dict(op.attrs).get("dims", DEFAULT_DIMS)
    if len(op.results) != dims or any(not isinstance(v.type, IndexType) for v in op.results):
        yield f"gives {dims} indices"


def _compute_region(op: Op) -> Iterator[str]:
    if [v.type for v in op.body.args] != [v.type for v in op.operands]:
        yield "the region's arguments are not of the operands' types"
    yielded = op.body.ops[-1].operands if op.body.ops else ()
    if [v.type for v in yielded] != [v.type for v in op.results]:
        yield "yields other types than the results'"
    if any(not isinstance(v.type, BlockType) for v in (*op.operands, *op.results)):
        yield "takes and gives blocks"


def _runtime_arg(op: Op) -> Iterator[str]:
    name = dict(op.attrs).get("name")
    if isinstance(name, str) and IR_NAMES.kept.fullmatch(name) is None:
        yield f"a name has letters, digits, '_', '.' and '$', not {ascii(name)[:60]}"


def _store(op: Op) -> Iterator[str]:
    """Sums are taken in DST or by the packer, which adds numbers of 16 or 32 bits."""
    if not op.attr("accumulate", False):
        return
    for v in op.operands[1:]:
        if isinstance(v.type, BlockType) and v.type.dtype not in (DType.BF16, DType.F32):
            yield f"adds to a {v.type}; sums are kept in bf16 or f32"


def _transfer(op: Op) -> Iterator[str]:
    types = {v.type.dtype for v in op.operands if isinstance(v.type, BlockType | TensorType)}
    if len(types) > 1:
        yield "changes the element type, which transfers do not"


def _whole(op: Op) -> Iterator[str]:
    if op.has_attr("parts"):
        yield "attribute 'parts' is what a pass sets"


_RULES = {
    _PROGRAM: _program, COMPUTE: _thread, DATA_MOVEMENT: _thread, "ttl.for": _for, "ttl.index": _index,
    "ttl.core": _coordinates, "ttl.grid_size": _coordinates,
    "ttl.compute_region": _compute_region, "ttl.copy_in": _transfer, "ttl.copy_out": _transfer, "ttl.cb_push": _whole,
    "ttl.cb_wait": _whole, "ttl.store": _store, "ttl.runtime_arg": _runtime_arg, **RULES,
}  # fmt: skip
