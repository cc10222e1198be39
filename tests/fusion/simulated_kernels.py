"""Fused kernels with values on a device, against the ops one by one in float64: the cases, a run, and the verdict.

A case is a small result whose ops are one region. Together the cases call everything that a region may hold, with a
DST of 16 bits and of 32 (where a row is summed as well), and bring and take tensors from and to every kind of memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
import region_witness
from numpy.typing import NDArray
from placed_graphs import BLOCK, HEIGHT, WIDTH, placed, shards
from region_witness import POSITIVE, SIGNED

from optimizer.export.ttnn_py import FILE_NAME, render, ttnn_program, write_files
from optimizer.fusion.binding import fused_kernels
from optimizer.fusion.finding import find_regions
from optimizer.fusion.judged import kinds_of
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.placement import CoreMap, Kind
from optimizer.fusion.regions import Region
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph, ValueKind
from optimizer.ir.vocabulary import COPY
from optimizer.kernels.tensix.witness.error_bound import FPU_SUM, TIMES_BOUND, times_bound
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.ttmetal.execution import ExecutionSession
from optimizer.result import OptimizedGraph
from optimizer.values.compare import Agreement, compare

X = (1, 1, 4 * TILE, 2 * TILE)
HOME = shards(X, (4, 1), HEIGHT)
INTERLEAVED = TensorMemoryLayout.INTERLEAVED
RANGES = (POSITIVE, SIGNED)
FURTHER_RANGES = ((-0.75, 0.75), (1.25, 2.5))
"""For outputs that have no exact value in the others: of `asin` and `acosh` in a sum or a maximum."""

Build = Callable[[GraphBuilder, str], Sequence[str]]
"""Writes ops on the input `x` and gives the results that are outputs."""


@dataclass(frozen=True)
class Verdict:
    """One output of one run."""

    output: str
    agreement: Agreement
    """Over the elements whose exact value is finite."""
    times_bound: float
    """Largest error in error bounds."""
    elements: int
    """That have an exact value and an error bound. An output without any is right, but not judged by this run."""

    @property
    def right(self) -> bool:
        return self.times_bound <= TIMES_BOUND


def faults(verdicts: Sequence[Verdict]) -> list[str]:
    """Outputs that are wrong, or that no run has judged."""
    wrong = {f"{v.output} is {v.times_bound:.3g} error bounds off": None for v in verdicts if not v.right}
    return [*wrong, *(f"{name} is not judged" for name in _unseen(verdicts))]


def _unseen(verdicts: Sequence[Verdict]) -> list[str]:
    """Outputs of which no element has been compared."""
    seen = {v.output for v in verdicts if v.elements}
    return list(dict.fromkeys(v.output for v in verdicts if v.output not in seen))


def judge(result: OptimizedGraph, session: ExecutionSession, folder: Path, seed: int = 0) -> list[Verdict]:
    """Run a result whose ops are one region, with operands of either range, of further ones where those leave an output
    unjudged. ExecutionError where the device refuses."""
    (region,) = find_regions(result)
    assert {op.id for op in result.graph.ops()} == set(region.op_ids)
    program, place = ttnn_program(result), folder_of(result, folder)
    write_files(place, program.files)
    found: list[Verdict] = []
    session.load(f"__file__ = {str(place / FILE_NAME)!r}\n{render(program)}")
    for between in (*RANGES, *FURTHER_RANGES):
        if found and between in FURTHER_RANGES and not _unseen(found):
            break
        given, exact = region_witness._values(region, seed, between)
        shapes = {v: result.graph.value(v).shape for v in given}
        session.feed("arrays", {v: unpadded(given[v], shapes[v]) for v in given})
        session.run(_FEED)
        session.run(_RUN, program.name)
        made = session.fetch(["results"])
        near = _bounds(region, given)
        for n, v in enumerate(result.graph.outputs):
            got = made[f"results.{n}"]
            found.append(_verdict(v, got, unpadded(exact[v], got.shape), unpadded(near[v], got.shape)))
        session.run("del results, parameters, tensors, arrays, on_host")
    session.unload()
    return found


def folder_of(result: OptimizedGraph, folder: Path) -> Path:
    """Where a result's kernels are: by their text, for tt-metal keeps what it compiles by the paths of sources."""
    files = sorted(ttnn_program(result).files.items())
    return folder / hashlib.sha256(repr(files).encode()).hexdigest()[:16]


