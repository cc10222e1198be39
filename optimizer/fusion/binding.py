"""Kernels for all regions of a result, equal ones shared, and what fusing saves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.fusion.choosing import choose
from optimizer.fusion.judged import judged, kinds_of
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.regions import Region
from optimizer.fusion.schedule import buffer_bytes
from optimizer.fusion.sharing import shared
from optimizer.fusion.timing import cost_of
from optimizer.ir.graph import Op as GraphOp
from optimizer.ir.opdef import short_name
from optimizer.ir.vocabulary import COPY
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.ir import Op
from optimizer.layouts.tiling import l1_bytes_per_core, tensor_bytes
from optimizer.result import OptimizedGraph

FOLDER = "kernels"
"""Where kernels are, beside the emitted program."""
LONGEST_NAME = 40
"""Characters of a kernel's name; one that would be longer counts its ops instead."""


@dataclass(frozen=True)
class FusedKernel:
    """One set of C++ files, for one or more regions that differ only in their tensors."""

    name: str
    """Folder of its files and function of the emitted program."""
    regions: tuple[Region, ...]
    lowered: Op
    """The program as calls of the kernel API."""

    @property
    def region(self) -> Region:
        """The first region."""
        return self.regions[0]

    @cached_property
    def sources(self) -> tuple[KernelSource, ...]:
        """Compute, reader and writer, with a first line that says what they are."""
        tiles = "x".join(map(str, self.region.home.shard))
        title = f"// {self.name}: {tiles} tiles on each of {self.region.home.cores} cores, emitted by ttopt\n"
        return tuple(replace(s, text=title + s.text) for s in emit_program(self.lowered))

    def files(self) -> dict[str, str]:
        """Path below `FOLDER` -> text."""
        return {f"{self.name}/{source.kind}.cpp": source.text for source in self.sources}


def fused_kernels(result: OptimizedGraph) -> tuple[FusedKernel, ...]:
    """Kernels of the regions of a result that pay, in the order of their first regions."""
    return bound(result, choose(result).taken)


def bound(result: OptimizedGraph, taken: Sequence[Region]) -> tuple[FusedKernel, ...]:
    """Kernels of regions of a result, in the order of their first regions; equal ones are shared."""
    groups: dict[tuple[object, ...], list[Region]] = {}
    for region in taken:
        specs = [(result.graph.value(o.value).shape, result.layouts[o.value]) for o in region.outputs]
        key = (program_of(region), region.home.layout, *specs)
        groups.setdefault(key, []).append(region)
    used: set[str] = set()
    found = []
    for regions in groups.values():
        name = _fresh(_name(result, regions[0]), used)
        found.append(FusedKernel(name, tuple(regions), lowered(program_of(regions[0]), result.device)))
    return tuple(found)


def _name(result: OptimizedGraph, region: Region) -> str:
    """`add_spill`: the ops, a copy by its role."""
    words = [_word(result, op) for op in region.ops]
    text = "_".join(words)
    return text if len(text) <= LONGEST_NAME else f"{words[0]}_to_{words[-1]}_{len(words)}_ops"


def _word(result: OptimizedGraph, op: GraphOp) -> str:
    word = result.records[op.id].role.value if op.op == COPY else short_name(op.op)
    return re.sub(r"\W", "_", word, flags=re.ASCII)


def _fresh(name: str, used: set[str]) -> str:
    number, chosen = 1, name
    while chosen in used:
        number += 1
        chosen = f"{name}_{number}"
    used.add(chosen)
    return chosen


# -- what fusing saves ------------------------------------------------------------------------------------
def savings(result: OptimizedGraph, kernels: tuple[FusedKernel, ...]) -> tuple[dict[str, Any], ...]:
    """One record per region, in schedule order (`docs/formats.md`, `fused_kernels`)."""
    position = {op.id: n for n, op in enumerate(result.graph.ops())}
    pairs = [(kernel, region) for kernel in kernels for region in kernel.regions]
    pairs.sort(key=lambda pair: position[pair[1].anchor])
    return tuple(_record(result, kernel, region) for kernel, region in pairs)


def _record(result: OptimizedGraph, kernel: FusedKernel, region: Region) -> dict[str, Any]:
    graph = result.graph
    inside = {v: sum(op.inputs.count(v) for op in region.ops) for v in region.made}
    sizes = {v: graph.value(v) for v in region.made}
    in_dram = [v for v in region.made if result.layouts[v].is_dram]
    buffers = _buffers(kernel.lowered)
    known = judged(result.device.arch)
    return {
        "kernel": kernel.name,
        "ops": list(region.op_ids),
        "place": region.anchor,
        "inputs": [o.value for o in region.inputs],
        "outputs": [o.value for o in region.outputs],
        "cores": region.home.cores,
        "tiles_per_core": list(region.home.shard),
        "multicast": [o.value for o in shared(region)],
        "k_block": region.scheme.k_block or None,
        "l1_bytes_saved": sum(
            l1_bytes_per_core(sizes[v].shape, sizes[v].dtype, result.layouts[v], result.device) for v in region.vanished
        ),
        "dram_bytes_saved_total": sum(
            tensor_bytes(sizes[v].shape, sizes[v].dtype, result.layouts[v].page_layout)
            * (inside[v] + (v in region.vanished))
            for v in in_dram
        ),
        "round_trips_saved": sum(count > 0 for count in inside.values()),
        "circular_buffers": buffers,
        "circular_buffers_saved": sum(_buffers_alone(region, op, result.device) for op in region.ops) - buffers,
        "circular_buffer_bytes": buffer_bytes(kernel.lowered),
        "judged_by": known.judged_by,
        "unjudged": known.missing(kinds_of(region, kernel.lowered, result.layouts)),
        **_times(result, kernel, region),
    }


def _times(result: OptimizedGraph, kernel: FusedKernel, region: Region) -> dict[str, Any]:
    """What the kernel takes and what its ops would; nothing where ops have no predicted times."""
    predicted = [p for op_id in region.op_ids if (p := result.records[op_id].predicted) is not None]
    if len(predicted) < len(region.ops):
        return {}
    cost, ops_ns = cost_of(region, kernel.lowered, result.layouts, result.device), sum(p.time_ns for p in predicted)
    return {
        "predicted_ns": cost.time_ns,
        "ops_ns": ops_ns,
        "saved_ns": ops_ns - cost.time_ns,
        "bound": cost.bound.value,
        "dram_read_bytes": cost.dram_read_bytes,
        "dram_write_bytes": cost.dram_write_bytes,
    }


def fused_records(
    result: OptimizedGraph, poll: Callable[[], None] = lambda: None
) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """The regions of a result that run as kernels, and the groups that stay ops of TTNN (`docs/formats.md`,
    `fused_kernels` and `refused_kernels`). `poll` is called for every region looked at, and may end it."""
    choice = choose(result, poll)
    refused = tuple({**vars(group), "ops": list(group.ops)} for group in choice.refused)
    return savings(result, bound(result, choice.taken)), refused


def _buffers(program: Op) -> int:
    return sum(op.name == "ttl.bind_cb" for op in program.body.ops)


def _buffers_alone(region: Region, op: GraphOp, device: DeviceSpec) -> int:
    """Circular buffers of a kernel for this op only; where its tensors lie makes no difference to their number."""
    if op.op == COPY:
        return 2
    return _buffers(lowered(program_of(region.alone(op)), device))
