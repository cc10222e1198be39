"""Whether a result follows the options that it states: a row for every field of `Options`, which says how that is seen.

A rule looks at the plan and at what the document states of it. What other parts of the check see is named, so is what
nobody can see in a plan, or only beside its model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import prod
from typing import Any

from optimizer.importers.passes.fed_inputs import still_turned
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op, ValueKind
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.overrides import parse_overrides
from optimizer.result import COPIES, OptimizedGraph, Role
from optimizer.verify.figures import FASTEST
from optimizer.verify.memory_rules import weights_in_l1
from optimizer.verify.subject import OUR_POLICIES, Error

Find = Callable[[OptimizedGraph], Iterator[Error]]
_ROUNDING = 1e-6
"""Of figures that a document states with six digits."""


class Seen(StrEnum):
    """Where the check sees whether an option was followed."""

    RULE = "rule"
    """By the row's own rule."""
    FIGURES = "figures"
    """By its own rule, from what the summary states."""
    ELSEWHERE = "elsewhere"
    """By another rule of the check, or by what it recomputes."""
    MODEL = "model"
    """Beside the model only: `--model` imports it again with the option."""
    NOWHERE = "nowhere"
    """A plan does not show it."""


@dataclass(frozen=True)
class Row:
    """How the check sees that one option was followed."""

    seen: Seen
    by: str = ""
    """Which other rule sees it."""
    find: Find | None = None
    """Everything in which a result does not follow it."""
    policy: str | None = None
    """The only one whose plans show it."""


def broken_options(result: OptimizedGraph) -> Iterator[Error]:
    """Everything in which a result does not follow an option that its document states."""
    for name, row in ROWS.items():
        looked_at = _is_shown(result, row) and (row.seen is Seen.RULE or bool(result.summary_json()))
        if row.find is not None and looked_at and (result.stated is None or name in result.stated.options):
            for place, message in row.find(result):
                yield place, f"{message} (option {name})"


def options_not_seen(result: OptimizedGraph, with_model: bool) -> Iterator[str]:
    """What the check cannot say of the options, in a line for each reason."""
    if not result.summary_json() and (asked := [name for name in _named(Seen.FIGURES) if _is_asked(result, name)]):
        yield f"options {', '.join(asked)}: only where the document states figures"
    if not with_model:
        yield f"options {', '.join(_named(Seen.MODEL))}: only with --model"
    hidden = [name for name, row in ROWS.items() if row.seen is Seen.NOWHERE or not _is_shown(result, row)]
    yield f"options {', '.join(hidden)}: a plan does not show them"


def _named(seen: Seen) -> list[str]:
    return [name for name, row in ROWS.items() if row.seen is seen]


def _is_shown(result: OptimizedGraph, row: Row) -> bool:
    return row.policy in (None, result.options.policy)


def _is_asked(result: OptimizedGraph, name: str) -> bool:
    return bool(getattr(result.options, name))


# -- what the plan shows ------------------------------------------------------------------------------
def _policy(result: OptimizedGraph) -> Iterator[Error]:
    """Policy `dram` keeps in L1 only what an override puts there."""
    if result.options.policy != "dram":
        return
    placed = _overridden(result)
    for op in result.graph.ops():
        held = [v for v in op.outputs if result.layouts[v].is_l1]
        role = result.records[op.id].role
        served = role in COPIES and any(reader.id in placed for v in held for reader in result.graph.consumers(v))
        viewed = role is Role.VIEW and result.layouts[op.inputs[0]].is_l1
        if held and op.id not in placed and not served and not viewed:
            yield op.id, f"gives '{held[0]}' in L1, which policy dram does not"


def _overridden(result: OptimizedGraph) -> set[str]:
    """Ops whose layouts or configs the user fixed; `override_rules` has said if the texts fit the graph."""
    options = result.options
    texts = (options.override_output_layout, options.override_conv2d_config, options.insert_memreconfig)
    return set(parse_overrides(result.graph, *texts).op_ids) if any(texts) else set()


def _level(result: OptimizedGraph) -> Iterator[Error]:
    """Below level 2 nothing is sharded, at level 0 TTNN has every config to itself."""
    options = result.options
    if options.optimization_level < 2 and options.policy in OUR_POLICIES and options.policy != "dram":
        yield "options", f"policy {options.policy} at level {options.optimization_level}, which lays out by dram"
    fixed = _overridden(result) if options.optimization_level == 0 else set()
    for op_id, record in result.records.items() if options.optimization_level == 0 else ():
        if record.config is not None and op_id not in fixed:
            yield op_id, "has an op config at level 0"