_FEED = """tensors = {}
for entry in (*INPUTS, *PARAMETERS):
    on_host = ttnn.Tensor(arrays[entry["name"]], entry["dtype"], layout=entry["layout"])
    tensors[entry["name"]] = ttnn.to_device(on_host, device, memory_config=entry["memory_config"])
"""
_RUN = """parameters = make_parameters(device, {entry["name"]: tensors[entry["name"]] for entry in PARAMETERS})
results = run(device, tensors, parameters)
"""


def unpadded[T: np.generic](values: NDArray[T], shape: tuple[int, ...]) -> NDArray[T]:
    """What a tensor of this shape holds of a frame of whole tiles, whose rows are those of all its matrices."""
    rows, columns = (1, 1, *shape)[-2:]
    matrices = values.reshape(prod(shape[:-2]), -1, values.shape[-1])
    return np.ascontiguousarray(matrices[:, :rows, :columns]).reshape(shape)


def _bounds(region: Region, given: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float64]]:
    """Error bounds of the outputs, shard by shard; which core has which does not matter, nor do cores that have none.

    The last shards may be beyond the frame: what is there is repeated from its edge.
    """
    rows, columns = region.home.grid
    alike = replace(region, home=replace(region.home, core_map=CoreMap(BLOCK, (0, 0), columns)))
    whole = (rows * region.home.shard[0] * TILE, columns * region.home.shard[1] * TILE)
    filled = {o.value: _filled(given[o.value], o.kind, whole) for o in region.inputs}
    found = {o.value: np.zeros((whole[0], whole[1] if o.kind.has_columns else 1)) for o in region.outputs}
    for core in ((x, y) for y in range(rows) for x in range(columns)):
        down, right = region_witness._part(alike, core)
        for o, near in zip(region.outputs, region_witness._near(alike, core, filled, FPU_SUM), strict=True):
            found[o.value][down, right if o.kind.has_columns else slice(0, 1)] = near
    frame = tuple(n * TILE for n in region.home.frame)
    return {v: near[: frame[0], : frame[1]] for v, near in found.items()}


def _filled(values: NDArray[np.float32], kind: Kind, whole: tuple[int, int]) -> NDArray[np.float32]:
    """An operand as large as all shards together."""
    missing = (whole[0] - values.shape[0], whole[1] - values.shape[1])
    down, right = missing[0] if kind.has_rows else 0, missing[1] if kind.has_columns else 0
    return np.pad(values, ((0, down), (0, right)), "edge")


def _verdict(name: str, got: NDArray[np.float32], exact: NDArray[np.float64], near: NDArray[np.float64]) -> Verdict:
    known = np.isfinite(exact) & np.isfinite(near)
    return Verdict(name, compare(got[known], exact[known]), *times_bound(got, exact, near))


def kinds(result: OptimizedGraph) -> set[str]:
    """Kinds of a case's kernel."""
    (region,) = find_regions(result)
    return set(kinds_of(region, lowered(program_of(region), result.device), result.layouts))


