"""Ops, values and layouts of a result as the page looks them up: by number, what many ops share once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from optimizer.errors import FormatError, shortened
from optimizer.export.facts import COPY_ROLES, attributes_of, place_of
from optimizer.export.report.labels import labels
from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import l1_bytes_per_core, tensor_bytes
from optimizer.result import OpRecord, OptimizedGraph, Role, prediction_json
from optimizer.wording.entries import flat, layout_text
from optimizer.wording.plan import fused_fact
from optimizer.wording.reasons import reason_pairs, reason_tables

LONGEST_CELL = 2000
"""Characters of an entry of a reason, and of attributes."""
PLACEMENTS = ("dram", "l1_interleaved", "height_sharded", "width_sharded", "block_sharded", "host")
"""Where a tensor lies, as the report colours it: the way into L1, or the other memory."""
Record = dict[str, Any]


def checked(result: OptimizedGraph) -> None:
    """FormatError where a value of the run has no layout, or one that has no size."""
    for op in result.graph.ops():
        if result.records[op.id].role is Role.HOST:
            continue
        for v in (*op.inputs, *op.outputs):
            layout, value = result.layouts.get(v), result.graph.value(v)
            if layout is None:
                raise FormatError("the value has no layout", node=v)
            try:
                tensor_bytes(value.shape, value.dtype, layout.page_layout)
                l1_bytes_per_core(value.shape, value.dtype, layout, result.device)
            except ValueError as error:
                raise FormatError(f"the value's layout has no size: {error}", node=v) from error


def placement(layout: TensorLayout) -> str:
    """One of `PLACEMENTS`."""
    place = place_of(layout)
    return "l1_interleaved" if place == "l1 interleaved" else place.removeprefix("l1 ")


def op_placement(result: OptimizedGraph, op: Op) -> str:
    """Where an op leaves its first result."""
    layout = result.layouts.get(op.outputs[0]) if op.outputs else None
    if layout is None:
        return "host" if result.records[op.id].role is Role.HOST else "dram"
    return placement(layout)


class Entries:
    """Numbers of values, layouts and what ops share, given out as they are met."""

    def __init__(self, result: OptimizedGraph) -> None:
        self._result = result
        self._values: dict[str, int] = {}
        self._layouts: dict[TensorLayout, int] = {}
        self._shared: dict[str, int] = {}
        self._kernels = {op: region["kernel"] for region in result.fused_kernels for op in region["ops"]}
        roles = {op.id: result.records[op.id].role for op in result.graph.ops()}
        named = {op.name or op.id for op in result.graph.ops() if roles[op.id] not in (*COPY_ROLES, Role.HOST)}
        self._labels = labels(sorted(named))
        self.ops = [self._op(op) for op in result.graph.ops()]
        """In schedule order."""
        for v in (*result.graph.inputs, *result.graph.outputs):
            self.number(v)

    def number(self, value_id: str) -> int:
        """Of a value, the same every time."""
        return self._values.setdefault(value_id, len(self._values))

    def values(self) -> list[Record]:
        """By number."""
        return [self._value(v) for v in self._values]

    def layouts(self) -> list[Record]:
        """By number, for the values listed before."""
        return [self._layout(layout) for layout in self._layouts]

    def shared(self) -> list[Any]:
        """By number: reasons, predictions and attributes, which many ops of a model have alike."""
        return [json.loads(text) for text in self._shared]

    def _share(self, found: Any) -> int | None:
        """The number of a part of an op's record; None for an empty one."""
        if found in (None, "", []):
            return None
        return self._shared.setdefault(json.dumps(found), len(self._shared))

    def _value(self, value_id: str) -> Record:
        value, layout = self._result.graph.value(value_id), self._result.layouts.get(value_id)
        record: Record = {
            "id": shortened(value_id),
            "type": f"{value.dtype.value} {list(value.shape)}",
            "kind": value.kind.value,
        }
        if layout is not None:
            record["layout"] = self._layouts.setdefault(layout, len(self._layouts))
        return record

    def _layout(self, layout: TensorLayout) -> Record:
        spec = layout.memory.shard_spec
        record: Record = {"text": layout_text(layout.to_json()), "placement": placement(layout)}
        if spec is not None:
            record |= {"cores": [list(r) for r in spec.core_ranges], "orientation": spec.orientation.value}
        return record

    def _op(self, op: Op) -> Record:
        record = self._result.records[op.id]
        config = None if record.config is None else record.config.to_json()
        found: Record = {
            "id": shortened(op.id),
            "kind": op_kind(op, record.role),
            "op": shortened(op.op),
            "name": shortened(op.name),
            "label": shortened(self._labels.get(op.name or op.id, "")),
            "role": record.role.value,
            "placement": op_placement(self._result, op),
            "chain": record.chain and shortened(record.chain),
            "origin": [shortened(name) for name in op.origin],
            "inputs": [self.number(v) for v in op.inputs],
            "outputs": [self.number(v) for v in op.outputs],
            "kernel": self._kernels.get(op.id),
            "attrs": self._share(shortened(flat(attributes_of(op)), LONGEST_CELL)),
            "config": self._share("" if config is None else shortened(flat(config), LONGEST_CELL)),
            "predicted": self._share(None if record.predicted is None else prediction_json(record.predicted)),
            "why": self._share([[name, shortened(text, LONGEST_CELL)] for name, text in self._why(op.id, record)]),
            "tables": self._share(_tables(record.reason, config)),
            "dram_ns": None if record.predicted is None else record.reason.get("dram_time_ns"),
        }
        return {k: v for k, v in found.items() if v not in (None, "", [])}

    def _why(self, op_id: str, record: OpRecord) -> list[tuple[str, str]]:
        """The recorded reason, and what became of the op as part of a kernel."""
        result = self._result
        document = {"fused_kernels": result.fused_kernels, "refused_kernels": result.refused_kernels}
        fused = fused_fact(document, op_id)
        return [*reason_pairs(record.reason), *([] if fused is None else [("fused", fused)])]


def _tables(reason: Mapping[str, Any], config: Record | None) -> list[Any]:
    """Title, header and rows of every list of records in a reason."""
    return [
        [t.title, t.header, [[shortened(cell, LONGEST_CELL) for cell in row] for row in t.rows]]
        for t in reason_tables(reason, config)
    ]


def op_kind(op: Op, role: Role) -> str:
    """`conv2d`, or the role of a copy, whose op is `to_memory_config` or the like."""
    return role.value if role in COPY_ROLES else shortened(op.op.removeprefix("ttnn."))
