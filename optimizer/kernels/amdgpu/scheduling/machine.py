"""One wave's time through instructions in order: a model of issue, shared units, results that arrive, waits.

Instructions issue in order, four cycles each. One whose operands are not there, or whose unit is occupied, holds up
everything behind it. The model inserts the waits that will be due itself. What it leaves out: other waves, which run
meanwhile or are waited for at barriers, caches (every load takes the same time), bank conflicts, and the fetching of
instructions.

Cycles are those of one wave on CDNA3. A wave issues one instruction in four cycles, a wait state. Passes of the matrix
core, four cycles each, and wait states are those of AMD's ISA manual ("AMD Instinct MI300 Instruction Set
Architecture", section 4.5), from `opcodes` and `hazard_rules`. Memory was measured on an MI308X, also CDNA3
(`docs/mem_latency.md` of github.com/tingqli/pyhip): `*_dwordx4` takes 500 to 800 cycles from HBM and 32 per instruction
of one wave, `ds_read_b32` 52 and 4, `ds_read_b128` 64 and 16. Scalar loads are an assumption: no measurement of them
was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from optimizer.kernels.amdgpu.hazard_rules import matrix_states, needs, traces
from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources

# -- cycles ----------------------------------------------------------------------------------------------
ISSUE = 4
VMEM_LATENCY = 640
VMEM_BUSY_PER_REGISTER = 8
LDS_LATENCY = 48
LDS_PER_REGISTER = 4
SMEM_LATENCY = 200


def unit(instruction: Instruction) -> str | None:
    """What an instruction shares with others beyond the issue: the matrix core, or a path to memory."""
    category = opcode(instruction.name).category
    return category.value if category in (Category.MFMA, Category.VMEM, Category.LDS) else None


@lru_cache(maxsize=1 << 14)
def busy(instruction: Instruction) -> int:
    """Cycles for which it occupies its unit."""
    known = opcode(instruction.name)
    if known.category is Category.MFMA:
        return 4 * known.passes
    if known.category is Category.VMEM:
        return max(ISSUE, VMEM_BUSY_PER_REGISTER * _data_registers(instruction))
    return max(ISSUE, LDS_PER_REGISTER * _data_registers(instruction)) if known.category is Category.LDS else ISSUE


@lru_cache(maxsize=1 << 14)
def latency(instruction: Instruction) -> int:
    """Cycles until a memory operation is complete; those of an issue for everything else."""
    known = opcode(instruction.name)
    if known.category is Category.VMEM:
        return VMEM_LATENCY
    if known.category is Category.LDS:
        return LDS_LATENCY + LDS_PER_REGISTER * _data_registers(instruction)
    return SMEM_LATENCY if known.category is Category.SMEM else ISSUE


def _data_registers(instruction: Instruction) -> int:
    """Registers that are loaded or stored, one at least."""
    known = opcode(instruction.name)
    stored = [use.width for use in known.uses if use.kind == "d"] if known.stores else []
    return max([1, *stored, *(definition.width for definition in known.defs)])


@lru_cache(maxsize=1 << 16)
def delay(before: Instruction, after: Instruction) -> int:
    """Cycles from the issue of one instruction to that of a later one that depends on it."""
    states = 0
    left = traces(before)
    due: dict[tuple[str, Resource], int] = {}
    for need in needs(after):
        due[need.kind, need.resource] = max(need.states, due.get((need.kind, need.resource), 0))
    for trace in left:
        if trace.kind in ("mfma", "addend"):
            states = max(states, matrix_states(trace, after))
        else:
            states = max(states, due.get((trace.kind, trace.resource), -1))
    return max(ISSUE * (states + 1), _arrival(before, after))


def _arrival(before: Instruction, after: Instruction) -> int:
    """Cycles until what a memory operation loads is there, if the other instruction touches it."""
    known = opcode(before.name)
    loaded = written_resources(before) if known.counter is not None else ()
    if not loaded:
        return 0
    touched = set(read_resources(after))
    if known.category is not Category.VMEM or opcode(after.name).category is not Category.VMEM:
        touched.update(written_resources(after))
    return 0 if touched.isdisjoint(loaded) else latency(before)


# -- the machine -----------------------------------------------------------------------------------------
_RECENT = 24
"""Readers of a register that are remembered: hazards reach no further back."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A memory operation that was issued."""

    loaded: tuple[Resource, ...]
    issued: int
    complete: int
    in_order: bool
    """Complete no earlier than those before it."""