# -- cases -----------------------------------------------------------------------------------------------------
_UNARY_GROUPS = (
    ("relu", "gelu", "silu", "sigmoid", "tanh", "exp"),
    ("sqrt", "rsqrt", "neg", "abs", "log", "square"),
    ("sin", "cos", "tan", "asin", "acos", "atan"),
    ("sinh", "cosh", "asinh", "atanh", "cbrt"),
    ("erf", "erfc", "softsign", "hardsigmoid", "log1p", "expm1"),
    ("floor", "ceil", "trunc", "frac", "sign", "exp2"),
    ("isnan", "isinf", "gtz", "ltz", "eqz", "nez"),
    ("identity", "reciprocal", "logical_not", "relu6", "hardtanh", "hardswish"),
    ("log2", "log10", "gelu_tanh", "acosh"),
)
_PARAMETRIC = (
    ("leaky_relu", {"negative_slope": 0.1}), ("elu", {"alpha": 0.7}), ("clamp", {"min": 0.5, "max": 1.0}),
    ("clamp", {"min": 0.5}), ("clamp", {"max": 1.0}), ("rsub", {"scalar": 1.5}), ("rdiv", {"scalar": 1.5}),
)  # fmt: skip
_POWERS = (2.0, 3.0, 4.0, 0.5, -0.5, -1.0)
_NUMBERS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
_BINARY_GROUPS = (
    ("add", "subtract", "multiply", "divide", "maximum", "minimum", "squared_difference"),
    ("eq", "ne", "lt", "gt", "le", "ge"),
)
_SMALL = {"row": (X[-1],), "column": (1, 1, X[-2], 1), "scalar": (1, 1)}


def _each(names: Sequence[str]) -> Build:
    return lambda b, x: [b.op(f"ttnn.{name}", x) for name in names]


def _parametric(b: GraphBuilder, x: str) -> list[str]:
    return [b.op(f"ttnn.{name}", x, **attrs) for name, attrs in _PARAMETRIC]


def _powers(b: GraphBuilder, x: str) -> list[str]:
    return [b.op("ttnn.pow_scalar", x, exponent=e) for e in _POWERS]


def _numbers(b: GraphBuilder, x: str) -> list[str]:
    return [b.op(f"ttnn.{name}", x, scalar=0.75) for name in _NUMBERS]


def _pairs(names: Sequence[str]) -> Build:
    def build(b: GraphBuilder, x: str) -> list[str]:
        y = b.input("y", X)
        return [b.op(f"ttnn.{name}", x, y) for name in names]

    return build


def _smaller(shape: tuple[int, ...], names: Sequence[str]) -> Build:
    """With an operand that is repeated, on either side."""

    def build(b: GraphBuilder, x: str) -> list[str]:
        other = b.input("other", shape)
        return [b.op(f"ttnn.{n}", *pair) for n in names for pair in ((x, other), (other, x))]

    return build


def _computed(first: str, second: str) -> Build:
    """Operands that lie in DST (`u`, `v`), in a full tensor (`y`), a row or a column."""

    def build(b: GraphBuilder, x: str) -> list[str]:
        operands = {"u": b.op("ttnn.exp", x)}
        for name in (first, second):
            if name == "v":
                operands[name] = b.op("ttnn.tanh", b.input("y", X))
            elif name != "u":
                operands[name] = b.input(name, {"y": X, **_SMALL}[name])
        return [b.op(f"ttnn.{n}", operands[first], operands[second]) for n in ("add", "subtract", "multiply")]

    return build


def _ternary(b: GraphBuilder, x: str) -> list[str]:
    y, z = b.input("y", X), b.input("z", X)
    return [
        b.op("ttnn.where", x, y, z, x=None, y=None),
        b.op("ttnn.where", x, y, x=None, y=0.25),
        b.op("ttnn.where", x, x=0.5, y=0.25),
        b.op("ttnn.addcmul", x, y, z, value=0.5),
        b.op("ttnn.addcdiv", x, y, z, value=0.5),
        b.op("ttnn.mac", x, y, z),
        b.op("ttnn.lerp", x, y, z),
    ]


def _activated(b: GraphBuilder, x: str) -> list[str]:
    return [b.op("ttnn.add", x, b.input("y", X), activations=("relu", "tanh"), input_tensor_b_activations=("exp",))]


