"""Blocks that data movement threads copy lie within their tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from optimizer.errors import GraphError
from optimizer.kernels.tensix.arguments import cores_of
from optimizer.kernels.tensix.core_numbers import CoreNumbers
from optimizer.kernels.tensix.dialect import DATA_MOVEMENT, IF_DST, IF_SRC
from optimizer.kernels.tensix.emit_cpp import runtime_args
from optimizer.kernels.tensix.ir import Op, loop_rounds
from optimizer.kernels.tensix.passes.fold_grid import fold_grid
from optimizer.kernels.tensix.pipes import PipeNet, nets_of
from optimizer.kernels.tensix.types import BlockType, TensorType

MOST_STEPS = 200_000
"""Ops of all cores together that are followed before anything runs."""


def check_places(program: Op) -> None:
    """GraphError for the first block that some core copies from or to beyond its tensor.

    Where that depends on run-time arguments, or on more than `MOST_STEPS` ops, only a run finds it (`transfers`).
    """
    folded = fold_grid(program)
    threads = [op for op in folded.body.ops if op.name == DATA_MOVEMENT]
    cores = cores_of(folded)
    if runtime_args(folded) or len(cores) * sum(map(_steps, threads)) > MOST_STEPS:
        return
    nets = nets_of(folded)
    for core in cores:
        for thread in threads:
            numbers = CoreNumbers(core, {})
            for op in _copies(thread.body.ops, numbers, nets):
                if (told := beyond(op, numbers)) is not None:
                    raise GraphError(told, node=f"{op.name} on core {core}")


def beyond(op: Op, numbers: CoreNumbers) -> str | None:
    """What is wrong with the place of a `ttl.copy_in` or `ttl.copy_out`, if its block leaves the tensor."""
    row, column = row_and_column(op, numbers)
    (block,) = (v.type for v in op.operands if isinstance(v.type, BlockType))
    ((name, tensor),) = ((v.name, v.type) for v in op.operands if isinstance(v.type, TensorType))
    rows, columns = block.shape
    if 0 <= row <= tensor.shape[0] - rows and 0 <= column <= tensor.shape[1] - columns:
        return None
    told = f"a block of {rows}x{columns} tiles at ({row}, {column}) is beyond %{name} ({tensor})"
    sizes = zip(("rows", "columns"), tensor.shape, block.shape, strict=True)
    return told + "".join(_uneven(side, whole, part) for side, whole, part in sizes)


def _uneven(name: str, whole: int, part: int) -> str:
    """Which blocks a tensor's rows or columns of tiles are a whole number of, where they are none of this one."""
    if whole % part == 0:
        return ""
    fitting = ", ".join(str(n) for n in range(1, whole + 1) if whole % n == 0)
    return f"; {whole} {name} of tiles are no whole number of blocks of {part}, but of {fitting}"


def row_and_column(op: Op, numbers: CoreNumbers) -> tuple[int, int]:
    """First tile of the block that a `ttl.copy_in` or `ttl.copy_out` is about."""
    row, column = op.operands[1:3] if op.name == "ttl.copy_in" else op.operands[2:4]
    return numbers[row], numbers[column]


def _steps(op: Op) -> int:
    """Ops that run within one, at most; too many where a loop's rounds are not in the program."""
    rounds = loop_rounds(op) if op.name == "ttl.for" else 1
    inside = sum(_steps(inner) if inner.regions else 1 for inner in op.body.ops)
    return (MOST_STEPS + 1 if rounds is None else rounds) * (1 + inside)


def _copies(ops: Sequence[Op], numbers: CoreNumbers, nets: Mapping[str, PipeNet]) -> Iterator[Op]:
    """Every copy as it runs; its indices are known then."""
    for op in ops:
        if op.name in ("ttl.for", "ttl.if"):
            for _ in numbers.rounds(op):
                yield from _copies(op.body.ops, numbers, nets)
        elif op.name in (IF_SRC, IF_DST):
            net = nets[op.operands[0].name]
            if net.outgoing(numbers.core) if op.name == IF_SRC else net.incoming(numbers.core):
                yield from _copies(op.body.ops, numbers, nets)
        elif op.name in ("ttl.copy_in", "ttl.copy_out"):
            yield op
        else:
            numbers.takes(op)
