"""Checks a kernel's IR: specs, scopes, thread rules, shapes, that waits and reserves pair up, and sections of DST.

Every finding names its place as a path (`ttl.program @add / ttl.compute_thread @math / ttl.add #3`).

Math owns a side of DST from `tile_regs_acquire` to `tile_regs_commit`, the packer from `tile_regs_wait` to
`tile_regs_release`. A loop leaves the phase as it found it, and the thread ends released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from optimizer.errors import GraphError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import (
    BLOCK_COMPUTE,
    BLOCK_PREFIX,
    BOTH,
    CALL_PREFIX,
    COMPUTE,
    DST_PREFIX,
    L1_SUM,
    L1_SUM_END,
    NESTED,
    SPECS,
    TILE_PREFIX,
    OpSpec,
    spec_of,
)
from optimizer.kernels.tensix.ir import Op, Region, Value
from optimizer.kernels.tensix.rounding import FLOATS, FORMAT_NUMBERS, widest
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, TensorType, TileType, Type

_PAIRS = {"ttl.cb_wait": "ttl.cb_pop", "ttl.cb_reserve": "ttl.cb_push"}
MAX_CIRCULAR_BUFFERS = 32
"""Indices that the hardware has (tt-metal `NUM_CIRCULAR_BUFFERS`)."""
MAX_SLOTS = 16
"""Slots of DST."""


@dataclass(frozen=True)
class Finding:
    """One violation."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def check(program: Op) -> None:
    """GraphError with the first findings if the program is ill-formed."""
    found = verify(program)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise GraphError(f"{found[0].message}{more}", node=found[0].place)


def verify(program: Op) -> tuple[Finding, ...]:
    """Everything that is wrong with a program, in program order."""
    run = _Verifier()
    run.op(program, _Scope("", None, {}))
    return tuple(run.findings)


@dataclass(frozen=True)
class _Scope:
    """What an op sees: path of its parent, the thread around it, values by name."""

    path: str
    thread: str | None
    values: dict[str, Value]


@dataclass
class _Verifier:
    findings: list[Finding] = field(default_factory=list)
    _defined: set[str] = field(default_factory=set)
    _buffers: dict[int, str] = field(default_factory=dict)

    def op(self, op: Op, scope: _Scope, number: int = 0) -> None:
        """One op with everything inside; its results join the scope."""
        symbol = dict(op.attrs).get("sym_name")
        here = op.name + (f" @{symbol}" if symbol is not None else f" #{number}" if scope.path else "")
        place = f"{scope.path} / {here}" if scope.path else here
        try:
            spec = spec_of(op.name)
        except UnknownNameError as error:
            self._say(place, str(error))
            return
        faults = tuple(_spec_errors(op, spec))
        self._check_thread(op, spec, scope.thread, place)
        for v in op.operands:
            known = scope.values.get(v.name)
            if known is None:
                self._say(place, f"{v} is used where it is not defined")
            elif known.type != v.type:
                self._say(place, f"{v} is a {known.type}, used as a {v.type}")
        if not faults:  # what follows reads operands, results and attributes as the spec has them
            faults = (*_shape_errors(op), *self._buffer_errors(op), *_backing_errors(op, scope.values))
        for message in faults:
            self._say(place, message)
        thread = op.name if op.name in BOTH else scope.thread
        for region in op.regions:
            self._region(op, region, _Scope(place, thread, dict(scope.values)))
        for v in op.results:
            self._define(v, scope, place)

    def _region(self, op: Op, region: Region, scope: _Scope) -> None:
        for v in region.args:
            self._define(v, scope, scope.path)
        for number, inner in enumerate(region.ops):
            self.op(inner, scope, number)
            last = number == len(region.ops) - 1
            if inner.name in SPECS and SPECS[inner.name].terminator and not last:
                self._say(scope.path, f"{inner.name} #{number} is not the last op")
        if op.name in ("ttl.compute", "ttl.compute_region"):
            end = region.ops[-1] if region.ops else None
            if end is None or end.name != "ttl.yield":
                self._say(scope.path, "does not end in ttl.yield")
            elif len(end.operands) != _result_count(op):
                self._say(scope.path, f"yields {len(end.operands)} values for {_result_count(op)} results")
        if op.name in (*BOTH, *NESTED, BLOCK_COMPUTE):
            for message in _unpaired(region):
                self._say(scope.path, message)
        for message in (*marker_errors(region.ops), *(section_errors(op) if op.name == COMPUTE else ())):
            self._say(scope.path, message)

    def _define(self, v: Value, scope: _Scope, place: str) -> None:
        if v.name in self._defined:
            self._say(place, f"{v} is defined twice")
        self._defined.add(v.name)
        scope.values[v.name] = v

    def _check_thread(self, op: Op, spec: OpSpec, thread: str | None, place: str) -> None:
        if thread is None and spec.threads and op.name not in BOTH and not op.name.startswith(CALL_PREFIX):
            self._say(place, "stands outside of any thread")
        if thread is not None and thread not in spec.threads:
            allowed = " or ".join(t.removeprefix("ttl.") for t in spec.threads) or "no thread"
            self._say(place, f"may stand in {allowed}, not in a {thread.removeprefix('ttl.')}")

    def _buffer_errors(self, op: Op) -> Iterator[str]:
        if op.name != "ttl.bind_cb" or not op.has_attr("index"):
            return
        index = op.integer("index")
        if not 0 <= index < MAX_CIRCULAR_BUFFERS:
            yield f"circular buffer index {index} is not below {MAX_CIRCULAR_BUFFERS}"
        if index in self._buffers:
            yield f"circular buffer index {index} is bound twice"
        self._buffers[index] = op.name

    def _say(self, place: str, message: str) -> None:
        self.findings.append(Finding(place, message))


