"""C++ of a program's threads, one file each, from TTKernel calls.

Circular buffers are constants by index; tensors are `TensorAccessor`s whose addresses are common run-time arguments in
the order of the program's arguments. Index arithmetic is written where it is used. Names and values become text in
`cpp_text` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from optimizer.errors import StateError
from optimizer.kernels.tensix import cpp_text
from optimizer.kernels.tensix.cpp_text import integer
from optimizer.kernels.tensix.dialect import BOTH, CALL_PREFIX, COMPUTE, SEMAPHORE
from optimizer.kernels.tensix.index_expr import const, dim
from optimizer.kernels.tensix.ir import Attr, Op, Value, walk
from optimizer.kernels.tensix.kernel_api import DATAFLOW_HEADER, compute_headers
from optimizer.kernels.tensix.types import CircularBufferType, TensorType
from optimizer.process.identifiers import Identifiers

KINDS = ("compute", "reader", "writer")
_COORDINATES = ("get_absolute_logical_x()", "get_absolute_logical_y()")
_OPERAND = re.compile(r"#(\d+)")


@dataclass(frozen=True)
class KernelSource:
    """One thread's file."""

    name: str
    kind: str
    """`compute`, `reader` or `writer`."""
    text: str
    tensors: tuple[str, ...]
    """Program arguments whose accessors it takes, in order."""


def emit_program(program: Op) -> tuple[KernelSource, ...]:
    """Files of a program whose threads are TTKernel calls, in program order. StateError for anything else."""
    buffers = {op.result.name: op for op in program.body.ops if op.name == "ttl.bind_cb"}
    numbered = {name: k for k, name in enumerate(semaphores(program))}
    given = runtime_args(program)
    return tuple(
        _Thread(op, buffers, program.body.args, given, numbered).source() for op in program.body.ops if op.name in BOTH
    )


def runtime_args(program: Op) -> tuple[str, ...]:
    """Names of the run-time arguments that every core is given, in the order in which every thread has them."""
    return tuple(dict.fromkeys(op.string("name") for op in walk(program) if op.name == "ttl.runtime_arg"))


def semaphores(program: Op) -> dict[str, int]:
    """Initial values of a lowered program's semaphores, in the order of their numbers."""
    return {op.result.name: op.integer("initial") for op in program.body.ops if op.name == SEMAPHORE}


