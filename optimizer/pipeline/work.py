"""What a stage is, and what the stages of a run hand on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.ir.watching import tell
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.overrides import Overrides
from optimizer.limit.predictions import Totals
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.cached import CachedOpModel
from optimizer.options import Options
from optimizer.pipeline.clock import Clock
from optimizer.pipeline.learned import Learned
from optimizer.result import OptimizedGraph
from optimizer.result.summary import Precision, Rewritten
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.legality import Legality
from optimizer.values.given import GivenValues, ModelValues
from optimizer.values.judged import Part
from optimizer.verify import VerifyReport

if TYPE_CHECKING:
    from optimizer.importers import ImportedModel


@dataclass(frozen=True)
class Origin:
    """What the result says of the model it came from."""

    record: Mapping[str, Any]
    """Name, sha256 of the file (None: a graph was handed over), and the import report."""
    warnings: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_result: bool = False
    """Whether it is a plan that was written down: its graph is rewritten already."""
    """Name of an unsupported op -> why it does not run on the device and what can be done."""


@dataclass
class Work:
    """One run. The first eight fields are given; each of the others is there once the stage that gives it has run."""

    source: Path | bytes | ImportedModel | Graph
    options: Options
    opmodel: CachedOpModel
    clock: Clock
    name: str | None = None
    """The model's; None: what its file says."""
    judge: OpModel | None = None
    """Replays the finished program; None: it is not replayed."""
    learned: Learned = field(default_factory=Learned)
    """By runs before this one, on the same board with the same OpModel."""
    given: GivenValues = field(default_factory=GivenValues)
    """Weights and inputs that errors are measured with."""
    stated: Sequence[Rewritten] | None = None
    """What a result says was computed in another way, to be done again; None: what is fastest is chosen."""

    origin: Origin = field(init=False)
    imported: Graph = field(init=False)
    """As the importer made it. No stage changes it."""
    graph: Graph = field(init=False)
    """Ours to edit."""
    overrides: Overrides = field(init=False)
    conv_weights: Mapping[str, str] = field(init=False)
    """Conv op id -> element type that its weights are prepared into."""
    pages: dict[str, PageLayout] = field(init=False)
    """Value id -> its page layout."""
    dtypes: tuple[DType, ...] = field(init=False)
    """Element types that occur."""
    legality: Legality = field(init=False)
    problem: PolicyInput = field(init=False)
    """The graph with everything that it may do: what a policy is given."""
    rewritten: tuple[Rewritten, ...] = field(init=False)
    baseline: Totals = field(init=False)
    """The same graph with everything in DRAM."""
    plan: Plan = field(init=False)
    values: ModelValues | None = field(init=False)
    """Inputs and weights that errors are measured with, where a budget is given."""
    judged: tuple[Part, ...] = field(init=False)
    """What of the outputs is judged by itself."""
    unjudged: str | None = field(init=False)
    """Why no error budget can be planned for; None: one can, or none was given."""
    precision: Precision | None = field(init=False)
    """What the plan does to the outputs, where a budget is given."""
    kept: OptimizedGraph | None = field(init=False)
    """Whole, verified and priced: what the run gives if its time is over in a later stage; None: there is none yet."""
    result: OptimizedGraph = field(init=False)
    report: VerifyReport = field(init=False)

    def fork(self) -> Self:
        """A run that goes on from here and leaves this one as it is."""
        return copy(self)


class Stage(ABC):
    """One step of a run: a frozen dataclass whose fields are the options that it reads, and stages that it repeats."""

    name: ClassVar[str]
    """In progress events and timings."""
    takes: ClassVar[tuple[str, ...]]
    """Fields of `Work` that it reads."""
    gives: ClassVar[tuple[str, ...]]
    """Fields of `Work` that it sets. What it edits in place it has made itself, or sets again."""
    closing: ClassVar[bool] = False
    """Whether it writes down a plan that is there: such a stage still runs if the user ends the search."""

    @abstractmethod
    def apply(self, work: Work) -> None:
        """Do it."""

    @classmethod
    def of(cls, options: Options) -> Self:
        """The stage with its fields as the options say."""
        return cls(**{f.name: getattr(options, f.name) for f in fields(cls)})  # type: ignore[arg-type]


def run(stages: Iterable[Stage], work: Work) -> None:
    """Each stage in turn, announced and measured."""
    for stage in stages:
        with work.clock.stage(stage.name, stage.closing), work.opmodel.stage(stage.name):
            stage.apply(work)
        _tell(stage, work)


def _tell(stage: Stage, work: Work) -> None:
    """Tells whoever watches what graph a stage has left, if it gives one."""
    if "result" in stage.gives:
        tell(stage.name, work.result.graph, work.result.layouts)
    elif "problem" in stage.gives:
        tell(stage.name, work.problem.graph)
    elif "graph" in stage.gives:
        tell(stage.name, work.graph)
    elif "imported" in stage.gives:
        tell(stage.name, work.imported)
