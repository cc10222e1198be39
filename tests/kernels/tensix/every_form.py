"""A kernel for every form of every tile op, into a DST of 16 and of 32 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sample_kernels import one_block

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.tile_forms import Form, Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS, TileOp
from optimizer.kernels.tensix.ttl import Block

TILE = (1, 1)


def kernels() -> Iterator[tuple[str, Op]]:
    """Name and program of each; the names are `<op>_<form>_<element type>`."""
    for op in TILE_OPS.values():
        for number, form in enumerate(op.forms):
            for dtype in (DType.BF16, DType.F32):
                if not form.dtypes or dtype.value in form.dtypes:
                    name = f"{op.name}_{number}_{dtype.value}"
                    yield name, _SPECIAL.get(op.name, _plain)(name, op, form, dtype)


def _plain(name: str, op: TileOp, form: Form, dtype: DType) -> Op:
    """The op on operands that lie where the form wants them: blocks as they came, or values that were computed."""
    numbers = {attr: 0.5 + n for n, attr in enumerate(op.attrs)}

    def body(*blocks: Block) -> Block:
        placed = [b if place is Place.CB else -b for b, place in zip(blocks, form.places, strict=True)]
        return ttl.block_op(op.name, *placed, **numbers)

    return one_block(name, [TILE] * op.arity, [TILE], body, dtype)


def _copy(name: str, op: TileOp, form: Form, dtype: DType) -> Op:
    return one_block(name, [TILE], [TILE], lambda x: x, dtype)


def _copied_in_dst(name: str, op: TileOp, form: Form, dtype: DType) -> Op:
    """A value that is stored, and overwritten for another."""

    def body(x: Block) -> tuple[Block, ...]:
        negated = -x
        return negated, ttl.block_op("exp", negated)

    return one_block(name, [TILE], [TILE] * 2, body, dtype)


def _fill(name: str, op: TileOp, form: Form, dtype: DType) -> Op:
    """Blocks are never filled, tiles are."""
    half = {"name": "half", "op": "fill", "args": [], "attrs": {"value": 0.5}}
    ops = [half, {"name": "y", "op": "div", "args": ["x", "half"]}]
    case = {"id": name, "inputs": ["x"], "outputs": ["out"], "ops": ops, "yield": ["y"], "block": list(TILE)}
    return case_program(read_cases({"cases": [case | {"dtype": dtype.value, "capacity": 4}]})[0])


def _typecast(name: str, op: TileOp, form: Form, dtype: DType) -> Op:
    other = DType.F32 if dtype is DType.BF16 else DType.BF16
    return one_block(name, [TILE], [TILE], lambda x: ttl.typecast(ttl.typecast(x, other), dtype), dtype)


_SPECIAL: dict[str, Callable[[str, TileOp, Form, DType], Op]] = {
    "copy": _copy,
    "copy_dst": _copied_in_dst,
    "fill": _fill,
    "typecast": _typecast,
}
