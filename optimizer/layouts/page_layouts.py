"""Gives every value its page layout (tile or row-major) and inserts the conversions that this needs.

After this pass every operand is in the page layout its op takes, so the later analyses choose memory
configs only. Conversions are ordinary `ttnn.to_layout` ops; on weights they run once, on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from optimizer.ir.graph import STATIC, Graph, Op, Value, ValueKind
from optimizer.ir.opdef import ConfigFamily, OpDef, Page
from optimizer.ir.vocabulary import CONVERT, opdef
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.weight_forms import reshapes_on_host

_FIXED = {Page.TILE: PageLayout.TILE, Page.ROW_MAJOR: PageLayout.ROW_MAJOR}
_OTHER = {PageLayout.TILE: PageLayout.ROW_MAJOR, PageLayout.ROW_MAJOR: PageLayout.TILE}


@dataclass(frozen=True)
class AssignPageLayouts:
    """Inserts `ttnn.to_layout` where an operand's page layout is not what its op takes."""

    name: str = "page-layouts"
    on_rows: frozenset[str] = frozenset()
    """Ops that run on row-major operands though they could on tiles, and give a row-major result."""
    asked: Mapping[str, PageLayout] = field(default_factory=dict)
    """Op id -> pages that an override wants of its result; granted where the op can. A conv's config says them."""

    def apply(self, graph: Graph) -> dict[str, PageLayout]:
        """Edits the graph in place and returns the page layout of every value."""
        pages: dict[str, PageLayout] = {}
        for value_id in list(graph.values):
            if graph.producer(value_id) is None:
                pages[value_id] = self._source_page(graph, graph.value(value_id))
        copies: dict[tuple[str, PageLayout], str] = {}
        for op in list(graph.ops()):
            row = opdef(op.op)
            row_major = op.id in self.on_rows or self._stays_row_major(graph, pages, op, row)
            row_major = row_major or reshapes_on_host(graph, op)
            wanted = [self._wanted(op, row, k, row_major) for k in range(len(op.inputs))]
            inputs = tuple(self._operand(graph, pages, copies, op, k, page) for k, page in enumerate(wanted))
            if inputs != op.inputs:
                op = replace(op, inputs=inputs)
                graph.replace_op(op)
            for output in op.outputs:
                pages[output] = PageLayout.ROW_MAJOR if row_major else self._result_page(op, row, pages)
                if row.config is ConfigFamily.CONV2D:
                    pages[output] = self.asked.get(op.id, pages[output])
        graph.sort()
        return pages

    def _wanted(self, op: Op, row: OpDef, index: int, row_major: bool) -> PageLayout | None:
        """Page layout to bring an operand to; None takes it as it is."""
        fixed = _FIXED.get(row.required_page(op, index))
        if row_major:
            return PageLayout.ROW_MAJOR
        follows = fixed is None and row.required_page(op, index) is not Page.HOST and row.output_page is Page.ANY
        return self.asked.get(op.id) if follows else fixed

    def _stays_row_major(self, graph: Graph, pages: dict[str, PageLayout], op: Op, row: OpDef) -> bool:
        if self.asked.get(op.id) is PageLayout.TILE:
            return False
        views = row.view_of_rows and pages[op.inputs[0]] is PageLayout.ROW_MAJOR and _keeps_rows(graph, op)
        return views and not graph.is_const_eval(op)

    @staticmethod
    def _source_page(graph: Graph, value: Value) -> PageLayout:
        """Inputs and weights are created in the page layout their first consumer takes.

        An input that a graph converts itself comes in the page layout that it is converted from.
        """
        converted = _converted_from(graph, value.id) if value.kind is ValueKind.INPUT else None
        if converted is not None:
            return converted
        for consumer in graph.consumers(value.id):
            wanted = opdef(consumer.op).required_page(consumer, consumer.inputs.index(value.id))
            if wanted is Page.HOST or reshapes_on_host(graph, consumer):
                return PageLayout.ROW_MAJOR
            if wanted in _FIXED:
                return _FIXED[wanted]
        if value.kind is ValueKind.INPUT and not value.dtype.is_float:
            return PageLayout.ROW_MAJOR
        return PageLayout.TILE

    @staticmethod
    def _result_page(op: Op, row: OpDef, pages: dict[str, PageLayout]) -> PageLayout:
        tiled = not op.inputs or pages[op.inputs[0]] is PageLayout.TILE
        return PageLayout.TILE if row.gives_tiles(op, tiled) else PageLayout.ROW_MAJOR

    @staticmethod
    def _operand(
        graph: Graph,
        pages: dict[str, PageLayout],
        copies: dict[tuple[str, PageLayout], str],
        op: Op,
        index: int,
        wanted: PageLayout | None,
    ) -> str:
        """The value to read as operand `index`: as is, or converted (one conversion per page, shared)."""
        value_id = op.inputs[index]
        if wanted is None or pages[value_id] is wanted:
            return value_id
        if (value_id, wanted) not in copies:
            source = graph.value(value_id)
            kind = ValueKind.ACTIVATION
            if source.kind in STATIC:
                kind = ValueKind.PARAMETER
            copy = replace(source, id=graph.fresh_id(f"{value_id}_{wanted.value}"), kind=kind, data=None)
            graph.add_value(copy)
            op_id = graph.fresh_id(f"{value_id}_to_{wanted.value}")
            attrs = {"layout": wanted.value}
            convert = Op(op_id, CONVERT, (value_id,), (copy.id,), attrs, name=op_id, origin=op.origin)
            graph.add_op(convert, at=op.id)
            pages[copy.id] = wanted
            copies[value_id, wanted] = copy.id
        return copies[value_id, wanted]


def _keeps_rows(graph: Graph, op: Op) -> bool:
    """Whether a reshape leaves the last dim as it is: of row-major data it then moves nothing."""
    source, target = graph.value(op.inputs[0]).shape, graph.value(op.outputs[0]).shape
    return bool(source) and bool(target) and source[-1] == target[-1]


def _converted_from(graph: Graph, value_id: str) -> PageLayout | None:
    """The page layout in which a graph's own conversions read a value, reshapes of rows in between; None: none."""
    for consumer in graph.consumers(value_id):
        row = opdef(consumer.op)
        if row.output_page is Page.ATTR:
            return _OTHER[PageLayout(str(consumer.attr("layout")))]
        if row.view_of_rows and _keeps_rows(graph, consumer):
            found = _converted_from(graph, consumer.outputs[0])
            if found is not None:
                return found
    return None
