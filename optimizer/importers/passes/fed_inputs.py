"""Images fed channels-last: what a camera or a decoder gives, and what TTNN's convolutions read.

Models of most frameworks take [N, C, H, W]. Turning that around on the device moves every element by itself, rows of
three channels as 6 bytes each: of ResNet-50's time with 16 images it is a sixth. Hosts have images channels-last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from optimizer.importers.passes.rewriting import permuted_dims
from optimizer.ir.graph import ForeignTensor, Graph, Op
from optimizer.ir.vocabulary import RESHAPE
from optimizer.layouts.tiling import TILE

MUCH = 0.05
"""Share of a plan's time from which on turning an input around is worth a word."""
_TURNS = "ttnn.permute"


def feed_channels_last(graph: Graph) -> tuple[str, ...]:
    """Let the caller turn every input that is only read with its channels moved last; the ids of those inputs.

    What the input is of the model's (`Value.stands_for`) says in which order its dims are.
    """
    found = still_turned(graph)
    for value_id in found:
        _turn(graph, value_id)
    return found


def still_turned(graph: Graph) -> tuple[str, ...]:
    """The inputs that are only read with their channels moved last."""
    return tuple(v for v in graph.inputs if _is_only_turned(graph, v))


def fed_channels_last(graph: Graph) -> tuple[str, ...]:
    """The inputs whose channels the caller has moved last."""
    held = {v: graph.value(v).stands_for for v in graph.inputs}
    turned = {v: tensor.dims for v, tensor in held.items() if tensor is not None and len(tensor.shape) > 2}
    return tuple(v for v, dims in turned.items() if dims == _turned(len(dims)))


def lacking(graph: Graph) -> list[str]:
    """What a person who feeds images channels-last has to know where there are none."""
    if fed_channels_last(graph):
        return []
    return ["no input is fed channels-last: the first thing that happens to one has to be that its channels move last"]


def advice(model: Graph, planned: Graph, times_ns: Mapping[str, int]) -> list[str]:
    """What feeding the inputs of a model channels-last would save, where that is much of the time of the plan's ops."""
    found = []
    total_ns = sum(times_ns.values())
    for value_id in model.inputs:
        turned = _turning(planned, value_id) if _is_only_turned(model, value_id) else ()
        share = sum(times_ns.get(op.id, 0) for op in turned) / max(1, total_ns)
        if share >= MUCH:
            found.append(
                f"{share:.0%} of the time is the permute of input '{value_id}' to channels-last: "
                "channels_last_inputs leaves that to the caller"
            )
    return found


def _turning(graph: Graph, value_id: str) -> Iterator[Op]:
    """The permute of an input, and the reshapes around it where pixels [N, H, W, C] are rows as they are."""
    whole = graph.value(value_id).shape[-1] % TILE == 0
    for op in graph.consumers(value_id):
        if op.op in (_TURNS, RESHAPE):
            if whole or op.op == _TURNS:
                yield op
            yield from _turning(graph, op.outputs[0])


def _turned(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _is_only_turned(graph: Graph, value_id: str) -> bool:
    rank = len(graph.value(value_id).shape)
    if rank < 3 or not graph.value(value_id).dtype.is_float or graph.is_output(value_id):
        return False
    readers = graph.consumers(value_id)
    return bool(readers) and all(_moves_channels_last(op, rank) and not _is_returned(graph, op) for op in readers)


def _moves_channels_last(op: Op, rank: int) -> bool:
    return op.op == _TURNS and permuted_dims(op) == _turned(rank)


def _is_returned(graph: Graph, op: Op) -> bool:
    return graph.is_output(op.outputs[0])


def _turn(graph: Graph, value_id: str) -> None:
    value = graph.value(value_id)
    dims = _turned(len(value.shape))
    shape = tuple(value.shape[d] for d in dims)
    held = value.stands_for or ForeignTensor.whole(value_id, value.shape)
    for op in list(graph.consumers(value_id)):
        graph.replace_uses(op.outputs[0], value_id)
        graph.remove_op(op.id)
    graph.set_value(replace(value, shape=shape, stands_for=held.permuted(value.shape, dims)))
    graph.prune()