def _spec_errors(op: Op, spec: OpSpec) -> Iterator[str]:
    """Operands, results, attributes and regions of another number or kind than an op has."""
    for what, values, wanted in (("operand", op.operands, spec.operands), ("result", op.results, spec.results)):
        if wanted is None:
            continue
        if len(values) != len(wanted):
            yield f"has {len(values)} {what}s, takes {len(wanted)}"
            continue
        for k, (v, kind) in enumerate(zip(values, wanted, strict=True)):
            if not isinstance(v.type, kind):
                yield f"{what} {k} is a {v.type}, not a {kind.__name__}"
    given = dict(op.attrs)
    for name in spec.attrs:
        if name not in given:
            yield f"lacks attribute '{name}'"
    for name, value in given.items():
        kind = {**spec.attrs, **spec.optional}.get(name, type(value))
        if not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
            yield f"attribute '{name}' is {value!r}, not a {kind.__name__}"
    if len(op.regions) != spec.regions:
        yield f"has {len(op.regions)} regions, takes {spec.regions}"


def _backing_errors(op: Op, values: Mapping[str, Value]) -> Iterator[str]:
    """What speaks against a circular buffer lying in the shard of the tensor that it names."""
    if op.name != "ttl.bind_cb" or not op.has_attr("tensor") or not op.results:
        return
    cb, name = op.result.type, op.string("tensor")
    tensor = values[name].type if name in values else None
    if not isinstance(tensor, TensorType):
        yield f"lies in %{name}, which is no tensor of the program"
    elif isinstance(cb, CircularBufferType) and cb.dtype is not tensor.dtype:
        yield f"a {cb} lies in %{name}, a {tensor}"
    elif isinstance(cb, CircularBufferType) and cb.block.tiles * cb.block_count != tensor.tiles:
        yield f"a {cb} does not fill %{name}, a {tensor}"


def _result_count(op: Op) -> int:
    """Results of a region; a compute that writes into blocks has those instead."""
    return len(op.results) or (len(op.operands) - op.integer("inputs", 0) if op.name == "ttl.compute" else 0)


def _unpaired(region: Region) -> Iterator[str]:
    """Waits without a pop and reserves without a push, and the other way round, in one sequence of ops."""
    open_: dict[tuple[str, str], int] = {}
    for op in region.ops:
        for begin, end in _PAIRS.items():
            if op.name in (begin, end) and op.operands:
                key = (begin, op.operands[0].name)
                open_[key] = open_.get(key, 0) + (1 if op.name == begin else -1)
                if open_[key] < 0:
                    yield f"{end} of %{key[1]} without {begin}"
                    open_[key] = 0
    for (begin, name), count in open_.items():
        if count > 0:
            yield f"{begin} of %{name} without {_PAIRS[begin]}"


