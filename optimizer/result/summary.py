"""`Summary`: the figures of a whole plan, which a person reads first and `graph.json` ends with.

The models are the document's too: what has a default may be absent there. Bytes are totals over the chip unless the
name says L1 or bank; times are predictions in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from optimizer.process.json_document import LARGEST_INTEGER, LARGEST_WHOLE

Figure = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
"""Nanoseconds, bytes, or how many."""
Flops = Annotated[int, Field(ge=0, le=LARGEST_WHOLE)]
"""Many ops together may do more than the longest time has nanoseconds."""
Difference = Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]
Measured = Annotated[float, PlainSerializer(lambda x: float(f"{x:.6g}"), return_type=float)]
"""Written with six significant digits."""


class Record(BaseModel):
    """A part of a document; readers ignore what they do not know."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)

    def to_json(self) -> dict[str, Any]:
        """As the document has it, without the fields that one that was read back does not state."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Baselines(Record):
    """The same graph under simpler policies, by the same OpModel; null: not computed."""

    model_config = ConfigDict(extra="allow")

    dram_ns: Figure | None = None
    dfsharding_ns: Figure | None = None
    dram_read_bytes_total: Figure | None = None
    dram_write_bytes_total: Figure | None = None


class LossKind(StrEnum):
    """What time beyond the physical limit is lost by (docs/cost-model.md, "The physical limit")."""

    BELOW_PEAK = "below_peak"
    """Products slower than the engine's peak on the cores that run them: unpacking, packing, uneven shares."""
    CONVERSIONS = "conversions"
    """Tiles to rows and back."""
    COPIES = "copies"
    """Reshards, spills and loads, those inside convolutions and pools of interleaved tensors included."""
    DRAM_RATE = "dram_rate"
    """Operands and results of products, moved below the best bandwidth."""
    DRAM_TRAFFIC = "dram_traffic"
    """Bytes between DRAM and the cores beyond the compulsory ones, at the best bandwidth."""
    ELEMENTWISE = "elementwise"
    FEEDING = "feeding"
    """Operands of products on their way between cores, and pipelines that fill."""
    IDLE_CORES = "idle_cores"
    """Products on fewer cores than the board has."""
    KERNELS = "kernels"
    """Our kernels."""
    MOVEMENT = "movement"
    """Ops that only move elements: reshapes, permutes, concats, slices, heads split and joined."""
    NORMS = "norms"
    """Norms, softmax and reductions."""
    PADDING = "padding"
    """Products of matrices filled up to whole tiles, and of zeros between groups of channels."""
    POOLS = "pools"
    """Pools, upsampling and sampling."""
    SERIAL = "serial"
    """DRAM and arithmetic that are both necessary, one after the other."""
    STARTS = "starts"
    """The fixed start of every program."""
    TRANSFERS = "transfers"
    """Between the board and the host."""
    WINDOWS = "windows"
    """Edges of images exchanged, and windows gathered for convolutions."""


class Loss(Record):
    """Predicted time beyond the physical limit, for one reason."""

    kind: str = Field(description="`starts`, `copies`, ...: docs/cost-model.md lists them")
    ns: Difference


class PhysicalLimit(Record):
    """The least that the model takes on the board in the plan's types and fidelities (docs/cost-model.md)."""

    limit_ns: Figure = Field(description="the longer of the next two, rounded down")
    dram_ns: Figure = Field(description="compulsory bytes at the best bandwidth that kernels reach")
    compute_ns: Figure = Field(description="products of elements at the peak of all worker cores")
    compulsory_dram_bytes: Figure = Field(
        description="weights that do not lie in L1 and inputs, read once, and outputs, written once"
    )
    flops: Flops = Field(description="of products of elements, 2 per multiply-add")
    of_limit: float = Field(description="the limit over the predicted time")
    losses: Sequence[Loss] = Field(description="where the rest of the time goes, largest first; adds up to it exactly")


class Fallback(Record):
    """Ops that are not in L1 for one reason."""

    cause: str
    ops: Sequence[str]


class Rewritten(Record):
    """A part of the model that runs in another way, since that is faster or (a convolution) no config runs it."""

    op: str
    way: str = Field(
        validation_alias="pass",
        serialization_alias="pass",
        description="the rewrite, or two of them, the second of the first one's parts (docs/graph-passes.md)",
    )
    parts: int | None = Field(default=None, description="in how many parts, where the rewrite has several forms")
    origin: Sequence[str] = Field(default=(), description="nodes of the model that the part computes")
    because: str
    saved_ns: int | None = Field(
        default=None, description="predicted, of the part with what is next to it; null: it runs only so"
    )

    @property
    def is_needed(self) -> bool:
        """Whether it runs in no other way."""
        return self.saved_ns is None

    @property
    def warning(self) -> str:
        """What a person is told of a part that runs only so."""
        return f"'{self.op}' runs in another way ({self.way}): {self.because}"


class NumericRisk(Record):
    """A pattern that bf16 cannot carry, at the op where it shows."""

    kind: str
    op: str
    because: str


class Refused(Record):
    """An op that a replay refused in its last round."""

    op: str
    message: str


class Repair(Record):
    """An op that a replay refused, and that was solved again; `kind` is that of the rejection, or `layout`."""

    round: Figure
    op: str
    kind: str
    message: str


class Check(Record):
    """What the replay of the emitted program found, and what it led to (option `check`)."""

    opmodel: str
    """The backend that ran the program."""
    ok: bool
    """Whether it took the whole program in the last round."""
    rounds: Figure
    ops: Figure
    """Ops of the program."""
    refused: Sequence[Refused]
    repaired: Sequence[Repair]
    given_up: str | None
    """Why no further round was tried; None where nothing was refused."""
    l1: dict[str, Any] = Field(default_factory=dict)
    """Predicted against real peak L1 (`ReplayReport.l1_record`)."""


