"""What semaphores and pipes of a given program keep: places in the grid, one sender and one receiver per pipe net, and
a circular buffer whose blocks arrive where the sender expects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from optimizer.kernels.tensix.dialect import BOTH, IF_DST, IF_SRC, PIPE, PIPE_NET, SEMAPHORE
from optimizer.kernels.tensix.ir import Attr, Op, walk
from optimizer.kernels.tensix.pipes import (
    MAX_CORES,
    MAX_SEMAPHORES,
    Pipe,
    PipeNet,
    Site,
    nets_of,
    pipe_of,
    ranges_of,
    sites,
)
from optimizer.kernels.tensix.types import BlockType, PipeType

LISTS = ("src_core", "dst_core", "dst_core_range", "core_range", "origin", "tests")
"""Attributes that are lists of something else than numbers from 1."""
MAX_PIPES = 4096
_SEMAPHORE_OPS = tuple(
    f"ttl.semaphore_{name}" for name in ("wait", "wait_min", "set", "set_remote", "inc_remote", "set_multicast")
)
CROSS_CORE = (SEMAPHORE, PIPE, PIPE_NET, *_SEMAPHORE_OPS, IF_SRC, IF_DST, "ttl.send", "ttl.receive")
"""Ops of this module."""


def _coordinates(value: Attr) -> tuple[int, ...]:
    """A core's coordinates, or none."""
    found = tuple(n for n in value if type(n) is int and n >= 0) if isinstance(value, tuple) else ()
    return found if found == value else ()


def _range(value: Attr) -> bool:
    """Whether a value is a list of [first, end]."""
    ends = [_coordinates(part) for part in value] if isinstance(value, tuple) else []
    return bool(ends) and all(len(e) == 2 and e[0] < e[1] for e in ends)


def _pipe(op: Op) -> Iterator[str]:
    given = dict(op.attrs)
    if ("dst_core" in given) == ("dst_core_range" in given):
        yield "goes to 'dst_core' or to 'dst_core_range', one of them"
    for name in ("src_core", "dst_core"):
        if name in given and not _coordinates(given[name]):
            yield f"attribute '{name}' is a core's coordinates"
    if "src_receives" in given and "dst_core_range" not in given:
        yield "attribute 'src_receives' is about a 'dst_core_range'"
    if "dst_core_range" in given and not _range(given["dst_core_range"]):
        yield "attribute 'dst_core_range' is a list of [first, end] per dimension of the grid, the end excluded"


def _pipe_net(op: Op) -> Iterator[str]:
    if not 1 <= len(op.operands) <= MAX_PIPES or any(not isinstance(v.type, PipeType) for v in op.operands):
        yield f"takes 1 to {MAX_PIPES} pipes"


def _if_pipe(op: Op) -> Iterator[str]:
    if [v.type for v in op.body.args] != [PipeType()]:
        yield "its region has one argument, a pipe"


def _multicast(op: Op) -> Iterator[str]:
    if not _range(op.attr("core_range", ())):
        yield "attribute 'core_range' is a list of [first, end] per dimension of the grid, the end excluded"


RULES: Mapping[str, Callable[[Op], Iterator[str]]] = {
    PIPE: _pipe, PIPE_NET: _pipe_net, IF_SRC: _if_pipe, IF_DST: _if_pipe, "ttl.semaphore_set_multicast": _multicast,
}  # fmt: skip
"""Of single ops."""


def pipe_errors(program: Op) -> Iterator[tuple[str, str]]:
    """Place and message of what would send to no core, or where nobody expects it."""
    grid = program.integers("grid")
    reaching = [op for op in walk(program) if op.name in (PIPE, "ttl.semaphore_set_multicast")]
    if reaching and prod(grid) > MAX_CORES:
        yield program.name, f"cores reach each other in a grid of {prod(grid)} cores, {MAX_CORES} are the most"
        return
    alone = [op for op in reaching if op.name == PIPE and not _reach(op, grid).receivers]
    if alone:
        yield from ((op.name, "goes to its own source only, which does not receive") for op in alone)
        return
    beyond = [(op.name, text) for op in reaching for text in _beyond(_reach(op, grid), grid)]
    if beyond:
        yield from beyond
        return
    threads = [op for op in program.body.ops if op.name in BOTH]
    found = list(sites(threads))
    for name, net in nets_of(program).items():
        yield from ((f"{PIPE_NET} %{name}", text) for text in _net_errors(name, net, found))
    count = sum(op.name == SEMAPHORE for op in program.body.ops)
    if count > MAX_SEMAPHORES:
        yield program.name, f"has {count} semaphores, a core has {MAX_SEMAPHORES}"


