"""A compute thread run on numpy as the hardware would: a DST file of so many slots, circular buffers with credits.

It takes the program after `insert-inits` and refuses what a Tensix core would get wrong: a slot beyond the capacity, a
slot read or packed before it is written, sections out of order, an init that is not the op's, an unpacker or packer
set to another element type, tiles read before they
are waited for or packed beyond what is reserved, buffers that are not drained. Values are rounded to DST's element type
whenever they are written there, and to the circular buffer's when they are packed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optimizer.errors import VerificationError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import COMPUTE, DST_PREFIX
from optimizer.kernels.tensix.dst_sections import PHASES
from optimizer.kernels.tensix.ir import Op, Value, walk
from optimizer.kernels.tensix.passes.assign_dst import capacity_of
from optimizer.kernels.tensix.passes.insert_inits import (
    PACK_RECONFIG,
    RECONFIG,
    blocks_of,
    dtype_of,
    form_of,
    is_math,
    unpacked,
)
from optimizer.kernels.tensix.reference import elements, tile_of
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.tile_ops import TILE_OPS, Place
from optimizer.kernels.tensix.types import TILE, BlockType, CircularBufferType


@dataclass
class _Buffer:
    """A circular buffer as the compute thread sees it: blocks pushed to it, blocks it pushed."""

    type: CircularBufferType
    ready: list[Array] = field(default_factory=list)
    """Blocks that can be waited for, oldest first."""
    waited: int = 0
    reserved: Array | None = None
    packed: int = 0
    parts: int = 0
    """Tiles of the reserved block that are pushed before it is whole."""
    pushed: list[Array] = field(default_factory=list)
    """Blocks that the writer takes."""


def run(program: Op, blocks: Mapping[str, Array], capacity: int | None = None) -> dict[str, Array]:
    """The first block pushed to each circular buffer that nobody in the thread reads; see `run_blocks`."""
    given = {name: (block,) for name, block in blocks.items()}
    return {name: made[0] for name, made in run_blocks(program, given, capacity).items()}


def run_blocks(
    program: Op, blocks: Mapping[str, Sequence[Array]], capacity: int | None = None
) -> dict[str, tuple[Array, ...]]:
    """Blocks pushed to circular buffers that nobody in the thread reads, in order, by buffer.

    `blocks`: circular buffer -> elements of the blocks that the reader brings. VerificationError names the op.
    """
    wide = bool(program.attr("fp32_dest_acc_en", False))
    slots = capacity_of(program, capacity)
    found: dict[str, tuple[Array, ...]] = {}
    for thread in program.body.ops:
        if thread.name == COMPUTE:
            machine = _Machine(slots, DType.F32 if wide else DType.BF16, program, thread, blocks)
            machine.run(thread.body.ops, {})
            found |= machine.finish()
    return found


class _Machine:
    def __init__(
        self, capacity: int, dtype: DType, program: Op, thread: Op, blocks: Mapping[str, Sequence[Array]]
    ) -> None:
        self._capacity = capacity
        self._dtype = dtype
        self._dst: dict[int, Array] = {}
        self._phase = "release"
        self._init: tuple[object, ...] | None = None
        self._sources: tuple[DType, DType] | None = None
        """Element types that the unpacker is set to."""
        self._packer: DType | None = None
        self._buffers: dict[str, _Buffer] = {}
        self._block: dict[str, str] = {}
        """Block -> its circular buffer."""
        self._read = {op.operands[0].name for op in walk(thread) if op.name == "ttl.cb_wait"}
        """Circular buffers that the thread waits for; the writer takes what is pushed to others at once."""
        for op in program.body.ops:
            if op.name == "ttl.bind_cb":
                name, cb = op.result.name, op.result.typed(CircularBufferType)
                self._buffers[name] = _Buffer(cb, [rounded(block, cb.dtype) for block in blocks.get(name, ())])

    def finish(self) -> dict[str, tuple[Array, ...]]:
        """What was pushed and not read, after a check that nothing is left over."""
        self._require(self._phase == "release", "the thread", "ends within a section")
        for name, buffer in self._buffers.items():
            self._require(not buffer.waited, f"%{name}", "is waited for and not popped")
            self._require(buffer.reserved is None, f"%{name}", "is reserved and not pushed")
            self._require(not (name in self._read and buffer.ready), f"%{name}", "is not drained")
        return {name: tuple(b.pushed) for name, b in self._buffers.items() if b.pushed}

    @staticmethod
    def _require(condition: bool, place: str, message: str) -> None:
        if not condition:
            raise VerificationError(message, node=place)

    # -- control -----------------------------------------------------------------------------------------
    def run(self, ops: Sequence[Op], numbers: dict[str, int]) -> None:
        for op in ops:
            if op.name == "ttl.for":
                for i in range(op.integer("lower"), op.integer("upper"), op.integer("step")):
                    self.run(op.body.ops, {**numbers, op.body.args[0].name: i})
            elif op.name == "ttl.constant":
                numbers[op.result.name] = op.integer("value")
            elif op.name == "ttl.index":
                numbers[op.result.name] = op.index_map("map").evaluate([numbers[v.name] for v in op.operands])[0]
            else:
                self._step(op, numbers)

    def _step(self, op: Op, numbers: Mapping[str, int]) -> None:
        if op.name.startswith("ttl.tile_regs_"):
            self._synchronise(op.name.removeprefix("ttl.tile_regs_"))
        elif op.name.startswith("ttl.cb_"):
            self._credit(op)
        elif op.name == "dst.init":
            self._init = _init_key(op.string("op"), op.integer("form", 0), [v.name for v in op.operands])
        elif op.name in ("dst.pack", "dst.pack_block"):
            self._pack(op, numbers)
        elif is_math(op):
            self._math(op, numbers)
        elif op.name == "dst.uninit":
            self._init = None
        elif op.name == RECONFIG:
            self._sources = dtype_of(op.operands[0]), dtype_of(op.operands[1])
        elif op.name == PACK_RECONFIG:
            self._packer = dtype_of(op.operands[0])
        else:
            self._require(op.name == "dst.startup", op.name, "is not known to the interpreter")
            first, second, out = map(dtype_of, op.operands)
            self._sources = first, first if op.string("kind") == "sfpu" else second
            self._packer = out

    def _synchronise(self, step: str) -> None:
        after = PHASES[(PHASES.index(step) - 1) % len(PHASES)]
        self._require(self._phase == after, f"tile_regs_{step}", f"follows tile_regs_{self._phase}")
        self._phase = step
        if step == "acquire":
            self._dst.clear()

    # -- circular buffers -------------------------------------------------------------------------------
    def _credit(self, op: Op) -> None:
        name = op.operands[0].name
        buffer, place = self._buffers[name], f"{op.name} of %{name}"
        for v in op.results:
            self._block[v.name] = name
        match op.name:
            case "ttl.cb_wait":
                self._require(len(buffer.ready) > buffer.waited, place, "waits for a block that never comes")
                buffer.waited += 1
            case "ttl.cb_pop":
                self._require(buffer.waited > 0, place, "pops more than was waited for")
                buffer.waited -= 1
                buffer.ready.pop(0)
            case "ttl.cb_reserve":
                room = len(buffer.ready) < buffer.type.block_count and buffer.reserved is None
                self._require(room, place, "reserves room that never becomes free")
                buffer.reserved, buffer.packed = np.full(elements(buffer.type), np.nan, np.float32), 0
            case "ttl.cb_push_part":
                buffer.parts += op.integer("tiles")
                packed = f"pushes {buffer.parts} tiles so far, {buffer.packed} were packed"
                self._require(buffer.parts <= buffer.packed, place, packed)
            case _:
                if op.has_attr("parts"):
                    all_parts = f"ends after {buffer.parts} tiles in parts"
                    self._require(buffer.parts == buffer.type.block.tiles, place, all_parts)
                self._require(buffer.reserved is not None, place, "pushes what was not reserved")
                tiles = buffer.type.block.tiles
                self._require(buffer.packed == tiles, place, f"pushes {tiles} tiles, {buffer.packed} were packed")
                assert buffer.reserved is not None
                (buffer.ready if name in self._read else buffer.pushed).append(buffer.reserved)
                buffer.reserved, buffer.parts = None, 0

    def _tile(self, block: Value, number: int, place: str) -> Array:
        buffer, tiles = self._buffers[self._block[block.name]], block.typed(BlockType).tiles
        self._require(buffer.waited > 0, place, f"reads %{block.name} before it is waited for")
        self._require(0 <= number < tiles, place, f"reads tile {number} of {tiles}")
        return tile_of(buffer.ready[0], divmod(number, block.typed(BlockType).shape[1]))

    # -- DST -------------------------------------------------------------------------------------------
    def _slot(self, number: int, place: str) -> int:
        self._require(0 <= number < self._capacity, place, f"slot {number} of {self._capacity}")
        return number

    def _math(self, op: Op, numbers: Mapping[str, int]) -> None:
        name = op.name.removeprefix(DST_PREFIX)
        definition, form = TILE_OPS[name], form_of(op)
        self._require(self._phase == "acquire", op.name, f"computes after tile_regs_{self._phase}")
        buffers = [self._block[v.name] for v in blocks_of(op)]
        wanted = _init_key(name, op.integer("form", 0), buffers)
        self._require(self._init == wanted, op.name, f"runs with the init of {self._init}, not {wanted}")
        read = unpacked(name, op.integer("form", 0), blocks_of(op))
        if read is not None:
            types = dtype_of(read[0]), dtype_of(read[1])
            self._require(self._sources == types, op.name, f"unpacks {types}, the unpacker is set to {self._sources}")
        if self._dtype is DType.F32:
            short = [v.name for v in blocks_of(op) if dtype_of(v).value in form.narrow]
            self._require(not short, op.name, f"writes 16 bits of {', '.join(short)} to a DST of 32 bits")
        operands = list(op.operands)
        tiles: list[Array] = []
        for place in form.places:
            v = operands.pop(0)
            if place is Place.CB:
                tiles.append(self._tile(v, numbers[operands.pop(0).name], op.name))
            else:
                source = self._slot(numbers[v.name], op.name)
                self._require(source in self._dst, op.name, f"reads slot {source}, which holds nothing")
                tiles.append(self._dst[source])
        target = self._slot(numbers[operands.pop(0).name], op.name)
        if form.accumulates and not definition.accumulates:
            self._require(target not in self._dst, op.name, f"adds to slot {target}, which is not clear")
        if definition.accumulates:
            clear = np.full((TILE, TILE), definition.initial, np.float32)
            tiles.insert(0, self._dst.get(target, clear))
        attrs = {key: float(str(op.attr(key))) for key in definition.attrs}
        self._dst[target] = rounded(definition.evaluate(tiles, attrs), self._dtype)

    def _pack(self, op: Op, numbers: Mapping[str, int]) -> None:
        source, block, at = op.operands
        self._require(self._phase == "wait", op.name, f"packs after tile_regs_{self._phase}")
        buffer, reserved = self._buffers[self._block[block.name]], block.typed(BlockType)
        set_to = f"packs {buffer.type.dtype}, the packer is set to {self._packer}"
        self._require(self._packer is buffer.type.dtype, op.name, set_to)
        for k in range(op.integer("tiles", 1)):
            slot, number = self._slot(numbers[source.name] + k, op.name), numbers[at.name] + k
            self._require(slot in self._dst, op.name, f"packs slot {slot}, which holds nothing")
            self._require(buffer.reserved is not None, op.name, f"packs to %{block.name}, which is not reserved")
            self._require(number == buffer.packed, op.name, f"packs tile {number} where {buffer.packed} is next")
            self._require(number < reserved.tiles, op.name, f"packs beyond the {reserved.tiles} tiles reserved")
            assert buffer.reserved is not None
            where = tile_of(buffer.reserved, divmod(number, reserved.shape[1]))
            where[...] = rounded(self._dst[slot], buffer.type.dtype)
            buffer.packed += 1


def _init_key(name: str, form: int, buffers: Sequence[str]) -> tuple[object, ...]:
    """What tells inits apart: the call and the circular buffers that it is about."""
    definition = TILE_OPS[name].forms[form]
    count = sum(place is Place.CB for place in definition.places)
    return (definition.init, tuple(buffers[:count]))
