"""What a lowered kernel does in DST, counted in the program that the C++ prints, not in the plans behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import DST_PREFIX, RESTORE, SPILL, TILE_PREFIX
from optimizer.kernels.tensix.dst.dag import TileNode
from optimizer.kernels.tensix.dst.plan import Relief
from optimizer.kernels.tensix.ir import Op, loop_rounds, walk
from optimizer.kernels.tensix.passes.insert_inits import blocks_of, buffers_of, dtype_of, form_of, is_math
from optimizer.kernels.tensix.tile_forms import Unit
from optimizer.kernels.tensix.tile_ops import TILE_OPS

_COUNTED = {
    "ttl.tile_regs_acquire": "sections",
    "dst.init": "inits",
    "dst.copy": "loads",
    "dst.copy_dst": "copies",
    "dst.pack": "packs",
    "dst.pack_block": "packs",
}
_LOADS, _COPY = (f"{TILE_PREFIX}copy", RESTORE), f"{TILE_PREFIX}copy_dst"


@dataclass(frozen=True)
class Emitted:
    """Figures of one run of the compute threads over their blocks."""

    computes: int
    """Loop nests over tiles."""
    sections: int
    """Acquires that run."""
    inits: int
    """Inits that run."""
    loads: int
    """Tiles brought to DST as they are, for each tile of the results."""
    copies: int
    """Tiles copied within DST, for each tile of the results."""
    footprint: int
    """Slots of a tile besides its results', of the compute that takes the most."""
    unroll: int
    """Tiles of a section, of the compute whose sections hold the fewest."""
    max_dst: int
    """Slots in use in the fullest section."""
    spills: int
    """Values handed on through L1."""
    relief: str
    """What was done about more values than slots."""


def emitted(planned: Op, lowered: Op) -> Emitted:
    """`planned`: the program after `assign-dst`; `lowered`: after `insert-inits`."""
    computes = [op for op in walk(planned) if op.name == "ttl.compute"]
    runs = executed(lowered)
    names = Counter(inner.name for op in computes for inner in op.body.ops)
    made = {v.name for op in computes for v in op.results}
    handed = {v.name for op in computes for v in op.operands if v.name in made}
    reliefs = {str(op.attr("relief", Relief.NONE.value)) for op in computes}
    return Emitted(
        computes=len(computes),
        sections=runs["sections"],
        inits=runs["inits"],
        loads=sum(names[name] for name in _LOADS),
        copies=names[_COPY],
        footprint=max((op.integer("footprint") for op in computes), default=0),
        unroll=min((op.integer("unroll") for op in computes), default=0),
        max_dst=max((_slots(op) for op in computes), default=0),
        spills=len(handed) + names[SPILL],
        relief=max(reliefs, key=[r.value for r in Relief].index, default=Relief.NONE.value),
    )


def executed(lowered: Op) -> Counter[str]:
    """How often what a record counts runs, loops taken into account: sections, inits, loads, copies, tiles packed. Of
    a loop whose rounds only the running kernel knows it is one round."""
    found: Counter[str] = Counter()
    for op, times in _repeated(lowered, 1):
        if op.name in _COUNTED:
            found[_COUNTED[op.name]] += times * op.integer("tiles", 1)
    return found


def _repeated(op: Op, times: int) -> Iterator[tuple[Op, int]]:
    """Everything inside with the number of times it runs."""
    if op.name == "ttl.for":
        rounds = loop_rounds(op)
        times *= 1 if rounds is None else rounds
    for region in op.regions:
        for inner in region.ops:
            yield inner, times
            yield from _repeated(inner, times)


def _slots(compute: Op) -> int:
    """One more than the highest slot of a section."""
    last = compute.integer("unroll") - 1
    maps = [op.index_map("dst") for op in compute.body.ops if op.has_attr("dst")]
    return max((m.evaluate([k])[0] for m in maps for k in (0, last)), default=-1) + 1


