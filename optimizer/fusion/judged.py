"""What fused kernels are made of, and which of it has computed right values.

The kinds of a kernel are the calls of its compute thread, by the width of DST, and the ways its tensors come and go.
`judged_kinds.json` names those that ran in kernels whose values, on Tenstorrent's functional simulator, were within the
error bound of the exact ones (`benchmarks/kernel_values.py` writes it); ttnn's and the simulator's versions stand there
too. A kernel of which a kind is missing says so in the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from optimizer.errors import StateError
from optimizer.fusion.lowering import compute_threads
from optimizer.fusion.placement import Operand
from optimizer.fusion.regions import Region
from optimizer.fusion.sharing import shared
from optimizer.kernels.tensix.dialect import CALL_PREFIX
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.layouts.memory_config import TensorLayout

RECORD = "judged_kinds.json"
"""Beside this module."""


@dataclass(frozen=True)
class Judged:
    """What has been judged on one architecture."""

    judged_by: str | None
    """Versions: `ttnn 0.81.1, ttsim 1.10.0`; None: nothing has judged any."""
    kinds: frozenset[str]
    """Those that were right."""

    def missing(self, kinds: Iterable[str]) -> list[str]:
        """Those of these kinds that nobody has seen give right values."""
        return [kind for kind in kinds if kind not in self.kinds]


def kinds_of(region: Region, program: Op, layouts: Mapping[str, TensorLayout]) -> tuple[str, ...]:
    """Kinds of a region's kernel, sorted. `program`: its calls of the kernel API."""
    width = 32 if program.attr("fp32_dest_acc_en", False) else 16
    found = {
        f"{_call(op)} into {width} bits"
        for thread in compute_threads(program)
        for op in walk(thread)
        if op.name.startswith(CALL_PREFIX)
    }
    multicast = shared(region)
    found |= {_move("bring", o, layouts) + (", multicast" if o in multicast else "") for o in region.inputs}
    found |= {_move("take", o, layouts) for o in region.outputs}
    return tuple(sorted(found))


def _call(op: Op) -> str:
    template = op.strings("template", ())
    return op.name.removeprefix(CALL_PREFIX) + (f"<{', '.join(template)}>" if template else "")


def _move(way: str, operand: Operand, layouts: Mapping[str, TensorLayout]) -> str:
    """How a tensor comes to the kernel or leaves it: in place, or tile by tile from or to memory laid out so."""
    layout = layouts[operand.value]
    memory = layout.memory_layout.value.lower()
    if operand.resident:
        return f"{way} {operand.kind.value} in place, {memory}"
    return f"{way} {operand.kind.value}, {'dram' if layout.is_dram else 'l1'} {memory}"


@cache
def judged(arch: str) -> Judged:
    """What has been judged on an architecture (`wormhole_b0`, `blackhole`)."""
    document = json.loads((files("optimizer.fusion") / RECORD).read_text(encoding="utf-8"))
    found = document.get(arch, {"by": None, "kinds": ()})
    if set(found) != {"by", "kinds"}:
        raise StateError(f"{RECORD}: '{arch}' has {sorted(found)}, not by and kinds")
    return Judged(found["by"], frozenset(found["kinds"]))
