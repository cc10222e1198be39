"""`OptimizedGraph`: the annotated graph, the one thing every entrance returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from optimizer.device import DeviceSpec, board_option
from optimizer.errors import StateError, UnknownNameError
from optimizer.ir.digest import graph_sha256
from optimizer.ir.graph import Attr, Graph
from optimizer.layouts.memory_config import MemoryConfig, TensorLayout
from optimizer.layouts.op_config import OpConfig
from optimizer.opmodel.base import CostPart
from optimizer.options import Options
from optimizer.program.placed import Program, lowered
from optimizer.result.summary import Summary
from optimizer.wording.plan import fused_fact

SCHEMA = "ttopt.annotated-graph/1"


class Role(StrEnum):
    """What an op of the result is there for."""

    COMPUTE = "compute"
    RESHARD = "reshard"
    """L1 -> L1 copy into another sharding."""
    SPILL = "spill"
    """L1 -> DRAM copy."""
    LOAD = "load"
    """DRAM -> L1 copy."""
    LAYOUT = "layout"
    """Tile <-> row-major conversion."""
    VIEW = "view"
    """Shares its operand's buffer; costs nothing but a dispatch."""
    TRANSFER = "transfer"
    """DRAM -> host or host -> DRAM, around an op that runs on the host."""
    HOST = "host"
    """Does not run on the device: once, on weights only, or (an op that TTNN lacks) between two transfers."""


COPIES = (Role.RESHARD, Role.SPILL, Role.LOAD)
"""Roles of ops that the optimizer inserts to move a value."""


@dataclass(frozen=True)
class Prediction:
    """What the OpModel says of one op as placed."""

    time_ns: int
    cb_bytes: int
    peak_l1_bytes: int
    """Peak L1 per core while the op runs: everything resident, its outputs, temporaries and buffers."""
    cores: int
    bound: str
    dram_read_bytes: int
    dram_write_bytes: int
    limit_ns: int = 0
    """The least that the op could take on this board, rounded down (`optimizer.limit`)."""
    compulsory_dram_bytes: int = 0
    """The share of the model's compulsory traffic that the op moves."""
    flops: int = 0
    """Of products of elements, 2 per multiply-add."""
    parts: tuple[CostPart, ...] = ()
    """What the time is made of: the device programs of the op."""
    low_ns: int | None = None
    """Where the 80 % interval of the time begins; None where the backend does not say."""
    high_ns: int | None = None


@dataclass(frozen=True)
class OpRecord:
    """The optimizer's decision for one op of the result."""

    role: Role
    config: OpConfig | None = None
    request: MemoryConfig | None = None
    """The `memory_config=` argument that makes the op give its output layout; None: none is passed."""
    chain: str | None = None
    predicted: Prediction | None = None
    reason: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChainRecord:
    """An L1 chain in its final state."""

    id: str
    ops: tuple[str, ...]
    state: str
    spill_location: str
    """`none`, `l1_interleaved` or `dram`."""
    reason: str | None = None
    """Why a failed chain fell back to DRAM."""
    statistics: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "ops": list(self.ops),
            "state": self.state,
            "spill_location": self.spill_location,
            "reason": self.reason,
            "statistics": dict(self.statistics),
        }


@dataclass(frozen=True)
class Reservation:
    """A value kept in L1 from schedule position `start` to `end`, both inclusive."""

    value: str
    start: int
    end: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "start": self.start, "end": self.end, "bytes": self.bytes}


@dataclass(frozen=True)
class Statement:
    """What a document that was read back says of its plan. Nobody relies on it; `verify.figures` compares it."""

    summary: Summary | None = None
    """As it stands there; None: it states no figures."""
    board: str | None = None
    """Its option `board`; None: it has none."""
    options: frozenset[str] = frozenset()
    """Names of the options that it states; the others are taken to be the defaults."""


