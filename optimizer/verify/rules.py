"""The rules in one list, and `verify`, which goes through it."""

from __future__ import annotations

from itertools import groupby

from optimizer.errors import VerificationError
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.process import logs
from optimizer.result import OptimizedGraph
from optimizer.verify import (
    buffer_rules,
    dram_rules,
    graph_rules,
    layout_rules,
    memory_rules,
    op_rules,
    override_rules,
    role_rules,
)
from optimizer.verify.subject import Rule, Stage, Subject, VerifyReport

RULES: tuple[Rule, ...] = (
    Rule("inputs", Stage.GRAPH, graph_rules.has_inputs),
    Rule("outputs", Stage.GRAPH, graph_rules.has_outputs),
    Rule("records", Stage.GRAPH, graph_rules.has_records),
    Rule("schedule", Stage.GRAPH, graph_rules.is_in_order),
    Rule("value kinds", Stage.GRAPH, graph_rules.has_kinds),
    Rule("constants", Stage.GRAPH, graph_rules.has_elements),
    Rule("uses", Stage.GRAPH, graph_rules.has_uses),
    Rule("sizes", Stage.GRAPH, graph_rules.has_sizes),
    Rule("shapes", Stage.GRAPH, graph_rules.has_shapes),
    Rule("layouts", Stage.GRAPH, layout_rules.has_layouts),
    Rule("shards", Stage.GRAPH, layout_rules.has_shards),
    Rule("shards asked for", Stage.GRAPH, layout_rules.asks_for_shards),
    Rule("outputs in DRAM", Stage.GRAPH, layout_rules.returns_from_dram),
    Rule("inputs in DRAM", Stage.GRAPH, layout_rules.takes_from_dram),
    Rule("roles", Stage.PLAN, role_rules.is_called_so),
    Rule("types", Stage.PLAN, graph_rules.has_types),
    Rule("prepared weights", Stage.PLAN, role_rules.prepares_weights),
    Rule("weights in L1", Stage.PLAN, layout_rules.keeps_in_l1_what_a_run_reads),
    Rule("weights in banks", Stage.PLAN, layout_rules.keeps_in_banks_what_reads_them),
    Rule("ops on the host", Stage.PLAN, layout_rules.computes_on_the_host),
    Rule("operands on the host", Stage.PLAN, layout_rules.reads_from_the_host),
    Rule("transfers", Stage.PLAN, role_rules.serves_the_host),
    Rule("copies", Stage.PLAN, role_rules.copies_something),
    Rule("configs", Stage.PLAN, op_rules.has_its_own_config),
    Rule("activations", Stage.PLAN, op_rules.applies_its_activation),
    Rule("padding", Stage.PLAN, op_rules.hides_padding),
    Rule("convolutions", Stage.PLAN, op_rules.convolves_as_configured),
    Rule("overrides", Stage.PLAN, override_rules.keeps_overrides),
    Rule("lost values", Stage.PLAN, buffer_rules.reads_what_is_there),
    Rule("views", Stage.OPS, role_rules.shares_its_operand),
    Rule("memory asked for", Stage.OPS, op_rules.gives_what_is_asked),
    Rule("ops", Stage.OPS, op_rules.runs),
    Rule("L1 limit", Stage.MEMORY, memory_rules.fits_the_limit),
    Rule("L1 placement", Stage.MEMORY, memory_rules.fits_the_bank),
    Rule("DRAM", Stage.MEMORY, dram_rules.fits_the_banks),
)
"""In the order in which they are looked at."""


_log = logs.room("verify")


def verify(result: OptimizedGraph, model: OpModel) -> VerifyReport:
    """Check a result against an OpModel; never raises for a wrong result, only reports."""
    report = VerifyReport()
    subject = Subject(result, model)
    for stage, rules in groupby(RULES, key=lambda rule: rule.stage):
        if not report.ok:
            break
        if stage is Stage.MEMORY:
            report.steps = subject.steps = memory_rules.replay(subject)
            report.dram_steps = subject.dram_steps = dram_rules.replay(subject)
        for rule in rules:
            found = list(rule.find(subject))
            report.errors += found
            for place, message in found:
                _log.debug("error", rule=rule.name, place=place, because=message)
    _log.info("verified", ok=report.ok, errors=len(report.errors), steps=len(report.steps), peak=report.peak_l1_bytes)
    return report


def check_soundness(result: OptimizedGraph) -> None:
    """VerificationError for the first thing that is wrong with a result and can be told without an OpModel."""
    subject = Subject(result, create("analytical", result.device, result.options.l1_small_bytes))  # which nobody asks
    for stage in (Stage.GRAPH, Stage.PLAN):
        found = [error for rule in RULES if rule.stage is stage for error in rule.find(subject)]
        if found:
            place, message = found[0]
            raise VerificationError(message, node=place)


def verified(result: OptimizedGraph) -> Subject:
    """A result put to its own OpModel, for replays.

    VerificationError unless it verifies: its memory means nothing then.
    """
    model = CachedOpModel(create(result.options.opmodel, result.device, result.options.l1_small_bytes))
    report = verify(result, model)
    if not report.ok:
        place, message = report.errors[0]
        raise VerificationError(message, node=place)
    return Subject(result, model)
