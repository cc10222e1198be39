"""Sections of DST in the IR: acquire, ops, commit, wait, packs, release; and the markers that stand for them before.

Math owns a side of DST from `tile_regs_acquire` to `tile_regs_commit`, the packer from `tile_regs_wait` to
`tile_regs_release`. A loop leaves the phase as it found it, and the thread ends released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.kernels.tensix.dialect import CALL_PREFIX, DST_PREFIX, L1_SUM, L1_SUM_END
from optimizer.kernels.tensix.ir import Op

PHASES = ("release", "acquire", "commit", "wait")
"""In their order; each follows the one before, the first the last."""
_PACKS = ("dst.pack", "dst.pack_block", L1_SUM, L1_SUM_END)
_ANYWHERE = ("dst.init", "dst.uninit", "dst.startup", "dst.reconfig", "dst.pack_reconfig")
"""They set units and touch no slot."""


def section_errors(thread: Op) -> Iterator[str]:
    """What is wrong with the sections of a compute thread."""
    found: list[str] = []
    phase = _walk(thread.body.ops, "release", found)
    if phase != "release":
        found.append(f"ends after tile_regs_{phase}, not after tile_regs_release")
    yield from found


def _walk(ops: Sequence[Op], phase: str, found: list[str]) -> str:
    """The phase after the ops; what breaks a rule is added to `found`."""
    for number, op in enumerate(ops):
        step = op.name.removeprefix("ttl.").removeprefix(CALL_PREFIX)
        if step.startswith("tile_regs_"):
            step = step.removeprefix("tile_regs_")
            due = PHASES[(PHASES.index(phase) + 1) % len(PHASES)]
            if step != due:
                found.append(f"{op.name} #{number} follows tile_regs_{phase}: tile_regs_{due} is due")
            phase = step
        elif op.name in _PACKS and phase != "wait":
            found.append(f"{op.name} #{number} packs after tile_regs_{phase}: packs stand between wait and release")
        elif op.name.startswith(DST_PREFIX) and op.name not in (*_PACKS, *_ANYWHERE) and phase != "acquire":
            found.append(f"{op.name} #{number} runs after tile_regs_{phase}: ops stand between acquire and commit")
        elif op.regions and op.name != "ttl.compute":
            after = _walk(op.body.ops, phase, found)
            if after != phase:
                found.append(f"{op.name} #{number} begins after tile_regs_{phase} and ends after tile_regs_{after}")
            phase = after
    return phase


def marker_errors(ops: Sequence[Op]) -> Iterator[str]:
    """Of `ttl.acquire_dst` and `ttl.release_dst` in one region: each register is released once."""
    held: dict[str, int] = {}
    for number, op in enumerate(ops):
        if op.name == "ttl.acquire_dst" and op.results:
            held[op.result.name] = number
        elif op.name == "ttl.release_dst" and op.operands:
            name = op.operands[0].name
            if name not in held:
                yield f"{op.name} #{number} releases %{name}, which is not held"
            held.pop(name, None)
    for name, number in held.items():
        yield f"ttl.acquire_dst #{number} acquires %{name}, which is never released"