class MeasuredOutput(Record):
    """One output with every rounding of the plan emulated, beside the model's in float64."""

    name: str
    part: str = Field(default="", description="what of it is judged by itself; empty: all of it")
    pcc: Measured = Field(description="0 where something in it is no number")
    relative_error: Measured | None
    ratio: Measured | None = Field(description="least-squares factor between the two")


class FrontPoint(Record):
    """One plan on the front of time and correlation."""

    least_pcc: float | None = Field(description="the budget that it was planned for; null: the plan in bf16")
    predicted_pcc: Measured
    measured_pcc: Measured
    time_ns: Figure = Field(description="predicted")


class Precision(Record):
    """What a plan within an error budget was expected to do to the outputs, and what it does."""

    least_pcc: float = Field(description="the budget: correlation that every output keeps")
    predicted_pcc: Measured = Field(description="by the sum of all ops' errors")
    measured_pcc: Measured = Field(description="of the worst output, by emulation")
    predicted_error: Measured = Field(description="relative mean square of the error that the correlation stands for")
    measured_error: Measured = Field(description="likewise; where inputs are random with a margin for others")
    kept: bool = Field(default=True, description="whether that error is within the budget")
    outputs: Sequence[MeasuredOutput]
    rounds: Figure = Field(description="plans that were searched for and measured")
    scale: Measured = Field(description="by how much measurement corrected the sensitivities")
    weights: str = Field(description="measured with: `given`, `model` or `random`")
    inputs: str = Field(description="`given` or `random`")
    samples: Figure = Field(default=1, description="inputs it was measured with; the figures are those of the worst")
    exact_ns: Figure = Field(description="predicted time of the best plan in bf16, fidelities by the ops' own rules")
    given_up: bool = Field(description="whether no plan in fewer bits kept the budget")
    raised: Sequence[str] = Field(
        default=(), description="ops of the model that give f32 instead of bf16, to keep the budget"
    )
    front: Sequence[FrontPoint] = Field(
        default=(), description="plans that no other is as fast and as exact as; option `pareto`"
    )


Status = Literal["optimal", "feasible", "fallback"]


class Summary(Record):
    """Figures of the whole plan. A result that failed verification is never written."""

    status: Status
    policy: str
    opmodel: str
    predicted_time_ns: Figure
    predicted_low_ns: Figure | None = Field(
        None, description="where the 80 % interval of the time begins; null: not told"
    )
    predicted_high_ns: Figure | None = Field(None, description="where it ends")
    lower_bound_ns: Figure | None = Field(None, description="what the policy proved; null: it proves nothing")
    gap: float | None = Field(None, description="share of the time that is not proven necessary")
    baselines: Baselines
    limit: PhysicalLimit | None = Field(None, description="absent from documents of older versions")
    ops: Figure = Field(description="that run on the device")
    ops_by_role: Mapping[str, Figure] = Field(default_factory=dict)
    time_by_class_ns: Mapping[str, Figure] = Field(default_factory=dict, description="predicted time by kind of op")
    time_by_bound_ns: Mapping[str, Figure] = Field(default_factory=dict, description="predicted time by what limits it")
    programs: Figure = Field(0, description="device programs launched, where the backend says")
    traced_ns: Figure | None = Field(None, description="kernels and the gaps between them when run from a trace")
    untraced_ns: Figure | None = Field(None, description="kernels, each no faster than the host dispatches one")
    chains: Figure = Field(0, description="that did not fail")
    chains_failed: Figure = 0
    reshards: Figure = Field(description="copies from one L1 layout to another")
    loads: Figure = Field(0, description="copies from DRAM to L1; absent from documents of older versions")
    spills: Figure = Field(description="copies from L1 to DRAM")
    dram_read_bytes_total: Figure
    dram_write_bytes_total: Figure
    l1_peak_bytes: Figure = Field(description="per core, over the whole schedule")
    l1_limit_bytes: Figure = Field(description="per core: what the allocator gives, times the usage cap")
    dram_peak_bank_bytes: Figure | None = Field(
        None, description="fullest DRAM bank at any step, while weights are prepared too; absent from older documents"
    )
    dram_bank_bytes: Figure | None = Field(None, description="what a DRAM bank of the board holds")
    l1_weights_bytes: Figure = Field(0, description="per core: of weights kept in L1 between runs")
    l1_weights_bytes_total: Figure = Field(0, description="size of the weights kept in L1 between runs")
    l1_resident_fraction: float = Field(description="share of the activation bytes that are produced in L1")
    fallbacks: Sequence[Fallback] = Field(
        default=(), description="ops that no sharded config runs, or whose chain failed, by cause"
    )
    rewritten: Sequence[Rewritten] = Field(
        default=(), description="convolutions that no config runs, computed in another way"
    )
    unsupported: Sequence[Any] = Field(description="[kind, id] of the ops that TTNN lacks")
    numeric_risks: Sequence[NumericRisk] = Field(default=(), description="patterns that bf16 cannot carry, by op")
    check: Check | None = Field(None, description="what the replay found, and what it led to; null: not asked")
    precision: Precision | None = Field(None, description="what the plan does to the outputs; null: no error budget")
    unjudged: str | None = Field(None, description="why the error budget could not be planned for; null: it could")
    stopped: str | None = Field(None, description="why the run ended before it was through; null: it was")
    warnings: Sequence[str]
