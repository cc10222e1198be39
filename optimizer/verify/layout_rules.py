"""Layouts: that every value has one, that its shards cover it, and where which kinds of values may lie."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.ir.graph import ValueKind
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import SEND, opdef
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, ShardSpec, TensorMemoryLayout
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig
from optimizer.layouts.tiling import TILE, ceil_div, physical_shape
from optimizer.result import Role
from optimizer.verify.subject import Error, Subject


def has_layouts(subject: Subject) -> Iterator[Error]:
    """Every value has a layout that its element type can have: block floats exist in tiles only."""
    for v, value in subject.graph.values.items():
        layout = subject.layouts.get(v)
        if layout is None:
            yield v, "value without a layout"
        elif value.dtype.is_block_float and layout.page_layout is PageLayout.ROW_MAJOR:
            yield v, f"{value.dtype.value} exists in tiles only"


def has_shards(subject: Subject) -> Iterator[Error]:
    """Shards cover their tensor, are whole tiles, and lie on distinct cores of the board, or DRAM banks."""
    for v, layout in subject.layouts.items():
        spec = layout.shard_spec
        if not layout.is_sharded:
            if spec is not None:
                yield v, "interleaved layout with shards"
            continue
        if spec is None:
            yield v, "sharded layout without shards"
            continue
        if layout.is_host:
            yield v, f"shards exist on the board only, this is {layout.describe()}"
        if layout.is_tile and (spec.shape[0] % TILE or spec.shape[1] % TILE):
            yield v, f"shard {list(spec.shape)} is not made of whole tiles"
        placed = list(_cores(subject, layout.memory, spec))
        yield from ((v, message) for message in placed)
        rows, cols = physical_shape(subject.graph.value(v).shape, layout.page_layout)
        if not placed and not _covers(layout.memory_layout, spec, rows, cols):
            yield v, f"shards of {layout.describe()} do not cover {rows}x{cols}"


def asks_for_shards(subject: Subject) -> Iterator[Error]:
    """Shards that an op is asked for lie on distinct cores of the board."""
    for op_id, record in subject.records.items():
        if record.request is not None and record.request.shard_spec is not None:
            for message in _cores(subject, record.request, record.request.shard_spec):
                yield op_id, f"asked for: {message}"


def _cores(subject: Subject, memory: MemoryConfig, spec: ShardSpec) -> Iterator[str]:
    """What is wrong with the cores of shards, or the banks; counted before they are written down one by one."""
    device = subject.device
    max_y, max_x = (1, device.dram_banks) if memory.buffer_type is BufferType.DRAM else device.grid_yx
    outside = any(not (0 <= x0 <= x1 < max_x and 0 <= y0 <= y1 < max_y) for x0, y0, x1, y1 in spec.core_ranges)
    if outside or spec.num_cores > max_y * max_x:
        shown = f"{list(spec.core_ranges[:4])}{' ...' if len(spec.core_ranges) > 4 else ''}"
        yield f"core ranges {shown} overlap or leave the {max_y}x{max_x} grid"
        return
    cores = {(x, y) for x0, y0, x1, y1 in spec.core_ranges for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)}
    if len(cores) != spec.num_cores:
        yield f"core ranges {spec.core_ranges} overlap or leave the {max_y}x{max_x} grid"
    if memory.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and len(spec.core_ranges) != 1:
        yield "block sharding needs one rectangle of cores"
    if spec.grid_yx[0] * spec.grid_yx[1] != spec.num_cores:
        yield f"a grid of {spec.grid_yx[0]}x{spec.grid_yx[1]} shards does not lie on {spec.num_cores} cores"


def _covers(memory_layout: TensorMemoryLayout, spec: ShardSpec, rows: int, cols: int) -> bool:
    height, width = spec.shape
    needed_y, needed_x = ceil_div(rows, height), ceil_div(cols, width)
    if memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return width >= cols and needed_y <= spec.num_cores
    if memory_layout is TensorMemoryLayout.WIDTH_SHARDED:
        return height >= rows and needed_x <= spec.num_cores
    return needed_y <= spec.grid_yx[0] and needed_x <= spec.grid_yx[1]


def returns_from_dram(subject: Subject) -> Iterator[Error]:
    """Graph outputs are in DRAM, interleaved."""
    for v in dict.fromkeys(subject.graph.outputs):
        layout = subject.layouts.get(v)
        if layout is not None and (not layout.is_dram or layout.is_sharded):
            yield v, f"graph output must be DRAM interleaved, is {layout.describe()}"


def takes_from_dram(subject: Subject) -> Iterator[Error]:
    """What the caller feeds is in DRAM, interleaved."""
    for v, value in subject.graph.values.items():
        layout = subject.layouts.get(v)
        if value.kind is ValueKind.INPUT and layout is not None and (not layout.is_dram or layout.is_sharded):
            yield v, f"graph input must be DRAM interleaved, is {layout.describe()}"


def keeps_in_l1_what_a_run_reads(subject: Subject) -> Iterator[Error]:
    """A weight is in L1 only where an op of a run reads it there, and no op on the host does."""
    graph = subject.graph
    for v, layout in subject.layouts.items():
        if not layout.is_l1 or not graph.is_static(v):
            continue
        roles = [subject.role(op) for op in graph.consumers(v)]
        if Role.HOST in roles:
            yield v, "is in L1, where no op on the host can read it"
        if all(role is Role.HOST for role in roles):
            yield v, "is in L1, where no op of a run reads it"


def keeps_in_banks_what_reads_them(subject: Subject) -> Iterator[Error]:
    """A tensor over DRAM banks is a weight that is not computed, and all that reads it is made for that."""
    graph = subject.graph
    for v, layout in subject.layouts.items():
        if not layout.is_over_banks:
            continue
        if not graph.is_static(v) or graph.producer(v) is not None:
            yield v, f"only weights as they are given may be {layout.describe()}"
        for op in graph.consumers(v):
            config = subject.records[op.id].config
            if not isinstance(config, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig):
                yield v, f"is {layout.describe()}, which {op.op} '{op.id}' does not read"


def computes_on_the_host(subject: Subject) -> Iterator[Error]:
    """An op that TTNN lacks runs on the host, with operands and results there."""
    for op in subject.graph.ops():
        if not opdef(op.op).opaque:
            continue
        if subject.role(op) is not Role.HOST:
            yield op.id, f"TTNN has no {op.op}: it must have role host"
        for v in (*op.inputs, *op.outputs):
            if not subject.layout(v).is_host:
                yield op.id, f"{op.op} runs on the host, '{v}' is in {subject.layout(v).describe()}"


def reads_from_the_host(subject: Subject) -> Iterator[Error]:
    """An op of a run reads a tensor on the host only where it prepares that itself, or brings it to the board."""
    for op in subject.run_ops():
        row = opdef(op.op)
        for k, v in enumerate(op.inputs):
            prepares = row.operand_page(k) is Page.HOST and subject.graph.is_static(v)
            if subject.layout(v).is_host and not prepares and op.op != SEND:
                yield op.id, f"reads '{v}' on the host"
