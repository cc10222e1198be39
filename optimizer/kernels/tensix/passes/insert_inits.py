"""Every op on DST gets the init that its unit needs, as seldom as possible.

An init holds until another one. In a loop whose body needs only one, it stands before the loop; where a body needs
several, each stands before its op. A reduction sets the packer's edge mask, so `dst.uninit` follows the section that
packs it. Where circular buffers hold different element types, `dst.reconfig` and `dst.pack_reconfig` set unpacker and
packer to the next one's. The thread begins with `dst.startup`, which configures unpacker, math and packer once.

Inits name circular buffers, not blocks: they hold for every block of a buffer, also before a loop that takes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import buffers_of
from optimizer.kernels.tensix.dialect import COMPUTE, DST_PREFIX, L1_SUM, L1_SUM_END
from optimizer.kernels.tensix.ir import Attr, Op, Value, attributes, rewrite, walk
from optimizer.kernels.tensix.tile_forms import Form, Place, Unit
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType

RECONFIG, PACK_RECONFIG = "dst.reconfig", "dst.pack_reconfig"
_PACKS = ("dst.pack", "dst.pack_block")
_OTHER = ("dst.init", "dst.uninit", "dst.startup", *_PACKS, RECONFIG, PACK_RECONFIG, L1_SUM, L1_SUM_END)


def insert_inits(program: Op) -> Op:
    """Every compute thread; after `lower-to-loops`."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != COMPUTE:
            return (op,)
        buffers = buffers_of(op)
        ops, _ = _Placer(buffers).place(op.body.ops, None, None)
        startup = _startup(op, buffers)
        placed, _ = _Formats().place((*startup, *ops), _UNKNOWN)
        return (op.with_body(tuple(placed)),)

    return _unpacked_to_dst(rewrite(program, change)[0])


def _unpacked_to_dst(program: Op) -> Op:
    """Marks the circular buffers of float32 that go to a DST of 32 bits past the source registers, which hold 19.

    A buffer is unpacked one way only, so none that the FPU reads: to that one it would bring nothing.
    """
    if not program.attr("fp32_dest_acc_en", False):
        return program
    units: dict[str, set[Unit]] = {}
    for thread in program.body.ops:
        buffers = buffers_of(thread)
        for op in filter(is_math, walk(thread)):
            for block in blocks_of(op):
                units.setdefault(buffers[block.name].name, set()).add(form_of(op).unit)

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "ttl.bind_cb" or units.get(op.result.name) != {Unit.UNPACK}:
            return (op,)
        return (op.with_attrs(unpack_to_dst=True) if dtype_of(op.result) is DType.F32 else op,)

    return rewrite(program, change)[0]


def form_of(op: Op) -> Form:
    """Form of an op on DST."""
    return TILE_OPS[op.name.removeprefix(DST_PREFIX)].forms[op.integer("form", 0)]


def is_math(op: Op) -> bool:
    """Whether an op computes on DST (not: packs, inits)."""
    return op.name.startswith(DST_PREFIX) and op.name not in _OTHER


def blocks_of(op: Op) -> tuple[Value, ...]:
    """Blocks that an op on DST reads."""
    return tuple(v for v in op.operands if isinstance(v.type, BlockType))


def _same(a: Op | None, b: Op) -> bool:
    """Whether two inits are the same call with the same buffers."""
    if a is None or a.operands != b.operands:
        return False
    forms = [TILE_OPS[op.string("op")].forms[op.integer("form", 0)] for op in (a, b)]
    return forms[0].init == forms[1].init and a.without_attrs("op", "form") == b.without_attrs("op", "form")


class _Placer:
    def __init__(self, buffers: Mapping[str, Value]) -> None:
        self._buffers = buffers

    def _init(self, op: Op, target: Value | None) -> Op:
        """The init of an op: what is computed, from which buffers, and for reductions where the result is packed."""
        form = form_of(op)
        operands = blocks_of(op)
        if "out_cb" in form.init.args and target is not None:
            operands = (*operands, target)
        kept: dict[str, Attr] = {k: v for k, v in op.attrs if k in ("form", "source", "target")}
        named = attributes({**kept, "op": op.name.removeprefix(DST_PREFIX)})
        return Op("dst.init", tuple(self._buffers[v.name] for v in operands), (), named)

    def place(self, ops: Sequence[Op], state: Op | None, target: Value | None) -> tuple[list[Op], Op | None]:
        """Ops with their inits, and the init that holds afterwards."""
        placed: list[Op] = []
        masked = ""
        for n, op in enumerate(ops):
            if op.name == "ttl.tile_regs_acquire":
                target = _next_target(ops[n:])
                masked = _reduction(ops[n:])
            if is_math(op):
                wanted = self._init(op, target)
                if not _same(state, wanted):
                    placed.append(wanted)
                    state = wanted
                placed.append(op)
            elif op.name == "ttl.for":
                before, loop, state = self._loop(op, state, target)
                placed += [*before, loop]
            elif op.name == "ttl.if":
                inside, _ = self.place(op.body.ops, None, target)
                placed.append(op.with_body(tuple(inside)))
                state = None
            else:
                placed.append(op)
            if op.name == "ttl.tile_regs_release" and masked:
                placed.append(Op("dst.uninit", (), (), attributes({"op": masked})))
                state = None
        return placed, state

    def _loop(self, loop: Op, state: Op | None, target: Value | None) -> tuple[list[Op], Op, Op | None]:
        wanted = list(dict.fromkeys(self._init(op, target) for op in walk(loop) if is_math(op)))
        sections = any(op.name == "ttl.tile_regs_acquire" for op in walk(loop))
        if wanted and all(_same(wanted[0], w) for w in wanted) and not (sections and _reduction(loop.body.ops)):
            before = [] if _same(state, wanted[0]) else [wanted[0]]
            return before, loop, wanted[0]
        inside, after = self.place(loop.body.ops, None, target)
        return [], loop.with_body(tuple(inside)), after if wanted else state


