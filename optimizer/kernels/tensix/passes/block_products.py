"""Products tile by tile become `matmul_block`, which unpacks a tile once for a whole row or column of products.

    for (i = 0; i < rt * ct; ++i)                      matmul_block(a, b, at, from, slot, transpose, ct, rt, kt)
        matmul_tiles(a, b, at + i / ct * kt, from + i % ct, slot + i)

`kt` is the depth of the left block, in which a row of tiles begins that far after the one before. An init holds for one
shape, so all products that follow it have to be alike; else they stay single tiles. Values are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from optimizer.kernels.tensix.dialect import CALL_PREFIX, COMPUTE
from optimizer.kernels.tensix.ir import Op, Value, attributes, loop_rounds
from optimizer.kernels.tensix.passes.noc_calls import call
from optimizer.kernels.tensix.types import CircularBufferType

_INIT, _TILES = f"{CALL_PREFIX}matmul_init", f"{CALL_PREFIX}matmul_tiles"
_INDICES = ("ttl.index", "ttl.constant")
MOST_ROUNDS = 4096
"""Of the loops around a product, for which its indices are looked at one by one."""
Path = tuple[int, ...]
"""Where an op stands: its number at every level."""


@dataclass(frozen=True)
class Shape:
    """Tiles of a block of products."""

    columns: int
    rows: int
    depth: int
    """Of the left operand's block."""

    @property
    def args(self) -> tuple[str, str, str]:
        """`ct_dim`, `rt_dim` and `kt_dim`."""
        return str(self.columns), str(self.rows), str(self.depth)


def block_products(program: Op) -> Op:
    """Every compute thread; after `convert-to-ttkernel`."""
    threads = (_Products().thread(op) if op.name == COMPUTE else op for op in program.body.ops)
    return program.with_body(tuple(threads))


@dataclass
class _Products:
    _uses: dict[Path, dict[Path, Shape | None]] = field(default_factory=dict)
    """Init -> the products that follow it; None: no block."""
    _init: Path | None = None
    """That holds now."""
    _transposed: dict[Path, str] = field(default_factory=dict)
    """What each init says of the right operand."""

    def thread(self, op: Op) -> Op:
        self._look(op.body.ops, (), {})
        chosen: dict[Path, tuple[str, Shape]] = {}
        for init, uses in self._uses.items():
            shapes = set(uses.values())
            shape = next(iter(shapes), None)
            if len(shapes) == 1 and shape is not None:
                chosen |= dict.fromkeys((init, *uses), (self._transposed[init], shape))
        return op.with_body(_written(op.body.ops, (), chosen))

    # -- what there is -------------------------------------------------------------------------------------
    def _look(self, ops: Sequence[Op], at: Path, rounds: Mapping[str, range]) -> None:
        """Finds products and the inits that hold for them; `rounds`: of the counters around."""
        for n, op in enumerate(ops):
            here = (*at, n)
            if op.name == _INIT:
                self._init = here
                self._uses[here], self._transposed[here] = {}, op.strings("args")[2]
            elif op.name.startswith(CALL_PREFIX) and "init" in op.name:
                self._init = None
            elif op.name == _TILES:
                self._use(here, None)
            elif op.name == "ttl.for" and op.body.ops and op.body.ops[-1].name == _TILES:
                self._use(here, _block(op, rounds))
            elif op.regions:
                known = rounds
                if op.name == "ttl.for" and loop_rounds(op) is not None:
                    steps = range(op.integer("lower"), op.integer("upper"), op.integer("step"))
                    known = {**rounds, op.body.args[0].name: steps}
                self._look(op.body.ops, here, known)
                if op.name == "ttl.if":
                    self._init = None

    def _use(self, at: Path, shape: Shape | None) -> None:
        if self._init is not None:
            self._uses[self._init][at] = shape


def _block(loop: Op, rounds: Mapping[str, range]) -> Shape | None:
    """The shape of a loop over products; None if they are no block."""
    *indices, tiles = loop.body.ops
    count = loop_rounds(loop)
    if count is None or (loop.integer("lower"), loop.integer("step")) != (0, 1):
        return None
    if any(o.name not in _INDICES for o in indices):
        return None
    a_cb, _, *places = (tiles.operands[int(arg[1:])] for arg in tiles.strings("args"))
    counter = loop.body.args[0].name
    made = {o.result.name: o for o in indices}
    needed = {v.name for o in indices for v in o.operands} | {v.name for v in places}
    outer = sorted(needed - {counter} - set(made))
    if any(name not in rounds for name in outer) or prod(len(rounds[name]) for name in outer) > MOST_ROUNDS:
        return None
    depth = a_cb.typed(CircularBufferType).block.shape[1]
    steps = _indices(places, made, [*outer, counter], [*(rounds[name] for name in outer), range(count)])
    moved = steps - steps[:, :, :1]
    for columns in (c for c in range(count, 0, -1) if count % c == 0 and count > 1):
        i = np.arange(count)
        if (moved == np.stack([i // columns * depth, i % columns, i])[:, None, :]).all():
            return Shape(columns, count // columns, depth)
    return None


def _indices(
    places: Sequence[Value], made: Mapping[str, Op], names: Sequence[str], rounds: Sequence[range]
) -> NDArray[np.int64]:
    """Numbers of these values: per value and round of the loops outside, a row over the rounds of the last loop."""
    grid = np.meshgrid(*map(np.asarray, rounds), indexing="ij")
    known: dict[str, NDArray[np.int64]] = dict(zip(names, grid, strict=True))
    for name, op in made.items():
        if op.name == "ttl.constant":
            known[name] = np.full_like(grid[0], op.integer("value"))
        else:
            known[name] = op.index_map("map").results[0].over([known[v.name] for v in op.operands], grid[0].shape)
    return np.stack([known[v.name].reshape(-1, len(rounds[-1])) for v in places])


# -- what becomes of it ------------------------------------------------------------------------------------
def _written(ops: Sequence[Op], at: Path, chosen: Mapping[Path, tuple[str, Shape]]) -> tuple[Op, ...]:
    """The ops with blocks in place of loops over tiles."""
    found: list[Op] = []
    for n, op in enumerate(ops):
        if (*at, n) not in chosen:
            found.append(op.with_body(_written(op.body.ops, (*at, n), chosen)) if op.regions else op)
            continue
        transposed, shape = chosen[*at, n]
        if op.name == _INIT:
            found.append(_with(op, "matmul_block_init", shape.args))
        else:
            first = Op("ttl.constant", (), (op.body.args[0],), attributes({"value": 0}))
            *indices, tiles = op.body.ops
            found += [first, *indices, _with(tiles, "matmul_block", (transposed, *shape.args))]
    return tuple(found)


def _with(op: Op, function: str, more: tuple[str, ...]) -> Op:
    """A call of another function with more arguments."""
    made = call(function, op.operands, (*op.strings("args"), *more))
    return replace(op, name=made.name, attrs=made.attrs)
