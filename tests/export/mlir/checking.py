"""Checks of a module that has been read: values, types, layouts, buffers, and what ops say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from tests.export.mlir.properties import of_properties
from tests.export.mlir.syntax import Array, Custom, Function, Layout, Module, Operation, Symbol, Tensor

TILE = 32
_TILE_NAMES = {"ui32": "u32", "ui16": "u16", "ui8": "u8"}
"""Elements that a tile names differently."""
_SIGNATURES = frozenset({"func.call", "ttcore.load_cached"})
_COPIES = frozenset({"ttnn.to_memory_config", "ttnn.to_layout", "ttnn.to_device", "ttnn.from_device"})


def problems(module: Module, grid_yx: tuple[int, int]) -> list[str]:
    """What is wrong with a module for a device of so many cores."""
    found: list[str] = []
    for function in module.functions.values():
        found += [f"{function.name}: {text}" for text in _of_function(module, function, grid_yx)]
    return found


def _of_function(module: Module, function: Function, grid_yx: tuple[int, int]) -> Iterator[str]:
    for kind in (*function.takes, *function.gives):
        yield from _of_type(kind, grid_yx)
    if function.private != (function.name != "main"):
        yield "main is public, and nothing else is"
    if function.body is None:
        return
    defined: dict[str, Any] = dict(zip(function.arguments, function.takes, strict=True))
    if len(defined) != len(function.arguments):
        yield "an argument's name stands twice"
    for op in function.body:
        for name, kind in zip(op.operands, op.takes, strict=True):
            if name not in defined:
                yield f"line {op.line}: {name} is used before it is defined"
            elif defined[name] != kind:
                yield f"line {op.line}: {name} has another type where it is defined"
        for name, kind in zip(op.results, op.gives, strict=True):
            if name in defined:
                yield f"line {op.line}: {name} is defined twice"
            defined[name] = kind
            yield from (f"line {op.line}: {text}" for text in _of_type(kind, grid_yx))
        yield from (f"line {op.line}: {op.name} {text}" for text in _of_op(module, op))
    returns = [at for at, op in enumerate(function.body) if op.name == "func.return"]
    if returns != [len(function.body) - 1]:
        yield "it returns once, at its end"
    elif function.body[-1].takes != function.gives:
        yield "it returns other types than it says"
    if function.name == "main":
        yield from _of_buffers(function)


# -- types -------------------------------------------------------------------------------------------------
def _of_type(kind: Any, grid_yx: tuple[int, int]) -> Iterator[str]:
    if not isinstance(kind, Tensor):
        return
    layout, shape = kind.layout, kind.shape
    element = kind.element.removeprefix("tile ")
    if layout.element != (_TILE_NAMES.get(element, element) if layout.tiled else element):
        yield f"elements of {kind.element} in pages of {layout.element}"
    physical = physical_shape(shape, layout.tiled)
    if layout.dims != len(shape) or (layout.rows, layout.columns) != _factors(shape, layout.tiled):
        yield f"a map of {layout.rows}, {layout.columns} for {shape}"
    unit = TILE if layout.tiled else 1
    whole = tuple(-(-size // unit) for size in physical)
    if layout.core_ranges is not None:
        if any(n * held < size for n, held, size in zip(layout.grid, layout.held, whole, strict=True)):
            yield f"shards of {layout.held} over {layout.grid} do not hold {whole}"
        if layout.space == "l1" and any(x >= grid_yx[1] or y >= grid_yx[0] for _, _, x, y in layout.core_ranges):
            yield f"cores {layout.core_ranges} outside of {grid_yx}"
    elif layout.space == "l1":
        if layout.grid != grid_yx or layout.held != (1, -(-prod(whole) // prod(grid_yx))):
            yield f"{layout.held} over {layout.grid} is no interleaved {whole} over {grid_yx}"
    elif layout.held != whole:
        yield f"a memref of {layout.held} for all of {whole}"


def physical_shape(shape: tuple[int, ...], tiled: bool) -> tuple[int, int]:
    """Rows and columns of the padded tensor."""
    padded = _padded(shape, tiled)
    return prod(padded[:-1]), padded[-1] if padded else TILE if tiled else 1


def _padded(shape: tuple[int, ...], tiled: bool) -> tuple[int, ...]:
    if not tiled:
        return shape
    if len(shape) == 1:
        return (TILE, -(-shape[0] // TILE) * TILE)
    if not shape:
        return (TILE, TILE)
    return (*shape[:-2], *(-(-size // TILE) * TILE for size in shape[-2:]))


def _factors(shape: tuple[int, ...], tiled: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What every dim counts for in rows and in columns."""
    rank = len(shape)
    if rank < 2:
        return (0,) * rank, (1,) * rank
    padded = _padded(shape, tiled)
    return (*(prod(padded[k + 1 : -1]) for k in range(rank - 1)), 0), (*(0,) * (rank - 1), 1)


