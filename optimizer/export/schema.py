"""The JSON documents as pydantic models, and the schemas in `docs/`; `stored.py` reads them back.

Fields may be added to the documents; readers ignore what they do not know.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator

from optimizer.importers.json_graph import GraphDocument
from optimizer.ir.sizes import LARGEST_INDEX, MAX_ELEMENTS, MAX_RANK
from optimizer.process.files import make_folder, write_text
from optimizer.result.summary import Difference, Figure, Flops, Record, Summary

DTypeName = Literal["f32", "bf16", "bfp8_b", "bfp4_b", "u32", "i32", "u16", "u8"]
Kind = Literal["input", "parameter", "constant", "activation"]
Number = int | float | bool
Shape = Annotated[list[Annotated[int, Field(ge=1, le=MAX_ELEMENTS)]], Field(max_length=MAX_RANK)]
Pair = Annotated[list[Annotated[int, Field(ge=1, le=LARGEST_INDEX)]], Field(min_length=2, max_length=2)]
GridPair = Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=2, max_length=2)]
"""At most the cores of the largest board, all in one row or column."""
CoreRange = Annotated[list[Annotated[int, Field(ge=0, le=63)]], Field(min_length=4, max_length=4)]


class Layout(Record):
    """Where and how a value is stored; the last four fields are null unless sharded."""

    tensor_layout: Literal["tile", "row_major"]
    memory_layout: Literal["interleaved", "height_sharded", "width_sharded", "block_sharded"]
    buffer_type: Literal["dram", "l1", "host"]
    grid_yx: GridPair | None = Field(None, description="shards in rows and columns")
    shard_shape: Pair | None = Field(None, description="elements of a shard, height and width")
    core_ranges: Annotated[list[CoreRange], Field(max_length=4096)] | None = Field(
        None, description="[x0, y0, x1, y1], both ends included"
    )
    orientation: Literal["row_major", "col_major"] | None = None


class StandsFor(Record):
    """A tensor of the model's file; the value is it with its dims in this order, then reshaped."""

    name: str
    shape: Shape = Field(description="as in the model")
    dims: list[int] = Field(description="a permutation of the tensor's dims")


class Value(Record):
    """One tensor and its layout."""

    shape: Shape = Field(description="static sizes")
    dtype: DTypeName
    kind: Kind = Field(description="`input`: fed on every run; `parameter`: a weight; `constant`: has `data`")
    data: list[Number] | None = Field(None, description="elements of a constant in row-major order")
    stands_for: StandsFor | None = Field(
        None, description="the tensor of the model that it equals up to rounding; absent: none has its elements"
    )
    layout: Layout | None


class ProgramTime(Record):
    """One device program of an op: launch, what could bound it (the longest does), what nothing overlaps."""

    program: str
    time_ns: Figure
    start_ns: Figure
    terms_ns: dict[str, Figure]
    tail_ns: Figure


class Prediction(Record):
    """What the OpModel says of an op as placed; bytes are per core unless the name says otherwise."""

    time_ns: Figure
    cb_bytes: Figure
    peak_l1_bytes: Figure
    cores: Figure
    bound: Literal["compute", "dram", "noc", "pcie", "dispatch"]
    dram_read_bytes: Figure
    dram_write_bytes: Figure
    limit_ns: Figure = Field(0, description="the least that the op could take on the board, rounded down")
    compulsory_dram_bytes: Figure = Field(0, description="the op's share of the model's compulsory DRAM traffic")
    flops: Flops = Field(0, description="of products of elements, 2 per multiply-add")
    parts: list[ProgramTime] = Field(default_factory=list, description="the device programs of the op")
    low_ns: Figure | None = Field(None, description="where the 80 % interval of the time begins; absent: not told")
    high_ns: Figure | None = Field(None, description="where it ends")


class MemoryConfigArgument(Record):
    """The `memory_config=` argument that gives an op its output layout."""

    memory_layout: str
    buffer_type: str
    shard_shape: Pair | None
    core_ranges: Annotated[list[CoreRange], Field(max_length=4096)] | None
    grid_yx: GridPair | None
    orientation: str | None


class PlacedOp(Record):
    """One operation with its decision: what verifying and pricing need, and what is stated of it."""

    id: str
    op: str = Field(description="TTNN name, e.g. `ttnn.matmul`; a name without meaning to ttopt stays in DRAM")
    name: str = Field("", description="what overrides and `explain` may call it")
    origin: list[str] = Field(default_factory=list, description="names of the foreign nodes it computes")
    inputs: list[str] = Field(description="ids of the values it reads")
    outputs: list[str] = Field(description="ids of the values it computes")
    attrs: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] | None = Field(
        None,
        description="op configuration, tagged by `kind`; null: TTNN's default. `in_place`, and `layer_norm_sharded` "
        "with `inplace`: the result takes the buffer of an operand (`operand`, else 0), whose value is lost",
    )
    memory_config_argument: MemoryConfigArgument | None = Field(None, description="null: the argument is not passed")
    role: Literal["compute", "reshard", "spill", "load", "layout", "view", "transfer", "host"] = "compute"
    chain: str | None = None
    predicted: Prediction | None = None
    reason: dict[str, Any] = Field(default_factory=dict)


class AnnotatedOp(PlacedOp):
    """One operation of the result, at its place in the schedule."""

    chain: str | None = Field(description="L1 chain it belongs to")
    predicted: Prediction | None
    reason: dict[str, Any] = Field(description="why: what was chosen, the alternatives and what excluded them")


