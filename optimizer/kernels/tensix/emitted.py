"""What a lowered kernel does in DST, counted in the program that the C++ prints, not in the plans behind it: figures,
what `ttopt kernel compile` says of a program, and a picture of when each value of a body is in which slot (`picture`).

    %o: 4 tiles, 4 per section, tile by tile
                               0 1 2 3 4
      %a       [1-2]            ███        DST[4]         loaded
      %t_1     [2-4]              █████    DST[0]         max
    footprint 1, 5 slots

Step 0 is the acquire, the last one the pack, those between are the body's ops. An input that is loaded again has a
line with holes: what is in its slot between two loads is another value's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import buffers_of
from optimizer.kernels.tensix.dialect import DST_PREFIX, RESTORE, SPILL, TILE_PREFIX
from optimizer.kernels.tensix.dst.dag import TileNode
from optimizer.kernels.tensix.dst.plan import Relief
from optimizer.kernels.tensix.ir import Op, Value, loop_rounds, walk
from optimizer.kernels.tensix.launch import BuiltKernel
from optimizer.kernels.tensix.passes.insert_inits import blocks_of, dtype_of, form_of, is_math
from optimizer.kernels.tensix.pipes import nets_of
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
        max_dst=max((_slot_count(op) for op in computes), default=0),
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


def _slot_count(compute: Op) -> int:
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


# -- program record ---------------------------------------------------------------------------------------
def program_record(name: str, kernel: BuiltKernel, stages: Mapping[str, Op]) -> dict[str, Any]:
    """The record of a program that compiled; `stages`: the program after each pass.

    `pipes` counts by kind. Figures of DST are of one core, loops that end at a run-time argument counted as one round.
    """
    launch, inits = kernel.launch, stages["insert-inits"]
    pipes = Counter(pipe.kind for net in nets_of(kernel.program).values() for pipe in net.pipes)
    return {
        "id": name,
        "kernels": [source.kind for source in kernel.sources],
        "cores": launch.core_count,
        "runtime_args": list(launch.runtime_args),
        "semaphores": len(launch.semaphores),
        "pipes": dict(sorted(pipes.items())),
        "circular_buffers": len(launch.buffers),
        "circular_buffer_bytes": launch.l1_bytes,
        **asdict(emitted(stages["assign-dst"], inits)),
        "read_at_19_bits": list(read_short(inits)),
        "compute_config": launch.config.to_json(),
        "error": None,
    }


# -- lifetimes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """A stretch of a value's life in one slot."""

    start: int
    end: int
    slot: int
    """Of the first tile of a section."""

    def __str__(self) -> str:
        return f"[{self.start}-{self.end}]"


@dataclass(frozen=True)
class Lifetime:
    """A value of a body; more than one segment where it is loaded again."""

    value: Value
    made_by: str
    segments: tuple[Segment, ...]

    @property
    def holes(self) -> tuple[tuple[int, int], ...]:
        """Steps between which it is not in DST."""
        pairs = zip(self.segments, self.segments[1:], strict=False)
        return tuple((a.end, b.start) for a, b in pairs if b.start > a.end)


def lifetimes_of(compute: Op) -> tuple[Lifetime, ...]:
    """Of a `ttl.compute` with slots: inputs first, then values in the order they are made."""
    ops = compute.body.ops[:-1]
    results = dict(zip((v.name for v in compute.body.ops[-1].operands), compute.results, strict=False))
    blocks = dict(zip((v.name for v in compute.body.args), compute.operands, strict=False))
    last = {v.name: n for n, op in enumerate(ops, 1) for v in op.operands}
    last |= dict.fromkeys((v.name for v in compute.body.ops[-1].operands), len(ops) + 1)
    loaded: dict[str, list[Segment]] = {}
    made: list[Lifetime] = []
    for n, op in enumerate(ops, 1):
        if op.name == SPILL:
            continue
        segment = Segment(n, max(n, last.get(op.result.name, n)), op.index_map("dst").evaluate([0])[0])
        if op.name in _LOADS and op.result.name not in results:
            loaded.setdefault(op.operands[0].name, []).append(segment)
        else:
            name = results.get(op.result.name, op.result)
            made.append(Lifetime(name, op.name.removeprefix(TILE_PREFIX), (segment,)))
    spilled = {op.result.name: op.result for op in ops if op.name == SPILL}
    inputs = ((blocks.get(name) or spilled[name], segments) for name, segments in loaded.items())
    return (*(Lifetime(value, "loaded", tuple(segments)) for value, segments in inputs), *made)


def picture(program: Op) -> str:
    """Every `ttl.compute` of a program after `assign-dst`."""
    return "\n".join(line for op in walk(program) if op.name == "ttl.compute" for line in _drawn(op))


def _drawn(compute: Op) -> Iterator[str]:
    found = lifetimes_of(compute)
    steps = len(compute.body.ops) + 1
    results = ", ".join(map(str, compute.results))
    tiles = compute.integers("bounds")
    way = "op by op" if compute.attr("grouped") else "tile by tile"
    unroll = compute.integer("unroll")
    yield f"{results}: {tiles[0] * tiles[1]} tiles, {unroll} per section, {way}"
    rows = [
        (str(x.value), " ".join(map(str, x.segments)), _bar(x.segments, steps), _slots(x), x.made_by) for x in found
    ]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(4)]
    digits = " ".join(str(n % 10) for n in range(steps))
    yield f"  {'':{widths[0]}}  {'':{widths[1]}}  {digits}"
    for row in rows:
        cells = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False))
        yield f"  {cells}  {row[4]}"
    yield f"footprint {compute.integer('footprint')}, {_slot_count(compute)} slots"


def _bar(segments: Sequence[Segment], steps: int) -> str:
    drawn = [" "] * (2 * steps - 1)
    for segment in segments:
        drawn[2 * segment.start : 2 * segment.end + 1] = "█" * (2 * (segment.end - segment.start) + 1)
    return "".join(drawn)


def _slots(lifetime: Lifetime) -> str:
    return " ".join(f"DST[{slot}]" for slot in dict.fromkeys(s.slot for s in lifetime.segments))
