"""Re-checks a finished result from scratch.

Nothing here trusts the policy, the solver or the transform: layouts are re-derived from shapes, every op is
put to the OpModel again with the layouts its operands really have, and L1 is replayed step by step with an
allocator of this file's own. `verify` returns every error it finds; the pipeline raises on any.

What is checked:
    structure   every value defined before use, produced once; shapes by the vocabulary's rules; outputs kept
    layouts     every value has one; shards cover the tensor, fit the grid, match their core ranges
    ops         the OpModel accepts each with these operands and produces exactly the stated layout
    memory      residents + the op's own peak <= the plan's limit at every step, and the runtime's first-fit,
                top-down placement leaves room for the circular buffers; weights in L1 are there throughout
    copies      no copy that nobody reads, none to the layout it comes from; outputs are in DRAM
    overrides   what the options fix of single ops is so (`verify_overrides`)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from optimizer.errors import TtoptError
from optimizer.ir.graph import Op, ValueKind
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div, l1_bytes_per_core, physical_shape, round_up
from optimizer.opmodel.base import OpConstraints, OpModel
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.pricing import OpPricer
from optimizer.verify_overrides import broken_overrides

_COPIES = (Role.RESHARD, Role.SPILL, Role.LOAD)


@dataclass(frozen=True)
class StepMemory:
    """L1 per core while one op runs."""

    op: str
    resident_bytes: int
    """Tensors alive before the op allocates anything, its operands included."""
    own_peak_bytes: int
    """Outputs, temporaries and circular buffers of the op."""
    cb_bytes: int
    extent_bytes: int
    """Depth of the deepest tensor from the top of L1, holes included, plus the buffers and temporaries below."""

    @property
    def total_bytes(self) -> int:
        return self.resident_bytes + self.own_peak_bytes


@dataclass
class VerifyReport:
    """What `verify` found."""

    errors: list[tuple[str, str]] = field(default_factory=list)
    """(op or value id, message)."""
    steps: list[StepMemory] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def peak_l1_bytes(self) -> int:
        return max((s.total_bytes for s in self.steps), default=0)


def verify(result: OptimizedGraph, model: OpModel) -> VerifyReport:
    """Check a result against an OpModel; never raises for a wrong result, only reports."""
    report = VerifyReport()
    checker = _Checker(result, model, report)
    checker.structure()
    checker.layouts()
    if report.ok:
        checker.copies()
        report.errors += broken_overrides(result)
        answers = checker.ops()
        if report.ok:
            checker.memory(answers)
    return report


class _Checker:
    def __init__(self, result: OptimizedGraph, model: OpModel, report: VerifyReport) -> None:
        self.result = result
        self.graph = result.graph
        self.model = model
        self.report = report
        self.device = result.device
        options = result.options
        self.limit_bytes = self.device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap)
        self.bank_bytes = self.device.l1_bank_bytes(options.l1_small_bytes)
        pages = {v: layout.page_layout for v, layout in result.layouts.items()}
        self.pricer = OpPricer(self.graph, pages, model, self.limit_bytes)

    def error(self, place: str, message: str) -> None:
        self.report.errors.append((place, message))

    # -- structure ---------------------------------------------------------------------------------
    def structure(self) -> None:
        defined = {v.id for v in self.graph.values.values() if self.graph.producer(v.id) is None}
        for v in defined:
            if self.graph.value(v).kind is ValueKind.ACTIVATION:
                self.error(v, "activation without a producer")
        for op in self.graph.ops():
            if op.id not in self.result.records:
                self.error(op.id, "op without a record")
            for v in op.inputs:
                if v not in defined:
                    self.error(op.id, f"reads '{v}' before it is computed")
            for v in op.outputs:
                if v in defined:
                    self.error(op.id, f"computes '{v}' a second time")
                defined.add(v)
            self._shapes(op)
        for v in self.graph.outputs:
            if v not in defined:
                self.error(v, "graph output is never computed")

    def _shapes(self, op: Op) -> None:
        row = opdef(op.op)
        if row.opaque or any(v not in self.graph.values for v in (*op.inputs, *op.outputs)):
            return
        try:
            shapes = row.infer_shapes(op, tuple(self.graph.value(v).shape for v in op.inputs))
        except TtoptError as error:
            self.error(op.id, str(error))
            return
        stated = tuple(self.graph.value(v).shape for v in op.outputs)
        if shapes != stated:
            self.error(op.id, f"shape rule gives {shapes}, the values state {stated}")

    # -- layouts -----------------------------------------------------------------------------------
    def layouts(self) -> None:
        for v in self.graph.values:
            layout = self.result.layouts.get(v)
            if layout is None:
                self.error(v, "value without a layout")
            elif layout.is_sharded:
                self._shards(v, layout)
        for v in self.graph.outputs:
            layout = self.result.layouts.get(v)
            if layout is not None and (not layout.is_dram or layout.is_sharded):
                self.error(v, f"graph output must be DRAM interleaved, is {layout.describe()}")

    def _shards(self, value_id: str, layout: TensorLayout) -> None:
        """Shards must cover the tensor, be made of whole tiles, and lie on distinct existing cores."""
        spec = layout.shard_spec
        if spec is None:
            self.error(value_id, "sharded layout without shards")
            return
        rows, cols = physical_shape(self.graph.value(value_id).shape, layout.page_layout)
        height, width = spec.shape
        if layout.is_tile and (height % TILE or width % TILE):
            self.error(value_id, f"shard {list(spec.shape)} is not made of whole tiles")
        cores = [(x, y) for x0, y0, x1, y1 in spec.core_ranges for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)]
        max_y, max_x = self.device.grid_yx
        if len(set(cores)) != len(cores) or any(x >= max_x or y >= max_y for x, y in cores):
            self.error(value_id, f"core ranges {spec.core_ranges} overlap or leave the {max_y}x{max_x} grid")
        needed_y, needed_x = ceil_div(rows, height), ceil_div(cols, width)
        fits = {
            TensorMemoryLayout.HEIGHT_SHARDED: width >= cols and needed_y <= len(cores),
            TensorMemoryLayout.WIDTH_SHARDED: height >= rows and needed_x <= len(cores),
            TensorMemoryLayout.BLOCK_SHARDED: needed_y <= spec.grid_yx[0] and needed_x <= spec.grid_yx[1],
        }
        if not fits[layout.memory_layout]:
            self.error(value_id, f"shards of {layout.describe()} do not cover {rows}x{cols}")
        if layout.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and len(spec.core_ranges) != 1:
            self.error(value_id, "block sharding needs one rectangle of cores")

    # -- copies ------------------------------------------------------------------------------------
    def copies(self) -> None:
        for op in self.graph.ops():
            role = self.result.records[op.id].role
            if role not in _COPIES:
                continue
            source, target = self.result.layouts[op.inputs[0]], self.result.layouts[op.outputs[0]]
            if source == target:
                self.error(op.id, "copies a value to the layout it already has")
            if not self.graph.use_count(op.outputs[0]):
                self.error(op.id, "copy that nothing reads")
            expected = {
                Role.SPILL: source.is_l1 and target.is_dram,
                Role.LOAD: source.is_dram and target.is_l1,
                Role.RESHARD: source.is_l1 and target.is_l1,
            }
            if not expected[role]:
                self.error(op.id, f"is no {role.value}: {source.describe()} -> {target.describe()}")

    # -- ops ---------------------------------------------------------------------------------------
    def ops(self) -> dict[str, OpConstraints]:
        """Every op of a run, asked again; answers by op id."""
        answers = {}
        self._opaque_ops()
        for op in self._run_ops():
            record = self.result.records[op.id]
            operands = [self.result.layouts[v] for v in op.inputs]
            answer = self.model.constraints(self.pricer.query(op, operands, record.config, record.request))
            if not answer.valid:
                self.error(op.id, f"{op.op} is refused: {answer.error}")
                continue
            answers[op.id] = answer
            if record.role is Role.VIEW and answer.l1_peak_bytes:
                self.error(op.id, f"is no view: {op.op} allocates {answer.l1_peak_bytes} B")
            self._outputs(op, answer)
        return answers

    def _opaque_ops(self) -> None:
        """An op that TTNN lacks runs on the host, with operands and results there."""
        for op in self.graph.ops():
            if not opdef(op.op).opaque:
                continue
            if self.result.records[op.id].role is not Role.HOST:
                self.error(op.id, f"TTNN has no {op.op}: it must have role host")
            for v in (*op.inputs, *op.outputs):
                if not self.result.layouts[v].is_host:
                    self.error(op.id, f"{op.op} runs on the host, '{v}' is in {self.result.layouts[v].describe()}")

    def _outputs(self, op: Op, answer: OpConstraints) -> None:
        """Results must be exactly what the op gives."""
        stated = [self.result.layouts[v] for v in op.outputs]
        if len(answer.outputs) != len(stated):
            self.error(op.id, f"{op.op} gives {len(answer.outputs)} results, {len(stated)} are stated")
        for v, layout, given in zip(op.outputs, stated, answer.outputs, strict=False):
            value = self.graph.value(v)
            if given.layout != layout:
                self.error(op.id, f"'{v}' is stated as {layout.describe()}, {op.op} gives {given.layout.describe()}")
            if (given.shape, given.dtype) != (value.shape, value.dtype):
                self.error(
                    op.id,
                    f"'{v}' is stated as {list(value.shape)} {value.dtype.value}, "
                    f"{op.op} gives {list(given.shape)} {given.dtype.value}",
                )

    def _run_ops(self) -> Iterator[Op]:
        return (op for op in self.graph.ops() if self.result.records[op.id].role is not Role.HOST)

    # -- memory ------------------------------------------------------------------------------------
    def memory(self, answers: dict[str, OpConstraints]) -> None:
        """Replay the schedule: weights first, then allocate top-down first-fit, free after the last read."""
        ops = list(self._run_ops())
        buffer_of = self._buffers(ops)
        last_read = {buffer_of[v]: step for step, op in enumerate(ops) for v in op.inputs if v in buffer_of}
        live: dict[str, tuple[int, int]] = {}
        for v in weights_in_l1(self.result):
            live[v] = place_buffer(live, round_up(self._bytes(v), self.device.l1_buffer_alignment_bytes))
            last_read[v] = len(ops)
        for step, op in enumerate(ops):
            answer = answers[op.id]
            resident = sum(end - start for start, end in live.values())
            outputs = {v: self._bytes(v) for v in op.outputs if buffer_of.get(v) == v}
            before = max((end for _, end in live.values()), default=0)
            for v, size in outputs.items():
                live[v] = place_buffer(live, round_up(size, self.device.l1_buffer_alignment_bytes))
            after = max((end for _, end in live.values()), default=0)
            inside = max(0, answer.peak_bytes - sum(outputs.values()))
            extent = max(before + answer.cb_bytes, after + inside)
            memory = StepMemory(op.id, resident, answer.peak_bytes, answer.cb_bytes, extent)
            self.report.steps.append(memory)
            self._check_step(memory)
            for v in [v for v in live if last_read.get(v, -1) <= step]:
                del live[v]

    def _check_step(self, memory: StepMemory) -> None:
        if memory.total_bytes > self.limit_bytes:
            self.error(
                memory.op,
                f"L1 holds {memory.resident_bytes} B and the op takes {memory.own_peak_bytes} B more: "
                f"{memory.total_bytes} B of {self.limit_bytes} B",
            )
        if memory.extent_bytes > self.bank_bytes:
            self.error(
                memory.op,
                f"tensors, holes and circular buffers take {memory.extent_bytes} B of the {self.bank_bytes} B of L1",
            )

    def _buffers(self, ops: list[Op]) -> dict[str, str]:
        """L1 value -> the value whose buffer it lives in (itself, or the source of a view)."""
        buffers: dict[str, str] = {}
        for op in ops:
            is_view = self.result.records[op.id].role is Role.VIEW
            for v in op.outputs:
                if self.result.layouts[v].is_l1:
                    buffers[v] = buffers.get(op.inputs[0], v) if is_view else v
        return buffers

    def _bytes(self, value_id: str) -> int:
        value = self.graph.value(value_id)
        return l1_bytes_per_core(value.shape, value.dtype, self.result.layouts[value_id], self.device)


def weights_in_l1(result: OptimizedGraph) -> list[str]:
    """Weights that the ops of a run read from L1, in the order of their first readers.

    They are put there once and stay: no op of a run computes them.
    """
    found: dict[str, None] = {}
    for op in result.graph.ops():
        if result.records[op.id].role is not Role.HOST:
            for v in op.inputs:
                if result.layouts[v].is_l1 and result.graph.value(v).kind in (ValueKind.PARAMETER, ValueKind.CONSTANT):
                    found[v] = None
    return list(found)


def place_buffer(live: dict[str, tuple[int, int]], size: int) -> tuple[int, int]:
    """(start, end) distance from the top of L1 of the first hole that takes `size` bytes."""
    start = 0
    for used_start, used_end in sorted(live.values()):
        if used_start - start >= size:
            break
        start = max(start, used_end)
    return (start, start + size)
