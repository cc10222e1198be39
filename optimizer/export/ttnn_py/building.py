"""Turns an `OptimizedGraph` into a `TTNNProgram`: names, calls, weight preparation, deallocations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from optimizer.export.facts import given_spec, left_layout, model_name, prepared_layout, query_of, read_layouts
from optimizer.export.ttnn_py.configs import repeated_configs, shortened
from optimizer.export.ttnn_py.formatting import INDENT, laid_out, plain
from optimizer.export.ttnn_py.fused import fused_text
from optimizer.export.ttnn_py.index_bounds import index_bounds
from optimizer.export.ttnn_py.launching import NAMES
from optimizer.export.ttnn_py.lifetimes import DEALLOCATE, Alias, Event, deallocations
from optimizer.export.ttnn_py.names import Names
from optimizer.export.ttnn_py.prelude import host_dtype, prelude_text
from optimizer.export.ttnn_py.preparation import moved_text, prepared_text
from optimizer.export.ttnn_py.program import ProgramStep, TensorEntry, TTNNProgram
from optimizer.export.ttnn_py.stated import predicted_ns, trace_region_bytes
from optimizer.fusion.binding import FOLDER, FusedKernel, fused_kernels
from optimizer.fusion.regions import Region
from optimizer.ir.graph import Op
from optimizer.ir.positions import ABSENT_OPERANDS, ABSENT_RESULTS, at_their_positions
from optimizer.ir.vocabulary import COPY, RESHAPE, opdef
from optimizer.layouts.aliases import frees_operand, may_alias, may_keep_operand
from optimizer.layouts.memory_config import BufferType, TensorLayout, interleaved
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.weight_forms import reshapes_on_host
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.pricing import op_query
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.opmodel.ttnn_calls.text import call, dtype_text, layout_text, literal, quoted
from optimizer.result import OptimizedGraph, Role

FILE_NAME = "model_ttnn.py"
_LONGEST_TARGETS = 60
"""Characters of `a, b, c = ...` up to which results are unpacked in one line."""


def ttnn_program(result: OptimizedGraph) -> TTNNProgram:
    """The program of a result. StateError or OpModelError if it cannot be written as TTNN calls."""
    return _Builder(result).build()


def deallocated_values(result: OptimizedGraph) -> dict[str, tuple[str, ...]]:
    """Op -> values that the emitted program deallocates after it, regions of fused kernels taken op by op."""
    program = ttnn_program(replace(result, options=replace(result.options, fuse_kernels=False)))
    values = {f"{DEALLOCATE}({variable})": value for step in program.run_steps for variable, value in step.results}
    return {step.op: tuple(values[text] for text in step.frees) for step in program.run_steps if step.op is not None}


def code(*statements: str) -> str:
    """Statements laid out as they stand in a function, but not indented."""
    lines = "\n".join(laid_out(statement, 1) for statement in statements).split("\n")
    return "\n".join(line.removeprefix(INDENT) for line in lines)


@dataclass
class _Section:
    """One function under construction."""

    steps: list[ProgramStep] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def add(self, step: ProgramStep, event: Event) -> None:
        self.steps.append(step)
        self.events.append(event)

    def finished(self, kept: set[str]) -> list[ProgramStep]:
        """The steps with their deallocations."""
        placed = deallocations(self.events, kept)
        return [
            replace(step, frees=tuple(f"{DEALLOCATE}({name})" for name in names))
            for step, names in zip(self.steps, placed, strict=True)
        ]


def _laid_out(steps: Sequence[ProgramStep], configs: Mapping[str, str]) -> tuple[ProgramStep, ...]:
    """The steps as they stand in the file, with names for repeated configs; before, each statement is one line."""
    return tuple(
        replace(step, code=code(*(shortened(line, configs) for line in step.code.split("\n")))) for step in steps
    )


class _Builder:
    def __init__(self, result: OptimizedGraph) -> None:
        self.result = result
        self.graph = result.graph
        self.names = Names()
        self.below = index_bounds(result.graph)
        self.once, self.run = _Section(), _Section()
        self.variables: dict[str, str] = {}
        """Value -> variable; a weight has the same name in both functions."""
        self.loaded: set[str] = set()
        """Weights of the model that `prepare_parameters` has in a variable of their own."""
        self.passed: dict[str, str] = {}
        """Variable of a parameter in `run` -> expression for it at the end of `prepare_parameters`."""
        self.prepared: dict[tuple[str, str], str] = {}
        """(raw variable, text of the preparing call) -> variable."""
        self.in_l1: list[str] = []
        """Weights that `run` reads from L1, in the order of their first readers."""
        self.copied: dict[str, Op] = {}
        """Weight in L1 -> the op that copies it there from its form elsewhere."""
        self.kernels = fused_kernels(result) if result.options.fuse_kernels else ()
        self.fused: dict[str, tuple[FusedKernel, Region]] = {
            op_id: (kernel, region) for kernel in self.kernels for region in kernel.regions for op_id in region.op_ids
        }
        for name in (*NAMES, *(kernel.name for kernel in self.kernels)) if self.kernels else ():
            self.names.fresh(name)

    def build(self) -> TTNNProgram:
        graph, device = self.graph, self.result.device
        ops = list(graph.ops())
        for v in graph.inputs:
            self.variables.setdefault(v, self.names.fresh(v))
        for op in ops:
            if graph.is_const_eval(op):
                self._const_op(op)
        for op in ops:
            if op.id in self.fused:
                self._fused_op(op, *self.fused[op.id])
            elif not graph.is_const_eval(op):
                self._run_op(op)
        outputs = tuple(self._operand(v) for v in graph.outputs)
        inputs = tuple(self._entry(v) for v in dict.fromkeys(graph.inputs))
        parameters = tuple(self._entry(v) for v in graph.values if v in self.variables and self._is_source(v))
        name = model_name(self.result)
        hosted = any(opdef(op.op).opaque for op in ops)
        functions = fused_text(self.result, self.kernels)
        once, run = self._parameter_steps(), self._run_steps(inputs, outputs)
        configs = repeated_configs([line for step in (*once, *run) for line in step.code.split("\n")], self.names)
        return TTNNProgram(
            name=plain(name),
            board=plain(device.name),
            l1_small_bytes=self.result.options.l1_small_bytes,
            inputs=inputs,
            parameters=parameters,
            prelude=prelude_text(
                name, device.name, FILE_NAME, inputs, parameters, self.result.output_names, hosted, functions, configs
            ),
            parameter_steps=_laid_out(once, configs),
            run_steps=_laid_out(run, configs),
            outputs=outputs,
            predicted_ns=predicted_ns(self.result),
            trace_region_bytes=trace_region_bytes(self.result, len(run)),
            configs={name: text for text, name in configs.items()},
            files={f"{FOLDER}/{path}": text for k in self.kernels for path, text in k.files().items()},
        )

    # -- values --------------------------------------------------------------------------------------
    def _is_source(self, value_id: str) -> bool:
        """A weight or constant of the model, not fed on every run."""
        return self.graph.producer(value_id) is None and value_id not in self.graph.inputs

    def _layout(self, value_id: str) -> TensorLayout:
        return self.result.layouts[value_id]

    def _made_layout(self, value_id: str) -> TensorLayout:
        return prepared_layout(self.result, value_id)

    def _entry(self, value_id: str) -> TensorEntry:
        data = self.graph.value(value_id).data if self._is_source(value_id) else None
        below = self.below.get(value_id) if value_id in self.graph.inputs else None
        return TensorEntry(value_id, given_spec(self.result, value_id), data, below)

    def _variable(self, value_id: str, name: str | None = None) -> str:
        """The variable of a value, named after the op that computes it where there is one."""
        if value_id not in self.variables:
            self.variables[value_id] = self.names.fresh(value_id if name is None else name)
        return self.variables[value_id]

    def _on_device(self, value_ids: tuple[str, ...]) -> tuple[str, ...]:
        """Variables of those values that lie on the device."""
        return tuple(self.variables[v] for v in value_ids if not self._layout(v).is_host)

    # -- prepare_parameters --------------------------------------------------------------------------
    def _load(self, value_id: str) -> str:
        """The variable of a weight within `prepare_parameters`."""
        name = self._variable(value_id)
        if self._is_source(value_id) and value_id not in self.loaded:
            self.loaded.add(value_id)
            writes = self._on_device((value_id,))
            self.once.add(
                ProgramStep(None, f"{name} = tensors[{quoted(value_id)}]", ((name, value_id),)),
                Event(value_id, writes=writes),
            )
        return name

    def _const_op(self, op: Op) -> None:
        """An op on weights only: computed in DRAM, then brought where its readers want it."""
        row = opdef(op.op)
        targets = self._targets(op)
        if op.op == COPY and self._layout(op.outputs[0]).is_l1:
            self._load(op.inputs[0])
            self.copied[op.outputs[0]] = op
            return
        layouts = read_layouts(self.result, op)
        operands = [
            moved_text(self._load(v), self._made_layout(v), at) for v, at in zip(op.inputs, layouts, strict=True)
        ]
        if row.opaque:
            text = self._host_call(op, operands)
        elif reshapes_on_host(self.graph, op):
            text = call(RESHAPE, operands[0], literal(self.graph.value(op.outputs[0]).shape))
        else:
            request = interleaved(BufferType.DRAM).memory
            text = call_text(op_query(self.graph, op, layouts, None, request), operands)
        statements = self._assigned(targets, text)
        for v, name in zip(op.outputs, targets, strict=True):
            made = self._layout(v) if row.opaque else left_layout(self.result, op, layouts)
            moved = moved_text(name, made, self._made_layout(v))
            if moved != name:
                statements.append(f"{name} = {moved}")
        reads = self._on_device(op.inputs)
        settled = tuple((name, v) for name, v in self._results(op) if not self._layout(v).is_l1)
        self.once.add(
            ProgramStep(op.id, "\n".join(statements), settled, comment=f"{op.name or op.id} ({op.op})"),
            Event(op.id, reads, self._on_device(op.outputs), self._alias(op, self._made_layout)),
        )

    def _bring_to_l1(self) -> None:
        """The last steps: weights that stay in L1, one after the other from the top of every bank."""
        for v in self.in_l1:
            name = self.variables[v]
            copy = self.copied.get(v)
            source = v if copy is None else copy.inputs[0]
            raw = self.passed[name] if copy is None else self.variables[source]
            statement = f"{name} = {moved_text(raw, self._made_layout(source), self._layout(v))}"
            if copy is None:
                self.once.add(ProgramStep(None, statement), Event(v, writes=(name,)))
                self.passed[name] = name
            else:
                reads = self._on_device((source,))
                self.once.add(ProgramStep(copy.id, statement, self._results(copy)), Event(copy.id, reads, (name,)))

    def _parameter_steps(self) -> list[ProgramStep]:
        self._bring_to_l1()
        steps = self.once.finished(set(self.passed))
        entries = ", ".join(f"{quoted(name)}: {text}" for name, text in self.passed.items())
        start = ProgramStep(None, "tensors = make_tensors(device, PARAMETERS, placeholders=True)", printed=False)
        return [start, *steps, ProgramStep(None, f"parameters = {{{entries}}}")]

    # -- run -----------------------------------------------------------------------------------------
    def _operand(self, value_id: str) -> str:
        """The variable of a value within `run`."""
        name = self._variable(value_id)
        if self.graph.is_static(value_id) and name not in self.passed:
            bound = not self._is_source(value_id) or value_id in self.loaded
            self.passed[name] = name if bound else f"tensors[{quoted(value_id)}]"
            if self._layout(value_id).is_l1:
                self.in_l1.append(value_id)
        return name

    def _run_op(self, op: Op) -> None:
        record = self.result.records[op.id]
        row = opdef(op.op)
        if row.opaque:
            operands = [self._operand(v) for v in op.inputs]
            text = self._host_call(op, operands)
        else:
            query = query_of(self.result, op)
            operands = [self._prepared(op, query, k) or self._operand(v) for k, v in enumerate(op.inputs)]
            text = call_text(query, operands)
        targets = self._targets(op)
        reads = tuple(name for name, v in zip(operands, op.inputs, strict=True) if not self._layout(v).is_host)
        source = self._layout(op.inputs[0]) if op.inputs else None
        sure = source and frees_operand(record.config, source) and not may_keep_operand(record.config, source)
        frees = (operands[0],) if sure else ()
        self.run.add(
            ProgramStep(op.id, "\n".join(self._assigned(targets, text)), self._results(op), comment=self._remark(op)),
            Event(op.id, reads, self._on_device(op.outputs), self._alias(op, self._layout), frees),
        )

    def _fused_op(self, op: Op, kernel: FusedKernel, region: Region) -> None:
        """A region's kernel, where its anchor is; its other ops are part of it."""
        if op.id != region.anchor:
            return
        operands = [self._operand(o.value) for o in region.inputs]
        targets = []
        for o in region.outputs:
            producer = self.graph.producer(o.value)
            assert producer is not None
            targets.append(self._variable(o.value, producer.name or producer.id))
        results = tuple((self.variables[o.value], o.value) for o in region.outputs)
        made = ", ".join(inner.name or inner.id for inner in region.ops)
        self.run.add(
            ProgramStep(
                op.id,
                "\n".join(self._assigned(targets, call(kernel.name, "device", *operands))),
                results,
                comment=f"{made} (fused, {FOLDER}/{kernel.name})",
                fused=region.op_ids,
            ),
            Event(op.id, tuple(operands), tuple(targets)),
        )

    def _prepared(self, op: Op, query: OpQuery, index: int) -> str | None:
        """The variable of an operand that is prepared once; None if the op takes the value as it is."""
        value_id = op.inputs[index]
        if not self.graph.is_static(value_id):
            return None
        board, l1_small_bytes = self.result.device, self.result.options.l1_small_bytes
        wanted = prepared_text(op, query, index, "x", board, l1_small_bytes)
        if wanted is None:
            return None
        raw = self._load(value_id)
        text = prepared_text(op, query, index, raw, board, l1_small_bytes)
        assert text is not None
        known = self.prepared.get((raw, text))
        if known is not None:
            return known
        name = self.names.fresh(f"{op.name or op.id}_{'weight' if index == 1 else 'bias'}")
        self.prepared[raw, text] = name
        self.passed[name] = name
        reads = self._on_device((value_id,))
        alias = Alias(name, reads[0], certain=False) if reads else None
        self.once.add(ProgramStep(None, f"{name} = {text}"), Event(name, reads, (name,), alias))
        return name

    def _run_steps(self, inputs: tuple[TensorEntry, ...], outputs: tuple[str, ...]) -> list[ProgramStep]:
        kept = {*self.passed, *outputs, *(self.variables[entry.name] for entry in inputs)}
        steps = self.run.finished(kept)
        used = set(outputs).union(*(event.reads for event in self.run.events))
        start = [ProgramStep(None, "inputs = make_inputs(device, placeholders=True)", printed=False)]
        for entry in inputs:
            name = self.variables[entry.name]
            if name in used:
                text = f"{name} = inputs[{quoted(entry.name)}]"
                start.append(ProgramStep(None, text, ((name, entry.name),)))
        start += [ProgramStep(None, f"{name} = parameters[{quoted(name)}]") for name in self.passed]
        return [*start, *steps]

    # -- statements ----------------------------------------------------------------------------------
    def _targets(self, op: Op) -> list[str]:
        stem = op.name or op.id
        if len(op.outputs) == 1:
            return [self._variable(op.outputs[0], stem)]
        return [self._variable(v, f"{stem}_{k}") for k, v in enumerate(op.outputs)]

    def _results(self, op: Op) -> tuple[tuple[str, str], ...]:
        return tuple((self.variables[v], v) for v in op.outputs)

    def _assigned(self, targets: list[str], text: str) -> list[str]:
        if len(targets) == 1 and not text.startswith(("host_op(", "ttnn.split(")):
            return [f"{targets[0]} = {text}"]
        unpacked = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
        if len(unpacked) <= _LONGEST_TARGETS:
            return [f"{unpacked} = {text}"]
        parts = self.names.fresh(f"{targets[0]}_parts")
        return [f"{parts} = {text}", *(f"{name} = {parts}[{k}]" for k, name in enumerate(targets))]

    def _host_call(self, op: Op, operands: list[str]) -> str:
        kept = {k: v for k, v in op.attrs.items() if k not in (ABSENT_OPERANDS, ABSENT_RESULTS)}
        attributes = ", ".join(f"{quoted(k)}: {literal(v)}" for k, v in sorted(kept.items()))
        placed = [name or "None" for name in at_their_positions(op, ABSENT_OPERANDS, operands)]
        results: list[str] = []
        for v in op.outputs:
            spec = given_spec(self.result, v)
            page = layout_text(spec.layout.page_layout)
            results.append(f"({literal(spec.shape)}, {dtype_text(host_dtype(spec))}, {page})")
        wanted = [text or "None" for text in at_their_positions(op, ABSENT_RESULTS, results)]
        lists = [f"[{', '.join(placed)}]", f"{{{attributes}}}", f"[{', '.join(wanted)}]"]
        return call("host_op", quoted(op.op), *lists)

    def _alias(self, op: Op, layout: Callable[[str], TensorLayout]) -> Alias | None:
        if not op.inputs:
            return None
        into = overwritten_operand(self.result.records[op.id].config)
        if into is not None:
            return Alias(self.variables[op.outputs[0]], self.variables[op.inputs[into]], certain=True)
        source, target = layout(op.inputs[0]), layout(op.outputs[0])
        if source.is_host or target.is_host:
            return None
        result, operand = self.variables[op.outputs[0]], self.variables[op.inputs[0]]
        if self.result.records[op.id].role is Role.VIEW:
            return Alias(result, operand, certain=True)
        return Alias(result, operand, certain=False) if may_alias(self.graph, op, source, target) else None

    def _remark(self, op: Op) -> str:
        """Op, prediction and reason in one line."""
        record = self.result.records[op.id]
        text = f"{op.name or op.id} ({op.op})"
        if record.role not in (Role.COMPUTE, Role.HOST):
            text += f" {record.role.value}"
        if overwritten_operand(record.config) is not None:
            text += " in place"
        predicted = record.predicted
        if predicted is not None:
            cores = "1 core" if predicted.cores == 1 else f"{predicted.cores} cores"
            text += f": {predicted.time_ns / 1000:.1f} us, {cores}, {predicted.bound} bound"
        chosen = record.reason.get("chosen")
        return text if chosen is None else f"{text}; {chosen}"
