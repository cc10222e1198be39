"""When each value of a body is in DST, and in which slot: the picture of the design document, after `assign-dst`.

    %o: 4 tiles, 4 per section, tile by tile
                               0 1 2 3 4
      %a       [1-2]            ███        DST[4]         loaded
      %t_1     [2-4]              █████    DST[0]         max
    footprint 1, 5 slots

Step 0 is the acquire, the last one the pack, those between are the body's ops. An input that is loaded again has a
line with holes: what is in its slot between two loads is another value's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.kernels.tensix.dialect import RESTORE, SPILL, TILE_PREFIX
from optimizer.kernels.tensix.ir import Op, Value, walk

_LOADS = (f"{TILE_PREFIX}copy", RESTORE)


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
    maps = [op.index_map("dst") for op in compute.body.ops if op.has_attr("dst")]
    most = max((m.evaluate([k])[0] for m in maps for k in (0, unroll - 1)), default=-1) + 1
    yield f"footprint {compute.integer('footprint')}, {most} slots"


def _bar(segments: Sequence[Segment], steps: int) -> str:
    drawn = [" "] * (2 * steps - 1)
    for segment in segments:
        drawn[2 * segment.start : 2 * segment.end + 1] = "█" * (2 * (segment.end - segment.start) + 1)
    return "".join(drawn)


def _slots(lifetime: Lifetime) -> str:
    return " ".join(f"DST[{slot}]" for slot in dict.fromkeys(s.slot for s in lifetime.segments))
