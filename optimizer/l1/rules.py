"""What holds in L1, every rule once: as data for explanations and tests, and as the functions that apply it.

`verify` computes all of this again in its own way; `tests/l1/test_rules_on_ttmetal.py` puts every rule, and every rule
left out, to tt-metal itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.l1.program import Step
from optimizer.layouts.memory_config import PageLayout, TensorLayout, interleaved
from optimizer.layouts.op_config import OpConfig, overwritten_operand


@dataclass(frozen=True)
class L1Rule:
    """One thing that tt-metal's L1 does."""

    name: str
    says: str
    source: str


# -- what lies where ---------------------------------------------------------------------------------------------
SHARING_RULES: tuple[L1Rule, ...] = (
    L1Rule(
        "view",
        "a tiled result that is a view of operand 0 lies in its buffer, which stays until the last of both is read",
        "ttnn::reshape and its like return `experimental::view`; addresses on mock devices",
    ),
    L1Rule(
        "in place",
        "an op that writes into an operand makes no buffer; the operand's stays until the result is read last",
        "binary_ng with `output_tensor`, `inplace` of the sharded layer norm config; addresses on mock devices",
    ),
    L1Rule(
        "result layout",
        "the first result has the layout that was asked for, further ones the same kind of memory interleaved",
        "ttnn::split and ttnn::topk with `memory_config`; specs on mock devices",
    ),
    L1Rule(
        "last read",
        "a buffer is freed after the step that reads it last, copies for an op after that op; results come before that",
        "the emitted program deallocates so; shared_ptr<Buffer> semantics of `ttnn.deallocate`",
    ),
    L1Rule(
        "weights stay",
        "weights in L1 are placed before the first step, in the order of their first readers, and stay",
        "the emitted program makes them in `prepare`; addresses on mock devices",
    ),
)


def result_layout(op: Op, value_id: str, output: TensorLayout, page: PageLayout) -> TensorLayout:
    """Layout of one result of an op whose first result has the layout `output`; `page` is the value's page layout."""
    return output if value_id == op.outputs[0] else interleaved(output.memory.buffer_type, page)


def may_be_view(graph: Graph, op: Op, layout: TensorLayout) -> bool:
    """Whether the first result in this layout lies in the first operand's buffer, if that has the layout too."""
    row = opdef(op.op)
    if row.view is None or not op.inputs or not layout.is_tile or (layout.is_sharded and not row.view_of_shards):
        return False
    return row.view(row.full_attrs(op), graph.value(op.inputs[0]).shape, graph.value(op.outputs[0]).shape)


def is_view(graph: Graph, op: Op, source: TensorLayout, target: TensorLayout) -> bool:
    """Whether the first result in layout `target` is a view of the first operand in layout `source`."""
    return source == target and may_be_view(graph, op, target)


def shared_operand(
    graph: Graph, op: Op, operands: Sequence[TensorLayout], output: TensorLayout, config: OpConfig | None
) -> int | None:
    """Position of the operand in whose buffer the result lies, as a view or in place; None if it has its own."""
    if op.inputs and is_view(graph, op, operands[0], output):
        return 0
    return overwritten_operand(config)


# -- what must be free -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Moment:
    """L1 around one step, in bytes per core; depths count from the top of the bank to the lowest buffer."""

    step: Step
    resident_bytes: int
    """Buffers before the step makes any, weights included."""
    own_bytes: int
    """Buffers that it makes for its results."""
    depth_before_bytes: int
    depth_after_bytes: int
    """With its results placed."""


@dataclass(frozen=True)
class RoomRule(L1Rule):
    """A rule that a step needs so many bytes of a core's L1 bank."""

    needs: Callable[[Moment], int]


CHOICE_ROOM = RoomRule(
    "choice room",
    "so much is free below the lowest buffer that TTNN chooses the program that was foreseen",
    "tt-metal `get_max_l1_space`, which matmul and pool configs are chosen by",
    lambda m: m.depth_before_bytes + m.step.choice_room_bytes,
)

ROOM_RULES: tuple[RoomRule, ...] = (
    RoomRule(
        "circular buffers",
        "circular buffers lie below the lowest buffer that was there before, holes above it notwithstanding",
        "tt-metal `ProgramImpl::validate_circular_buffer_region`",
        lambda m: m.depth_before_bytes + m.step.cb_bytes,
    ),
    RoomRule(
        "peak",
        "what an op takes besides its results lies below these",
        "tt-metal `FreeListOpt::allocate`, first fit from the top; addresses on mock devices",
        lambda m: m.depth_after_bytes + max(0, m.step.peak_bytes - m.own_bytes),
    ),
    RoomRule(
        "temporaries",
        "an op that makes temporaries may find them a hole and its result none: its peak lies below what was there",
        "first fit in the order of the op's own allocations; convolutions beside holes on mock devices",
        lambda m: m.depth_before_bytes + m.step.peak_bytes if m.step.temporary_bytes else 0,
    ),
    CHOICE_ROOM,
)

LIMIT_RULE = RoomRule(
    "limit",
    "all buffers and the step's peak add up to no more than the plan's share of the bank",
    "option tensor_l1_usage_cap",
    lambda m: m.resident_bytes + m.step.peak_bytes,
)
"""The user's own limit; what it leaves is not the runtime's business."""
