"""Turns an `OptimizedGraph` into a `TTNNProgram`: names, calls, weight preparation, deallocations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from optimizer.export.facts import given_spec, model_name, preparation, query_of, while_prepared
from optimizer.export.ttnn_py.configs import repeated_configs, shortened
from optimizer.export.ttnn_py.formatting import INDENT, laid_out, plain
from optimizer.export.ttnn_py.fused import fused_text
from optimizer.export.ttnn_py.index_bounds import index_bounds
from optimizer.export.ttnn_py.launching import NAMES
from optimizer.export.ttnn_py.names import Names
from optimizer.export.ttnn_py.prelude import host_dtype, prelude_text
from optimizer.export.ttnn_py.preparation import moved_text, prepared_text
from optimizer.export.ttnn_py.program import ProgramStep, TensorEntry, TTNNProgram
from optimizer.export.ttnn_py.stated import predicted_ns, trace_region_bytes
from optimizer.fusion.binding import FOLDER, FusedKernel, fused_kernels
from optimizer.fusion.regions import Region
from optimizer.ir.graph import Op
from optimizer.ir.positions import ABSENT_OPERANDS, ABSENT_RESULTS, at_their_positions
from optimizer.ir.vocabulary import RESHAPE, opdef
from optimizer.layouts.memory_config import BufferType, TensorLayout, interleaved
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.weight_forms import reshapes_on_host
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.pricing import op_query
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.opmodel.ttnn_calls.text import call, dtype_text, layout_text, literal, quoted
from optimizer.program.lifetimes import DEALLOCATE, Event, deallocations, event_of
from optimizer.result import OptimizedGraph, Role

FILE_NAME = "model_ttnn.py"
_LONGEST_TARGETS = 60
"""Characters of `a, b, c = ...` up to which results are unpacked in one line."""


def ttnn_program(result: OptimizedGraph) -> TTNNProgram:
    """The program of a result. StateError or OpModelError if it cannot be written as TTNN calls."""
    return _Builder(result).build()


def code(*statements: str) -> str:
    """Statements laid out as they stand in a function, but not indented."""
    lines = "\n".join(laid_out(statement, 1) for statement in statements).split("\n")
    return "\n".join(line.removeprefix(INDENT) for line in lines)


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
        self.once: list[tuple[ProgramStep, Event]] = []
        """Steps of `prepare_parameters`, with the values that each reads and makes."""
        self.run: list[ProgramStep] = []
        self.made = {v: while_prepared(layout) for v, layout in result.layouts.items()}
        """Where weights are while they are prepared."""
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
        once, run = self._parameter_steps(), self._run_steps(inputs)
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

    def _entry(self, value_id: str) -> TensorEntry:
        data = self.graph.value(value_id).data if self._is_source(value_id) else None
        below = self.below.get(value_id) if value_id in self.graph.inputs else None
        return TensorEntry(value_id, given_spec(self.result, value_id), data, below)

    def _variable(self, value_id: str, name: str | None = None) -> str:
        """The variable of a value, named after the op that computes it where there is one."""
        if value_id not in self.variables:
            self.variables[value_id] = self.names.fresh(value_id if name is None else name)
        return self.variables[value_id]

    def _on_device(self, value_id: str) -> tuple[str, ...]:
        """The value, if it lies on the device."""
        return () if self._layout(value_id).is_host else (value_id,)

    # -- prepare_parameters --------------------------------------------------------------------------
    def _load(self, value_id: str) -> str:
        """The variable of a weight within `prepare_parameters`."""
        name = self._variable(value_id)
        if self._is_source(value_id) and value_id not in self.loaded:
            self.loaded.add(value_id)
            step = ProgramStep(None, f"{name} = tensors[{quoted(value_id)}]", ((name, value_id),))
            self.once.append((step, Event(value_id, writes=self._on_device(value_id))))
        return name

    def _const_op(self, op: Op) -> None:
        """An op on weights only: computed in DRAM, then brought where its readers want it."""
        row, prepared = opdef(op.op), preparation(self.result, op)
        targets = self._targets(op)
        if prepared.last:
            self._load(op.inputs[0])
            self.copied[op.outputs[0]] = op
            return
        operands = [moved_text(self._load(v), *move) for v, move in zip(op.inputs, prepared.operands, strict=True)]
        if row.opaque:
            text = self._host_call(op, operands)
        elif reshapes_on_host(self.graph, op):
            text = call(RESHAPE, operands[0], literal(self.graph.value(op.outputs[0]).shape))
        else:
            request = interleaved(BufferType.DRAM).memory
            text = call_text(op_query(self.graph, op, [at for _, at in prepared.operands], None, request), operands)
        statements = self._assigned(targets, text)
        for name, move in zip(targets, prepared.results, strict=True):
            moved = moved_text(name, *move)
            if moved != name:
                statements.append(f"{name} = {moved}")
        settled = tuple((name, v) for name, v in self._results(op) if not self._layout(v).is_l1)
        event = event_of(self.graph, op, self.made, self.result.records[op.id].config)
        step = ProgramStep(op.id, "\n".join(statements), settled, comment=f"{op.name or op.id} ({op.op})")
        self.once.append((step, event))

    def _bring_to_l1(self) -> None:
        """The last steps: weights that stay in L1, one after the other from the top of every bank."""
        for v in self.in_l1:
            name = self.variables[v]
            copy = self.copied.get(v)
            source = v if copy is None else copy.inputs[0]
            raw = self.passed[name] if copy is None else self.variables[source]
            statement = f"{name} = {moved_text(raw, self.made[source], self._layout(v))}"
            if copy is None:
                self.once.append((ProgramStep(None, statement), Event(v, writes=(v,))))
                self.passed[name] = name
            else:
                step = ProgramStep(copy.id, statement, self._results(copy))
                self.once.append((step, Event(copy.id, self._on_device(source), (v,))))

    def _parameter_steps(self) -> list[ProgramStep]:
        self._bring_to_l1()
        kept = {*self.passed, *(raw for raw, _ in self.prepared)}
        ending = deallocations([e for _, e in self.once], [v for v, name in self.variables.items() if name in kept])
        steps = [self._freeing(step, values) for (step, _), values in zip(self.once, ending, strict=True)]
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
        row = opdef(op.op)
        if row.opaque:
            operands = [self._operand(v) for v in op.inputs]
            text = self._host_call(op, operands)
        else:
            query = query_of(self.result, op)
            operands = [self._prepared(op, query, k) or self._operand(v) for k, v in enumerate(op.inputs)]
            text = call_text(query, operands)
        statements = "\n".join(self._assigned(self._targets(op), text))
        self.run.append(ProgramStep(op.id, statements, self._results(op), comment=self._remark(op)))

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
        self.run.append(
            ProgramStep(
                op.id,
                "\n".join(self._assigned(targets, call(kernel.name, "device", *operands))),
                results,
                comment=f"{made} (fused, {FOLDER}/{kernel.name})",
                fused=region.op_ids,
            )
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
        self.once.append((ProgramStep(None, f"{name} = {text}"), Event(name)))
        return name

    def _run_steps(self, inputs: tuple[TensorEntry, ...]) -> list[ProgramStep]:
        fused = {
            op_id: Event(r.anchor, tuple(o.value for o in r.inputs), tuple(o.value for o in r.outputs))
            for op_id, (_, r) in self.fused.items()
        }
        ending = self.result.program.deallocated(fused)
        start = [ProgramStep(None, "inputs = make_inputs(device, placeholders=True)", printed=False)]
        for entry in inputs:
            name = self.variables[entry.name]
            if self.graph.use_count(entry.name):
                text = f"{name} = inputs[{quoted(entry.name)}]"
                start.append(ProgramStep(None, text, ((name, entry.name),)))
        start += [ProgramStep(None, f"{name} = parameters[{quoted(name)}]") for name in self.passed]
        return [*start, *(self._freeing(step, ending.get(step.op, ())) for step in self.run if step.op is not None)]

    def _freeing(self, step: ProgramStep, values: Iterable[str]) -> ProgramStep:
        return replace(step, frees=tuple(f"{DEALLOCATE}({self.variables[v]})" for v in values))

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
