"""What a refused op says about others: classes of questions, and what is answered to them from then on.

A plan asks the same thing in many shapes: when tt-metal refuses one of them, the next plan would try its neighbour. So
a refusal is taken as one of its class (op, operands' layouts, pattern of the config), not as one of its shape.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from optimizer.layouts.memory_config import MemoryConfig, TensorLayout
from optimizer.layouts.op_config import Conv2dConfig, OpConfig
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, Rejection

ASKED = 2000
"""Questions of suspected classes that the judge is asked in one run; behind them the OpModel's own answers stand."""


def _place(layout: TensorLayout) -> Hashable:
    return (layout.page_layout, *_memory(layout.memory))


def _memory(memory: MemoryConfig) -> tuple[Hashable, ...]:
    return (memory.buffer_type, memory.memory_layout)


def _pattern(config: OpConfig | None) -> Hashable:
    """A config without its sizes."""
    if isinstance(config, Conv2dConfig):
        return ("conv2d", config.shard_layout, config.slice.partition(":")[0], config.output_layout)
    return None if config is None else config.kind


def refusal_class(query: OpQuery) -> Hashable:
    """What questions of one class share: op, places of operands and result, pattern of the config; no sizes."""
    output = None if query.output is None else _memory(query.output)
    return (query.op, tuple(_place(t.layout) for t in query.inputs), _pattern(query.config), output)


def refusal_case(query: OpQuery) -> Hashable:
    """A class for one shape: with the operands' shapes and the attributes, but without shards and block sizes."""
    return (refusal_class(query), tuple((t.shape, t.dtype) for t in query.inputs), query.attrs)


def is_all_dram(query: OpQuery) -> bool:
    """Whether nothing of a question lies in L1: what every plan can fall back to."""
    in_l1 = query.output is not None and query.output.buffer_type.value == "l1"
    return not in_l1 and not any(t.layout.is_l1 for t in query.inputs)


@dataclass
class Refusals:
    """Answers that replace the OpModel's; `answer` is its corrector."""

    judge: OpModel
    suspected: set[Hashable] = field(default_factory=set)
    """Classes of which the judge itself is asked."""
    refused_cases: dict[Hashable, str] = field(default_factory=dict)
    """Cases that no longer run in L1, with what was said of the first."""
    refused_classes: dict[Hashable, str] = field(default_factory=dict)
    refused_shapes: dict[Hashable, str] = field(default_factory=dict)
    """(op, operands' shapes, attributes) that stay in DRAM."""
    asked: dict[OpQuery, OpConstraints] = field(default_factory=dict)

    def suspect(self, query: OpQuery) -> None:
        """The judge refuses the question by itself: it is asked all others of the class."""
        self.suspected.add(refusal_class(query))

    def refuse_case(self, query: OpQuery, message: str) -> None:
        """Refused only inside a program: no question of that shape, whatever its shards, is accepted in L1."""
        self.refused_cases.setdefault(refusal_case(query), message)

    def refuse_class(self, query: OpQuery, message: str) -> None:
        """Refused once more: no question of the class is accepted in L1."""
        self.refused_classes.setdefault(refusal_class(query), message)

    def refuse_shape(self, query: OpQuery, message: str) -> None:
        """Refused once more: the op stays in DRAM with these shapes."""
        self.refused_shapes.setdefault(_shape(query), message)

    def answer(self, query: OpQuery) -> OpConstraints | None:
        """The answer to a question that something is known of."""
        if not is_all_dram(query):
            why = (
                self.refused_shapes.get(_shape(query))
                or self.refused_classes.get(refusal_class(query))
                or self.refused_cases.get(refusal_case(query))
            )
            if why is not None:
                return OpConstraints.rejected(Rejection.VALIDATION, f"refused in this program: {why}")
        if refusal_class(query) not in self.suspected:
            return None
        if query not in self.asked and len(self.asked) < ASKED:
            self.asked[query] = self.judge.constraints(query)
        return self.asked.get(query)


def _shape(query: OpQuery) -> Hashable:
    return (query.op, tuple((t.shape, t.dtype) for t in query.inputs), query.attrs)
