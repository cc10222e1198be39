"""Which ways to run an op are worth choosing among: those that no other of the same interface beats in time, in L1 and
in the errors that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import overwritten_operand
from optimizer.precision.budget import NO_NOISE, OpNoise
from optimizer.sharding.whole_graph.precision_options import Way as TypedWay

ALMOST = 0.02
"""Within an error budget: share of an op's time by which a way may be slower that takes its place, being no worse
otherwise. No plan over all ways takes less than the bound over those that are left by more than this share."""
Layouts = tuple[TensorLayout, ...]


@dataclass(frozen=True)
class OpOption:
    """One way to run an op."""

    candidate: OpCandidate
    operands: Layouts
    """Of every operand, weights included."""
    time_ns: int
    peak_bytes: int
    """L1 per core that the op takes besides its operands: results, temporaries and circular buffers; or what must be
    free there for TTNN to choose as foreseen, if that is more."""
    weight_bytes: int = 0
    """L1 per core of the weights that it reads from there."""
    noise: OpNoise = NO_NOISE
    """The errors that it makes; none where nobody asks."""


def worthwhile(ladder: Sequence[TypedWay], ask: Callable[[TypedWay], OpOption | None]) -> list[TypedWay]:
    """Of ways of falling exactness, of which no further one takes longer or more, those that take less than all before.

    Between two that take the same, none is asked about.
    """

    def taken(way: TypedWay) -> tuple[int, int, int] | None:
        option = ask(way)
        return None if option is None else (option.time_ns, option.peak_bytes, option.weight_bytes)

    first, last = taken(ladder[0]), taken(ladder[-1])
    if len(ladder) == 1 or first == last:
        return [ladder[0]]
    if len(ladder) == 2:
        return list(ladder)
    middle = len(ladder) // 2
    upper, lower = worthwhile(ladder[: middle + 1], ask), worthwhile(ladder[middle:], ask)
    found = list(dict.fromkeys((*upper, *lower)))
    return [way for n, way in enumerate(found) if n == 0 or taken(way) != taken(found[n - 1])]


def pareto(options: Sequence[OpOption], positions: Sequence[int]) -> tuple[OpOption, ...]:
    """Of options that read and give the same: no other is faster, takes no more of L1 and is as exact.

    Those in place are a front of their own. They take less, but their result lies where the operand does, and a hole
    further up, into which a result of its own would go, stays.
    """
    kept: list[OpOption] = []
    for row in _interfaces(options, positions):
        front: list[OpOption] = []
        for option in sorted(row, key=lambda o: (o.time_ns, o.weight_bytes, o.peak_bytes, o.noise)):
            if all(
                o.weight_bytes > option.weight_bytes
                or o.peak_bytes > option.peak_bytes
                or not o.noise.no_more_than(option.noise)
                for o in front
            ):
                front.append(option)
        kept += front
    return tuple(kept)


def _dominates(one: OpOption, other: OpOption) -> bool:
    """Whether an option that is not slower is no worse otherwise."""
    no_more = one.peak_bytes <= other.peak_bytes and one.weight_bytes <= other.weight_bytes
    return no_more and one.noise.no_more_than(other.noise)


def _interfaces(options: Sequence[OpOption], positions: Sequence[int]) -> Iterable[list[OpOption]]:
    """Options that read and give the same, those in place by themselves."""
    groups: dict[tuple[Layouts, TensorLayout, bool], list[OpOption]] = {}
    for option in options:
        operands = tuple(option.operands[k] for k in positions)
        own = overwritten_operand(option.candidate.config) is None
        groups.setdefault((operands, option.candidate.output, own), []).append(option)
    return groups.values()


def thinned(options: Sequence[OpOption], positions: Sequence[int]) -> tuple[OpOption, ...]:
    """Without options that another of the same interface almost dominates: by `ALMOST` of the time."""
    kept: list[OpOption] = []
    for row in _interfaces(options, positions):
        left, pinned = list(row), set[int]()
        for option in row:
            if id(option) in pinned:
                continue
            found = next((o for o in left if o is not option and _almost_dominates(o, option)), None)
            if found is not None:
                pinned.add(id(found))
                left = [o for o in left if o is not option]
        kept += left
    return tuple(kept)


def _almost_dominates(one: OpOption, other: OpOption) -> bool:
    return one.time_ns <= (1 + ALMOST) * other.time_ns and _dominates(one, other)
