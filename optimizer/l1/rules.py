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
        "a result that is a view of operand 0 lies in its buffer, which stays until the last of both is read",
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
        "temporaries",
        "an op makes its result while what it made on the way is there, and frees operand 0 when its config says so",
        "tt-metal `conv2d_L1`, `untilize_with_halo` and the composite ops; addresses on mock devices",
    ),
    L1Rule(
        "weights stay",
        "weights in L1 are placed before the first step, in the order of their first readers, and stay",
        "the emitted program makes them in `prepare`; addresses on mock devices",
    ),
)


def result_layout(op: Op, value_id: str, output: TensorLayout, page: PageLayout) -> TensorLayout:
    """Layout of one result of an op whose first result has the layout `output`; `page` is the value's page layout."""
    if value_id == op.outputs[0]:
        return output
    return interleaved(output.memory.buffer_type, page).typed(output.dtype)


def may_be_view(graph: Graph, op: Op, layout: TensorLayout) -> bool:
    """Whether the first result in this layout lies in the first operand's buffer, if that has the layout too."""
    row = opdef(op.op)
    if not op.inputs or (layout.is_sharded and not row.view_of_shards):
        return False
    x, y = graph.value(op.inputs[0]), graph.value(op.outputs[0])
    return row.is_view(op, x.shape, y.shape, layout.is_tile, layout.dtype or x.dtype)


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
    depth_before_bytes: int
    deepest_bytes: int
    """While it runs, with its circular buffers below the lowest buffer of each program."""


@dataclass(frozen=True)
class RoomRule(L1Rule):
    """A rule that a step needs so many bytes of a core's L1 bank."""

    needs: Callable[[Moment], int]


PLACEMENT = RoomRule(
    "placement",
    "tensors go first fit from the top, those that an op makes on the way included; circular buffers lie below the "
    "lowest, holes above it notwithstanding",
    "tt-metal `FreeListOpt::allocate` and `ProgramImpl::validate_circular_buffer_region`; addresses on mock devices",
    lambda m: m.deepest_bytes,
)
CHOICE_ROOM = RoomRule(
    "choice room",
    "so much is free below the lowest buffer that TTNN chooses the program that was foreseen",
    "tt-metal `get_max_l1_space`, which matmul and pool configs are chosen by",
    lambda m: m.depth_before_bytes + m.step.choice_room_bytes,
)
ROOM_RULES = (PLACEMENT, CHOICE_ROOM)

LIMIT_RULE = RoomRule(
    "limit",
    "all buffers and the step's peak add up to no more than the plan's share of the bank",
    "option tensor_l1_usage_cap",
    lambda m: m.resident_bytes + m.step.peak_bytes,
)
"""The user's own limit; what it leaves is not the runtime's business."""
