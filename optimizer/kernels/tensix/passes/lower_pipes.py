"""Semaphores and pipes become calls of the dataflow API.

A block goes through a pipe in five steps, which keep it from being overwritten and from being read too early:

    receiver   has reserved room, sets its `arrived` to 0, adds 1 to `invited` of the sender
    sender     waits until all receivers of the pipe have done so, sets `invited` to 0
    sender     writes the block to the place in the receivers' buffers that it has counted
    sender     lets `arrived` of every receiver be 1: to one core after a barrier, to several right behind the block,
               as multicasts of one thread arrive in order
    receiver   waits for `arrived`, and may push the block

Every buffer has the same place in all cores' L1 and is filled in order, so the sender needs no address of a receiver.
A core that sends through several pipes of a net has an `invited` for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from optimizer.errors import LimitError
from optimizer.kernels.tensix.dialect import BOTH, COMPUTE, IF_DST, IF_SRC, PIPE, PIPE_NET, SEMAPHORE
from optimizer.kernels.tensix.index_expr import IndexMap, dim
from optimizer.kernels.tensix.ir import Names, Op, Region, Value, attributes, walk
from optimizer.kernels.tensix.passes.noc_calls import Word, add_on, barrier, call, set_on, set_on_all, set_own, wait
from optimizer.kernels.tensix.pipes import MAX_CORES, MAX_SEMAPHORES, Pipe, PipeNet, nets_of, ranges_of, sites
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, SemaphoreType


def lower_pipes(program: Op) -> Op:
    """All data movement threads; after `fold-grid`. LimitError if there are more semaphores than a core has."""
    if not any(op.name in (SEMAPHORE, PIPE_NET) for op in program.body.ops):
        return program
    lowering = _Lowering(program, Names(program))
    threads = [lowering.thread(op) for op in program.body.ops if op.name in BOTH]
    kept = [op for op in program.body.ops if op.name not in (*BOTH, PIPE, PIPE_NET)]
    lowered = program.with_body((*kept, *lowering.declared, *threads))
    count = sum(op.name == SEMAPHORE for op in lowered.body.ops)
    if count > MAX_SEMAPHORES:
        raise LimitError(
            f"{count} semaphores, those of pipes included; nets in which each core sends through one pipe take least",
            node=f"{program.name} @{program.string('sym_name')}",
            limit=MAX_SEMAPHORES,
        )
    return lowered


@dataclass(frozen=True)
class _Net:
    """A net with its semaphores and the circular buffer that receives."""

    net: PipeNet
    cb: Value
    arrived: Value
    invited: Value
    """The first of as many as one core has pipes to send through."""

    @property
    def blocks(self) -> int:
        return self.cb.typed(CircularBufferType).block_count


@dataclass(frozen=True)
class _Role:
    """Pipes as the code of one region sees them: numbers of the one whose turn it is."""

    net: _Net
    kind: str
    numbers: Mapping[str, Value]
    turn: Value | None = None
    """How many blocks, or rounds of a core's pipes, the sender has been through; begins again with the buffer."""
    base: Value | None = None
    """Where the receivers' buffer begins."""

    @property
    def invited(self) -> Word:
        return Word(self.net.invited, self.numbers["ordinal"] if self.net.net.turn > 1 else None)