class Machine:
    """The state of one wave."""

    def __init__(self) -> None:
        self.clock = 0
        """Cycle at which the next instruction may issue."""
        self.outstanding: dict[str, list[Operation]] = {"vmcnt": [], "lgkmcnt": []}
        """Memory operations that nothing has waited for, by counter."""
        self._latest = {"vmcnt": 0, "lgkmcnt": 0}
        self._free: dict[str, int] = {}
        self._writer: dict[Resource, tuple[Instruction, int]] = {}
        self._readers: dict[Resource, list[tuple[Instruction, int]]] = {}

    def run(self, items: Iterable[Instruction]) -> int:
        """Issue instructions one after the other; the cycle behind the last one."""
        for item in items:
            self.issue(item)
        return self.clock

    def issue(self, item: Instruction) -> None:
        """One instruction, behind the wait that it needs."""
        self._insert_wait(item)
        self.record(item, self.start(item))

    def start(self, item: Instruction) -> int:
        """The cycle at which an instruction issues if it comes next."""
        return max(self.clock, self._ready(item))

    def settled(self, resources: Iterable[Resource]) -> int:
        """The cycle at which all of these registers hold what was last written to them."""
        times = [self.clock]
        for resource in resources:
            if resource in self._writer:
                item, issued = self._writer[resource]
                times.append(issued + latency(item))
        return max(times)

    def _insert_wait(self, item: Instruction) -> None:
        """Issue an s_waitcnt if an instruction touches what is being loaded. It covers what was issued before, too; all
        of it while scalar loads are outstanding, which complete in any order."""
        touched = {*read_resources(item), *written_resources(item)}
        due = False
        for counter, queue in self.outstanding.items():
            found = [n for n, operation in enumerate(queue) if not touched.isdisjoint(operation.loaded)]
            if not found:
                continue
            due = True
            covered = queue[: found[-1] + 1] if all(operation.in_order for operation in queue) else queue
            self.outstanding[counter] = queue[len(covered) :]
            self.clock = max([self.clock, *(operation.complete for operation in covered)])
        self.clock += ISSUE * due

    def _ready(self, item: Instruction) -> int:
        times = [self._free.get(unit(item) or "", 0)]
        for resource in (*read_resources(item), *written_resources(item)):
            if resource in self._writer:
                writer, issued = self._writer[resource]
                times.append(issued + delay(writer, item))
        for resource in written_resources(item):
            times += [issued + delay(reader, item) for reader, issued in self._readers.get(resource, ())]
        return max(times)

    def record(self, item: Instruction, start: int, cycles: int = ISSUE) -> None:
        """What an instruction that issues at `start` leaves behind; the next one may issue `cycles` later."""
        self.clock = start + cycles
        shared = unit(item)
        if shared is not None:
            self._free[shared] = start + busy(item)
        for resource in read_resources(item):
            recent = self._readers.setdefault(resource, [])
            recent.append((item, start))
            del recent[:-_RECENT]
        for resource in written_resources(item):
            self._writer[resource] = item, start
            self._readers.pop(resource, None)
        known = opcode(item.name)
        if known.counter is not None:
            in_order = known.category is not Category.SMEM
            complete = start + latency(item)
            if in_order:
                complete = self._latest[known.counter] = max(complete, self._latest[known.counter])
            self.outstanding[known.counter].append(Operation(written_resources(item), start, complete, in_order))