class Chain(Record):
    """An L1 chain in its final state."""

    id: str
    ops: list[str]
    state: str
    spill_location: str
    reason: str | None = None
    statistics: dict[str, Any] = Field(default_factory=dict)


class Reservation(Record):
    """A value kept in L1 from one schedule position to another, both included."""

    value: str
    start: Figure
    end: Figure
    bytes: Figure


class FusedRegion(Record):
    """Ops that the emitted program runs as one kernel, with the option `fuse_kernels`; bytes are per core."""

    kernel: str = Field(
        description="folder of its C++ below `kernels`, and function of the program; equal regions share"
    )
    ops: list[str]
    place: str = Field(description="the op at whose place in the schedule it runs")
    inputs: list[str]
    outputs: list[str] = Field(description="results that ops outside read; the others are no tensors any more")
    cores: Figure
    tiles_per_core: Pair = Field(description="rows and columns of a core's shard")
    multicast: list[str] = Field(
        default_factory=list, description="inputs that one core, or one of each row or column, reads for the others"
    )
    k_block: Figure | None = Field(
        None, description="tiles of its product's depth that are brought and multiplied at a time; null: all"
    )
    l1_bytes_saved: Difference = Field(description="of the tensors in L1 that are no more")
    dram_bytes_saved_total: Difference = Field(description="neither written nor read, on all cores together")
    round_trips_saved: Difference = Field(description="values handed from op to op without a tensor between them")
    circular_buffers: Figure
    circular_buffers_saved: Difference = Field(
        description="fewer than kernels of ours would have for the ops one by one"
    )
    circular_buffer_bytes: Figure = Field(description="of those that lie in no tensor")
    judged_by: str | None = Field(
        None, description="what has judged values of such kernels on this chip (versions); null: nothing has"
    )
    unjudged: list[str] = Field(
        default_factory=list,
        description="calls of the kernel, and ways its tensors come and go, that nobody has seen give right values",
    )
    predicted_ns: Figure | None = Field(None, description="of the kernel, by the time model's constants for TTNN's ops")
    ops_ns: Figure | None = Field(None, description="of the ops one by one")
    saved_ns: Difference | None = Field(None, description="`ops_ns` less `predicted_ns`")
    bound: str | None = Field(None, description="what limits the kernel")
    dram_read_bytes: Figure | None = Field(None, description="by all cores together")
    dram_write_bytes: Figure | None = None


class RefusedRegion(Record):
    """Ops that one kernel could run, and that stay ops of TTNN."""

    ops: list[str]
    because: str = Field(description="`slower`, or `no room in L1`")
    predicted_ns: Figure | None = Field(description="of the kernel at its best home; null where L1 has no room")
    ops_ns: Figure | None


class ResultModel(Record):
    """The model the result came from."""

    name: str = "graph"
    sha256: str | None = Field(None, description="of the model's file")
    import_: dict[str, Any] | None = Field(None, alias="import", description="what the importer did")
    graph_sha256: str | None = Field(
        None, description="of what the graph computes: interface, values, ops; absent from documents of older versions"
    )
    inputs: list[str] = Field(description="ids of the values fed by the caller, in call order")
    outputs: list[str] = Field(description="ids of the values returned, in return order")
    output_names: list[str] | None = Field(
        None, description="what the model calls them, where it calls one of them otherwise; each name once"
    )


class PlacedGraph(Record):
    """A scheduled graph with a layout on every value, whoever made it: what `ttopt price` reads.

    What it states of itself besides (predictions, chains, summary) may be absent; what is there is checked.
    """

    schema_: Literal["ttopt.annotated-graph/1"] | None = Field(None, alias="schema")
    model: ResultModel
    device: dict[str, Any]
    options: dict[str, Any] = Field(default_factory=dict)
    values: dict[str, Value]
    ops: Sequence[PlacedOp] = Field(description="in schedule order")
    chains: list[Chain] = Field(default_factory=list)
    reservations: list[Reservation] = Field(default_factory=list)
    fused_kernels: list[FusedRegion] = Field(default_factory=list)
    refused_kernels: list[RefusedRegion] = Field(default_factory=list)
    summary: Summary | None = None

    @field_validator("summary", mode="before")
    @classmethod
    def _nothing_stated(cls, given: Any) -> Any:
        """An empty summary is none: a plan that nobody priced."""
        return None if given == {} and cls is PlacedGraph else given


class AnnotatedGraph(PlacedGraph):
    """`graph.json`: what `ttopt optimize` writes."""

    schema_: Literal["ttopt.annotated-graph/1"] = Field(alias="schema")
    options: dict[str, Any]
    ops: Sequence[AnnotatedOp] = Field(description="in schedule order")
    chains: list[Chain]
    reservations: list[Reservation]
    fused_kernels: list[FusedRegion] = Field(default_factory=list, description="with the option `fuse_kernels`")
    refused_kernels: list[RefusedRegion] = Field(
        default_factory=list, description="what the option `fuse_kernels` leaves as ops"
    )
    summary: Summary
    timings: dict[str, Any] = Field(description="the only part that differs between two runs of the same input")


SCHEMAS: dict[str, type[BaseModel]] = {
    "graph.schema.json": GraphDocument,
    "annotated-graph.schema.json": AnnotatedGraph,
}
"""File name in `docs/` -> model."""


def schema_text(model: type[BaseModel]) -> str:
    record = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(by_alias=True)}
    return json.dumps(record, indent=1) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema into a folder; returns the files."""
    make_folder(folder)
    paths = []
    for name, model in SCHEMAS.items():
        path = folder / name
        write_text(path, schema_text(model))
        paths.append(path)
    return paths
