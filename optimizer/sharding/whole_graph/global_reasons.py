"""What a result says of an op that policy `global` decided: its own time in DRAM and in other layouts, and refusals.

What they would have cost in total is worked out when somebody asks (`runner_up`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from optimizer.layouts.memory_config import TensorLayout
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.overriding import AloneDecision
from optimizer.sharding.whole_graph.global_options import OptionTable
from optimizer.sharding.whole_graph.option_fronts import OpOption

SHOWN_ALTERNATIVES = 3
"""Other result layouts kept per op, those that the op gives fastest."""
SHOWN_REJECTIONS = 3
"""Distinct OpModel messages kept per op."""


def with_reasons(problem: PolicyInput, table: OptionTable, plan: Plan, in_dram: Mapping[str, OpDecision]) -> Plan:
    """The plan with options, alternatives and refusals in every op's reason; `in_dram` decides all for DRAM."""
    known: dict[Hashable, dict[str, Any]] = {}
    decisions = {}
    for op_id, decision in plan.decisions.items():
        asked = table.asked[op_id]
        key = (asked, decision.candidate.output)
        dram_ns = AloneDecision(problem, problem.graph.op(op_id)).time_ns(in_dram[op_id])
        if key not in known:
            known[key] = _reason(problem, asked, table.options[op_id], decision)
        decisions[op_id] = replace(decision, reason={**decision.reason, "dram_time_ns": dram_ns, **known[key]})
    return replace(plan, decisions=decisions)


def _reason(problem: PolicyInput, asked: str, options: Sequence[OpOption], decision: OpDecision) -> dict[str, Any]:
    fastest: dict[TensorLayout, int] = {}
    for option in options:
        layout = option.candidate.output
        fastest[layout] = min(option.time_ns, fastest.get(layout, option.time_ns))
    others = sorted((ns, layout.describe()) for layout, ns in fastest.items() if layout != decision.candidate.output)
    rejections = sorted(problem.pricer.rejections.get(asked, {}).items(), key=lambda r: (-r[1], r[0]))
    return {
        "options": len(options),
        "layouts": len(fastest),
        "alternatives": [{"layout": text, "time_ns": ns} for ns, text in others[:SHOWN_ALTERNATIVES]],
        "excluded": [{"error": error, "count": count} for error, count in rejections[:SHOWN_REJECTIONS]],
    }