_Format = tuple[DType | None, DType | None, DType | None]
"""Element types that the unpacker's two sources and the packer are set to; None where that is not known."""
_UNKNOWN: _Format = (None, None, None)


class _Formats:
    """Reconfigures unpacker and packer where the next circular buffer holds another element type."""

    def place(self, ops: Sequence[Op], state: _Format) -> tuple[list[Op], _Format]:
        placed: list[Op] = []
        for op in ops:
            if op.name == "dst.startup":
                first, second = started(op)
                state = dtype_of(first), dtype_of(second), dtype_of(op.operands[2])
            elif op.name == "dst.init" and (sources := unpacked(op.string("op"), op.integer("form", 0), op.operands)):
                wanted = dtype_of(sources[0]), dtype_of(sources[1])
                if state[:2] != wanted:
                    placed.append(Op(RECONFIG, sources))
                state = *wanted, state[2]
            elif op.name in (*_PACKS, L1_SUM):
                target = op.operands[0 if op.name == L1_SUM else 1]
                if state[2] is not dtype_of(target):
                    placed.append(Op(PACK_RECONFIG, (target,)))
                state = state[0], state[1], dtype_of(target)
            elif op.name == "ttl.if":
                inside, _ = self.place(op.body.ops, _UNKNOWN)
                op, state = op.with_body(tuple(inside)), _UNKNOWN
            elif op.name == "ttl.for":
                inside, after = self.place(op.body.ops, state)
                if after != state:  # later rounds find what the one before leaves
                    a, b, c = (x if x is y else None for x, y in zip(state, after, strict=True))
                    inside, after = self.place(op.body.ops, (a, b, c))
                op, state = op.with_body(tuple(inside)), after
            placed.append(op)
        return placed, state


def unpacked(name: str, form: int, blocks: Sequence[Value]) -> tuple[Value, Value] | None:
    """What an op unpacks to sources A and B, of the blocks (or buffers) that it reads first; None if it reads DST only.

    One operand may go to either source, so both are set for it.
    """
    definition = TILE_OPS[name].forms[form]
    read = blocks[: sum(place is Place.CB for place in definition.places)]
    if not read:
        return None
    return (read[-1], read[0]) if definition.reversed_sources else (read[0], read[-1])


def started(startup: Op) -> tuple[Value, Value]:
    """What `dst.startup` sets sources A and B to."""
    first, second, _ = startup.operands
    return (second, first) if startup.attr("reversed", False) else (first, second)


def dtype_of(v: Value) -> DType:
    assert isinstance(v.type, BlockType | CircularBufferType)
    return v.type.dtype


def _reduction(ops: Sequence[Op]) -> str:
    """The reduction of the section that begins here, whose edge mask the packer keeps; empty if there is none."""
    for op in ops:
        found = next((o.name for o in walk(op) if o.name.startswith(f"{DST_PREFIX}reduce_")), "")
        if found or op.name == "ttl.tile_regs_release":
            return found.removeprefix(DST_PREFIX)
    return ""


def _next_target(ops: Sequence[Op]) -> Value | None:
    """The block that the section beginning here packs first."""
    for op in ops:
        for inner in walk(op):
            if inner.name in ("dst.pack", "dst.pack_block"):
                return inner.operands[1]
    return None


def _startup(thread: Op, buffers: Mapping[str, Value]) -> list[Op]:
    """One common init with the circular buffers of the first op that reads any, and of the first pack."""
    math = [op for op in walk(thread) if is_math(op)]
    packs = [op for op in walk(thread) if op.name in ("dst.pack", "dst.pack_block")]
    if not math or not packs:
        return []
    opening = next(_readers(math), None)
    first = () if opening is None else blocks_of(opening)
    swapped = opening is not None and form_of(opening).reversed_sources
    inputs = (first * 2)[:2] if first else (packs[0].operands[1],) * 2
    operands = tuple(buffers[v.name] for v in (*inputs, packs[0].operands[1]))
    return [Op("dst.startup", operands, (), attributes({"reversed": True} if swapped else {}))]


def _readers(math: Sequence[Op]) -> Iterator[Op]:
    """Ops that read blocks, those that read two first."""
    yield from (op for op in math if form_of(op).places == (Place.CB, Place.CB))
    yield from (op for op in math if blocks_of(op))