def _interleaved_fallback(result: OptimizedGraph) -> Iterator[Error]:
    """Without the fallback a result of no chain is not interleaved in L1."""
    if result.options.l1_interleaved_fallback:
        return
    placed = _overridden(result)
    for op_id, record in result.records.items():
        layout = result.layouts[result.graph.op(op_id).outputs[0]]
        interleaved = layout.is_l1 and not layout.is_sharded
        if record.role is Role.COMPUTE and record.chain is None and interleaved and op_id not in placed:
            yield op_id, "is in no chain, but gives its result interleaved in L1"


def _weights_in_l1(result: OptimizedGraph) -> Iterator[Error]:
    if not result.options.weights_in_l1:
        for v in weights_in_l1(result):
            yield v, "is a weight in L1"


def _in_place(result: OptimizedGraph) -> Iterator[Error]:
    for op_id, record in result.records.items() if not result.options.in_place_ops else ():
        if (position := overwritten_operand(record.config)) is not None:
            yield op_id, f"writes its result into operand {position}"


def _rewrites(result: OptimizedGraph) -> Iterator[Error]:
    for note in result.summary_json().get("rewritten", ()) if not result.options.rewrites else ():
        if note.get("saved_ns") is not None:
            yield note["op"], f"runs in another way ({note['pass']}), though it need not"


def _host_ops(result: OptimizedGraph) -> Iterator[Error]:
    for op in result.graph.ops() if not result.options.allow_host_ops else ():
        if opdef(op.op).opaque:
            yield op.id, f"{op.op} runs on the host, which was not allowed"


def _input_shapes(result: OptimizedGraph) -> Iterator[Error]:
    """Inputs have the shapes that were given, perhaps with their channels last; unread ones are left out."""
    for name, shape in result.options.input_shapes.items():
        if name not in result.graph.inputs:
            continue
        found = result.graph.value(name).shape
        if prod(found) != prod(shape) or sorted(found) != sorted(shape or (1,)):
            yield name, f"has shape {list(found)}, {list(shape)} was given"


def _channels_last(result: OptimizedGraph) -> Iterator[Error]:
    for v in still_turned(result.graph) if result.options.channels_last_inputs else ():
        yield v, "is only read with its channels moved last, so it was to be fed so"


def _weights_dtype(result: OptimizedGraph) -> Iterator[Error]:
    """Weights of matmuls are in blocks where blocks were asked for; of convolutions `op_rules` sees it."""
    wanted = result.options.weights_dtype or result.options.activations_dtype
    if wanted is None or not DType(wanted).is_block_float:
        return
    for op in _run_ops(result):
        if opdef(op.op).cost_class is CostClass.MATMUL and len(op.inputs) > 1:
            weight = result.graph.value(op.inputs[1])
            plain = weight.dtype.is_float and not weight.dtype.is_block_float
            if weight.kind is ValueKind.PARAMETER and plain:
                yield op.id, f"multiplies by weights in {weight.dtype.value}, {wanted} was asked for"


def _math_fidelity(result: OptimizedGraph) -> Iterator[Error]:
    wanted = result.options.math_fidelity
    for op in _run_ops(result) if wanted is not None else ():
        found = op.attrs.get("math_fidelity")
        if "math_fidelity" in opdef(op.op).attrs and found != wanted:
            yield op.id, f"runs with math fidelity {found}, {wanted} was asked for"


def _run_ops(result: OptimizedGraph) -> Iterator[Op]:
    return (op for op in result.graph.ops() if result.records[op.id].role is not Role.HOST)


# -- what the summary states --------------------------------------------------------------------------
def _least_pcc(result: OptimizedGraph) -> Iterator[Error]:
    """A plan within an error budget states what it keeps, and keeps it; no other plan states that."""
    options, record = result.options, result.summary_json().get("precision")
    if options.least_pcc is None:
        if record is not None:
            yield "summary.precision", "states what an error budget led to, but none was given"
        return
    if not isinstance(record, Mapping):
        if not _was_stopped(result) and result.summary_json().get("unjudged") is None:
            yield "summary.precision", f"says nothing of a correlation of {options.least_pcc}, which was asked for"
        return
    if options.policy != FASTEST:
        yield "options", f"policy is {options.policy}, an error budget needs {FASTEST}"
    if options.fuse_kernels:
        yield "options", "fuse_kernels goes with no error budget"
    if record.get("least_pcc") != options.least_pcc:
        yield "summary.precision", f"is of a correlation of {record.get('least_pcc')}, not of {options.least_pcc}"
    yield from _kept(record, options.least_pcc)


def _was_stopped(result: OptimizedGraph) -> bool:
    """Whether the run ended before it was through, and so says nothing of what comes last."""
    return result.summary_json().get("stopped") is not None