@dataclass(repr=False)
class OptimizedGraph:
    """A scheduled graph with a layout on every value and a decision on every op."""

    graph: Graph
    layouts: dict[str, TensorLayout]
    records: dict[str, OpRecord]
    device: DeviceSpec
    """The board; the option `board` is what this one is called."""
    options: Options
    model: dict[str, Any]
    """Name, sha256, and the import report of the model this came from; `graph_sha256` of one that was read back."""
    chains: tuple[ChainRecord, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    fused_kernels: tuple[Mapping[str, Any], ...] = ()
    """Regions that the emitted program runs as our kernels (`fusion.binding.savings`), if asked for."""
    refused_kernels: tuple[Mapping[str, Any], ...] = ()
    """Groups of ops that could be kernels, but stay ops of TTNN, and why."""
    priced: Summary | None = None
    """`summary`, once the plan is priced; None of a result that was read back."""
    stated: Statement | None = None
    """Of a result that was read back: what its document says of it."""
    timings: dict[str, Any] = field(default_factory=dict)
    """The only part that differs between two runs of the same input."""
    source: Path | None = None
    """The model's file, for emitters that need its weights; no part of the document."""

    def __post_init__(self) -> None:
        self.options = replace(self.options, board=board_option(self.device, self.options.board))

    def __repr__(self) -> str:
        stated, shown = self.summary_json(), ("policy", "status", "predicted_time_ns")
        figures = "".join(f", {key} {stated[key]}" for key in shown if key in stated).replace(",", ":", 1)
        return f"<OptimizedGraph '{self.graph.name}' on {self.device.name}{figures}>"

    @property
    def summary(self) -> Summary:
        """The figures of the whole plan; StateError of a plan that is not priced, or that was read back."""
        if self.priced is None:
            raise StateError("this plan has no summary: nobody priced it")
        return self.priced

    def summary_json(self) -> Mapping[str, Any]:
        """The `summary` object of the document: ours, or what a document that was read back states; else empty."""
        stated = self.priced or (self.stated and self.stated.summary)
        return stated.to_json() if stated else {}

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the model calls the values that the graph returns: two may be one value, and one that of a weight."""
        return tuple(self.model.get("output_names") or self.graph.outputs)

    @cached_property
    def program(self) -> Program:
        """Its steps over the buffers that its values live in. Read it when graph, layouts and configs are final."""
        configs = {op_id: record.config for op_id, record in self.records.items() if record.role is not Role.HOST}
        views = {op_id for op_id, record in self.records.items() if record.role is Role.VIEW}
        return lowered(self.graph, self.layouts, configs, views, self.device)

    def to_json(self) -> dict[str, Any]:
        """The `graph.json` document (see `docs/formats.md`)."""
        return {
            "schema": SCHEMA,
            "model": {
                **self.model,
                "graph_sha256": graph_sha256(self.graph),
                "inputs": list(self.graph.inputs),
                "outputs": list(self.graph.outputs),
            },
            "device": self.device.to_json(),
            "options": self.options.to_json(),
            "values": {v: self._value_json(v) for v in self.graph.values},
            "ops": [self._op_json(op.id) for op in self.graph.ops()],
            "chains": [c.to_json() for c in self.chains],
            "reservations": [r.to_json() for r in self.reservations],
            "fused_kernels": [dict(k) for k in self.fused_kernels],
            **({"refused_kernels": [dict(k) for k in self.refused_kernels]} if self.options.fuse_kernels else {}),
            "summary": dict(self.summary_json()),
            "timings": self.timings,
        }

    def explain(self, op: str) -> dict[str, Any]:
        """Why an op (by id or name) got its layout and config: its record, operands and alternatives."""
        found = [o for o in self.graph.ops() if op in (o.id, o.name)]
        if not found:
            raise UnknownNameError("op", op, [o.id for o in self.graph.ops()])
        return explained(self.to_json(), self._op_json(found[0].id))

    def emit(self, name: str, folder: str | Path) -> Path:
        """Write an artifact into a folder: `optimizer.emit`, whose room is above this one. Returns the file's path."""
        path: Path = import_module("optimizer.export.registry").emit(self, name, folder)
        return path

    def _value_json(self, value_id: str) -> dict[str, Any]:
        value = self.graph.value(value_id)
        layout = self.layouts.get(value_id)
        record: dict[str, Any] = {
            "shape": list(value.shape),
            "dtype": value.dtype.value,
            "kind": value.kind.value,
            "layout": None if layout is None else layout.to_json(),
        }
        if value.stands_for is not None:
            record["stands_for"] = value.stands_for.to_json()
        if value.data is not None:
            record["data"] = list(value.data)
        return record

    def _op_json(self, op_id: str) -> dict[str, Any]:
        op, record = self.graph.op(op_id), self.records[op_id]
        predicted = record.predicted
        return {
            "id": op.id,
            "op": op.op,
            "name": op.name,
            "origin": list(op.origin),
            "inputs": list(op.inputs),
            "outputs": list(op.outputs),
            "attrs": {k: attr_to_json(v) for k, v in sorted(op.attrs.items())},
            "config": None if record.config is None else record.config.to_json(),
            "memory_config_argument": None if record.request is None else _request_json(record.request),
            "role": record.role.value,
            "chain": record.chain,
            "predicted": None if predicted is None else prediction_json(predicted),
            "reason": dict(record.reason),
        }


def explained(document: Mapping[str, Any], op: Mapping[str, Any]) -> dict[str, Any]:
    """Why one of a document's ops got its layout and config: its record, operands and results, kernel and chain."""
    values = document["values"]
    return {
        **op,
        "operands": [{"value": v, **values[v]} for v in op["inputs"]],
        "results": [{"value": v, **values[v]} for v in op["outputs"]],
        "fused": fused_fact(dict(document), op["id"]),
        "chain_record": _own_chain(op["id"], op["chain"], document["chains"]),
    }


def _own_chain(op_id: str, chain: str | None, chains: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The record of the chain that an op says it is part of; of an op in none, of the last that held it and failed."""
    if chain is not None:
        return next((c for c in chains if c["id"] == chain), None)
    return next((c for c in reversed(chains) if op_id in c["ops"] and c["state"] == "failed"), None)


def attr_to_json(value: Attr) -> Any:
    return [attr_to_json(v) for v in value] if isinstance(value, tuple) else value


def attr_from_json(value: Any) -> Attr:
    return tuple(attr_from_json(v) for v in value) if isinstance(value, list) else value


def _request_json(memory: MemoryConfig) -> dict[str, Any]:
    spec = memory.shard_spec
    return {
        "memory_layout": memory.memory_layout.value,
        "buffer_type": memory.buffer_type.value,
        "shard_shape": None if spec is None else list(spec.shape),
        "core_ranges": None if spec is None else [list(r) for r in spec.core_ranges],
        "grid_yx": None if spec is None else list(spec.grid_yx),
        "orientation": None if spec is None else spec.orientation.value,
    }


def prediction_json(p: Prediction) -> dict[str, Any]:
    """The `predicted` object of `graph.json`."""
    interval = {} if p.low_ns is None else {"low_ns": p.low_ns, "high_ns": p.high_ns}
    return {
        "time_ns": p.time_ns,
        **interval,
        "cb_bytes": p.cb_bytes,
        "peak_l1_bytes": p.peak_l1_bytes,
        "cores": p.cores,
        "bound": p.bound,
        "dram_read_bytes": p.dram_read_bytes,
        "dram_write_bytes": p.dram_write_bytes,
        "limit_ns": p.limit_ns,
        "compulsory_dram_bytes": p.compulsory_dram_bytes,
        "flops": p.flops,
        "parts": [_part_json(part) for part in p.parts],
    }


def _part_json(part: CostPart) -> dict[str, Any]:
    return {
        "program": part.name,
        "time_ns": round(part.time_ns),
        "start_ns": round(part.start_ns),
        "terms_ns": {bound.value: round(ns) for bound, ns in part.terms},
        "tail_ns": round(part.tail_ns),
    }