def _reductions(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("ttnn.exp", x)
    return [y, *(b.op(f"ttnn.{name}", y, dim=-1) for name in ("sum", "mean", "max", "min"))]


def _softmax(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("ttnn.multiply", x, scalar=1.5)
    return [b.op("ttnn.softmax", y, dim=-1), b.op("ttnn.softmax", y, dim=-1, numeric_stable=False)]


def _norms(name: str) -> Build:
    def build(b: GraphBuilder, x: str) -> list[str]:
        y = b.op("ttnn.add", x, b.input("y", X))
        names = ("weight", "bias") if name == "layer_norm" else ("weight",)
        weights = [b.input(n, (X[-1],)) for n in names]
        return [y, b.op(f"ttnn.{name}", y, epsilon=0.1), b.op(f"ttnn.{name}", y, *weights, epsilon=0.1)]

    return build


def _dense(b: GraphBuilder, x: str) -> list[str]:
    """relu(a @ w + bias) + x, and a product without bias."""
    a, w = b.input("a", (1, 1, X[2], 3 * TILE)), b.input("w", (3 * TILE, X[-1]))
    m = b.op("ttnn.linear", a, w, b.input("bias", (X[-1],)), activation="relu")
    return [b.op("ttnn.add", m, x)]


def _deep() -> OptimizedGraph:
    """a @ w + bias + x over a depth of 512. With HiFi4 and a DST of 32 bits a Wormhole makes of operands of seed 0 one
    value that is 2 too small (tenstorrent/tt-metal #38306)."""
    shape = (1, 1, 32 * TILE, 4 * TILE)
    home = shards(shape, (32, 1), HEIGHT)
    b = GraphBuilder("deep")
    a, w, bias = b.input("a", (*shape[:-1], 512)), b.input("w", (512, shape[-1])), b.input("bias", shape[-1:])
    x = b.input("x", shape)
    v = b.op("ttnn.add", b.op("ttnn.linear", a, w, bias), x)
    return placed(b.finish(v), {x: home, v: home}, fuse_kernels=True)


def _shared(home: TensorMemoryLayout, tiles: tuple[int, int], depth: int, memory: TensorLayout) -> OptimizedGraph:
    """gelu(a @ w + bias) + x on 64 cores with so many tiles each, a and w in this memory."""
    grid = {HEIGHT: (64, 1), WIDTH: (1, 64), BLOCK: (8, 8)}[home]
    rows, columns = (grid[k] * tiles[k] * TILE for k in range(2))
    shape = (1, 1, rows, columns)
    b = GraphBuilder("shared")
    a, w = b.input("a", (*shape[:-1], depth * TILE)), b.input("w", (depth * TILE, columns))
    m = b.op("ttnn.linear", a, w, b.input("bias", (columns,)), activation="gelu")
    v = b.op("ttnn.add", m, b.input("x", shape))
    lying = shards(shape, grid, home)
    return placed(b.finish(v), {m: lying, v: lying, "x": lying, a: memory, w: memory}, fuse_kernels=True)


def _product(b: GraphBuilder, x: str) -> list[str]:
    a, w = b.input("a", (1, 1, X[2], 3 * TILE)), b.input("w", (3 * TILE, X[-1]))
    return [b.op("ttnn.multiply", b.op("ttnn.matmul", a, w), x)]


def _joined(build: Build, wide: bool, only: int | None = None) -> OptimizedGraph:
    """The results and their sum, so that the ops are one region; with the sum of its rows in a DST of 32 bits.

    `only`: one of the results (and the first, of whose rows it is made, if it is a column), without the other ops.
    """
    b = GraphBuilder("case")
    x = b.input("x", X)
    made = list(dict.fromkeys(build(b, x)))
    graph = b.finish()
    if only is not None:
        made = made[only : only + 1] if graph.value(made[only]).shape == X else [made[0], made[only]]
        graph.outputs = made
        graph.prune()
        graph.inputs = [v for v in graph.inputs if graph.consumers(v)]
    full = [v for v in made if graph.value(v).shape == X]
    total = full[0]
    for v in full[1:]:
        total = b.op("ttnn.maximum", total, v)
    if wide:
        made.append(b.op("ttnn.sum", total, dim=-1))
    elif len(full) == 1:
        made.append(b.op(COPY, total))
    return placed(b.finish(*made, *([] if total in made else [total])), {x: HOME}, fuse_kernels=True)


_TILES = {HEIGHT: (8, 2), WIDTH: (2, 8), BLOCK: (4, 4)}
"""Tiles of the frame whose home has such shards, one for most cores that it could use."""


def _moved(home: TensorMemoryLayout, other: TensorMemoryLayout) -> OptimizedGraph:
    """Tensors brought from a layout to the home, and taken from there."""
    rows, columns = _TILES[home]
    shape = (1, 1, rows * TILE, columns * TILE)
    grids = {HEIGHT: (rows, 1), WIDTH: (1, columns), BLOCK: (rows, columns)}
    layouts = {kind: shards(shape, grid, kind) for kind, grid in grids.items()} | {INTERLEAVED: L1_TILE}
    b = GraphBuilder("moved")
    x, y, row = b.input("x", shape), b.input("y", shape), b.input("row", shape[-1:])
    v = b.op("ttnn.maximum", b.op("ttnn.multiply", b.op("ttnn.add", x, y), row), b.input("scalar", (1, 1)))
    outputs = [v, b.op(COPY, v)]
    return placed(
        b.finish(*outputs),
        {x: layouts[home], v: layouts[home], y: layouts[other], outputs[1]: layouts[other]},
        fuse_kernels=True,
    )


def _of_parts(rows: int) -> dict[str, tuple[int, ...]]:
    """Shapes of what a frame of so many tile rows is read with."""
    return {
        "left": (1, 1, rows * TILE, 3 * TILE), "right": (3 * TILE, X[-1]), "row": X[-1:],
        "column": (1, 1, rows * TILE, 1), "scalar": (1, 1),
    }  # fmt: skip


_LEFT_IN_PLACE = "left in place"
_RAGGED = 17
"""Cores that fill a row of the grid of any board and begin another: there is no multicast to them."""


def _parts(where: str, cores: int) -> OptimizedGraph:
    """Every part of the frame, brought from a memory: (left @ right + row) * column + scalar + x, and the sums of rows
    taken there. Or all but `left`, on whose cores the region is at home, in DRAM."""
    b = GraphBuilder("parts")
    parts, frame = _of_parts(cores), (1, 1, cores * TILE, X[-1])
    x, left, right, row, column, scalar = (b.input(n, s) for n, s in (("x", frame), *parts.items()))
    v = b.op("ttnn.multiply", b.op("ttnn.linear", left, right, row), column)
    v = b.op("ttnn.add", b.op("ttnn.add", v, scalar), x)
    total = b.op("ttnn.sum", v, dim=-1)
    layouts = dict.fromkeys((x, v), shards(frame, (cores, 1), HEIGHT))
    if where == _LEFT_IN_PLACE:
        layouts[left] = shards(parts["left"], (cores, 1), HEIGHT)
    else:
        for tensor, shape in {**parts, total: parts["column"]}.items():
            layouts[tensor] = L1_TILE if where == INTERLEAVED else _spread(shape, TensorMemoryLayout(where))
    return placed(b.finish(v, total), layouts, fuse_kernels=True)


def _spread(shape: tuple[int, ...], kind: TensorMemoryLayout) -> TensorLayout:
    """Shards of at most two tiles a side, so that none lies where the home has it."""
    rows, columns = (-(-n // (2 * TILE)) for n in ((1, *shape)[-2], shape[-1]))
    return shards(shape, {HEIGHT: (rows, 1), WIDTH: (1, columns), BLOCK: (rows, columns)}[kind], kind)


def _builds() -> dict[str, tuple[Build, bool]]:
    """Ops by the name of their case, and whether a sum of rows makes its DST 32 bits wide."""
    both: dict[str, Build] = {}
    for group in _UNARY_GROUPS:
        both[" ".join(group)] = _each(group)
    both |= {"with parameters": _parametric, "powers": _powers, "numbers": _numbers, "three operands": _ternary}
    for pair in _BINARY_GROUPS:
        both[f"two operands: {' '.join(pair)}"] = _pairs(pair)
    for kind, shape in _SMALL.items():
        both[f"a {kind}: add subtract multiply"] = _smaller(shape, ("add", "subtract", "multiply"))
        both[f"a {kind}: divide maximum lt"] = _smaller(shape, ("divide", "maximum", "lt"))
    both["activations"] = _activated
    names = {"u": "computed", "v": "computed", "y": "full", "row": "row", "column": "column"}
    for first, second in (("u", "y"), ("y", "u"), ("u", "v"), ("u", "row"), ("u", "column")):
        both[f"add subtract multiply, {names[first]} and {names[second]}"] = _computed(first, second)
    rows: dict[str, Build] = {
        "sum mean max min": _reductions,
        "softmax": _softmax,
        "layer_norm": _norms("layer_norm"),
        "rms_norm": _norms("rms_norm"),
        "linear with bias and activation": _dense,
        "matmul": _product,
    }
    found = {
        f"{name}, DST of {32 if wide else 16} bits": (build, wide)
        for name, build in both.items()
        for wide in (False, True)
    }
    return found | {name: (build, False) for name, build in rows.items()}


def cases() -> dict[str, Callable[[], OptimizedGraph]]:
    """By name."""
    found: dict[str, Callable[[], OptimizedGraph]] = {}
    for name, (build, wide) in _builds().items():
        found[name] = lambda build=build, wide=wide: _joined(build, wide)
    found["linear over a depth of 512"] = _deep
    for home, tiles in ((HEIGHT, (2, 1)), (WIDTH, (1, 2)), (BLOCK, (1, 1)), (BLOCK, (2, 4))):
        for memory in (L1_TILE, DRAM_TILE):
            where = "DRAM" if memory.is_dram else "L1"
            name = f"64 cores, {home.value}, {tiles[0]}x{tiles[1]} tiles, operands in {where}"
            found[name] = lambda h=home, t=tiles, m=memory: _shared(h, t, 8, m)
    for home in _TILES:
        for other in (INTERLEAVED, *_TILES):
            if other is not home:
                found[f"{home.value}, others {other.value}"] = lambda h=home, o=other: _moved(h, o)
    for where in (_LEFT_IN_PLACE, *(kind.value for kind in (INTERLEAVED, *_TILES))):
        found[f"every part, {where}"] = lambda where=where: _parts(where, X[2] // TILE)
        found[f"every part, {where}, on {_RAGGED} cores"] = lambda where=where: _parts(where, _RAGGED)
    return found


def pieces(name: str) -> dict[str, Callable[[], OptimizedGraph]]:
    """The results of a case one by one, for a device that lacks what another of them needs; none of a single one."""
    if name not in _builds():
        return {}
    build, wide = _builds()[name]
    scratch = GraphBuilder("case")
    made = list(dict.fromkeys(build(scratch, scratch.input("x", X))))
    return {
        f"{name}: {v.removesuffix('_out')} alone": lambda k=k: _joined(build, wide, k)
        for k, v in enumerate(made)
        if len(made) > 1
    }


# -- kernels of models -----------------------------------------------------------------------------------------
def alone(result: OptimizedGraph, region: Region) -> OptimizedGraph:
    """A region of a result as a result of its own, every tensor where it was."""
    graph = Graph(region.anchor)
    made = {v for op in region.ops for v in op.outputs}
    for v in dict.fromkeys(v for op in region.ops for v in (*op.inputs, *op.outputs)):
        value = result.graph.value(v)
        graph.add_value(value if v in made else replace(value, kind=ValueKind.INPUT, data=None))
    for op in region.ops:
        graph.add_op(op)
    graph.inputs = [o.value for o in region.inputs]
    graph.outputs = [o.value for o in region.outputs]
    records = {op.id: result.records[op.id] for op in region.ops}
    layouts = {v: result.layouts[v] for v in graph.values}
    return OptimizedGraph(graph, layouts, records, result.device, result.options, {"name": "alone", "sha256": None})


def alone_alike(result: OptimizedGraph) -> Iterator[tuple[str, OptimizedGraph]]:
    """Every kernel of a result by itself. A region that is another one by itself is left out."""
    for kernel in fused_kernels(result):
        small = alone(result, kernel.region)
        found = fused_kernels(small)
        if len(found) == 1 and program_of(found[0].region) == program_of(kernel.region):
            yield kernel.name, small