def _kept(record: Mapping[str, Any], least_pcc: float) -> Iterator[Error]:
    """The measured correlation is the budget's at least, unless it is said to be less, and that of the worst output."""
    found = record.get("measured_pcc")
    outputs = [row.get("pcc") for row in record.get("outputs") or ()]
    if not isinstance(found, float | int):
        yield "summary.precision", f"states no measured correlation, but {found}"
    elif found < least_pcc - _ROUNDING and record.get("kept") is not False:
        yield "summary.precision", f"states a measured correlation of {found}, below {least_pcc}"
    elif outputs and found not in outputs:
        yield "summary.precision", f"states a measured correlation of {found}, that of no output"
    elif any(isinstance(pcc, float | int) and pcc < found for pcc in outputs):
        yield "summary.precision", f"states a measured correlation of {found}, above that of an output"


def _pareto(result: OptimizedGraph) -> Iterator[Error]:
    """A front where one was asked for, its plans the faster the less exact."""
    record = result.summary_json().get("precision")
    front = list(record.get("front") or ()) if isinstance(record, Mapping) else []
    if bool(front) is not result.options.pareto and not (_was_stopped(result) and not front):
        yield "summary.precision", f"states a front of {len(front)} plans"
    for before, after in pairwise(front):
        if before["time_ns"] > after["time_ns"] or before["measured_pcc"] >= after["measured_pcc"]:
            yield "summary.precision", "states a front with a plan that another is as fast and as exact as"


def _replayed(result: OptimizedGraph) -> Iterator[Error]:
    """What the backend that was asked for found in the whole program, and why it stopped where it refused something."""
    wanted, record = result.options.check, result.summary_json().get("check")
    if wanted is None:
        if record is not None:
            yield "summary.check", "states what a replay found, but none was asked for"
        return
    if not isinstance(record, Mapping):
        if not _was_stopped(result):
            yield "summary.check", f"says nothing of a replay by {wanted}, which was asked for"
        return
    if record.get("opmodel") != wanted:
        yield "summary.check", f"is of a replay by {record.get('opmodel')}, not by {wanted}"
    refused = bool(record.get("refused")) or record.get("given_up") is not None
    if record.get("ok") is not True and not refused:
        yield "summary.check", "states that the replay failed, but neither what was refused nor why it was given up"
    elif record.get("ok") is True and refused:
        yield "summary.check", "states that the whole program ran, and what was refused"


ROWS: Mapping[str, Row] = {
    "board": Row(Seen.ELSEWHERE, "figures.board"),
    "policy": Row(Seen.RULE, find=_policy),
    "opmodel": Row(Seen.ELSEWHERE, "figures.counts, figures.predictions"),
    "optimization_level": Row(Seen.RULE, find=_level),
    "chain_objective": Row(Seen.NOWHERE),
    "chain_solver": Row(Seen.NOWHERE),
    "l1_interleaved_fallback": Row(Seen.RULE, find=_interleaved_fallback, policy="dfsharding"),
    "weights_in_l1": Row(Seen.RULE, find=_weights_in_l1),
    "in_place_ops": Row(Seen.RULE, find=_in_place),
    "rewrites": Row(Seen.RULE, find=_rewrites),
    "allow_host_ops": Row(Seen.RULE, find=_host_ops),
    "max_legal_layouts": Row(Seen.NOWHERE),
    "row_major_enabled": Row(Seen.MODEL),
    "tensor_l1_usage_cap": Row(Seen.ELSEWHERE, "memory_rules.fits_the_limit, figures.counts"),
    "l1_small_bytes": Row(Seen.ELSEWHERE, "memory_rules.fits_the_bank, figures.counts"),
    "input_shapes": Row(Seen.RULE, find=_input_shapes),
    "dims": Row(Seen.MODEL),
    "channels_last_inputs": Row(Seen.RULE, find=_channels_last),
    "activations_dtype": Row(Seen.MODEL),
    "weights_dtype": Row(Seen.RULE, find=_weights_dtype),
    "math_fidelity": Row(Seen.RULE, find=_math_fidelity),
    "least_pcc": Row(Seen.FIGURES, find=_least_pcc),
    "pareto": Row(Seen.FIGURES, find=_pareto),
    "override_output_layout": Row(Seen.ELSEWHERE, "override_rules.keeps_overrides"),
    "override_conv2d_config": Row(Seen.ELSEWHERE, "override_rules.keeps_overrides"),
    "insert_memreconfig": Row(Seen.ELSEWHERE, "override_rules.keeps_overrides"),
    "fuse_kernels": Row(Seen.ELSEWHERE, "figures.kernels"),
    "check": Row(Seen.FIGURES, find=_replayed),
    "time_limit": Row(Seen.NOWHERE),
    "seed": Row(Seen.NOWHERE),
    "max_nodes": Row(Seen.MODEL),
    "max_model_bytes": Row(Seen.MODEL),
}
"""Field of `Options` -> how the check sees it."""
