"""`Summary`: the figures of a whole plan, which a person reads first and `graph.json` ends with.

Bytes are totals over the chip unless the name says L1 or bank; times are predictions in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from optimizer.ir.numeric_risk import NumericRisk


@dataclass(frozen=True)
class Baselines:
    """The same graph under simpler policies, priced by the same OpModel."""

    dram_ns: int
    """Predicted time with everything in DRAM."""
    dfsharding_ns: int | None
    """That of the policy `dfsharding`; None where nobody made its plan."""
    dram_read_bytes_total: int
    """What the plan in DRAM reads."""
    dram_write_bytes_total: int
    others: Mapping[str, int] = field(default_factory=dict)
    """Further plans that the policy made: `<policy>_ns` -> predicted time."""

    def to_json(self) -> dict[str, int | None]:
        return {
            "dram_ns": self.dram_ns,
            "dfsharding_ns": self.dfsharding_ns,
            "dram_read_bytes_total": self.dram_read_bytes_total,
            "dram_write_bytes_total": self.dram_write_bytes_total,
            **self.others,
        }


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
    """Kernels of ours."""
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


@dataclass(frozen=True)
class Loss:
    """Time beyond the physical limit for one reason."""

    kind: LossKind
    ns: int

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "ns": self.ns}


@dataclass(frozen=True)
class PhysicalLimit:
    """The least that the model takes on the board in the plan's element types and fidelities, and how far the plan is
    from it."""

    limit_ns: int
    """The longer of the two below, rounded down: both at once."""
    dram_ns: int
    """Compulsory bytes at the best bandwidth that kernels reach."""
    compute_ns: int
    """Products of elements at the peak of all worker cores."""
    compulsory_dram_bytes: int
    """Weights that do not lie in L1 and inputs, read once, and outputs, written once."""
    flops: int
    """Of products of elements, 2 per multiply-add."""
    of_limit: float
    """The limit over the predicted time."""
    losses: tuple[Loss, ...]
    """Where the rest of the predicted time goes, largest first; they add up to it exactly."""

    def to_json(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "losses": [loss.to_json() for loss in self.losses]}


@dataclass(frozen=True)
class Fallback:
    """Ops that are not in L1 for one reason: no sharded config runs, or their chain failed."""

    cause: str
    ops: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"cause": self.cause, "ops": list(self.ops)}


@dataclass(frozen=True)
class Rewrite:
    """A convolution of the model that runs in another way, since no config runs it."""

    op: str
    way: str
    """Name of the pass that rewrote it."""
    because: str
    """What the OpModel says of the convolution as it was."""

    def to_json(self) -> dict[str, str]:
        return {"op": self.op, "pass": self.way, "because": self.because}

    @property
    def warning(self) -> str:
        """What a person is told."""
        return f"'{self.op}' runs in another way ({self.way}): {self.because}"


@dataclass(frozen=True)
class Repair:
    """An op that a replay refused, and that was solved again."""

    round: int
    op: str
    kind: str
    """What was wrong: a kind of rejection, or `layout`."""
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"round": self.round, "op": self.op, "kind": self.kind, "message": self.message}


@dataclass(frozen=True)
class Check:
    """What the replay of the emitted program found, and what it led to (option `check`)."""

    opmodel: str
    """The backend that ran the program."""
    ok: bool
    """Whether it took the whole program in the last round."""
    rounds: int
    ops: int
    """Ops of the program."""
    refused: tuple[tuple[str, str], ...]
    """(op, message) of what the last round still refused."""
    repaired: tuple[Repair, ...]
    given_up: str | None
    """Why no further round was tried; None where nothing was refused."""
    l1: Mapping[str, Any]
    """Predicted against real peak L1 (`ReplayReport.l1_record`)."""

    def to_json(self) -> dict[str, Any]:
        return {
            "opmodel": self.opmodel,
            "ok": self.ok,
            "rounds": self.rounds,
            "ops": self.ops,
            "refused": [{"op": op, "message": message} for op, message in self.refused],
            "repaired": [repair.to_json() for repair in self.repaired],
            "given_up": self.given_up,
            "l1": dict(self.l1),
        }


@dataclass(frozen=True)
class MeasuredOutput:
    """One output of a plan whose roundings were emulated, beside the model's in float64."""

    name: str
    part: str
    """What of it is judged by itself; empty: all of it."""
    pcc: float
    """0 where something in it is no number."""
    relative_error: float | None
    """L2 norm of the difference over that of the model's; None where something is no number."""
    ratio: float | None
    """Least-squares factor between the two, likewise."""

    def to_json(self) -> dict[str, Any]:
        figures = {name: getattr(self, name) for name in ("pcc", "relative_error", "ratio")}
        shown = {name: None if figure is None else float(f"{figure:.6g}") for name, figure in figures.items()}
        return {"name": self.name, "part": self.part, **shown}


