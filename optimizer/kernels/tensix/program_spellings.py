"""What a program says about itself besides its ops, and is gone once it is read.

written                                                 read as
ttl.bind_cb without an index                            the lowest free index
^(%x: tensor<..>, %n: index) {compile_time_args = [1], compile_time_values = [8]}
                                                        no %n; ttl.constant {value = 8} in every thread that reads it
memory_space = "L1" | "DRAM", tiled = true              nothing: accessors find tensors in either, blocks are of tiles
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.errors import GraphError
from optimizer.kernels.tensix.ir import Op, Value, attributes, substitute, walk
from optimizer.kernels.tensix.types import IndexType

_SPACES = ("L1", "DRAM")
_CONSTANTS = ("compile_time_args", "compile_time_values")


def settled(program: Op) -> Op:
    """The program in the form that is printed; other ops as they are. GraphError if it contradicts itself."""
    if program.name != "ttl.program" or len(program.regions) != 1:
        return program
    return _numbered(_baked(_where(program)))


def _where(program: Op) -> Op:
    attrs = dict(program.attrs)
    space = attrs.pop("memory_space", "L1")
    if space not in _SPACES:
        raise GraphError(f"tensors lie in {' or '.join(_SPACES)}, not in {space}", node=program.name)
    if attrs.pop("tiled", True) is not True:
        raise GraphError(
            "row-major tensors are not read: unpacker, packer and every op work on tiles; ttnn.to_layout makes them",
            node=program.name,
        )
    return replace(program, attrs=attributes(attrs))


def _baked(program: Op) -> Op:
    """With a constant in every thread for each argument that is one."""
    args = program.body.args
    named, numbers = (_whole_numbers(program, name) for name in _CONSTANTS)
    positions = tuple(n for n, v in enumerate(args) if isinstance(v.type, IndexType))
    if named != positions or len(numbers) != len(positions):
        raise GraphError(
            f"compile_time_args names the arguments that are indices ({list(positions)}), compile_time_values has a "
            f"number for each: {list(named)}, {list(numbers)}",
            node=program.name,
        )
    if not positions:
        return program
    known = dict(zip((args[n].name for n in positions), numbers, strict=True))
    ops = tuple(_with_constants(op, known, n) for n, op in enumerate(program.body.ops))
    tensors = tuple(v for v in args if v.name not in known)
    body = replace(program.body, args=tensors, ops=ops)
    return replace(program, regions=(body,)).without_attrs(*_CONSTANTS)


def _whole_numbers(program: Op, name: str) -> tuple[int, ...]:
    value = program.attr(name, ())
    items = value if isinstance(value, tuple) else (value,)
    found = tuple(n for n in items if isinstance(n, int) and not isinstance(n, bool))
    if found != value:
        raise GraphError(f"attribute '{name}' is no list of whole numbers", node=program.name)
    return found


def _with_constants(thread: Op, known: dict[str, int], number: int) -> Op:
    read = {v.name for op in walk(thread) for v in op.operands} & known.keys()
    if not read:
        return thread
    values = {name: Value(f"{name}.{number}", IndexType()) for name in sorted(read)}
    constants = tuple(Op("ttl.constant", (), (v,), attributes({"value": known[name]})) for name, v in values.items())
    thread = substitute(thread, values)
    return thread.with_body((*constants, *thread.body.ops))


def _numbered(program: Op) -> Op:
    binds = [op for op in program.body.ops if op.name == "ttl.bind_cb"]
    used = {op.attr("index") for op in binds if op.has_attr("index")}
    free = iter([n for n in range(2 * len(binds)) if n not in used])

    def index(op: Op) -> Op:
        lacks = op.name == "ttl.bind_cb" and not op.has_attr("index")
        return op.with_attrs(index=next(free)) if lacks else op

    return program.with_body(tuple(map(index, program.body.ops)))