# -- ops ---------------------------------------------------------------------------------------------------
def _of_op(module: Module, op: Operation) -> Iterator[str]:
    yield from of_properties(op)
    if op.name in _SIGNATURES:
        callee = op.properties.get("callee")
        called = module.functions.get(callee.name) if isinstance(callee, Symbol) else None
        if called is None or (called.takes, called.gives) != (op.takes, op.gives):
            yield f"calls {callee}, which is not there or has other types"
        elif (op.name == "func.call") != (called.body is None):
            yield "calls what it should load, or loads what it should call"
    tensors = [kind for kind in op.takes if isinstance(kind, Tensor)]
    if op.name == "func.return" or not tensors or not op.gives:
        return
    source, target = tensors[0], op.gives[0]
    if op.name in _COPIES and (source.shape, source.element) != (target.shape, target.element):
        yield "changes more than the layout"
    if op.name == "ttnn.to_layout" and (source.layout.space, source.layout.memory) != (
        target.layout.space,
        target.layout.memory,
    ):
        yield "changes the place too"
    yield from _of_shape(op, tensors, target)


def _of_shape(op: Operation, tensors: list[Tensor], target: Tensor) -> Iterator[str]:
    """Ops whose properties decide the shape of their result."""
    given = tensors[0].shape
    match op.name:
        case "ttnn.reshape":
            if tuple(size.value for size in op.properties["shape"]) != target.shape or prod(given) != prod(
                target.shape
            ):
                yield f"makes {target.shape} of {given}"
        case "ttnn.permute":
            order = op.properties["permutation"]
            assert isinstance(order, Array)
            if sorted(order.values) != list(range(len(given))) or tuple(given[k] for k in order.values) != target.shape:
                yield f"makes {target.shape} of {given} by {order.values}"
        case "ttnn.slice_static":
            begins, ends, steps = ([v.value for v in op.properties[key]] for key in ("begins", "ends", "step"))
            sizes = tuple(-(-(e - b) // s) for b, e, s in zip(begins, ends, steps, strict=True))
            if sizes != target.shape or any(e > size for e, size in zip(ends, given, strict=True)):
                yield f"takes {begins} to {ends} of {given} as {target.shape}"
        case "ttnn.concat":
            dim = int(op.properties["dim"].value) % len(given)
            joined = (*given[:dim], sum(kind.shape[dim] for kind in tensors), *given[dim + 1 :])
            if joined != target.shape:
                yield f"joins to {joined}, not {target.shape}"
        case "ttnn.conv2d":
            _, _, rows, channels = target.shape
            if int(op.properties["out_channels"].value) != channels or given[-1] != op.properties["in_channels"].value:
                yield f"has other channels than {given} and {target.shape}"
            if len(tensors) > 1 and tensors[1].shape[-1] != channels:
                yield f"has a weight for {tensors[1].shape[-1]} channels"
            if rows % int(op.properties["batch_size"].value):
                yield f"gives {rows} rows of a batch of {op.properties['batch_size'].value}"


# -- buffers -----------------------------------------------------------------------------------------------
def _of_buffers(function: Function) -> Iterator[str]:
    """Every tensor of the run is deallocated once, after all that reads its buffer; what is returned or given never."""
    assert function.body is not None
    shared: dict[str, str] = {}

    def buffer(name: str) -> str:
        while name in shared:
            name = shared[name]
        return name

    held = {
        *function.arguments,
        *(name for op in function.body if op.name == "ttcore.load_cached" for name in op.results),
    }
    freed: dict[str, int] = {}
    gone: set[str] = set()
    made: dict[str, int] = {}
    for op in function.body:
        if op.name == "ttnn.deallocate":
            (name,) = op.operands
            if name in gone:
                yield f"line {op.line}: {name} is deallocated twice"
            if buffer(name) in held:
                yield f"line {op.line}: {name} is not the run's to deallocate"
            gone.add(name)
            freed[buffer(name)] = op.line
            continue
        for name in op.operands:
            if buffer(name) in freed:
                yield f"line {op.line}: {name} is read after its buffer was deallocated"
        if op.name == "func.return":
            made = {name: line for name, line in made.items() if buffer(name) not in map(buffer, op.operands)}
            break
        alias = _alias(op)
        for name, kind in zip(op.results, op.gives, strict=True):
            if alias is not None:
                shared[name] = buffer(alias)
            elif isinstance(kind, Tensor) and kind.layout.space != "system_memory" and op.location is not None:
                made[name] = op.line
        config = op.properties.get("conv2d_config")
        if isinstance(config, Custom) and config.fields.get("deallocate_activation") and _is_l1(op.takes[0]):
            freed[buffer(op.operands[0])] = op.line
    for name, line in made.items():
        if buffer(name) not in freed:
            yield f"line {line}: {name} is never deallocated"


def _alias(op: Operation) -> str | None:
    """The operand in whose buffer an op's result lies."""
    if "ttopt.in_place" in op.attributes:
        return op.operands[int(op.attributes["ttopt.in_place"].value)]
    return op.operands[0] if op.attributes.get("ttopt.role") == "view" else None


def _is_l1(kind: Any) -> bool:
    return isinstance(kind, Tensor) and kind.layout.space == "l1"


def scalar_shards(layout: Layout) -> tuple[int, ...]:
    """Rows and columns of a shard."""
    return tuple(size * (TILE if layout.tiled else 1) for size in layout.held)
