"""Overrides: whether a finished graph has what the user fixed, read off the graph alone."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.errors import TtoptError
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import CAST
from optimizer.layouts.overrides import LayoutOverride, Overrides, parse_overrides
from optimizer.result import OptimizedGraph, Role
from optimizer.verify.subject import Error, Subject


def keeps_overrides(subject: Subject) -> Iterator[Error]:
    """Every override of the options is kept."""
    yield from broken_overrides(subject.result)


def broken_overrides(result: OptimizedGraph) -> Iterator[Error]:
    """Every override of the result's own options that it does not honour."""
    options = result.options
    texts = (options.override_output_layout, options.override_conv2d_config, options.insert_memreconfig)
    if not any(texts):
        return
    try:
        overrides = parse_overrides(result.graph, *texts)
    except TtoptError as error:
        yield error.node or "options", f"the override does not fit the result: {error.message}"
        return
    for op_id in overrides.op_ids:
        yield from _broken(result, overrides, result.graph.op(op_id))


def _broken(result: OptimizedGraph, overrides: Overrides, op: Op) -> Iterator[Error]:
    layout = result.layouts[op.outputs[0]]
    wanted = overrides.output_layouts.get(op.id)
    if wanted is not None and not wanted.allows(layout):
        yield op.id, f"override-output-layout wants {wanted.describe()}, the result is {layout.describe()}"
    if wanted is not None and not _has_dtype(result, wanted, op):
        yield op.id, f"override-output-layout wants {wanted.dtype}, nothing gives that"
    config = result.records[op.id].config
    for name, value in overrides.conv2d_configs.get(op.id, {}).items():
        found = getattr(config, name, None)
        if found != value:
            yield op.id, f"override-conv2d-config wants {name} {value}, the config has {found}"
    for k in overrides.memreconfigs.get(op.id, ()):
        if not _is_copied(result, op, k):
            yield op.id, f"insert-memreconfig: operand {k} is no copy in L1 laid out like the result"


def _has_dtype(result: OptimizedGraph, wanted: LayoutOverride, op: Op) -> bool:
    """Whether the result, or a typecast that reads it (its spilled or resharded form), has the element type."""
    if wanted.dtype is None:
        return True
    forms = [op.outputs[0]]
    for v in forms:
        if result.graph.value(v).dtype is wanted.dtype:
            return True
        for reader in result.graph.consumers(v):
            copies = result.records[reader.id].role in (Role.SPILL, Role.LOAD, Role.RESHARD, Role.LAYOUT)
            if copies or reader.op == CAST:
                forms.append(reader.outputs[0])
    return False


def _is_copied(result: OptimizedGraph, op: Op, position: int) -> bool:
    maker = result.graph.producer(op.inputs[position])
    copy, own = result.layouts[op.inputs[position]], result.layouts[op.outputs[0]]
    made = maker is not None and result.records[maker.id].role in (Role.LOAD, Role.RESHARD)
    return made and copy.is_l1 and copy.memory_layout is own.memory_layout
