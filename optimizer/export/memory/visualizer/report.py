"""The rows of a ttnn-visualizer report: the emitted program as if it had been captured while it ran."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from optimizer.device import DeviceSpec
from optimizer.export.facts import KERNEL_OP, KernelRun, as_run, as_text, attributes_of, kernel_runs, model_name
from optimizer.export.memory.kernel_memory import with_kernels
from optimizer.export.memory.occupancy import Block, OpMemory, dram_occupancy, l1_occupancy
from optimizer.export.memory.visualizer.captured import DEVICE, Buffer, Node, Programs, captured_graph, plain_graph
from optimizer.export.memory.visualizer.spelling import memory_config_text
from optimizer.export.memory.visualizer.tensors import Tensor, Tensors
from optimizer.export.perf_csv.programs import programs
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import CoreRange, TensorMemoryLayout
from optimizer.layouts.tiling import core_ranges_for
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.process.version import __version__
from optimizer.program.lifetimes import DEALLOCATE, Event
from optimizer.result import OptimizedGraph
from optimizer.verify import verified

Row = tuple[object, ...]
SCHEMA_VERSION = "3.5"
MOST_WEIGHT_ROWS = 2_000_000
"""Rows for weights in DRAM, which are there at every op; beyond it each is listed at the ops that read it."""


class Report:
    """Every op of the run and every deallocation as an operation, numbered from 1 in the order of the program."""

    def __init__(self, result: OptimizedGraph) -> None:
        self.result = result
        self._subject = verified(result)
        self.l1, self.dram = l1_occupancy(self._subject), dram_occupancy(self._subject)
        self.tensors = Tensors(result, self.l1, self.dram)
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._memory = with_kernels(result, self.l1, self.dram)
        fused = {op.id: Event(k.place.id, k.inputs, k.outputs) for k in kernel_runs(result) for op in k.ops}
        self._frees = result.program.deallocated(fused)
        self._live: dict[str, Block] = dict(self.l1.weights)
        self._operations, self._seconds_total = 0, 0.0
        run = list(as_run(result))
        operations = len(run) + sum(map(len, self._frees.values()))
        self._every_weight = len(self.dram.weights) * operations <= MOST_WEIGHT_ROWS
        for step in run:
            self._kernel(step) if isinstance(step, KernelRun) else self._op(step)
        self._tensors()
        self._device()
        self._metadata()

    # -- operations ------------------------------------------------------------------------------------
    def _op(self, op: Op) -> None:
        reads = [self.tensors.operand(op, position) for position in range(len(op.inputs))]
        number = self._begin(self._call(op), self._seconds(op), self._arguments(op))
        self._step(op, number, self._call(op), self._programs(op), reads, op.outputs)

    def _kernel(self, kernel: KernelRun) -> None:
        """One of our kernels, in the place of its ops."""
        name = f"{KERNEL_OP} ({kernel.name})"
        number = self._begin(name, (kernel.time_ns or 0) / 1e9, _kernel_arguments(kernel))
        programs = Programs((kernel.title,), self._cores(kernel.outputs, kernel.cores), self.l1.bank)
        reads = [self.tensors.named(value) for value in kernel.inputs]
        self._step(kernel.place, number, name, programs, reads, kernel.outputs)

    def _step(
        self, op: Op, number: int, name: str, programs: Programs, reads: Sequence[Tensor], outputs: Sequence[str]
    ) -> None:
        """What an operation reads and gives, the memory around it, and what is deallocated after it."""
        for position, tensor in enumerate(reads):
            tensor.consumers.append((number, position))
        for position, value in enumerate(outputs):
            self.tensors.named(value).producers.append((number, position))
        memory = self._memory.l1.get(op.id, OpMemory(op.id, self._live, (), ()))
        self._live = memory.after()
        in_dram = dict(self._memory.dram.get(op.id, {}))
        self._buffers(number, in_dram, [tensor.name for tensor in reads])
        known = {v: self.tensors.in_l1(v) for v in (*memory.residents, *self._live)}
        self._captured(number, captured_graph(name, memory, programs, known))
        self._deallocations(op, memory, in_dram)

    def _deallocations(self, op: Op, memory: OpMemory, in_dram: dict[str, Block]) -> None:
        """The `ttnn.deallocate` calls after an op."""
        for value in self._frees.get(op.id, ()):
            number = self._begin(DEALLOCATE, 0.0, {})
            tensor = self.tensors.named(value)
            tensor.consumers.append((number, 0))
            tensor.deallocated_by = number
            home = self.result.program.homes[value]
            freed = []
            if home in memory.freed and home in self._live:
                freed.append(Buffer(home, self._live.pop(home), self.tensors.in_l1(home)))
            in_dram.pop(value, None)
            self._buffers(number, in_dram, [])
            self._captured(number, plain_graph(DEALLOCATE, freed))
        for value in memory.freed:
            self._live.pop(value, None)

    def _call(self, op: Op) -> str:
        """The function that the program calls; an op on the host has none."""
        if opdef(op.op).opaque:
            return op.op
        return call_text(self._subject.query(op), ["x"] * len(op.inputs)).partition("(")[0]

    def _begin(self, name: str, seconds: float, arguments: Mapping[str, str]) -> int:
        self._operations += 1
        self._seconds_total += seconds
        self.rows["operations"].append((self._operations, name, seconds, 0))
        for argument, value in arguments.items():
            self.rows["operation_arguments"].append((self._operations, argument, value, 0))
        return self._operations

    def _seconds(self, op: Op) -> float:
        predicted = self.result.records[op.id].predicted
        return 0.0 if predicted is None else predicted.time_ns / 1e9

    def _arguments(self, op: Op) -> dict[str, str]:
        """The op's attributes, config and memory config, and what the optimizer says of it."""
        record = self.result.records[op.id]
        found = {name: json.dumps(value) for name, value in attributes_of(op).items()}
        if record.request is not None:
            found["memory_config"] = memory_config_text(record.request)
        if record.config is not None:
            found["config"] = json.dumps(record.config.to_json())
        found |= {"ttopt.op": op.id, "ttopt.name": op.name, "ttopt.role": record.role.value}
        if op.origin:
            found["ttopt.origin"] = json.dumps(op.origin, ensure_ascii=False)
        if record.chain is not None:
            found["ttopt.chain"] = record.chain
        if record.predicted is not None:
            for name in ("time_ns", "bound", "cores", "peak_l1_bytes", "dram_read_bytes", "dram_write_bytes"):
                found[f"ttopt.predicted.{name}"] = str(getattr(record.predicted, name))
        found |= {f"ttopt.reason.{key}": as_text(value) for key, value in record.reason.items()}
        return found

    def _programs(self, op: Op) -> Programs:
        predicted = self.result.records[op.id].predicted
        names = tuple(program.name for program in programs(self.result, op))
        return Programs(names, self._cores(op.outputs, 1 if predicted is None else predicted.cores), self.l1.bank)

    def _cores(self, outputs: Sequence[str], count: int) -> Sequence[CoreRange]:
        """The cores that an operation's programs run on: those of its sharded result, else so many, row by row."""
        spec = self.result.layouts[outputs[0]].shard_spec if outputs else None
        if spec is not None and spec.num_cores >= count:
            return spec.core_ranges
        device = self.result.device
        return core_ranges_for(TensorMemoryLayout.HEIGHT_SHARDED, (min(max(count, 1), device.num_cores), 1), device)

    # -- memory ----------------------------------------------------------------------------------------
    def _buffers(self, number: int, in_dram: Mapping[str, Block], reads: Sequence[str]) -> None:
        """All buffers that are there once an operation has returned."""
        weights = self.dram.weights
        shown = weights if self._every_weight else {name: weights[name] for name in reads if name in weights}
        for name, block in (*self._live.items(), *shown.items(), *in_dram.items()):
            self.rows["buffers"].append((number, DEVICE, *self.tensors.buffer(name, block), 0))
        for name, block in self._live.items():
            for part in self.tensors.chunks(name):
                bank = part.core_y * self.result.device.grid_yx[1] + part.core_x
                self.rows["buffer_chunks"].append(
                    (number, DEVICE, block.address, bank, part.core_x, part.core_y, block.address, part.size_bytes,
                     part.page_bytes, part.pages, 1, 0)
                )  # fmt: skip

    def _captured(self, number: int, nodes: list[Node]) -> None:
        self.rows["captured_graph"].append((number, json.dumps(nodes, ensure_ascii=False), 0))

    # -- the whole -------------------------------------------------------------------------------------
    def _tensors(self) -> None:
        for tensor in self.tensors:
            self.rows["tensors"].append(self.tensors.row(tensor))
            if tensor.address is not None:
                self.rows["device_tensors"].append((tensor.number, DEVICE, tensor.address, 0))
            for number, position in tensor.consumers:
                self.rows["input_tensors"].append((number, position, tensor.number, 0))
                self.rows["tensor_consumers"].append((tensor.number, number, position, 0))
            for number, position in tensor.producers:
                self.rows["output_tensors"].append((number, position, tensor.number, 0))
                self.rows["tensor_producers"].append((tensor.number, number, position, 0))
            uses = [number for number, _ in tensor.consumers if number != tensor.deallocated_by]
            made = tensor.producers[0][0] if tensor.producers else None
            self.rows["tensor_lifetime"].append(
                (tensor.number, made, max(uses, default=None), tensor.deallocated_by, None, None, None, None, 0)
            )

    def _device(self) -> None:
        self.rows["devices"].append(device_row(self.result.device, self.result.options.l1_small_bytes))

    def _metadata(self) -> None:
        summary = self.result.summary_json()
        found = {
            "schema_version": SCHEMA_VERSION,
            "total_duration_ns": round(self._seconds_total * 1e9),
            "ttopt.version": __version__,
            "ttopt.predicted": "every figure is a prediction: nothing was measured",
            "ttopt.model": report_name(self.result),
            "ttopt.policy": self.result.options.policy,
            "ttopt.status": summary.get("status", ""),
            "ttopt.weights_in_dram": "at every operation" if self._every_weight else "at the operations that read them",
        }
        self.rows["report_metadata"] += [(key, str(value)) for key, value in found.items()]