def _reach(op: Op, grid: Sequence[int]) -> Pipe:
    """A pipe, or a multicast as one that begins at the first core."""
    return pipe_of(op) if op.name == PIPE else Pipe((0,) * len(grid), ranges_of(op, "core_range"))


def _beyond(pipe: Pipe, grid: Sequence[int]) -> Iterator[str]:
    if len(pipe.source) != len(grid) or len(pipe.ranges) != len(grid):
        yield f"a core of this grid has {len(grid)} coordinates"
        return
    outside = [n >= size for n, size in zip(pipe.source, grid, strict=True)]
    outside += [end > size for (_, end), size in zip(pipe.ranges, grid, strict=True)]
    if any(outside):
        yield f"goes beyond the grid of {' x '.join(map(str, grid))} cores"


def _net_errors(name: str, net: PipeNet, found: Sequence[Site]) -> Iterator[str]:
    sends, receives = _transfers(name, "ttl.send", IF_SRC, found), _transfers(name, "ttl.receive", IF_DST, found)
    if len(sends) != 1 or len(receives) != 1:
        yield (
            f"{len(sends)} ttl.send in {IF_SRC} and {len(receives)} ttl.receive in {IF_DST}: a net has one of each; "
            "another net takes other blocks through the same pipes"
        )
        return
    send, receive = sends[0], receives[0]
    sent, expected = send.op.operands[0].type, receive.op.operands[1].type
    if sent != expected and isinstance(sent, BlockType):
        yield f"sends a {sent}, receives a {expected}"
    if any(p.around for p in net.pipes) and net.sources & net.receivers:
        yield "a core that its own pipe leaves out (src_receives = false) receives from another one"
    shared = {n: net.turns(n) for n in range(len(net.pipes))}
    if any(len(turns) > 1 for turns in shared.values()):
        yield "a pipe to several cores is not the same one in turn for each: they would keep its block in other places"
    many = any(count > 1 for turns in shared.values() for _, count in turns)
    if (many or net.turn > 1) and send.parent.name != IF_SRC:
        yield f"where cores have several pipes, ttl.send stands in {IF_SRC} itself, not in a loop or condition within"
    if many and receive.parent.name != IF_DST:
        yield f"where cores receive from several pipes, ttl.receive stands in {IF_DST} itself"
    if send.thread is receive.thread and net.has_circle():
        yield "cores wait for each other in a circle: let the other data movement thread receive"
    yield from _room_errors(name, net, receive, found, many)


def _transfers(name: str, op: str, role: str, found: Sequence[Site]) -> list[Site]:
    """Sends or receives whose pipe is that of the net's innermost role around them."""
    chosen = []
    for site in found:
        if site.op.name == op and site.within(role, name):
            region = next(o for o in reversed(site.around) if o.name == role)
            if region.operands[0].name == name and region.body.args[0] in site.op.operands:
                chosen.append(site)
    return chosen


def _room_errors(name: str, net: PipeNet, receive: Site, found: Sequence[Site], many: bool) -> Iterator[str]:
    """The sender counts blocks to know where the next one goes, so nothing else may be pushed where it arrives."""
    room = receive.op.operands[1].name
    reserve = next(s for s in found if any(v.name == room for v in s.op.results))
    if reserve.op.name != "ttl.cb_reserve":
        yield f"receives into %{room}, which is not reserved"
        return
    cb = reserve.op.operands[0]
    around = next(n for n, op in enumerate(receive.around) if op.name == IF_DST and op.operands[0].name == name)
    inner = reserve.parent in receive.around[around:]
    outer = reserve.parent is receive.around[around - 1] and receive.parent.name == IF_DST and not many
    if not (inner and reserve.parent is receive.parent) and not outer:
        yield f"room for what is received is reserved beside ttl.receive, or beside {IF_DST} where one pipe ends there"
    pushes = [s for s in found if s.op.name == "ttl.cb_push" and s.op.operands[0] == cb]
    own = [s for s in pushes if s.parent is reserve.parent]
    senders = not (net.sources & net.receivers)
    others = [s for s in pushes if s not in own and not (senders and s.within(IF_SRC, name))]
    if len(own) != 1 or others:
        yield f"{cb} receives its blocks: nothing else is pushed there by a core that receives"