def _shape_errors(op: Op) -> Iterator[str]:
    """Contradictions between the types of one op's operands and results."""
    types = [v.type for v in op.operands]
    if op.name in ("ttl.cb_wait", "ttl.cb_reserve") and op.results and isinstance(types[0], CircularBufferType):
        if op.result.type != types[0].block:
            yield f"gives a {op.result.type}, the buffer holds {types[0].block}"
    elif op.name in ("ttl.for", "ttl.if"):
        yield from _control_errors(op, types)
    elif op.name == "ttl.store" and len(types) == 2 and not _storable(types[0], types[1]):
        yield f"stores a {types[0]} into a {types[1]}"
    elif op.name.startswith(TILE_PREFIX):
        yield from _tile_errors(op)
    elif op.name == "ttl.compute":
        yield from _compute_errors(op)
    elif op.name.removeprefix(BLOCK_PREFIX) in TILE_OPS and all(isinstance(t, BlockType) for t in types):
        yield from _block_errors(op)


TESTS = ("==", "<=")
"""Relations that a condition tests."""


def _control_errors(op: Op, types: Sequence[Type]) -> Iterator[str]:
    """A loop ends at a number it knows or at one index; a condition has pairs of indices, each with a relation."""
    if any(not isinstance(t, IndexType) for t in types):
        yield "takes indices"
    if op.name == "ttl.for":
        if len(types) + op.has_attr("upper") != 1:
            yield "ends at attribute 'upper' or at one operand, not both"
        return
    tests = op.attr("tests", ())
    if not isinstance(tests, tuple) or any(test not in TESTS for test in tests):
        yield f"attribute 'tests' lists relations: {', '.join(TESTS)}"
    elif not tests or len(types) != 2 * len(tests):
        yield f"has {len(types)} operands, {2 * len(tests)} are due for {len(tests)} tests"


def _block_errors(op: Op) -> Iterator[str]:
    name = op.name.removeprefix(BLOCK_PREFIX)
    blocks = [v.type for v in op.operands if isinstance(v.type, BlockType)]
    result = op.results[0].type if op.results else None
    if not isinstance(result, BlockType) or len(blocks) != TILE_OPS[name].arity:
        return
    wanted = block_result_shape(name, tuple(b.shape for b in blocks))
    if blocks and wanted is None:
        yield f"operands {', '.join(map(str, blocks))} do not fit each other"
    elif wanted is not None and not _gives(name, wanted, result.shape):
        yield f"gives {wanted[0]}x{wanted[1]} tiles, not {result}"
    types = [b.dtype for b in (*blocks, result)]
    mixed = any(t is not types[0] for t in types)
    if mixed and name != "typecast" and (not all(t in FLOATS for t in types) or result.dtype is not widest(types[:-1])):
        yield f"mixes element types: {', '.join(b.dtype.value for b in blocks)} -> {result.dtype.value}"
    if name == "typecast":
        yield from _typecast_errors(op, blocks[0].dtype, result.dtype)


def _gives(name: str, wanted: tuple[int, int], result: tuple[int, int]) -> bool:
    """Whether a result has the tiles that follow from the operands; a bcast may repeat single ones."""
    return frame((wanted, result)) == result if name.startswith("bcast") else wanted == result


def _typecast_errors(op: Op, source: DType, target: DType) -> Iterator[str]:
    """Attributes that contradict the types."""
    given = dict(op.attrs)
    for key, dtype in (("source", source), ("target", target)):
        if key in given and given[key] != FORMAT_NUMBERS.get(dtype):
            yield f"attribute '{key}' is {given[key]!r}, {dtype.value} is {FORMAT_NUMBERS.get(dtype)}"


def _storable(value: Type, room: Type) -> bool:
    """Whether the packer can put a block there: equal shapes, and element types it converts."""
    if not isinstance(value, BlockType) or not isinstance(room, BlockType) or value.shape != room.shape:
        return False
    return value.dtype is room.dtype or (value.dtype.is_float and room.dtype.is_float)


def block_result_shape(name: str, shapes: tuple[tuple[int, int], ...]) -> tuple[int, int] | None:
    """Tiles of a block op's result, None if the operands contradict each other; a bcast has its operand's at least."""
    if name in ("matmul", "matmul_t"):
        (m, k), b = shapes
        depth, n = (b[1], b[0]) if name == "matmul_t" else b
        return (m, n) if k == depth else None
    if name == "transpose":
        return (shapes[0][1], shapes[0][0])
    if name.startswith("reduce_"):
        rows, columns = shapes[0]
        return {"row": (rows, 1), "col": (1, columns)}.get(name.rsplit("_", 1)[1], (1, 1))
    if "_bcast_" in name:
        rows, columns = shapes[1]
        if {"row": rows, "col": columns}.get(name.rsplit("_", 1)[1], rows * columns) != 1:
            return None
    return frame(shapes)