# -- float32 -----------------------------------------------------------------------------------------------
def read_short(lowered: Op) -> tuple[str, ...]:
    """Tile ops that read float32 at 19 bits, 10 of them of the mantissa, in program order.

    Matmuls and reductions, which the FPU does, and copies and broadcasts out of the same circular buffers: a buffer is
    unpacked one way only.
    `lowered`: after `insert-inits`. How many digits products keep depends on the math fidelity as well.
    """
    readers: list[tuple[Op, set[str]]] = []
    for thread in lowered.body.ops:
        buffers = buffers_of(thread)
        for op in filter(is_math, walk(thread)):
            readers.append((op, {buffers[v.name].name for v in blocks_of(op) if dtype_of(v) is DType.F32}))
    short = {cb for op, read in readers if form_of(op).unit is not Unit.UNPACK for cb in read}
    return tuple(dict.fromkeys(op.name.removeprefix(DST_PREFIX) for op, read in readers if read & short))


# -- slots by value -----------------------------------------------------------------------------------------
def slots_by_value(planned: Op, names: Sequence[str], nodes: Sequence[TileNode]) -> dict[str, int]:
    """Slot of the first tile of a section, by a value's name; of copies as `<value>_copy_<number>`.

    `names`: of the inputs, which lie in the circular buffers of these indices, then of `nodes`. A value is found by how
    it is computed; of several that are computed alike, each has the slot of its own place, or of the last there is; one
    that is made again for another reader has the slot of the first.
    """
    numbers = _Numbers()
    inputs = len(names) - len(nodes)
    values = [numbers.of("input", (k,)) for k in range(inputs)]
    for node in nodes:
        values.append(numbers.of(node.op, [values[a] for a in node.args], node.attrs))
    called: dict[int, list[str]] = {}
    for value, name in zip(values, names, strict=True):
        called.setdefault(value, []).append(name)
    found: dict[str, int] = {}
    copies: Counter[str] = Counter()
    places: Counter[int] = Counter()
    for value, slot, copied in _placed(planned, values[:inputs], numbers):
        alike = called.get(value, ())
        if copied:
            for name in alike:
                found[f"{name}_copy_{copies[name]}"] = slot
                copies[name] += 1
        else:
            found |= dict.fromkeys(alike[places[value] :], slot)
            places[value] += 1
    return found


class _Numbers:
    """Numbers of values: equal ones are computed in the same way."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}

    def of(self, op: str, operands: Sequence[int], attrs: tuple[tuple[str, float], ...] = ()) -> int:
        """A copy is what it copies; an op with a broadcast operand is the op and the broadcast."""
        if op in ("copy", "copy_dst"):
            return operands[0]
        kind, _, axis = op.partition("_bcast_")
        if axis:
            return self.of(kind, (operands[0], self.of(f"bcast_{axis}", operands[1:])))
        return self._known.setdefault((op, *operands, attrs), len(self._known))


def _placed(planned: Op, inputs: Sequence[int], numbers: _Numbers) -> Iterator[tuple[int, int, bool]]:
    """(number of the value, slot of its first tile, whether it is a copy within DST) of every tile in DST."""
    index = {op.result.name: op.integer("index") for op in walk(planned) if op.name == "ttl.bind_cb"}
    known: dict[str, int] = {}
    for op in walk(planned):
        if op.name == "ttl.cb_wait" and index[op.operands[0].name] < len(inputs):
            known[op.result.name] = inputs[index[op.operands[0].name]]
        if op.name != "ttl.compute":
            continue
        known |= {arg.name: known[v.name] for arg, v in zip(op.body.args, op.operands, strict=True) if v.name in known}
        for inner in op.body.ops[:-1]:
            if all(v.name in known for v in inner.operands):
                known[inner.result.name] = _number(inner, known, numbers)
                if inner.has_attr("dst"):
                    slot = inner.index_map("dst").evaluate([0])[0]
                    yield known[inner.result.name], slot, inner.name == _COPY
        ended = zip(op.results, op.body.ops[-1].operands, strict=True)
        known |= {v.name: known[tile.name] for v, tile in ended if tile.name in known}


def _number(op: Op, known: Mapping[str, int], numbers: _Numbers) -> int:
    if op.name in (SPILL, RESTORE):
        return known[op.operands[0].name]
    name = op.name.removeprefix(TILE_PREFIX)
    attrs = tuple((key, op.number(key)) for key in TILE_OPS[name].attrs)
    return numbers.of(name, [known[v.name] for v in op.operands], attrs)
