"""A plan as one module: the run as a function, and one for every weight that is computed or prepared once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optimizer import families
from optimizer.export.facts import given_spec, model_name, preparation, query_of, tensor_spec
from optimizer.export.mlir.configs import compute_text, program_text
from optimizer.export.mlir.functions import Function, Held, Locations
from optimizer.export.mlir.spelling import Device, Operand, Said, Site
from optimizer.export.mlir.text import boolean, dictionary, integer, listed, quoted, real, symbol
from optimizer.export.mlir.types import Types
from optimizer.export.overrides import op_names
from optimizer.export.ttnn_py.preparation import in_rows_of_tiles, preparing, rows_of_tiles
from optimizer.families.windows.mlir import conv_operand
from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.graph import Op, ValueKind
from optimizer.ir.vocabulary import RESHAPE, opdef
from optimizer.layouts.memory_config import BufferType, PageLayout, interleaved
from optimizer.layouts.op_config import overwritten_operand
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.pricing import query_attributes
from optimizer.program.lifetimes import DEALLOCATE
from optimizer.result import OptimizedGraph, Role

_ARGUMENTS = {ValueKind.INPUT: "input", ValueKind.PARAMETER: "parameter", ValueKind.CONSTANT: "constant"}
Preparation = Callable[[Function, Held], Held]
"""What is done to a weight, once, for one of its readers."""


@dataclass(frozen=True)
class _Loaded:
    """A result of a function on weights."""

    name: str
    sources: tuple[str, ...]
    """What it is given: weights of the model."""
    spec: TensorSpec


class Module:
    """The module of a result."""

    def __init__(self, result: OptimizedGraph) -> None:
        self.result, self.graph = result, result.graph
        self._types, self._locations = Types(result.device), Locations()
        self._names = op_names(result)
        self._constant_functions: list[str] = []
        self._loaded: dict[tuple[str, str], _Loaded] = {}
        """(weight, how it is prepared) -> what the run loads."""
        self._declared: dict[tuple[str, str], str] = {}
        """(op, type of a function) -> the line that declares the function that stands for it."""
        self._symbols: dict[str, int] = {}

    def text(self) -> str:
        run = self.graph.run_ops()
        reads = {op.id: [self._read(op, position) for position in range(len(op.inputs))] for op in run}
        main = self._main(run, reads)
        lines = [
            *self._types.definitions(),
            f"module {symbol(model_name(self.result))} attributes {dictionary(self._about())} {{",
            *self._constant_functions,
            *self._declared.values(),
            *main,
            "} loc(unknown)",
            *self._locations.definitions(),
        ]
        return "\n".join(lines) + "\n"

    def _about(self) -> dict[str, str]:
        return {"ttopt.device": quoted(self.result.device.name), "ttopt.policy": quoted(self.result.options.policy)}

    # -- weights ---------------------------------------------------------------------------------------
    def _read(self, op: Op, position: int) -> tuple[str, str]:
        """What an op of the run reads: a value, and how that is prepared where it is a weight that is."""
        value_id = op.inputs[position]
        if not self.graph.is_static(value_id):
            return value_id, ""
        how, prepare = "", None
        if not opdef(op.op).opaque:
            how, prepare = self._preparation(op, query_of(self.result, op), position)
        made = self.graph.producer(value_id) is not None or self.result.layouts[value_id].is_l1
        if made or prepare is not None:
            self._load(value_id, how, prepare)
        return value_id, how

    def _preparation(self, op: Op, query: OpQuery, position: int) -> tuple[str, Preparation | None]:
        device, l1_small_bytes = self.result.device, self.result.options.l1_small_bytes
        wanted = preparing(op, query, position, device, l1_small_bytes)
        if wanted is not None:
            said, spec = conv_operand(self._site(op, query.inputs), query, wanted, position, device, l1_small_bytes)

            def conv(function: Function, held: Held) -> Held:
                return function.op(said.op, [held, function.device()], [spec], said.properties)[0]

            return repr((said, spec)), conv
        if in_rows_of_tiles(op, query, position):
            shape = rows_of_tiles(query)

            def rows(function: Function, held: Held) -> Held:
                held = function.moved(held, interleaved(BufferType.DRAM, PageLayout.ROW_MAJOR))
                assert held.spec is not None
                made = TensorSpec(shape, held.spec.dtype, held.spec.layout)
                return function.op(RESHAPE, [held], [made], {"shape": listed(shape)})[0]

            return f"rows {shape}", rows
        return "", None

    def _load(self, value_id: str, how: str, prepare: Preparation | None) -> None:
        """Add the function that computes or prepares a weight, unless it is there."""
        if (value_id, how) in self._loaded:
            return
        function = Function(self._types, self._locations)
        for op in self._cone(value_id):
            self._constant_op(function, op)
        held = self._weight(function, value_id)
        held = function.moved(held, self.result.layouts[value_id]) if prepare is None else prepare(function, held)
        assert held.spec is not None
        name = f"main_const_eval_{len(self._loaded)}"
        self._loaded[value_id, how] = _Loaded(name, tuple(function.arguments), held.spec)
        self._constant_functions += function.text(name, "const_eval", [held], public=False)

    def _cone(self, value_id: str) -> list[Op]:
        """The ops on weights that a weight comes from, in order."""
        found: dict[str, Op] = {}
        waiting = [value_id]
        while waiting:
            op = self.graph.producer(waiting.pop())
            if op is not None and op.id not in found:
                found[op.id] = op
                waiting += op.inputs
        return [op for op in self.graph.ops() if op.id in found]

    def _constant_op(self, function: Function, op: Op) -> None:
        prepared = preparation(self.result, op)
        if prepared.last:
            function.values[op.outputs[0]] = self._weight(function, op.inputs[0])
            return
        moves = zip(op.inputs, prepared.operands, strict=True)
        operands = [function.moved(self._weight(function, v), at) for v, (_, at) in moves]
        results = zip(op.outputs, prepared.results, strict=True)
        specs = [replace(tensor_spec(self.result, v), layout=left) for v, (left, _) in results]
        inputs = [held.spec for held in operands if held.spec is not None]
        made = self._say(function, op, Site(op, self._attributes(op), None, tuple(inputs), tuple(specs)), operands, {})
        for v, held, (_, wanted) in zip(op.outputs, made, prepared.results, strict=True):
            function.values[v] = function.moved(held, wanted)

    def _weight(self, function: Function, value_id: str) -> Held:
        """A weight within a function on weights; one of the model's is given."""
        if value_id not in function.values:
            self._argument(function, value_id)
        return function.values[value_id]

    def _argument(self, function: Function, value_id: str) -> None:
        attributes = {
            "ttcore.argument_type": f"#ttcore.argument_type<{_ARGUMENTS[self.graph.value(value_id).kind]}>",
            "ttir.name": quoted(value_id),
        }
        function.argument(value_id, given_spec(self.result, value_id), attributes)

    # -- the run ---------------------------------------------------------------------------------------
    def _main(self, run: Sequence[Op], reads: Mapping[str, Sequence[tuple[str, str]]]) -> list[str]:
        for v in self.graph.outputs:
            if self.graph.is_static(v) and self.graph.producer(v) is not None:
                self._load(v, "", None)
        function = Function(self._types, self._locations)
        plain = {v for each in reads.values() for v, how in each if (v, how) not in self._loaded}
        given = plain.union(self.graph.outputs, *(loaded.sources for loaded in self._loaded.values()))
        for v in dict.fromkeys((*self.graph.inputs, *self.graph.values)):
            if v in self.graph.inputs or (v in given and self.graph.producer(v) is None):
                self._argument(function, v)
        loaded: dict[tuple[str, str], Held] = {}
        for key, item in self._loaded.items():
            sources = [function.values[v] for v in item.sources]
            (loaded[key],) = function.op("ttcore.load_cached", sources, [item.spec], {"callee": symbol(item.name)})
        frees = self.result.program.deallocated({})
        for op in run:
            operands = [loaded[key] if key in loaded else function.values[key[0]] for key in reads[op.id]]
            made = self._say(function, op, self._site(op), operands, self._remarks(op))
            function.values |= dict(zip(op.outputs, made, strict=True))
            for v in frees.get(op.id, ()):
                function.op(DEALLOCATE, [function.values[v]], [], {"force": "false"})
        outputs = [loaded[v, ""] if (v, "") in loaded else function.values[v] for v in self.graph.outputs]
        return function.text("main", "forward_device", outputs, public=True)

    def _site(self, op: Op, inputs: Sequence[TensorSpec] | None = None) -> Site:
        config = self.result.records[op.id].config
        given = [tensor_spec(self.result, v) for v in op.inputs] if inputs is None else inputs
        made = tuple(tensor_spec(self.result, v) for v in op.outputs)
        return Site(op, self._attributes(op), config, tuple(given), made)

    def _attributes(self, op: Op) -> dict[str, Any]:
        """All attributes of an op, as its calls state them."""
        if opdef(op.op).opaque:
            return dict(op.attrs)
        return dict(query_attributes(self.graph, op, self.result.records[op.id].config))

    def _remarks(self, op: Op) -> dict[str, str]:
        """What the optimizer says of an op."""
        record = self.result.records[op.id]
        found = {"ttopt.role": quoted(record.role.value)} if record.role is not Role.COMPUTE else {}
        if record.chain is not None:
            found["ttopt.chain"] = quoted(record.chain)
        if record.predicted is not None:
            found["ttopt.predicted_ns"] = integer(record.predicted.time_ns, "i64")
        overwritten = overwritten_operand(record.config)
        if overwritten is not None:
            found["ttopt.in_place"] = integer(overwritten, "i32")
        return found

    # -- ops -------------------------------------------------------------------------------------------
    def _say(
        self, function: Function, op: Op, site: Site, operands: Sequence[Held], remarks: Mapping[str, str]
    ) -> list[Held]:
        """Add an op in the dialect's words, or as a call of a function that is not there."""
        name = self._names[op.id]
        found: dict[int, Held] = {}
        for said in _said(site) or (self._called(site, operands),):
            results = said.results or tuple(range(len(op.outputs)))
            specs = [site.outputs[k] for k in results]
            given = [_operand(function, operand, operands) for operand in said.operands]
            made = function.op(said.op, given, specs, said.properties, {**said.attributes, **remarks}, name)
            found |= dict(zip(results, made, strict=True))
        return [found[k] for k in range(len(op.outputs))]

    def _called(self, site: Site, operands: Sequence[Held]) -> Said:
        """A call with our attributes: of an op that the dialect lacks, or says differently, or that the host runs."""
        results = ", ".join(self._types.tensor(spec) for spec in site.outputs)
        kind = f"({', '.join(held.type for held in operands)}) -> ({results})"
        key = (site.op.op, kind)
        if key not in self._declared:
            number = self._symbols[site.op.op] = self._symbols.get(site.op.op, -1) + 1
            name = symbol(f"{site.op.op}_{number}" if number else site.op.op)
            self._declared[key] = f"  func.func private {name}{kind} loc(unknown)"
        name = self._declared[key].removeprefix("  func.func private ").partition("(")[0]
        program = None if site.config is None else program_text(site.config)
        attributes = {
            key: attribute_text(value) for key, value in site.attrs.items() if value is not None and key != COMPUTE
        }
        stated = site.attrs.get(COMPUTE)
        if stated is not None:
            attributes["compute_config"] = compute_text(dict(stated))
        if program is not None:
            attributes["program_config"] = program
        return Said("func.call", site.operands, {"callee": name}, attributes)


def attribute_text(value: Any) -> str:
    """One of our attributes."""
    match value:
        case bool():
            return boolean(value)
        case int():
            return integer(value, "i64")
        case float():
            return real(value)
        case str():
            return quoted(value)
        case _:
            return f"[{', '.join(attribute_text(v) for v in value)}]"


def _said(site: Site) -> tuple[Said, ...]:
    """An op in the dialect's words; nothing of one that it has none for."""
    rule = None if opdef(site.op.op).opaque else families.entry("MLIR", site.op.op)
    return () if rule is None else rule(site)


def _operand(function: Function, operand: Operand, operands: Sequence[Held]) -> Held:
    if isinstance(operand, Device):
        return function.device()
    return operands[operand] if isinstance(operand, int) else function.number(operand)