def frame(shapes: tuple[tuple[int, int], ...]) -> tuple[int, int] | None:
    """Tiles of what operands of an elementwise op cover together: where one has a single row or column of tiles, it is
    repeated. None if they contradict each other, or there are none."""
    if not shapes:
        return None
    rows, columns = (max(sizes) for sizes in zip(*shapes, strict=True))
    return (rows, columns) if all(r in (1, rows) and c in (1, columns) for r, c in shapes) else None


def _tile_errors(op: Op) -> Iterator[str]:
    name = op.name.removeprefix(TILE_PREFIX)
    if name not in TILE_OPS or "dst" in dict(op.attrs):
        return
    arity = TILE_OPS[name].arity + (1 if TILE_OPS[name].accumulates else 0)
    if len(op.operands) not in (arity, TILE_OPS[name].arity):
        yield f"has {len(op.operands)} operands, takes {TILE_OPS[name].arity}"
    elif not all(isinstance(v.type, TileType) for v in op.operands):
        yield "works on tiles"


def _compute_errors(op: Op) -> Iterator[str]:
    maps, kinds = op.attr("indexing_maps", ()), op.attr("iterator_types", ())
    if not isinstance(maps, tuple) or not isinstance(kinds, tuple):
        return
    if len(maps) != len(op.operands):
        yield f"has {len(maps)} indexing maps for {len(op.operands)} operands"
    for k, m in enumerate(maps):
        rank = getattr(m, "rank", None)
        if rank != len(kinds):
            yield f"indexing map {k} has {rank} dimensions, the iterator types {len(kinds)}"
    for kind in kinds:
        if kind not in ("parallel", "reduction"):
            yield f"iterator type {kind!r} is neither 'parallel' nor 'reduction'"
    inputs = op.integer("inputs", 0)
    if op.regions and len(op.body.args) != inputs:
        yield f"body has {len(op.body.args)} arguments for {inputs} inputs"


# -- dst sections -----------------------------------------------------------------------------------------
PHASES = ("release", "acquire", "commit", "wait")
"""In their order; each follows the one before, the first the last."""
_PACKS = ("dst.pack", "dst.pack_block", L1_SUM, L1_SUM_END)
_ANYWHERE = ("dst.init", "dst.uninit", "dst.startup", "dst.reconfig", "dst.pack_reconfig")
"""They set units and touch no slot."""


def section_errors(thread: Op) -> Iterator[str]:
    """What is wrong with the sections of a compute thread."""
    found: list[str] = []
    phase = _walk(thread.body.ops, "release", found)
    if phase != "release":
        found.append(f"ends after tile_regs_{phase}, not after tile_regs_release")
    yield from found


def _walk(ops: Sequence[Op], phase: str, found: list[str]) -> str:
    """The phase after the ops; what breaks a rule is added to `found`."""
    for number, op in enumerate(ops):
        step = op.name.removeprefix("ttl.").removeprefix(CALL_PREFIX)
        if step.startswith("tile_regs_"):
            step = step.removeprefix("tile_regs_")
            due = PHASES[(PHASES.index(phase) + 1) % len(PHASES)]
            if step != due:
                found.append(f"{op.name} #{number} follows tile_regs_{phase}: tile_regs_{due} is due")
            phase = step
        elif op.name in _PACKS and phase != "wait":
            found.append(f"{op.name} #{number} packs after tile_regs_{phase}: packs stand between wait and release")
        elif op.name.startswith(DST_PREFIX) and op.name not in (*_PACKS, *_ANYWHERE) and phase != "acquire":
            found.append(f"{op.name} #{number} runs after tile_regs_{phase}: ops stand between acquire and commit")
        elif op.regions and op.name != "ttl.compute":
            after = _walk(op.body.ops, phase, found)
            if after != phase:
                found.append(f"{op.name} #{number} begins after tile_regs_{phase} and ends after tile_regs_{after}")
            phase = after
    return phase


def marker_errors(ops: Sequence[Op]) -> Iterator[str]:
    """Of `ttl.acquire_dst` and `ttl.release_dst` in one region: each register is released once."""
    held: dict[str, int] = {}
    for number, op in enumerate(ops):
        if op.name == "ttl.acquire_dst" and op.results:
            held[op.result.name] = number
        elif op.name == "ttl.release_dst" and op.operands:
            name = op.operands[0].name
            if name not in held:
                yield f"{op.name} #{number} releases %{name}, which is not held"
            held.pop(name, None)
    for name, number in held.items():
        yield f"ttl.acquire_dst #{number} acquires %{name}, which is never released"
