"""Copies that all happen at once, as a sequence of copies (Boissinot et al., CGO 2009, section IV.C).

A register is written once what it held has been copied away; a cycle is opened through a spare register.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Copy = tuple[int, int]
"""(target, source)"""


def sequential(sources: Mapping[int, int], spare: Collection[int] = ()) -> list[Copy] | None:
    """Copies in an order in which none overwrites what a later one reads; None if a cycle needs a spare register.

    `sources`: target -> source, all different. `spare`: registers that hold nothing before, meanwhile and after.
    """
    pending = {target: source for target, source in sorted(sources.items()) if target != source}
    found: list[Copy] = []
    while pending:
        read = set(pending.values())
        ready = [target for target in pending if target not in read]
        for target in ready:
            found.append((target, pending.pop(target)))
        if ready or not pending:
            continue
        if not spare:
            return None
        opened, via = min(pending), min(spare)
        found.append((via, opened))
        pending = {target: via if source == opened else source for target, source in pending.items()}
    return found
