"""What callers use: a model optimised, or only prepared for a policy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.device import DeviceSpec, preset_names
from optimizer.errors import FormatError, OptionError, TimeLimitError
from optimizer.ir.graph import Graph
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.options import Options
from optimizer.pipeline.clock import Clock, Progress
from optimizer.pipeline.importing import Import
from optimizer.pipeline.learned import Learned
from optimizer.pipeline.stages import NAMES, preparation, rewriting, stages
from optimizer.pipeline.work import Work, run
from optimizer.process.garbage import rare_collections
from optimizer.process.plugins import plugins_named
from optimizer.result import OptimizedGraph
from optimizer.result.summary import Rewritten
from optimizer.sharding.base import PolicyInput
from optimizer.values.given import GivenValues

if TYPE_CHECKING:
    from optimizer.importers import ImportedModel


def optimize_file(
    source: Path | bytes,
    options: Options,
    progress: Progress | None = None,
    name: str | None = None,
    interrupted: Callable[[], bool] = bool,
    device: DeviceSpec | None = None,
    learned: Learned | None = None,
    given: GivenValues | None = None,
    began: float | None = None,
) -> OptimizedGraph:
    """Import a model (ONNX or JSON, by content), optimise it for `options.board`, verify it.

    Once `interrupted()` says so the policy ends its search, and the result is its best plan so far. `device` is the
    board that `options.board` names, for callers that have loaded it; `learned` is of runs for the same board,
    OpModel and `l1_small_bytes`; it spares this one work and changes nothing else. `given` holds weights and inputs to
    measure an error budget with; without, they are the model's own and random. The time limit counts from `began`, by
    `time.monotonic`; None: from now.
    """
    board = DeviceSpec.load(options.board) if device is None else device
    clock = Clock(NAMES, progress, options.time_limit, interrupted, time.monotonic() if began is None else began)
    result = _optimize(source, board, options, clock, name, learned, given)
    result.source = source if isinstance(source, Path) else None
    return result


def optimize(
    model: ImportedModel | Graph | str | PathLike[str],
    device: DeviceSpec | str | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
    interrupted: Callable[[], bool] = bool,
    time_limit: float = math.inf,
    learned: Learned | None = None,
    given: GivenValues | None = None,
    began: float | None = None,
) -> OptimizedGraph:
    """Lay out an imported model, a graph or a model's file on a board. The input graph is not changed.

    The board is a `DeviceSpec`, the name of a preset or a board's file; None: what the options say. Once
    `interrupted()` says so the policy ends its search, and the result is its best plan so far; so it does in time
    before `time_limit` seconds, a limit of the caller's beside the option. `learned` is of runs for the same board,
    OpModel and `l1_small_bytes`; it spares this one work and changes nothing else. `given` holds weights and inputs to
    measure an error budget with; without, they are those of the model's file and random. Time limits count from
    `began`, by `time.monotonic`; None: from now.
    Raises InfeasibleError when an op cannot run even from DRAM, VerificationError when the finished plan
    fails its re-check, and InputError for options that do not fit the graph.
    """
    options = Options() if options is None else options
    if not isinstance(options, Options):
        raise OptionError(f"optimize() takes its options as Options, not as {type(options).__name__}", node="options")
    if not isinstance(device, DeviceSpec | str | None):
        taken = ("a DeviceSpec", *preset_names(), "a board's file ending in .json")
        raise OptionError(f"a board cannot be of {type(device).__name__}", node="device", alternatives=taken)
    board = device if isinstance(device, DeviceSpec) else DeviceSpec.load(device or options.board)
    source = Path(model) if isinstance(model, str | PathLike) else model
    if not isinstance(source, Path | Graph) and not isinstance(getattr(source, "graph", None), Graph):
        taken = ("a Graph", "what load() gives", "a model's path")
        raise FormatError(f"optimize() cannot take an object of {type(model).__name__}", alternatives=taken)
    least = min(time_limit, options.time_limit or math.inf)
    begun = time.monotonic() if began is None else began
    clock = Clock(NAMES, progress, None if least == math.inf else least, interrupted, begun)
    result = _optimize(source, board, options, clock, learned=learned, given=given)
    result.source = source if isinstance(source, Path) else None
    return result


@plugins_named()
@rare_collections()
def _optimize(
    source: Path | bytes | ImportedModel | Graph,
    device: DeviceSpec,
    options: Options,
    clock: Clock,
    name: str | None = None,
    learned: Learned | None = None,
    given: GivenValues | None = None,
) -> OptimizedGraph:
    options = _effective(options)
    learned = Learned() if learned is None else learned
    opmodel = CachedOpModel(create_opmodel(options.opmodel, device, options.l1_small_bytes), learned.answers)
    judge = None if options.check is None else create_opmodel(options.check, device, options.l1_small_bytes)
    opmodel.poll, clock.is_replayed = clock.poll_time, judge is not None
    clock.has_kernels = options.fuse_kernels
    work = Work(source, options, opmodel, clock, name, judge, learned, given or GivenValues())
    try:
        with clock.hard_end():
            run(stages(options), work)
        result = work.result
    except TimeLimitError:
        kept = getattr(work, "kept", None)
        if kept is None:
            raise
        result = kept
    if clock.cut_short or clock.interrupted():
        result = _cut_short(result, clock.stopped_because())
    result.timings = {"stages_s": clock.seconds(), **result.timings, "opmodel": opmodel.statistics_json()}
    return result


def _cut_short(result: OptimizedGraph, why: str) -> OptimizedGraph:
    """The result with what it says of a search that was not through."""
    summary = result.summary
    found = f"{why}: this is the best plan found until then"
    if result.options.least_pcc is not None and summary.precision is None:
        found += ", in the model's own element types: an error budget was not planned for"
    if result.options.fuse_kernels and not (result.fused_kernels or result.refused_kernels):
        found += ", without kernels of ours"
    if result.options.check is not None and summary.check is None:
        found += f"; it was not replayed on {result.options.check}"
    return replace(result, priced=summary.model_copy(update={"stopped": why, "warnings": (found, *summary.warnings)}))


def _effective(options: Options) -> Options:
    """The options that hold: below level 2, where nothing is sharded, those of policy `dram`."""
    return options if options.optimization_level == 2 else replace(options, policy="dram")


def prepare(
    source: Path | bytes | ImportedModel | Graph, opmodel: CachedOpModel, options: Options, clock: Clock | None = None
) -> PolicyInput:
    """Everything a policy needs: the graph with its page layouts, and every op's legal configs."""
    return prepared(source, opmodel, options, clock).problem


@plugins_named()
def prepared(
    source: Path | bytes | ImportedModel | Graph,
    opmodel: CachedOpModel,
    options: Options,
    clock: Clock | None = None,
    stated: Sequence[Rewritten] | None = None,
) -> Work:
    """A run as far as the policy's problem; with parts computed in another way as stated, if that is given."""
    work = Work(source, options, opmodel, Clock(NAMES) if clock is None else clock, stated=stated)
    run((Import.of(options), *preparation(options), rewriting(options)), work)
    return work