def _kernel_arguments(kernel: KernelRun) -> dict[str, str]:
    found = {
        "ttopt.op": kernel.place.id,
        "ttopt.kernel": kernel.name,
        "ttopt.ops": json.dumps([op.id for op in kernel.ops], ensure_ascii=False),
        "ttopt.role": "kernel",
        "ttopt.circular_buffers": str(kernel.circular_buffers),
        "ttopt.circular_buffer_bytes": str(kernel.circular_buffer_bytes),
    }
    if kernel.time_ns is not None:
        for name in ("time_ns", "bound", "cores", "dram_read_bytes", "dram_write_bytes"):
            found[f"ttopt.predicted.{name}"] = str(getattr(kernel, name))
    return found


def report_name(result: OptimizedGraph) -> str:
    """What viewers show, so that nobody takes it for a measurement."""
    return f"PREDICTED {model_name(result)} on {result.device.name}"


def device_row(device: DeviceSpec, l1_small_bytes: int) -> Row:
    """Of the table `devices`, as tt-metal states it of a board (dispatch cores left out)."""
    rows, columns = device.grid_yx
    bank, cores = device.l1_bank_bytes(l1_small_bytes), device.num_cores
    return (
        DEVICE, rows, columns, rows, columns, device.worker_l1_bytes, cores, bank, 0, device.cb_base_bytes, 1, cores, 0,
        device.worker_l1_bytes * cores, 0, bank * cores, bank * cores, device.cb_limit_bytes, 0,
    )  # fmt: skip
