"""Wait states between dependent instructions that the hardware needs and does not insert; `descriptor` has gfx950's.

Source: the AMD Instinct MI300 (CDNA3) ISA reference, section "Manually Inserted Wait States (NOPs)"; the numbers
agree with LLVM 19's GCNHazardRecognizer for gfx942, which the tests use as oracle. An instruction issues in one wait
state, `s_nop N` in N + 1; "needs n" means that at least n wait states lie between producer and consumer.

Where memory accesses may be replayed (XNACK, the default of a target without `:xnack-`), consecutive scalar loads, and
consecutive vector memory instructions, form a clause that may run again from its start: none may write what another
one reads, and a store may not follow a load. Any other instruction in between ends the clause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .operands import EXEC, M0, VCC, VGPR, Register, name_of

VALU_TO_MFMA = 2
VALU_EXEC_TO_MFMA = 4
VALU_SGPR_TO_VALU = 2
VALU_SGPR_TO_VMEM = 5
VALU_SGPR_TO_LANE_SELECT = 4
VALU_VGPR_TO_READLANE = 1
VALU_EXEC_TO_LANE = 4
VALU_VCC_TO_DIV_FMAS = 4
TRANS_TO_VALU = 1
PACKED_TO_VALU = 1
ANY_VGPR_TO_DPP = 2
VALU_EXEC_TO_DPP = 5
WIDE_STORE_DATA_TO_VALU_WRITE = 2
SALU_M0_TO_LDS_DMA = 1
SOFT_CLAUSE = 1
TWO_PASS_MFMA_TO_SAME_C = 2
# Passes of the MFMA that reads a register as C -> states before a VALU or memory instruction may overwrite it.
MFMA_C_READ_TO_WRITE = {2: 1, 4: 3, 8: 7, 16: 15}


@dataclass(frozen=True, slots=True)
class Matrix:
    """What hazards depend on in an MFMA: its passes, whether it is an XDL one (not f32 or f64 inputs), its operands."""

    passes: int
    xdl: bool
    result: Register
    accumulator: Register | None
    inputs: tuple[int, ...] = ()
    """Of A and B."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What hazards depend on in an instruction. `reads` and `writes` hold register keys."""

    unit: str
    """salu, valu, trans, mfma, vmem, lds, smem or flow."""
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    matrix: Matrix | None = None
    lane_access: bool = False
    """v_readlane, v_readfirstlane, v_writelane."""
    lane_select: int | None = None
    dpp: bool = False
    packed: bool = False
    div_fmas: bool = False
    lds_dma: bool = False
    wide_store_data: tuple[int, ...] = ()

    @property
    def is_valu(self) -> bool:
        return self.unit in ("valu", "trans", "mfma")


@dataclass(frozen=True, slots=True)
class Need:
    """`states` wait states are needed after the instruction issued at `clock`."""

    states: int
    clock: int
    nops: int
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Event:
    clock: int
    nops: int
    line: int
    matrix: Matrix | None = None


@dataclass
class _Clause:
    """Consecutive memory instructions of one unit."""

    unit: str
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    last: _Event | None = None