@dataclass
class _Lowering:
    program: Op
    names: Names
    declared: list[Op] = field(default_factory=list)
    _nets: dict[str, _Net] = field(default_factory=dict)
    _one: Value | None = None
    """A semaphore that is always 1, for multicasts to have a source."""
    _roles: dict[str, _Role] = field(default_factory=dict)
    """By the pipe's value."""
    _pointer: dict[str, tuple[Value, str]] = field(default_factory=dict)
    """Block -> its circular buffer, and what tells where it is."""
    _moved: set[str] = field(default_factory=set)
    _first: list[Op] = field(default_factory=list)
    """What a thread does before everything else."""

    def __post_init__(self) -> None:
        found = list(sites([op for op in self.program.body.ops if op.name in BOTH]))
        takes = {"ttl.cb_wait": "get_read_ptr", "ttl.cb_reserve": "get_write_ptr"}
        for site in found:
            if site.op.name in takes:
                self._pointer[site.op.result.name] = site.op.operands[0], takes[site.op.name]
        receives = [site for site in found if site.op.name == "ttl.receive"]
        for name, net in nets_of(self.program).items():
            room = next(site.op.operands[1] for site in receives if site.within(IF_DST, name))
            cb, _ = self._pointer[room.name]
            invited = [self._semaphore(0, "invited") for _ in range(net.turn)]
            self._nets[name] = _Net(net, cb, self._semaphore(0, "arrived"), invited[0])
        if any(pipe.kind != "unicast" for net in self._nets.values() for pipe in net.net.pipes):
            self._one = self._semaphore(1, "one")

    def _semaphore(self, initial: int, stem: str) -> Value:
        value = self.names.value(SemaphoreType(), stem)
        self.declared.append(Op(SEMAPHORE, (), (value,), attributes({"initial": initial})))
        return value

    def thread(self, op: Op) -> Op:
        """One thread; what it adds on other cores has arrived when it ends."""
        if op.name == COMPUTE:
            return op
        self._first = []
        changed = self._all(op.body.ops)
        adds = any(o.name.endswith("noc_semaphore_inc") for inner in changed for o in walk(inner))
        return op.with_body((*self._first, *changed, *((barrier("atomic"),) if adds else ())))

    def _all(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        return tuple(new for op in ops for new in self._op(op))

    def _op(self, op: Op) -> Iterator[Op]:
        if op.name in (IF_SRC, IF_DST):
            yield from self._role(op)
        elif op.name in ("ttl.send", "ttl.receive"):
            self._moved.add(op.result.name)
            yield from self._send(op) if op.name == "ttl.send" else self._receive(op)
        elif op.name.startswith("ttl.semaphore_"):
            yield from self._on_semaphore(op)
        elif op.name != "ttl.transfer_wait" or op.operands[0].name not in self._moved:
            yield op.with_body(self._all(op.body.ops)) if op.regions else op

    def _number(self, value: int) -> Op:
        result = self.names.value(IndexType(), "n")
        return Op("ttl.constant", (), (result,), attributes({"value": value}))

    # -- semaphores of the program -----------------------------------------------------------------------
    def _on_semaphore(self, op: Op) -> Iterator[Op]:
        word, value = Word(op.operands[0]), op.operands[1]
        match op.name.removeprefix("ttl.semaphore_"):
            case "wait" | "wait_min":
                yield wait(word, value, op.name.endswith("min"))
            case "set":
                yield set_own(word, value)
            case "set_multicast":
                yield from self._set_range(op)
            case kind:
                moved = [self._absolute(v, axis) for axis, v in enumerate(op.operands[2:])]
                yield from (made for made in moved if made is not None)
                core = [v if made is None else made.result for v, made in zip(op.operands[2:], moved, strict=True)]
                if kind == "inc_remote":
                    yield add_on(word, value, core)
                else:
                    yield from (set_own(word, value), set_on(word, core), barrier("write"))

    def _absolute(self, v: Value, axis: int) -> Op | None:
        """A coordinate of the grid as one of the chip, where the grid does not begin at its corner."""
        origin = self.program.integers("origin", (0, 0))[axis]
        if not origin:
            return None
        index_map = IndexMap(1, (dim(0) + origin,))
        return Op("ttl.index", (v,), (self.names.value(IndexType(), "at"),), attributes({"map": index_map}))

    def _set_range(self, op: Op) -> Iterator[Op]:
        """This core's own semaphore is set first: the others get its value."""
        semaphore, value = op.operands
        (left, right), (top, bottom) = ranges_of(op, "core_range")
        count = (right - left) * (bottom - top)
        numbers = [self._number(n) for n in (left, top, right - 1, bottom - 1, count)]
        yield from numbers
        *cores, total = (number.result for number in numbers)
        yield set_own(Word(semaphore), value)
        one_core = count == 1
        yield set_on(Word(semaphore), cores[:2]) if one_core else set_on_all(semaphore, semaphore, cores, total, True)
        yield barrier("write")

    # -- roles ---------------------------------------------------------------------------------------------
    def _role(self, op: Op) -> Iterator[Op]:
        """The region for every pipe that this core is the sender or a receiver of."""
        net, sends = self._nets[op.operands[0].name], op.name == IF_SRC
        here = [self.names.value(IndexType(), "core") for _ in range(2)]
        yield from (Op("ttl.core_coordinate", (), (v,), attributes({"axis": a})) for a, v in enumerate(here))
        groups = [tuple(group) for _, group in groupby(net.net.pipes, lambda p: p.kind)] if sends else [net.net.pipes]
        role = _Role(net, "", {})
        if any(inner.name == "ttl.send" for inner in walk(op)):
            role = self._counting(role)
        for n, pipes in enumerate(groups):
            body = op.body if n == 0 else self._copied(op.body)
            yield from self._for_each(replace(role, kind=pipes[0].kind), pipes, here, body, sends)
        if role.turn is not None and net.net.turn > 1 and net.blocks > 1:
            yield _advance(role)

    def _counting(self, role: _Role) -> _Role:
        """Where the receivers' buffer begins, and how far the sender is in it."""
        turn, base = (self.names.value(IndexType(), stem) for stem in ("turn", "base"))
        self._first.append(Op("ttl.cb_base", (role.net.cb,), (base,)))
        if role.net.blocks > 1:
            self._first.append(Op("ttl.counter", (), (turn,)))
        return replace(role, turn=turn, base=base)

    def _for_each(
        self, role: _Role, pipes: tuple[Pipe, ...], here: Sequence[Value], body: Region, sends: bool
    ) -> Iterator[Op]:
        """The region if this core is the sender or a receiver of a pipe; in a loop over several of them."""
        counter = self.names.value(IndexType(), "pipe")
        columns = _columns(role.net.net, pipes)
        looked = [self._lookup(name, values, counter) for name, values in columns.items()]
        at = {name: op.result for name, op in zip(columns, looked, strict=True)}
        self._roles[body.args[0].name] = replace(role, numbers=at)
        x, y = here
        beside: list[Op] = []
        pairs = [(x, "==", at["source_x"]), (y, "==", at["source_y"])]
        if not sends:
            ends = ((x, "left", "right"), (y, "top", "bottom"))
            pairs = [pair for v, first, last in ends for pair in _within(v, first, last, columns, at)]
            if any(pipe.around for pipe in pipes):
                beside = [self._apart(here, at), self._number(1)]
                pairs.append((beside[1].result, "<=", beside[0].result))
        operands = tuple(v for a, _, b in pairs for v in (a, b))
        tests = attributes({"tests": tuple(test for _, test, _ in pairs)})
        chosen = Op("ttl.if", operands, (), tests, (Region((), self._all(body.ops)),))
        used = {v.name for inner in (chosen, *beside) for o in walk(inner) for v in o.operands}
        needed = (*(o for o in looked if o.result.name in used), *beside)
        if len(pipes) == 1:
            yield from (*needed, chosen)
            return
        bounds = attributes({"lower": 0, "upper": len(pipes), "step": 1})
        yield Op("ttl.for", (), (), bounds, (Region((counter,), (*needed, chosen)),))

    def _apart(self, here: Sequence[Value], at: Mapping[str, Value]) -> Op:
        """Something else than 0 where this core is not the source of a pipe."""
        columns, rows = (dim(k) + (dim(k + 2) * -1 + MAX_CORES) for k in range(2))
        index_map = IndexMap(4, (columns % MAX_CORES + rows % MAX_CORES,))
        operands = (*here, at["source_x"], at["source_y"])
        return Op("ttl.index", operands, (self.names.value(IndexType(), "apart"),), attributes({"map": index_map}))

    def _lookup(self, name: str, values: tuple[int, ...], counter: Value) -> Op:
        """A pipe's number by the counter of pipes: a constant, in even steps, or from a table."""
        result = self.names.value(IndexType(), name)
        if len(set(values)) == 1:
            return Op("ttl.constant", (), (result,), attributes({"value": values[0]}))
        step = values[1] - values[0]
        if step > 0 and values == tuple(range(values[0], values[0] + step * len(values), step)):
            even = IndexMap(1, (dim(0) * step + values[0],))
            return Op("ttl.index", (counter,), (result,), attributes({"map": even}))
        return Op("ttl.lookup", (counter,), (result,), attributes({"values": values}))

    def _copied(self, body: Region) -> Region:
        """The region again, with other names for all that it makes."""
        made = [v for op in body.ops for o in walk(op) for v in (*o.results, *(a for r in o.regions for a in r.args))]
        new = {v.name: self.names.value(v.type, v.name) for v in (*body.args, *made)}
        self._pointer |= {new[name].name: found for name, found in self._pointer.items() if name in new}
        return Region(tuple(new[v.name] for v in body.args), tuple(_renamed(op, new) for op in body.ops))

    # -- transfers -----------------------------------------------------------------------------------------
    def _send(self, op: Op) -> Iterator[Op]:
        block = op.operands[0]
        role = self._roles[op.operands[1].name]
        zero, one = self._number(0), self._number(1)
        yield from (zero, one)
        yield wait(role.invited, role.numbers["count"])
        yield set_own(role.invited, zero.result)
        yield self._write(block, role)
        arrived = role.net.arrived
        if role.kind == "unicast":
            yield barrier("write")
            yield add_on(Word(arrived), one.result, _corners(role)[:2])
        else:
            assert self._one is not None
            count, loopback = role.numbers["count"], role.kind == "loopback"
            yield set_on_all(arrived, self._one, _corners(role), count, loopback)
            yield barrier("write")
        if role.net.net.turn == 1 and role.net.blocks > 1:
            yield _advance(role)

    def _write(self, block: Value, role: _Role) -> Op:
        """The block to its place in the buffers of all receivers."""
        cb, pointer = self._pointer[block.name]
        size = str(block.typed(BlockType).tiles * block.typed(BlockType).dtype.tile_bytes)
        corners = _corners(role)
        places, place = _place(role, 5, size)
        if role.kind == "unicast":
            target = f"on_core(#0, #1, {place})"
            return call("noc_async_write", (*corners, cb, *places), (f"{pointer}(#4)", target, size))
        function = f"noc_async_write_multicast{'_loopback_src' if role.kind == 'loopback' else ''}"
        count = f"#{5 + len(places)}"
        operands = (*corners, cb, *places, role.numbers["count"])
        return call(function, operands, (f"{pointer}(#4)", f"on_cores(#0, #1, #2, #3, {place})", size, count))

    def _receive(self, op: Op) -> Iterator[Op]:
        role = self._roles[op.operands[0].name]
        zero, one = self._number(0), self._number(1)
        yield from (zero, one)
        yield set_own(Word(role.net.arrived), zero.result)
        yield add_on(role.invited, one.result, (role.numbers["source_x"], role.numbers["source_y"]))
        yield wait(Word(role.net.arrived), one.result)


def _within(
    v: Value, first: str, last: str, columns: Mapping[str, tuple[int, ...]], at: Mapping[str, Value]
) -> list[tuple[Value, str, Value]]:
    """Tests of whether a coordinate is between two numbers of the pipes."""
    if columns[first] == columns[last]:
        return [(v, "==", at[first])]
    return [(at[first], "<=", v), (v, "<=", at[last])]


def _columns(net: PipeNet, pipes: Sequence[Pipe]) -> dict[str, tuple[int, ...]]:
    """What the code asks of a pipe, for each of them."""
    rows = []
    for pipe in pipes:
        number = net.pipes.index(pipe)
        ((turn, turns),) = net.turns(number)
        (left, right), (top, bottom) = pipe.ranges
        rows.append({
            "source_x": pipe.source[0], "source_y": pipe.source[1], "left": left, "top": top, "right": right - 1,
            "bottom": bottom - 1, "count": len(pipe.receivers), "turn_of_receiver": turn, "turns": turns,
            "ordinal": net.outgoing(pipe.source).index(number),
        })  # fmt: skip
    return {name: tuple(row[name] for row in rows) for name in rows[0]}


def _corners(role: _Role) -> tuple[Value, ...]:
    return tuple(role.numbers[name] for name in ("left", "top", "right", "bottom"))


def _place(role: _Role, first: int, size: str) -> tuple[tuple[Value, ...], str]:
    """Operands, from `#first` on, and text of the address at which the receivers expect the block."""
    assert role.base is not None
    assert role.turn is not None
    base = f"#{first}"
    if role.net.blocks == 1:
        return (role.base,), base
    if all(count == 1 for n in range(len(role.net.net.pipes)) for _, count in role.net.net.turns(n)):
        return (role.base, role.turn), f"{base} + #{first + 1} * {size}"
    turns = (role.numbers["turns"], role.numbers["turn_of_receiver"])
    number = f"(#{first + 1} * #{first + 2} + #{first + 3})"
    return (role.base, role.turn, *turns), f"{base} + {number} % {role.net.blocks} * {size}"


def _advance(role: _Role) -> Op:
    assert role.turn is not None
    return Op("ttl.advance", (role.turn,), (), attributes({"modulus": role.net.blocks}))


def _renamed(op: Op, new: Mapping[str, Value]) -> Op:
    """The op with other names for values, everywhere inside."""

    def other(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(new.get(v.name, v) for v in values)

    regions = tuple(Region(other(r.args), tuple(_renamed(inner, new) for inner in r.ops)) for r in op.regions)
    return replace(op, operands=other(op.operands), results=other(op.results), regions=regions)
