"""An answer of an OpModel as a step of a program in L1."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.l1.events import OpAllocations, plain_allocations
from optimizer.l1.program import Buffer, Step
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.base import OpConstraints


def step_of(
    op_id: str,
    answer: OpConstraints,
    time_ns: int,
    reads: tuple[Buffer, ...],
    writes: tuple[tuple[Buffer, int], ...],
    *,
    shares: Buffer | None = None,
    operand: Buffer | None = None,
    wanted: TensorLayout | None = None,
    is_copy: bool = False,
) -> Step:
    """The step of an op that is answered so; `wanted` is the layout that its first result is to have."""
    happens = answer.allocations
    if happens is None or shares is not None or (writes and None in happens.results):
        happens = _by_sums(answer, writes, shares is None)
    return Step(
        op_id,
        time_ns,
        reads,
        writes,
        shares,
        happens.events,
        tuple((n, b) for n, (b, _) in zip(happens.results, writes, strict=False) if n is not None),
        operand,
        answer.peak_bytes,
        answer.choice_room_bytes,
        _refusal(answer, wanted),
        is_copy,
    )


def _by_sums(answer: OpConstraints, writes: Sequence[tuple[Buffer, int]], own: bool) -> OpAllocations:
    """The events of an op of which only sums are known; `own` says whether its results have buffers of their own."""
    sizes = [size for _, size in writes]
    results = tuple(sizes) if own else ()
    passing = max(0, answer.l1_peak_bytes - sum(sizes))
    return plain_allocations(results, passing, max(0, answer.peak_bytes - sum(results) - passing))


def _refusal(answer: OpConstraints, wanted: TensorLayout | None) -> str | None:
    """Why the OpModel does not take a step as it stands, or what else it gives."""
    if not answer.valid:
        return answer.error or "is refused"
    if wanted is not None and answer.outputs[0].layout != wanted:
        return f"gives {answer.outputs[0].layout.describe()}, not {wanted.describe()}"
    return None