@dataclass(frozen=True)
class FrontPoint:
    """One plan on the front of time and correlation (option `pareto`)."""

    least_pcc: float | None
    """The budget that it was planned for; None: the plan in bf16."""
    predicted_pcc: float
    measured_pcc: float
    time_ns: int
    """Predicted."""

    def to_json(self) -> dict[str, Any]:
        rounded = {name: float(f"{getattr(self, name):.6g}") for name in ("predicted_pcc", "measured_pcc")}
        return {"least_pcc": self.least_pcc, **rounded, "time_ns": self.time_ns}


@dataclass(frozen=True)
class Precision:
    """What a plan within an error budget was expected to do to the outputs, and what it does (option `least_pcc`)."""

    least_pcc: float
    predicted_pcc: float
    """By the sum of all ops' errors."""
    measured_pcc: float
    """Of the worst output, every rounding of the plan emulated."""
    predicted_error: float
    """Relative mean square of the error that the correlation stands for."""
    measured_error: float
    """Likewise, with a margin for other inputs where these are random (`optimizer.pipeline.judging`)."""
    kept: bool
    """Whether that error is within the budget."""
    outputs: tuple[MeasuredOutput, ...]
    rounds: int
    """Plans that were searched for and measured."""
    scale: float
    """By how much measurement corrected the sensitivities."""
    weights: str
    """Those it was measured with: `given`, `model` or `random`."""
    inputs: str
    """`given` or `random`."""
    samples: int
    """How many inputs it was measured with; the figures are those of the worst."""
    exact_ns: int
    """Predicted time of the best plan in bf16, with the fidelities of the ops' own rules."""
    given_up: bool
    """Whether no plan in fewer bits kept the budget."""
    raised: tuple[str, ...]
    """Ops of the model that give f32 instead of bf16, as no plan in bf16 kept the budget."""
    front: tuple[FrontPoint, ...]
    """Plans that no other is as fast and as exact as, the fastest first; empty without the option `pareto`."""

    def to_json(self) -> dict[str, Any]:
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        rounded = {k: float(f"{v:.6g}") for k, v in record.items() if isinstance(v, float) and k != "least_pcc"}
        outputs, front = [o.to_json() for o in self.outputs], [point.to_json() for point in self.front]
        return {**record, **rounded, "outputs": outputs, "raised": list(self.raised), "front": front}


@dataclass(frozen=True)
class Summary:
    """One plan in figures. The order of the fields is that of the document."""

    status: str
    """`optimal`, `feasible` or `fallback`."""
    policy: str
    opmodel: str
    predicted_time_ns: int
    predicted_low_ns: int | None
    """Where the 80 % interval of that time begins; None where the backend does not say."""
    predicted_high_ns: int | None
    lower_bound_ns: int | None
    """What the policy proved; None if it proves nothing."""
    gap: float | None
    """Share of the time that is not proven necessary."""
    baselines: Baselines
    limit: PhysicalLimit
    ops: int
    """Ops that run on the device."""
    ops_by_role: Mapping[str, int]
    time_by_class_ns: Mapping[str, int]
    time_by_bound_ns: Mapping[str, int]
    programs: int
    """Device programs launched; 0 where the backend does not say."""
    traced_ns: int | None
    """Kernels and the gaps between them when replayed from a trace."""
    untraced_ns: int | None
    """Kernels, each no faster than the host dispatches one."""
    chains: int
    """Chains that did not fail."""
    chains_failed: int
    reshards: int
    loads: int
    spills: int
    dram_read_bytes_total: int
    dram_write_bytes_total: int
    l1_peak_bytes: int
    """Per core, over the whole schedule."""
    l1_limit_bytes: int
    """Per core: what the allocator gives, times the usage cap."""
    dram_peak_bank_bytes: int
    """In the fullest DRAM bank, while weights are prepared too."""
    dram_bank_bytes: int
    l1_weights_bytes: int
    """Per core: weights kept in L1 between runs."""
    l1_weights_bytes_total: int
    l1_resident_fraction: float
    """Share of the activation bytes that are produced in L1."""
    fallbacks: tuple[Fallback, ...]
    rewritten: tuple[Rewrite, ...]
    unsupported: tuple[tuple[str, str], ...]
    """(kind, id) of the ops that TTNN lacks."""
    numeric_risks: tuple[NumericRisk, ...]
    check: Check | None
    """None unless a replay was asked for."""
    precision: Precision | None
    """None unless an error budget was given."""
    unjudged: str | None
    """Why no plan could be judged within the error budget, and this one has the model's own element types; None: one
    was, or none was asked for."""
    stopped: str | None
    """Why the run ended before it was through; None: it was."""
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The `summary` object of `graph.json`."""
        return {f.name: _json(getattr(self, f.name)) for f in fields(self)}


def _json(value: Any) -> Any:
    if isinstance(value, Baselines | PhysicalLimit | Fallback | Rewrite | NumericRisk | Check | Precision):
        return value.to_json()
    if isinstance(value, Mapping):
        return dict(value)
    return [_json(item) for item in value] if isinstance(value, tuple) else value