@dataclass
class _Thread:
    op: Op
    buffers: Mapping[str, Op]
    arguments: tuple[Value, ...]
    runtime_args: tuple[str, ...]
    semaphores: Mapping[str, int]
    _text: dict[str, str] = field(default_factory=dict)
    """Value -> how it is written."""
    _constant: dict[str, int] = field(default_factory=dict)
    _names: Identifiers = field(default_factory=cpp_text.names)
    _tables: dict[tuple[Attr, ...], str] = field(default_factory=dict)
    """Constant tables by what they hold."""
    _argument_names: dict[str, str] = field(default_factory=dict)
    """Run-time arguments of the program -> how they are written in this thread."""

    def source(self) -> KernelSource:
        used = {v.name for inner in walk(self.op) for v in inner.operands}
        buffers = [op for name, op in self.buffers.items() if name in used]
        tensors = [v for v in self.arguments if v.name in used]
        compute = self.op.name == COMPUTE
        kind = "compute" if compute else self.op.string("processor")
        if kind not in KINDS:
            raise StateError(f"'{kind}' is no kind of kernel")
        for v in tensors:  # before everything else, so that tensors keep their names
            self._text[v.name] = self._names.of(v.name)
        declared = list(self._constants(buffers))
        inside = [*self._accessors(tensors), *self._runtime_arguments()]
        inside += [f"    {line}" for line in self._ops(self.op.body.ops)]
        lines = [*self._includes(compute), "", *declared, *self._written_tables(), *self._helpers()]
        lines += ["void kernel_main() {", *inside, "}", ""]
        return KernelSource(self.op.string("sym_name"), kind, "\n".join(lines), tuple(v.name for v in tensors))

    def _includes(self, compute: bool) -> Iterator[str]:
        yield "#include <cstdint>"
        if not compute:
            yield f'#include "{DATAFLOW_HEADER}"'
            if any(True for _ in self._helpers()):
                yield '#include "internal/firmware_common.h"'
            return
        called = {op.name.removeprefix(CALL_PREFIX) for op in walk(self.op) if op.name.startswith(CALL_PREFIX)}
        for header in compute_headers(called):
            yield f'#include "{header}"'

    def _constants(self, buffers: list[Op]) -> Iterator[str]:
        for op in buffers:
            index = integer(op.integer("index"))
            name = f"cb_{index}"
            self._text[op.result.name] = name
            cb = op.result.typed(CircularBufferType)
            shape, plural = "x".join(map(integer, cb.shape)), "s" if cb.block_count > 1 else ""
            comment = f"{integer(cb.block_count)} block{plural} of {shape} tiles, {cb.dtype.value}"
            if op.has_attr("tensor"):
                comment += f", the shard of {self._names.of(op.string('tensor'))}"
            yield f"constexpr uint32_t {name} = {index};  // {comment}"
        used = {v.name for op in walk(self.op) for v in op.operands}
        known = {name: k for name, k in self.semaphores.items() if name in used}
        for name, k in known.items():
            self._text[name] = self._names.fresh("semaphore")
            yield f"constexpr uint32_t {self._text[name]} = {k};"
        if buffers or known:
            yield ""

    def _accessors(self, tensors: list[Value]) -> Iterator[str]:
        previous = ""
        for k, v in enumerate(tensors):
            name, tile_bytes = self._text[v.name], v.typed(TensorType).dtype.tile_bytes
            offset = f"{previous}.next_compile_time_args_offset()" if previous else "0"
            previous = self._names.fresh(f"{name}_args")
            yield f"    constexpr auto {previous} = TensorAccessorArgs<{offset}>();"
            address = f"get_common_arg_val<uint32_t>({k})"
            yield f"    const auto {name} = TensorAccessor({previous}, {address}, {tile_bytes});"

    def _runtime_arguments(self) -> Iterator[str]:
        """Those that the thread reads; each has the same place in every thread's list."""
        read = {op.string("name") for op in walk(self.op) if op.name == "ttl.runtime_arg"}
        for k, name in enumerate(self.runtime_args):
            if name in read:
                self._argument_names[name] = self._names.of(name)
                yield f"    const uint32_t {self._argument_names[name]} = get_arg_val<uint32_t>({k});"

    def _written_tables(self) -> Iterator[str]:
        for values, name in self._tables.items():
            yield f"constexpr uint16_t {name}[] = {{{', '.join(map(integer, values))}}};"
        if self._tables:
            yield ""

    def _helpers(self) -> Iterator[str]:
        """Our functions that the thread calls."""
        arguments = [a for op in walk(self.op) if op.name.startswith(CALL_PREFIX) for a in op.strings("args")]
        for name, text in cpp_text.HELPERS.items():
            if any(f"{name}(" in a for a in arguments):
                yield text

    def _ops(self, ops: tuple[Op, ...]) -> Iterator[str]:
        for op in ops:
            if op.name == "ttl.constant":
                self._constant[op.result.name] = op.integer("value")
                self._text[op.result.name] = integer(op.integer("value"))
            elif op.name == "ttl.core_coordinate":
                self._text[op.result.name] = _COORDINATES[op.integer("axis")]
            elif op.name == "ttl.index":
                self._text[op.result.name] = self._index(op)
            elif op.name == "ttl.counter":
                self._text[op.result.name] = self._names.of(op.result.name)
                yield f"uint32_t {self._text[op.result.name]} = 0;"
            elif op.name == "ttl.advance":
                counter = self._text[op.operands[0].name]
                yield f"{counter} = ({counter} + 1) % {integer(op.integer('modulus'))};"
            elif op.name == "ttl.cb_base":
                self._text[op.result.name] = self._names.of(op.result.name)
                yield f"const uint32_t {self._text[op.result.name]} = get_write_ptr({self._text[op.operands[0].name]});"
            elif op.name == "ttl.lookup":
                self._text[op.result.name] = f"{self._table(op.attr('values'))}[{self._text[op.operands[0].name]}]"
            elif op.name == "ttl.runtime_arg":
                self._text[op.result.name] = self._argument_names[op.string("name")]
            elif op.name in ("ttl.for", "ttl.if"):
                yield from self._loop(op) if op.name == "ttl.for" else self._condition(op)
            elif op.name.startswith(CALL_PREFIX):
                yield self._call(op)
            else:
                raise StateError(f"{op.name} is no call of the kernel API")

    def _index(self, op: Op) -> str:
        names = [f"({t})" if " " in (t := self._text[v.name]) else t for v in op.operands]
        known = [self._constant.get(v.name) for v in op.operands]
        dims = [dim(k) if value is None else const(value) for k, value in enumerate(known)]
        return op.index_map("map").results[0].substitute(dims).text(names, "/", "%")

    def _loop(self, op: Op) -> Iterator[str]:
        counter = self._names.of(op.body.args[0].name)
        self._text[op.body.args[0].name] = counter
        lower, step = (integer(op.integer(name)) for name in ("lower", "step"))
        upper = self._text[op.operands[0].name] if op.operands else integer(op.integer("upper"))
        advance = f"++{counter}" if step == "1" else f"{counter} += {step}"
        yield f"for (uint32_t {counter} = {lower}; {counter} < {upper}; {advance}) {{"
        yield from (f"    {line}" for line in self._ops(op.body.ops))
        yield "}"

    def _condition(self, op: Op) -> Iterator[str]:
        values = [self._text[v.name] for v in op.operands]
        pairs = zip(values[::2], values[1::2], op.strings("tests"), strict=True)
        yield f"if ({' && '.join(f'{a} {cpp_text.relation(test)} {b}' for a, b, test in pairs)}) {{"
        yield from (f"    {line}" for line in self._ops(op.body.ops))
        yield "}"

    def _table(self, values: Attr) -> str:
        """The name of a constant table, which is written once."""
        assert isinstance(values, tuple)
        if values not in self._tables:
            self._tables[values] = self._names.fresh("table")
        return self._tables[values]

    def _call(self, op: Op) -> str:
        args, template = op.strings("args"), op.strings("template", ())
        written = [self._argument(cpp_text.tokens(a), op.operands) for a in args]
        typed = f"<{', '.join(map(cpp_text.tokens, template))}>" if template else ""
        return f"{cpp_text.function(op.name.removeprefix(CALL_PREFIX))}{typed}({', '.join(written)});"

    def _argument(self, text: str, operands: tuple[Value, ...]) -> str:
        alone = text.startswith("#") and text[1:].isdigit()

        def written(match: re.Match[str]) -> str:
            value = self._text[operands[int(match[1])].name]
            return value if alone or " " not in value else f"({value})"

        return _OPERAND.sub(written, text)
