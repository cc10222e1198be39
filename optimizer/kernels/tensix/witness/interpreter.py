"""A compute thread run on numpy as the hardware would: a DST file of so many slots, circular buffers with credits.

It takes the program after `insert-inits` and refuses what a Tensix core would get wrong: a slot beyond the capacity, a
slot read or packed before it is written, sections out of order, an init that is not the op's, an unpacker or packer
set to another element type, float32 for the FPU in a buffer that goes to DST past it, a maximum that is scaled, tiles
read before they are waited for or packed beyond what is reserved, buffers that are not drained.

Ideally, values are rounded to DST's element type whenever they are written there, and to the circular buffer's when
they are packed: whatever the slots and forms are, the meaning must come out. With a `chip`, they are what the units of
this architecture make of them (`device/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from optimizer.errors import VerificationError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.formats import packed
from optimizer.kernels.tensix.device.values import Operand, Units
from optimizer.kernels.tensix.dialect import COMPUTE, DST_PREFIX, L1_SUM, L1_SUM_END
from optimizer.kernels.tensix.ir import Op, Value, walk
from optimizer.kernels.tensix.passes.assign_dst import capacity_of
from optimizer.kernels.tensix.passes.insert_inits import (
    PACK_RECONFIG,
    RECONFIG,
    blocks_of,
    dtype_of,
    form_of,
    is_math,
    started,
    unpacked,
)
from optimizer.kernels.tensix.rounding import Array, packer_sum, rounded
from optimizer.kernels.tensix.tile_forms import Form, Place, Unit
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import TILE, BlockType, CircularBufferType
from optimizer.kernels.tensix.verify import PHASES
from optimizer.kernels.tensix.witness.core_numbers import CoreNumbers
from optimizer.kernels.tensix.witness.reference import axis_of, elements, kept, tile_of


@dataclass
class _Buffer:
    """A circular buffer as the compute thread sees it: blocks pushed to it, blocks it pushed."""

    type: CircularBufferType
    straight: bool
    """Unpacked to DST past the source registers."""
    ready: list[Array] = field(default_factory=list)
    """Blocks that can be waited for, oldest first."""
    waited: int = 0
    reserved: Array | None = None
    packed: int = 0
    places: set[int] = field(default_factory=set)
    """Tiles that were packed to places of their own."""
    parts: int = 0
    """Tiles of the reserved block that are pushed before it is whole."""
    pushed: list[Array] = field(default_factory=list)
    """Blocks that the writer takes."""


def run_blocks(
    program: Op,
    blocks: Mapping[str, Sequence[Array]],
    core: tuple[int, int] = (0, 0),
    arguments: Mapping[str, int] = MappingProxyType({}),
    chip: str | None = None,
) -> dict[str, tuple[Array, ...]]:
    """Blocks pushed to circular buffers that nobody in the thread reads, in order, by buffer.

    `blocks`: circular buffer -> elements of the blocks that the reader brings; `arguments`: run-time arguments of the
    core by name; `chip`: architecture whose units compute; None: ideal ones. VerificationError names the op.
    """
    wide = bool(program.attr("fp32_dest_acc_en", False))
    units = None if chip is None else Units.of(program, chip)
    slots = capacity_of(program)
    found: dict[str, tuple[Array, ...]] = {}
    for thread in program.body.ops:
        if thread.name == COMPUTE:
            machine = _Machine(slots, DType.F32 if wide else DType.BF16, program, thread, blocks, units)
            numbers = CoreNumbers(core, arguments)
            for op in numbers.running(thread.body.ops):
                machine.step(op, numbers.known)
            found |= machine.finish()
    return found


class _Machine:
    def __init__(
        self,
        capacity: int,
        dtype: DType,
        program: Op,
        thread: Op,
        blocks: Mapping[str, Sequence[Array]],
        units: Units | None,
    ) -> None:
        self._units = units
        """Of a chip; None: ideal ones."""
        self._capacity = capacity
        self._dtype = dtype
        self._dst: dict[int, Array] = {}
        self._phase = "release"
        self._init: tuple[object, ...] | None = None
        self._mask = np.ones((TILE, TILE), np.bool_)
        """Elements that the packer does not set to zero."""
        self._sources: tuple[DType, DType] | None = None
        """Element types that the unpacker is set to."""
        self._packer: DType | None = None
        self._adds: bool = False
        """Whether the packer adds to L1."""
        self._buffers: dict[str, _Buffer] = {}
        self._block: dict[str, str] = {}
        """Block -> its circular buffer."""
        self._read = {op.operands[0].name for op in walk(thread) if op.name == "ttl.cb_wait"}
        """Circular buffers that the thread waits for; the writer takes what is pushed to others at once."""
        for op in program.body.ops:
            if op.name == "ttl.bind_cb":
                name, cb = op.result.name, op.result.typed(CircularBufferType)
                given = [rounded(block, cb.dtype) for block in blocks.get(name, ())]
                self._buffers[name] = _Buffer(cb, bool(op.attr("unpack_to_dst", False)), given)

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

    def step(self, op: Op, numbers: Mapping[str, int]) -> None:
        """One op; `numbers`: its indices."""
        if op.name.startswith("ttl.tile_regs_"):
            self._synchronise(op.name.removeprefix("ttl.tile_regs_"))
        elif op.name.startswith("ttl.cb_"):
            self._credit(op)
        elif op.name == "dst.init":
            self._init = _init_key(op.string("op"), op.integer("form", 0), [v.name for v in op.operands])
            if op.string("op").startswith("reduce_"):
                self._mask = kept(axis_of(op.string("op")))
        elif op.name in ("dst.pack", "dst.pack_block"):
            self._pack(op, numbers)
        elif is_math(op):
            self._math(op, numbers)
        elif op.name == "dst.uninit":
            self._init, self._mask = None, np.ones((TILE, TILE), np.bool_)
        elif op.name == L1_SUM:
            self._adds = numbers[op.operands[1].name] > op.integer("first")
        elif op.name == L1_SUM_END:
            self._adds = False
        elif op.name == RECONFIG:
            self._sources = dtype_of(op.operands[0]), dtype_of(op.operands[1])
        elif op.name == PACK_RECONFIG:
            self._packer = dtype_of(op.operands[0])
        else:
            self._require(op.name == "dst.startup", op.name, "is not known to the interpreter")
            first, second = started(op)
            self._sources, self._packer = (dtype_of(first), dtype_of(second)), dtype_of(op.operands[2])

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
                buffer.places = set()
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
        self._require(self._phase == "acquire", op.name, f"computes after tile_regs_{self._phase}")
        name, form = op.name.removeprefix(DST_PREFIX), form_of(op)
        buffers = [self._block[v.name] for v in blocks_of(op)]
        self._check_units(op, name, form, buffers)
        definition, tiles, target = TILE_OPS[name], *self._taken(op, form, numbers)
        if form.accumulates and not definition.accumulates:
            self._require(target not in self._dst, op.name, f"adds to slot {target}, which is not clear")
        if name.startswith("reduce_max"):
            self._require(bool((tiles[1] == 1).all()), op.name, "scales a maximum by other than 1")
        attrs = {key: float(str(op.attr(key))) for key in definition.attrs}
        if self._units is not None:
            given = self._operands(form.places, tiles, [self._buffers[b] for b in buffers])
            self._dst[target] = self._units.result(definition, form, given, attrs, self._dst.get(target))
            return
        if definition.accumulates:
            clear = np.full((TILE, TILE), definition.initial, np.float32)
            tiles.insert(0, self._dst.get(target, clear))
        self._dst[target] = rounded(definition.evaluate(tiles, attrs), self._dtype)

    def _taken(self, op: Op, form: Form, numbers: Mapping[str, int]) -> tuple[list[Array], int]:
        """Tiles of the operands, and the slot of the result."""
        operands, tiles = list(op.operands), list[Array]()
        for place in form.places:
            v = operands.pop(0)
            if place is Place.CB:
                tiles.append(self._tile(v, numbers[operands.pop(0).name], op.name))
            else:
                source = self._slot(numbers[v.name], op.name)
                self._require(source in self._dst, op.name, f"reads slot {source}, which holds nothing")
                tiles.append(self._dst[source])
        return tiles, self._slot(numbers[operands.pop(0).name], op.name)

    def _check_units(self, op: Op, name: str, form: Form, buffers: Sequence[str]) -> None:
        """What the units have to be set to before an op computes."""
        number, blocks = op.integer("form", 0), blocks_of(op)
        init = _init_key(name, number, buffers)
        self._require(self._init == init, op.name, f"runs with the init of {self._init}, not {init}")
        read = unpacked(name, number, blocks)
        types = self._sources if read is None else (dtype_of(read[0]), dtype_of(read[1]))
        self._require(types == self._sources, op.name, f"unpacks {types}, the unpacker is set to {self._sources}")
        by_fpu = form.unit in (Unit.FPU, Unit.REUSE)
        past = ", ".join(f"%{b}" for b in buffers if by_fpu and self._buffers[b].straight)
        self._require(not past, op.name, f"reads {past}, which is unpacked to DST past the FPU")
        wide = self._dtype is DType.F32
        short = ", ".join(v.name for v in blocks if wide and dtype_of(v).value in form.narrow)
        self._require(not short, op.name, f"writes 16 bits of {short} to a DST of 32 bits")

    def _operands(self, places: Sequence[Place], tiles: Sequence[Array], read: Sequence[_Buffer]) -> list[Operand]:
        """Tiles with the buffers that they come from; one of DST goes where the op's buffer goes."""
        waiting = list(read)
        found = []
        for place, tile in zip(places, tiles, strict=True):
            buffer = waiting.pop(0) if place is Place.CB else read[0] if read else None
            dtype, straight = (buffer.type.dtype, buffer.straight) if buffer else (self._dtype, False)
            found.append(Operand(tile, dtype, straight))
        return found

    def _packed(self, tile: Array, dtype: DType) -> Array:
        return rounded(tile, dtype) if self._units is None else packed(tile, self._units.wide, dtype)

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
            own_place = bool(op.attr("accumulate", False))
            in_order = own_place or number == buffer.packed
            self._require(in_order, op.name, f"packs tile {number} where {buffer.packed} is next")
            self._require(number < reserved.tiles, op.name, f"packs beyond the {reserved.tiles} tiles reserved")
            self._require(own_place or not self._adds, op.name, "packs in order while the packer adds to L1")
            assert buffer.reserved is not None
            where = tile_of(buffer.reserved, divmod(number, reserved.shape[1]))
            made = self._packed(np.where(self._mask, self._dst[slot], np.float32(0)), buffer.type.dtype)
            if self._adds:
                self._require(number in buffer.places, op.name, f"adds to tile {number}, which holds nothing")
                made = packer_sum(where, made, buffer.type.dtype)
            where[...] = made
            if own_place:
                buffer.places.add(number)
                buffer.packed = len(buffer.places)
            else:
                buffer.packed += 1


def _init_key(name: str, form: int, buffers: Sequence[str]) -> tuple[object, ...]:
    """What tells inits apart: the call and the circular buffers that it is about."""
    definition = TILE_OPS[name].forms[form]
    count = sum(place is Place.CB for place in definition.places)
    return (definition.init, tuple(buffers[:count]))
