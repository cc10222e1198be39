"""The plan that a module tells, laid beside the result that it was written of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.result import OptimizedGraph
from tests.export.mlir.checking import scalar_shards
from tests.export.mlir.syntax import Function, Module, Operation, Tensor

_ELEMENTS = {"f32": "f32", "bf16": "bf16", "ui32": "u32", "si32": "i32", "ui16": "u16", "ui8": "u8"}
_TILES = {"tile bfp_bf8": "bfp8_b", "tile bfp_bf4": "bfp4_b"}
_HOST = "system_memory"


def differences(module: Module, result: OptimizedGraph) -> list[str]:
    """Where the run of a module is another than a result's: ops, values between them, shapes, types, layouts."""
    main = module.functions["main"]
    return [*_interface(main, result), *_run(main, result)]


def _interface(main: Function, result: OptimizedGraph) -> Iterator[str]:
    graph = result.graph
    names = [said["ttir.name"] for said in main.said_of_arguments]
    if names[: len(graph.inputs)] != list(graph.inputs):
        yield f"inputs {names[: len(graph.inputs)]} for {graph.inputs}"
    if len(main.gives) != len(graph.outputs):
        yield f"{len(main.gives)} results for {graph.outputs}"
    for value, kind in chain(zip(graph.inputs, main.takes, strict=False), zip(graph.outputs, main.gives, strict=True)):
        yield from _value(result, value, kind)


def _run(main: Function, result: OptimizedGraph) -> Iterator[str]:
    """Op by op in the order of the schedule; one of ours may be several of the dialect, all of one location."""
    assert main.body is not None
    graph = result.graph
    held = dict(zip(main.arguments, (said["ttir.name"] for said in main.said_of_arguments), strict=True))
    weights = {name for op in main.body if op.name == "ttcore.load_cached" for name in op.results}
    waiting = [op for op in main.body if op.location is not None]
    met: set[str] = set()
    for op in graph.run_ops():
        said = _said_of(op, waiting)
        if not said:
            yield f"{op.id} is not there, or elsewhere in the order"
            return
        location = str(said[0].location)
        if location in met:
            yield f"{location} names two ops"
        met.add(location)
        yield from _operands(op, said, held, weights)
        made = [(name, kind) for one in said for name, kind in zip(one.results, one.gives, strict=True)]
        if len(made) != len(op.outputs):
            yield f"{op.id} gives {len(made)} values"
        for value, (name, kind) in zip(op.outputs, made, strict=False):
            held[name] = value
            yield from _value(result, value, kind)
    if waiting:
        yield f"{waiting[0].location} is no op of the run"
    returned = [held.get(name, "a weight") for name in main.body[-1].operands]
    wanted = ["a weight" if graph.producer(v) is not None and v not in held.values() else v for v in graph.outputs]
    if returned != wanted:
        yield f"it returns {returned}, not {graph.outputs}"


def _said_of(op: Op, waiting: list[Operation]) -> list[Operation]:
    """The next ops, all of one location, where that is this op's name or id; they are taken off."""
    found: list[Operation] = []
    while waiting and waiting[0].location in (op.name, op.id) and waiting[0].location == (found or waiting)[0].location:
        found.append(waiting.pop(0))
    return found


def _operands(op: Op, said: list[Operation], held: dict[str, str], weights: set[str]) -> Iterator[str]:
    """What the run made is read as the plan has it, in its order; weights may be prepared ones, loaded."""
    for one in said:
        tensors = [name for name, kind in zip(one.operands, one.takes, strict=True) if isinstance(kind, Tensor)]
        read = [held[name] for name in tensors if name in held]
        loaded = sum(name in weights for name in tensors)
        if len(read) + loaded < len(op.inputs):
            yield f"{op.id} reads {read} and {loaded} weights, not {op.inputs}"
        rest = iter(op.inputs)
        if not all(value in rest for value in read):
            yield f"{op.id} reads {read} in another order than {op.inputs}"


def _value(result: OptimizedGraph, value_id: str, kind: object) -> Iterator[str]:
    value, layout = result.graph.value(value_id), result.layouts[value_id]
    if not isinstance(kind, Tensor):
        yield f"{value_id} is no tensor"
        return
    if kind.shape != value.shape:
        yield f"{value_id} has shape {kind.shape}, not {value.shape}"
    element = _TILES.get(kind.element) or _ELEMENTS.get(kind.element)
    if element != value.dtype.value:
        yield f"{value_id} has elements of {kind.element}, not {value.dtype.value}"
    told, wanted = _told(kind), _wanted(layout)
    if told != wanted:
        yield f"{value_id} lies in {told}, not {wanted}"


def _told(kind: Tensor) -> tuple[object, ...]:
    layout = kind.layout
    page = "tile" if layout.tiled else "row_major"
    if layout.space == _HOST:
        return (_HOST, page)
    if layout.core_ranges is None:
        return (layout.space, page, layout.memory)
    return (layout.space, page, layout.memory, layout.grid, scalar_shards(layout), layout.core_ranges)


def _wanted(layout: TensorLayout) -> tuple[object, ...]:
    if layout.is_host:
        return (_HOST, layout.page_layout.value)
    place = (layout.memory.buffer_type.value, layout.page_layout.value, layout.memory_layout.value)
    spec = layout.shard_spec
    return place if spec is None else (*place, spec.grid_yx, spec.shape, spec.core_ranges)