@dataclass
class HazardTracker:
    """The last producers of one wave, by register and kind; `clock` counts wait states, `nops` those of s_nop."""

    clock: int = 0
    nops: int = 0
    last: dict[tuple[str, int], _Event] = field(default_factory=dict)
    """Kind of producer and register -> the last one: any; valu: every VALU; legacy: one that is no MFMA; trans; packed;
    salu; mfma; read as C: by an MFMA; stored: read by a wide store."""
    replays: bool = True
    xdl_delay: int = 0
    """Wait states behind an XDL matrix instruction, beyond those of gfx942."""
    clause: _Clause | None = None

    def advance(self, states: int, *, is_nop: bool) -> None:
        self.clock += states
        self.nops += states if is_nop else 0

    def record(self, traits: Traits, line: int) -> None:
        """Note what the instruction that issues now produces."""
        event = _Event(self.clock, self.nops, line, traits.matrix)
        kinds = ["any", *(["valu"] if traits.is_valu else []), *(["packed"] if traits.packed else [])]
        kinds += {"valu": ["legacy"], "trans": ["legacy", "trans"]}.get(traits.unit, [traits.unit])
        self.last |= {(kind, key): event for key in traits.writes for kind in kinds}
        if traits.matrix is not None and traits.matrix.accumulator is not None and traits.matrix.xdl:
            self.last |= {("read as C", key): event for key in traits.matrix.accumulator.keys}
        self.last |= {("stored", key): event for key in traits.wide_store_data}
        self._extend_clause(traits, event)

    def _extend_clause(self, traits: Traits, event: _Event) -> None:
        if traits.unit not in ("smem", "vmem"):
            self.clause = None
            return
        if self.clause is None or self.clause.unit != traits.unit:
            self.clause = _Clause(traits.unit)
        self.clause.last = event
        self.clause.reads |= set(traits.reads)
        self.clause.writes |= set(traits.writes)

    def since(self, need: Need) -> int:
        """Wait states between the producer of `need` and now."""
        return self.clock - need.clock - 1

    def since_without_nops(self, need: Need) -> int:
        """The same, had there been no s_nop in between."""
        return self.since(need) - (self.nops - need.nops)

    def needs(self, traits: Traits) -> Iterator[Need]:
        """Every wait that the instruction needs after what came before, also those long fulfilled."""
        if traits.is_valu:
            yield from self._valu_needs(traits)
        if traits.unit == "mfma":
            yield from self._mfma_needs(traits)
        elif traits.is_valu or traits.unit in ("vmem", "lds"):
            yield from self._after_mfma(traits)
        if traits.unit == "vmem":
            for key in traits.reads:
                if key < VGPR:
                    yield from self._need("valu", key, VALU_SGPR_TO_VMEM, "VALU writes {}, vector memory reads it")
            for key in (EXEC, EXEC + 1):
                yield from self._need("valu", key, VALU_SGPR_TO_VMEM, "VALU writes {}, vector memory follows")
        if self.replays and traits.unit in ("smem", "vmem"):
            yield from self._clause_needs(traits)
        if traits.lds_dma:
            yield from self._need("salu", M0, SALU_M0_TO_LDS_DMA, "SALU writes m0, a load into LDS reads it")

    def _valu_needs(self, traits: Traits) -> Iterator[Need]:
        for key in traits.reads:
            if key < VGPR and key not in (EXEC, EXEC + 1):
                yield from self._need("valu", key, VALU_SGPR_TO_VALU, "VALU writes {}, VALU reads it")
            if key >= VGPR:
                yield from self._need("packed", key, PACKED_TO_VALU, "packed VALU writes {}, VALU reads it")
            if key >= VGPR and traits.unit != "trans":
                yield from self._need("trans", key, TRANS_TO_VALU, "transcendental VALU writes {}, VALU reads it")
        for key in traits.writes:
            told = "a wide store reads {}, VALU overwrites it"
            yield from self._need("stored", key, WIDE_STORE_DATA_TO_VALU_WRITE, told)
        if traits.lane_access:
            for key in traits.reads:
                # The register that v_writelane keeps in its other lanes is no lane read.
                if key >= VGPR and key not in traits.writes:
                    yield from self._need("valu", key, VALU_VGPR_TO_READLANE, "VALU writes {}, a lane read reads it")
            yield from self._need("valu", EXEC, VALU_EXEC_TO_LANE, "VALU writes {}, a lane access follows")
        if traits.lane_select is not None:
            key = traits.lane_select
            yield from self._need("valu", key, VALU_SGPR_TO_LANE_SELECT, "VALU writes {}, a lane access selects by it")
        if traits.div_fmas:
            yield from self._need("valu", VCC, VALU_VCC_TO_DIV_FMAS, "VALU writes {}, v_div_fmas reads it")
        if traits.dpp:
            yield from self._need("valu", EXEC, VALU_EXEC_TO_DPP, "VALU writes {}, DPP follows")
            for key in traits.reads:
                if key >= VGPR:
                    yield from self._need("any", key, ANY_VGPR_TO_DPP, "{} is written, DPP reads it")

    def _clause_needs(self, traits: Traits) -> Iterator[Need]:
        clause = self.clause
        if clause is None or clause.unit != traits.unit or not clause.writes or clause.last is None:
            return
        is_store = not traits.writes
        shared = (clause.writes | set(traits.writes)) & (clause.reads | set(traits.reads))
        if is_store:
            yield _made(clause.last, SOFT_CLAUSE, "a store follows a load in one clause, which XNACK may replay")
        elif shared:
            names = ", ".join(name_of(key) for key in sorted(shared))
            yield _made(clause.last, SOFT_CLAUSE, f"{names} is read and written in one clause, which XNACK may replay")

    def _mfma_needs(self, traits: Traits) -> Iterator[Need]:
        assert traits.matrix is not None
        yield from self._need("legacy", EXEC, VALU_EXEC_TO_MFMA, "VALU writes {}, MFMA follows")
        accumulator = traits.matrix.accumulator
        for key in traits.reads:
            if key < VGPR:
                continue
            yield from self._need("legacy", key, VALU_TO_MFMA, "VALU writes {}, MFMA reads it")
            event = self.last.get(("mfma", key))
            if event is None or event.matrix is None:
                continue
            if key not in traits.matrix.inputs and accumulator is not None and key in accumulator.keys:
                states = self._mfma_to_c(event.matrix, traits.matrix)
                yield _made(event, states, f"MFMA writes {name_of(key)}, MFMA reads it as C")
            else:
                states = self._to_registers(event.matrix)
                yield _made(event, states, f"MFMA writes {name_of(key)}, MFMA reads it as A or B")

    def _after_mfma(self, traits: Traits) -> Iterator[Need]:
        for verb, keys in (("reads", traits.reads), ("overwrites", traits.writes)):
            for key in keys:
                event = self.last.get(("mfma", key))
                if event is not None and event.matrix is not None:
                    states = self._to_registers(event.matrix)
                    yield _made(event, states, f"MFMA writes {name_of(key)}, {traits.unit} {verb} it")
        for key in traits.writes:
            event = self.last.get(("read as C", key))
            if event is not None and event.matrix is not None:
                states = MFMA_C_READ_TO_WRITE[event.matrix.passes]
                yield _made(event, states, f"MFMA reads {name_of(key)} as C, {traits.unit} overwrites it")

    def _need(self, kind: str, key: int, states: int, reason: str) -> Iterator[Need]:
        event = self.last.get((kind, key))
        if event is not None:
            yield _made(event, states, reason.format(name_of(key)))

    def _to_registers(self, producer: Matrix) -> int:
        """Until a result may be read or overwritten."""
        return producer.passes + (3 + self.xdl_delay if producer.xdl else 2)

    def _mfma_to_c(self, producer: Matrix, consumer: Matrix) -> int:
        if producer.result == consumer.accumulator:
            return TWO_PASS_MFMA_TO_SAME_C if producer.passes == 2 else 0
        if producer.xdl:
            return producer.passes + 1 + self.xdl_delay
        return 0 if consumer.xdl else producer.passes


def _made(event: _Event, states: int, reason: str) -> Need:
    return Need(states, event.clock, event.nops, event.line, reason)
