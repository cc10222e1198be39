"""Liveness and allocation told step by step, for the debugging channels."""

from __future__ import annotations

from optimizer.kernels.amdgpu.debug import enabled, say
from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import FILES, PhysicalReg, RegRange, VirtualReg
from optimizer.kernels.amdgpu.registers.allocate import Allocation
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse


def log_allocation(allocation: Allocation) -> None:
    """Everything that is being listened to, in the order in which it is found out."""
    if enabled("liveness") or enabled("alloc"):
        liveness = analyse(allocation.program)
        if enabled("liveness"):
            _log_liveness(liveness)
        if enabled("alloc"):
            _log_registers(liveness, allocation)
    if enabled("regalloc"):
        _log_decisions(allocation)


def log_failure(program: Program, error: AllocationError) -> None:
    """What is known where registers ran out: the program's liveness, and what was in the way."""
    if enabled("liveness"):
        _log_liveness(analyse(program))
    if enabled("regalloc"):
        say("regalloc", str(error), failed=True, **error.details)


def _log_decisions(allocation: Allocation) -> None:
    for file, made in allocation.classes.items():
        text = f"{len(made.mapping)} registers of class {file} in {made.peak} ({made.method}); pressure {made.pressure}"
        say(
            "regalloc",
            f"{text}, {made.coalesced} moves coalesced",
            reg_class=file,
            peak=made.peak,
            pressure=made.pressure,
            coalesced=made.coalesced,
            method=made.method,
            mapping={str(r): n for r, n in sorted(made.mapping.items())},
        )
    for count, what in ((allocation.copies, "tied operands copied"), (allocation.moves, "moves inserted to make room")):
        if count:
            say("regalloc", f"{count} {what}", count=count)
    for warning in allocation.warnings:
        say("regalloc", warning, warning=True)


def _log_liveness(liveness: Liveness) -> None:
    say("liveness", "Building CFG...")
    cfg = liveness.cfg
    say("liveness", f"Found {len(cfg.blocks)} basic blocks", blocks=[(b.start, b.stop) for b in cfg.blocks])
    for header, body in sorted(cfg.flow.loops().items()):
        say("liveness", f"Detected loop: blocks {min(body)}-{max(body)}", header=header, blocks=sorted(body))
    last_use: dict[VirtualReg, int] = {}
    for place, item in liveness.program.instructions:
        last_use |= {r: place for r in item.used if isinstance(r, VirtualReg)}
    for register in liveness.program.virtual_registers:
        start, end = liveness.live_range(register)
        last = last_use.get(register, start)
        if end > last:
            text = f"Extending live range for {register}: {last} -> {end} (loop-carried)"
            say("liveness", text, register=str(register), start=start, last_use=last, end=end)
        else:
            say("liveness", f"{register} is live from {start} to {end}", register=str(register), start=start, end=end)
    for file in FILES:
        _log_pressure(liveness, file)


def _log_pressure(liveness: Liveness, file: str) -> None:
    """The most registers live at once, where that is first, and which they are."""
    places = [place for place, _ in liveness.program.instructions]
    fullest = max(places, key=lambda place: len(liveness.live_at(place, file)), default=None)
    live = [] if fullest is None else list(map(str, liveness.live_at(fullest, file)))
    text = f"pressure of class {file}: {liveness.pressure(file)}" + (f", behind instruction {fullest}" if live else "")
    say("liveness", text, reg_class=file, pressure=liveness.pressure(file), live=live)


def _log_registers(liveness: Liveness, allocation: Allocation) -> None:
    """Registers taken and given back, in the order of the program's points; those of a range as one, if together."""
    ranges = _ranges(allocation.program)
    events: dict[tuple[int, int, str], list[VirtualReg]] = {}
    for register in allocation.program.virtual_registers:
        whole = ranges.get(register)
        for start, end in liveness.segments[register]:
            for point, taken in ((end, 0), (start, 1)):
                events.setdefault((point, taken, str(whole or register)), []).append(register)
    ordered = sorted(events.items(), key=lambda event: (*event[0][:2], event[1][0]))
    seen: set[PhysicalReg] = set()
    for (point, taken, value), members in ordered:
        physical = [PhysicalReg(r.file, allocation.mapping[r]) for r in members]
        name = str(physical[0] if len(physical) == 1 else RegRange(physical[0], len(physical)))
        place = liveness.item_at[min(point // 2, len(liveness.item_at) - 1)]
        fields = {"register": name, "value": value, "place": place}
        if not taken:
            say("alloc", f"[FREE] {name}", event="free", **fields)
            continue
        again = "  # Reused!" if not seen.isdisjoint(physical) else ""
        seen.update(physical)
        say("alloc", f"[ALLOC] {name} ({_kind(ranges.get(members[0]), len(members))}){again}", event="alloc", **fields)


def _kind(whole: RegRange | None, count: int) -> str:
    """Of what is taken: a single register, a whole range, or a part of one."""
    if whole is None:
        return "single"
    return f"range, align={whole.alignment}" if count == whole.count else f"part of {whole}"


def _ranges(program: Program) -> dict[VirtualReg, RegRange]:
    """The largest range that each register is a part of."""
    found: dict[VirtualReg, RegRange] = {}
    for _, item in program.instructions:
        for operand in (*item.defs, *item.uses):
            if isinstance(operand, RegRange) and isinstance(operand.base, VirtualReg):
                for i in range(operand.count):
                    part = operand.component(i)
                    assert isinstance(part, VirtualReg)
                    if part not in found or found[part].count < operand.count:
                        found[part] = operand
    return found
